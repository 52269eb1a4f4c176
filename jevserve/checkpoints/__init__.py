"""From a model name, folder or hub id to a prepared folder that an engine can load.

``prepare`` runs once, offline, with write access to the cache; routers and replicas only ``load``
what it left behind.
"""

from jevserve.checkpoints.cache import cache_root
from jevserve.checkpoints.prepare import load, prepare
from jevserve.checkpoints.probe import Inspection, inspect
from jevserve.checkpoints.progress import LogProgress, Progress, Silent
from jevserve.checkpoints.tokenizer import FileTokenizer

__all__ = [
    "FileTokenizer",
    "Inspection",
    "LogProgress",
    "Progress",
    "Silent",
    "cache_root",
    "inspect",
    "load",
    "prepare",
]
