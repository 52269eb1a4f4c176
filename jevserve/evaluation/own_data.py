"""A user's own labelled decisions: JSON lines, one decision each.

{"state": "…", "question": {"type": "choice", "criteria": {"a": "…", "b": null}}, "answer": "a"}
{"state": "…", "question": {"type": "noul", "instructions": "…"}, "answer": true}
{"state": "…", "question": {"type": "score", "criteria": ["…", "…"]}, "answer": 1, "set": "x"}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jevserve.api.systemone import parse
from jevserve.decisions.request import Choice, Noul, Question, Score
from jevserve.errors import InvalidRequest, SettingsError
from jevserve.evaluation.generated import Labelled

#: Bytes of one line, and of one file.
MAX_LINE, MAX_FILE = 1 << 20, 1 << 28


def read_decisions(paths: Iterable[Path]) -> dict[str, list[Labelled]]:
    """Decisions by set; a line without a set is of one named after its file.

    Raises:
        SettingsError: a file cannot be read, or a line is wrong; file, line and field are named.
    """
    sets: dict[str, list[Labelled]] = {}
    for path in paths:
        for number, line in enumerate(lines(path), 1):
            if line.strip():
                item = one(line, f"{path}:{number}", path.stem)
                sets.setdefault(item.set, []).append(item)
    if not sets:
        raise SettingsError("no decisions in the data; write one JSON object a line")
    return sets


def lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_FILE:
        raise SettingsError(f"{path} is larger than {MAX_FILE} bytes; split it")
    return data.split(b"\n")


def one(line: bytes, where: str, set_name: str) -> Labelled:
    if len(line) > MAX_LINE:
        raise SettingsError(f"{where}: the line is longer than {MAX_LINE} bytes")
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: no JSON ({error})") from error
    if not isinstance(entry, dict):
        raise SettingsError(f"{where}: expected an object with state, question and answer")
    missing = {"state", "question", "answer"} - entry.keys()
    if missing:
        raise SettingsError(f"{where}: {', '.join(sorted(missing))} is missing")
    name = entry.get("set", set_name)
    if not isinstance(name, str) or not name:
        raise SettingsError(f"{where}: set must be a name")
    try:
        request = parse({"state": entry["state"], "questions": {"q": entry["question"]}})
    except InvalidRequest as error:
        issue = error.issues[0]
        field = ".".join(map(str, issue.loc)).replace("body.questions.q", "question")
        raise SettingsError(f"{where}: {field.removeprefix('body.')}: {issue.msg}") from error
    question = request.questions[0][1]
    return Labelled(name, request.state, question, truth(question, entry["answer"], where))


def truth(question: Question, answer: Any, where: str) -> int:
    """Index of the right candidate.

    Raises:
        SettingsError: the answer is none of the candidates.
    """
    if isinstance(question, Noul):
        if isinstance(answer, bool):
            return 0 if answer else 1
        raise SettingsError(f"{where}: answer must be true or false for a noul")
    if isinstance(question, Choice):
        names = [name for name, _ in question.options]
        if answer in names:
            return names.index(answer)
        raise SettingsError(f"{where}: answer {answer!r:.80} is none of the options")
    assert isinstance(question, Score)
    levels = len(question.levels)
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < levels:
        return answer
    raise SettingsError(f"{where}: answer must be a level's number, 0 to {levels - 1}")
