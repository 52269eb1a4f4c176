"""The pages that are written from the code say what the code says, and nothing else."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from jevserve.telemetry.metrics import ALL_METRICS
from scripts.reference import configuration
from scripts.reference.docstrings import docstring
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


def docs_reference(*arguments: str | Path) -> int:
    """The script's exit code."""
    main = runpy.run_path(str(ROOT / "scripts" / "docs-reference"))["main"]
    code: int = main([str(a) for a in arguments])
    return code


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REFERENCE, tmp_path / "reference"))


def test_the_committed_pages_say_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs_reference("--check") == 0, capsys.readouterr().err


def stale(text: str, kind: str) -> str:
    """The page of metrics with one metric's line missing, renamed or invented."""
    name = ALL_METRICS[0].name
    lines = text.splitlines(keepends=True)
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
def test_when_a_page_differs_then_the_check_fails_and_writing_mends_it(
    pages: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = pages / "metrics.md"
    right = page.read_text(encoding="utf-8")
    wrong = stale(right, kind)
    page.write_text(wrong, encoding="utf-8")

    assert docs_reference("--check", "--pages", pages) == 1

    assert "metrics.md is out of date; run scripts/docs-reference" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == wrong
    assert docs_reference("--pages", pages) == 0
    assert page.read_text(encoding="utf-8") == right


def test_when_the_markers_are_gone_then_the_page_is_left_alone(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = pages / "metrics.md"
    page.write_text("# Metrics\n", encoding="utf-8")

    assert docs_reference("--pages", pages) == 1

    assert "needs one" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "# Metrics\n"


def test_every_setting_says_what_it_is_for() -> None:
    for prefix, kind in configuration.SECTIONS.values():
        said = docstring(kind).sections.get("Attributes", {})
        told = {name for names in said for name in names.split(", ")}
        sections = {"resources", "http", "router", "transport", "metrics"}
        assert kind.model_fields.keys() - told - sections == set(), f"{prefix}{kind.__name__}"
