"""How preparation tells what it is doing."""

from __future__ import annotations

import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Progress(Protocol):
    """Receives what happens; called from the thread that prepares."""

    def step(self, what: str) -> None:
        """A new step begins."""
        ...

    def advance(self, done: int, total: int) -> None:
        """``done`` of ``total`` bytes of the current step are through."""
        ...


class Silent:
    """Tells nobody."""

    def step(self, what: str) -> None:
        pass

    def advance(self, done: int, total: int) -> None:
        pass


class LogProgress:
    """Plain log lines, one per step and one per tenth of a long step."""

    def __init__(self) -> None:
        self._what, self._tenth = "", 0

    def step(self, what: str) -> None:
        self._what, self._tenth = what, 0
        log.info("%s", what)

    def advance(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total > 0 else 0
        if tenth > self._tenth:
            self._tenth = tenth
            log.info("%s: %d %%", self._what, 10 * tenth)
