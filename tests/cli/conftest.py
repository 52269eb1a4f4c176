"""The command line run as a shell does, in surroundings of the test's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jevserve.cli import main

Run = Any


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings from outside, and a home of the test's own."""
    for name in [n for n in os.environ if n.startswith("JEVSERVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``jevserve`` as a shell does: (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["jevserve", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        written = capsys.readouterr()
        code = exit.value.code
        return (code if isinstance(code, int) else int(code is not None)), *written

    return call
