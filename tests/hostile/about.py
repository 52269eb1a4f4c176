"""What a log says about where its numbers come from."""

from __future__ import annotations

import platform
from importlib.metadata import version

import psutil


def versions(*names: str) -> str:
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {version(n)}" for n in names)])


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return f"{psutil.cpu_count()} cores of a shared {platform.machine()} machine, {memory:.0f} GiB"
