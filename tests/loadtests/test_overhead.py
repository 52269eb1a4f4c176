"""The overhead benchmark: its servers answer the same thing, and its page shows its result."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from loadtests.overhead.__main__ import PAGE
from loadtests.overhead.load import STATES, body, checked_answer
from loadtests.overhead.measure import CONNECTIONS, ROOT, SERVERS, TITLES, Cell, running
from loadtests.overhead.report import BEGIN, END, described, load, result, tables, write

PUBLISHED = ROOT / "docs" / "results" / "overhead.json"


@pytest.mark.parametrize("state", STATES)
def test_the_bare_application_sends_what_ours_does(state: str) -> None:
    ours, bare = (next(s for s in SERVERS if s.name == name) for name in ("door", "bare"))
    with running(ours, b"{}") as (url, _):
        real = checked_answer(f"{url}/v1/systemone", body(state))

    with running(bare, json.dumps(real).encode()) as (url, _):
        answer = httpx.post(f"{url}/v1/systemone", content=body(state))

    assert answer.json() == real
    assert set(real["answers"]) == {"team", "urgent"}


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS, ids=lambda s: s.name)
def test_every_layout_answers(server: object) -> None:
    with running(server, b"{}") as (url, family):
        httpx.post(f"{url}/v1/systemone", content=body("short"), timeout=30).raise_for_status()
        assert family


def cells(rows: tuple[str, ...], rates: tuple[float, ...]) -> list[Cell]:
    return [
        Cell(number, row, state, at_once, int(rate), 1.0, 1.0 + number, 2.0 + number, 0, 0.5)
        for number, rate in enumerate(rates)
        for row in rows
        for state in STATES
        for at_once in CONNECTIONS
    ]


def test_a_table_shows_medians_and_the_range_of_the_rounds(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")

    write(page, result(cells(("bare", "door"), (900, 1_000, 1_200)), 1.0))

    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "old" not in text
    line = "2.0 / 3.0 | 2.0 / 3.0 | 2.0 / 3.0 | 1,000 (900–1,200) | 0.50 |"
    assert text.count(f"| {TITLES['bare']} | {line}") == len(STATES)


def test_the_page_shows_the_published_result() -> None:
    measured = load(PUBLISHED)

    shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]

    assert shown == described(measured) + tables(measured)
    assert measured["settings"]["rounds"] >= 3
    assert set(measured["rows"]) == set(TITLES)
