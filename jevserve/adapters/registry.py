"""All adapters, in the order in which operators read their names."""

from __future__ import annotations

from functools import cache

from jevserve.adapters.base import Adapter
from jevserve.adapters.chat_label import ChatLabel
from jevserve.adapters.minilm import MiniLM
from jevserve.errors import CheckpointError


@cache
def adapters() -> tuple[Adapter, ...]:
    """One instance of every adapter; they hold no state."""
    return (ChatLabel(), MiniLM())


def find(protocol: str) -> Adapter:
    """The adapter of a protocol id.

    Raises:
        CheckpointError: there is none; the known ones are named.
    """
    for adapter in adapters():
        if adapter.protocol == protocol:
            return adapter
    known = ", ".join(a.protocol for a in adapters())
    raise CheckpointError(f"no adapter speaks protocol {protocol[:100]!r}; there are {known}")
