"""The real default model, measured through the service as a user measures it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.serving.service import Service

ROOT = Path(__file__).parents[2]
CARD = ROOT / "docs" / "models" / "jev-embed.md"
RESULTS = ROOT / "docs" / "models" / "results"


def results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name / "report.json").read_text())["sets"]
    return found


def row(name: str, found: dict[str, Any]) -> str:
    m, held = found["measurement"], found["held_out"]
    figures = [m["accuracy"], m["majority"], m["mean_top"], held["ece"], held["ece_fitted"]]
    cells = [name, str(m["n"]), *(f"{x:.3f}" for x in figures)]
    return f"| {' | '.join(cells)} | {held['temperature']:.2f} | {m['brier']:.3f} |\n"


def test_the_card_shows_what_the_reports_hold() -> None:
    named, described = results("jev-embed"), results("jev-embed-described")
    rows = [row(f"{name} ({found['kind']})", found) for name, found in named.items()]
    rows += [row(f"{name}, described ({f['kind']})", f) for name, f in described.items()]

    shown = CARD.read_text(encoding="utf-8")

    assert [r for r in rows if r not in shown] == []
    assert all(found["steadiness"]["flipped"] == 0 for found in described.values())


def evaluated(service: Service, folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "jevserve", "eval", "--url", service.url, "--json"]
    done = subprocess.run(
        [*command, "--set", "intent7", "--out", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["sets"]["intent7"]
    return found


@pytest.mark.ray
def test_a_sample_of_intents_is_answered_as_published(service: Service, tmp_path: Path) -> None:
    found = evaluated(service, tmp_path, "--limit", "40", "--seed", "3")

    assert found["measurement"]["n"] == 40
    assert found["measurement"]["accuracy"] >= 0.75
    assert found["steadiness"]["flipped"] == 0
    assert not found["refused"]
    assert (tmp_path / "intent7.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.ray
@pytest.mark.long
def test_all_intents_are_as_right_and_as_honest_as_published(
    service: Service, tmp_path: Path
) -> None:
    found = evaluated(service, tmp_path, "--orders", "0")
    published = results("jev-embed")["intent7"]

    assert found["measurement"]["n"] == 693
    assert found["measurement"]["accuracy"] >= 0.84
    assert found["held_out"]["ece_fitted"] <= 0.05
    assert found["measurement"]["accuracy"] == pytest.approx(
        published["measurement"]["accuracy"], abs=0.005
    )
