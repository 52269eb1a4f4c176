"""The vendored pack: readable, with its canary, and shuffled the same way every time."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jevserve.decisions.request import Choice, candidate_count
from jevserve.evaluation.pack import PACK, named, read_pack


def raw_pack() -> Any:
    with lzma.open(PACK) as stream:
        return json.loads(stream.read())


def test_the_canary_is_kept() -> None:
    assert "canary GUID" in raw_pack()["canary"]


def test_a_pack_without_its_canary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pack.xz"
    path.write_bytes(lzma.compress(b'{"sets": {}}'))
    with pytest.raises(ValueError, match="canary"):
        read_pack(path)


def test_every_item_has_a_right_candidate_and_intents_are_complete() -> None:
    sets = read_pack()
    assert len(sets["intent7"]) == 693
    for items in sets.values():
        assert all(0 <= i.truth < candidate_count(i.question) for i in items)


def test_candidates_are_shuffled_reproducibly_with_the_truth() -> None:
    items = read_pack()["timedial3"]
    assert items == read_pack()["timedial3"]
    assert min(Counter(i.truth for i in items).values()) > 60
    source = raw_pack()["sets"]["timedial3"]
    for item, raw in zip(items, source, strict=True):
        assert isinstance(item.question, Choice)
        assert item.question.options[item.truth][1] == raw["crit"][raw["y"]]


def test_a_choice_is_named_by_its_descriptions_unless_two_are_equal() -> None:
    (first, *_) = read_pack()["intent7"]
    assert isinstance(first.question, Choice)
    texts = [text for _, text in first.question.options]

    made = named(first).question

    assert isinstance(made, Choice)
    assert made.options == tuple((text, None) for text in texts)
    twins = Choice((("a", "same"), ("b", "same")))
    item = replace(first, question=twins)
    assert named(item) == item
