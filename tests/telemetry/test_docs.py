"""The table of metrics in docs/operations.md: what the code says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jevserve.telemetry.metrics import ALL_METRICS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operations.md"


def docs_metrics(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "docs-metrics", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_committed_page_lists_the_metrics_of_the_code():
    done = docs_metrics("--check")
    assert done.returncode == 0, done.stderr


def stale(kind: str) -> str:
    """The committed page with one metric's line missing, renamed or invented."""
    name = ALL_METRICS[0].name
    lines = PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(f"| `{name}"))
    match kind:
        case "missing":
            del lines[at]
        case "renamed":
            lines[at] = lines[at].replace(name, f"{name}_renamed")
        case "invented":
            lines.insert(at, lines[at].replace(name, f"{name}_invented"))
    return "".join(lines)


@pytest.mark.parametrize("kind", ["missing", "renamed", "invented"])
def test_when_a_page_differs_then_the_check_fails_and_writing_mends_it(tmp_path, kind):
    page = tmp_path / "operations.md"
    page.write_text(stale(kind), encoding="utf-8")
    done = docs_metrics("--check", page)
    assert done.returncode == 1
    assert "run scripts/docs-metrics" in done.stderr
    assert page.read_text(encoding="utf-8") == stale(kind)
    assert docs_metrics(page).returncode == 0
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_when_the_markers_are_gone_then_nothing_is_written(tmp_path):
    page = tmp_path / "operations.md"
    page.write_text("# Operations\n", encoding="utf-8")
    done = docs_metrics(page)
    assert done.returncode == 1
    assert "needs one" in done.stderr
    assert page.read_text(encoding="utf-8") == "# Operations\n"
