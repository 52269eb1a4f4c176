"""What a caller may have meant by a name that is not read here."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice

#: Names that people and other servers use for what is read here by the name on the left.
OTHER_NAMES = {
    "state": ("context", "input", "text", "content", "document", "messages", "prompt"),
    "questions": ("question", "query", "queries"),
    "type": ("kind",),
    "instructions": ("question", "prompt", "text", "description"),
    "criteria": ("option", "options", "choices", "level", "levels", "labels", "candidates"),
    "noul": ("bool", "boolean", "binary", "yesno", "yes_no", "yes-no", "yes/no"),
    "choice": ("select", "enum", "categorical", "classification", "multiple_choice"),
    "score": ("rating", "scale", "likert", "ordinal", "grade"),
}

#: Names looked at in one object, and characters of a name that is still compared.
MAX_NAMES = 32
MAX_LENGTH = 32

#: Twice the letters in common over all letters: one wrong letter in four passes.
ALIKE = 0.75


def meant(wanted: str, found: Iterable[str]) -> str | None:
    """The first of ``found`` that is not read here and may stand for ``wanted``."""
    unread = (name for name in islice(found, MAX_NAMES) if name not in OTHER_NAMES)
    return next((name for name in unread if _alike(name, wanted)), None)


def _alike(name: str, wanted: str) -> bool:
    if len(name) > MAX_LENGTH:
        return False
    folded = name.casefold()
    if folded in OTHER_NAMES[wanted]:
        return True
    return SequenceMatcher(None, folded, wanted).ratio() >= ALIKE
