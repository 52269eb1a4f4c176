"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn

output = Console()
errors = Console(stderr=True)


class ShownProgress:
    """Progress of a preparation on the terminal; plain lines where there is none."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            console=errors,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._what = ""

    def __enter__(self) -> Self:
        if errors.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def step(self, what: str) -> None:
        self._what = what
        if errors.is_terminal:
            self._bar.reset(self._task, description=what, total=None)
        else:
            errors.print(what, highlight=False)

    def advance(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
