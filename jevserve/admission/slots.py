"""How many decisions one router holds at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jevserve.admission.deadline import UNKNOWN_RETRY_MS, Verdict
from jevserve.errors import Overloaded


class Slots:
    """A counted bound; whoever takes a slot gives it back by leaving the ``with`` block."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Raises Overloaded(reason="queue") when every slot is taken; never waits."""
        if self.taken >= self.limit:
            raise Overloaded(
                "the service has no room for another decision now",
                retry_after_ms=UNKNOWN_RETRY_MS,
                reason=Verdict.QUEUE.value,
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
