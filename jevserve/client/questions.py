"""Questions as the wire has them, from ordinary arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Text, or JSON that says the same in a structure.
Text = str | dict[str, Any] | list[Any]

Question = dict[str, Any]


def choice(
    options: Mapping[str, Text | None] | Iterable[str], instructions: Text | None = None
) -> Question:
    """Which one of 1 to 255 options.

    Args:
        options: names, or names with descriptions (None for none). Names are what the answer
            says; describe them where they don't speak for themselves.
        instructions: the question in words.

    Raises:
        ValueError: an option is named twice.
    """
    if isinstance(options, Mapping):
        criteria = dict(options)
    else:
        names = list(options)
        criteria = dict.fromkeys(names)
        if len(criteria) != len(names):
            raise ValueError("an option is named twice; names must differ")
    return _question("choice", instructions, criteria)


def noul(
    instructions: Text | None = None, *, true: Text | None = None, false: Text | None = None
) -> Question:
    """Yes or no.

    Args:
        instructions: the question in words.
        true: what yes means.
        false: what no means.

    Raises:
        ValueError: nothing says what is asked.
    """
    criteria = {name: text for name, text in (("true", true), ("false", false)) if text is not None}
    if instructions is None and not criteria:
        raise ValueError("a noul needs instructions, or what yes or no means (true=, false=)")
    return _question("noul", instructions, criteria or None)


def score(levels: Iterable[Text], instructions: Text | None = None) -> Question:
    """How much, on 1 to 10 levels.

    Args:
        levels: what each level means, lowest first.
        instructions: the question in words.
    """
    return _question("score", instructions, list(levels))


def _question(kind: str, instructions: Text | None, criteria: Any) -> Question:
    question: Question = {"type": kind}
    if instructions is not None:
        question["instructions"] = instructions
    if criteria is not None:
        question["criteria"] = criteria
    return question
