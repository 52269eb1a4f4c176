"""One adapter is chosen, or the candidates and their reasons are named."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from folders import bert_folder

from jevserve.adapters.base import Certainty, CheckpointFiles, Match
from jevserve.adapters.registry import adapters, find
from jevserve.checkpoints import inspect, probe
from jevserve.errors import CheckpointError

FILES = CheckpointFiles(frozenset(), {})


class Finds:
    """A probe that always finds the same."""

    def __init__(self, protocol: str, certainty: Certainty) -> None:
        self.protocol, self._match = protocol, Match(protocol, certainty, f"reason of {protocol}")

    def probe(self, files: CheckpointFiles) -> Match:
        return self._match


CERTAIN, POSSIBLE = Certainty.CERTAIN, Certainty.POSSIBLE


class TestChoose:
    known: ClassVar = {"a": CERTAIN, "b": POSSIBLE, "c": CERTAIN, "d": POSSIBLE}

    @pytest.fixture
    def choose(self, monkeypatch: pytest.MonkeyPatch) -> object:
        def choose(names: str) -> str:
            found = [Finds(n, self.known[n]) for n in names]
            monkeypatch.setattr(probe, "adapters", lambda: found)
            monkeypatch.setattr(probe, "find", lambda p: next(f for f in found if f.protocol == p))
            return probe.choose(FILES)[0].protocol

        return choose

    @pytest.mark.parametrize(
        ("names", "chosen"), [("a", "a"), ("ab", "a"), ("bad", "a"), ("b", "b")]
    )
    def test_one_candidate_is_taken(self, choose: object, names: str, chosen: str) -> None:
        assert callable(choose)
        assert choose(names) == chosen

    @pytest.mark.parametrize("names", ["ac", "bd", "abc"])
    def test_several_are_refused_with_their_reasons(self, choose: object, names: str) -> None:
        assert callable(choose)
        with pytest.raises(CheckpointError, match=r"reason of .*reason of .*'protocol'"):
            choose(names)


def test_nothing_known_names_every_protocol() -> None:
    with pytest.raises(CheckpointError) as caught:
        probe.choose(FILES)
    assert all(a.protocol in caught.value.message for a in adapters())


def test_a_named_protocol_is_taken_at_its_word() -> None:
    assert probe.choose(FILES, "minilm")[0] is find("minilm")
    with pytest.raises(CheckpointError, match=r"chat-label"):
        probe.choose(FILES, "nonsense")


def test_inspecting_says_the_family_and_why(tmp_path: Path) -> None:
    found = inspect(bert_folder(tmp_path))
    assert (found.protocol, found.reason) == ("minilm", "BertModel without a head")


def test_inspecting_what_is_no_checkpoint_says_why(tmp_path: Path) -> None:
    assert inspect(tmp_path / "missing").protocol is None
    assert "no adapter recognises" in inspect(tmp_path).reason
