"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

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
        self._task = self._bar.add_task("", total=None, visible=False)
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
        if errors.is_terminal:
            self._bar.stop()

    def step(self, what: str) -> None:
        self._what = what
        if errors.is_terminal:
            self._bar.reset(self._task, description=what, total=None, visible=True)
        else:
            errors.print(what, highlight=False)

    def advance(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)


class ShownSteps:
    """Steps of a start or a stop with their times; plain lines where there is no terminal."""

    def __init__(self) -> None:
        self._shown = Progress(
            # No tick: a step that was interrupted has ended, too.
            SpinnerColumn(finished_text="·"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=errors,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.pause()

    def pause(self) -> None:
        """The last step has ended; the terminal is free until the next one begins."""
        self._finish()
        if errors.is_terminal:
            self._shown.stop()
        for task in self._shown.task_ids:
            self._shown.remove_task(task)

    def __call__(self, what: str) -> None:
        """The step before has ended and ``what`` begins."""
        self._finish()
        if errors.is_terminal:
            self._shown.start()
            self._shown.add_task(what, total=1)
        else:
            errors.print(f"jevserve: {what} …", highlight=False)

    def _finish(self) -> None:
        for task in self._shown.tasks:
            if not task.finished:
                self._shown.update(task.id, completed=1)
