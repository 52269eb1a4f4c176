"""The vendored pack: readable, with its canary, and shuffled the same way every time."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jevserve.decisions.request import Choice, candidate_count
from jevserve.evaluation.pack import read_pack


def raw_pack() -> Any:
    with lzma.open(PACK) as stream:
        return json.loads(stream.read())


PACK = Path(__file__).parents[1] / "data" / "evalpack" / "evalpack.json.xz"


def test_the_canary_is_kept() -> None:
    assert "canary GUID" in raw_pack()["canary"]


def test_a_pack_without_its_canary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pack.xz"
    path.write_bytes(lzma.compress(b'{"sets": {}}'))
    with pytest.raises(ValueError, match="canary"):
        read_pack(path)


def test_every_item_has_a_right_candidate_and_intents_are_complete() -> None:
    sets = read_pack(PACK)
    assert len(sets["intent7"]) == 693
    for items in sets.values():
        assert all(0 <= i.truth < candidate_count(i.question) for i in items)


def test_candidates_are_shuffled_reproducibly_with_the_truth() -> None:
    items = read_pack(PACK)["timedial3"]
    assert items == read_pack(PACK)["timedial3"]
    assert min(Counter(i.truth for i in items).values()) > 60
    source = raw_pack()["sets"]["timedial3"]
    for item, raw in zip(items, source, strict=True):
        assert isinstance(item.question, Choice)
        assert item.question.options[item.truth][1] == raw["crit"][raw["y"]]
