"""A user's JSON lines: what is read, and what is refused by file, line and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jevserve.decisions.request import Choice, Noul, Score
from jevserve.errors import SettingsError
from jevserve.evaluation import own_data
from jevserve.evaluation.own_data import read_decisions

CHOICE = {"type": "choice", "criteria": {"a": "first", "b": None}}
NOUL = {"type": "noul", "instructions": "?"}
SCORE = {"type": "score", "criteria": ["low", "high"]}


def write(path: Path, *entries: Any) -> Path:
    path.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries))
    return path


def test_every_kind_is_read_into_its_set(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mail.jsonl",
        {"state": "s", "question": CHOICE, "answer": "b"},
        "",
        {"state": {"x": 1}, "question": NOUL, "answer": False, "set": "late"},
        {"state": "s", "question": SCORE, "answer": 1},
    )

    sets = read_decisions([file])

    choice, score = sets["mail"]
    (noul,) = sets["late"]
    assert isinstance(choice.question, Choice) and choice.truth == 1
    assert isinstance(noul.question, Noul) and noul.truth == 1 and noul.state == {"x": 1}
    assert isinstance(score.question, Score) and score.truth == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{", "no JSON"),
        ("[" * 10_000, "no JSON"),
        ([], "expected an object"),
        ({"state": "s", "question": NOUL}, "answer is missing"),
        ({"state": "s", "question": CHOICE, "answer": "c"}, "none of the options"),
        ({"state": "s", "question": NOUL, "answer": "yes"}, "must be true or false"),
        ({"state": "s", "question": SCORE, "answer": 2}, "a level's number, 0 to 1"),
        ({"state": "s", "question": SCORE, "answer": True}, "a level's number"),
        ({"state": 5, "question": NOUL, "answer": True}, "state"),
        ({"state": "s", "question": {"type": "choice"}, "answer": "a"}, "question"),
        ({"state": "s", "question": NOUL, "answer": True, "set": 5}, "set must be a name"),
    ],
)
def test_a_wrong_line_is_named_by_file_number_and_reason(
    tmp_path: Path, entry: Any, said: str
) -> None:
    file = write(tmp_path / "d.jsonl", {"state": "s", "question": NOUL, "answer": True}, entry)

    with pytest.raises(SettingsError) as failed:
        read_decisions([file])

    assert failed.value.message.startswith(f"{file}:2: ")
    assert said in failed.value.message


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "d.jsonl", {"state": "s" * 200, "question": NOUL, "answer": True})
    monkeypatch.setattr(own_data, "MAX_LINE", 100)
    with pytest.raises(SettingsError, match="longer than 100"):
        read_decisions([file])
    monkeypatch.setattr(own_data, "MAX_FILE", 100)
    with pytest.raises(SettingsError, match="larger than 100"):
        read_decisions([file])


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_no_decisions_are_an_error(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "d.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match=r"cannot read|no decisions"):
        read_decisions([file])
