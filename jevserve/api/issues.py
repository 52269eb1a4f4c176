"""Collecting everything that is wrong with a request, up to a bound."""

from __future__ import annotations

from collections.abc import Iterable

from jevserve.api.spelling import meant
from jevserve.errors import InvalidRequest, Issue, Location

#: Issues listed in one answer; a body can hold more mistakes than anyone would read.
MAX_ISSUES = 100


class Issues:
    """What is wrong so far."""

    def __init__(self) -> None:
        self._found: list[Issue] = []

    def add(self, loc: Location, msg: str, type: str = "value_error") -> None:
        if len(self._found) < MAX_ISSUES:
            self._found.append(Issue(loc, msg, type))
        elif len(self._found) == MAX_ISSUES:
            self._found.append(
                Issue(("body",), f"only the first {MAX_ISSUES} issues are listed", "truncated")
            )

    def missing(self, loc: Location, name: str, beside: Iterable[str], more: str = "") -> None:
        """The field ``name`` is not at ``loc``, where the names ``beside`` are."""
        self.add((*loc, name), f"Field required{more}{self.hint(name, beside)}", "missing")

    def hint(self, wanted: str, beside: Iterable[str]) -> str:
        """The end of a message that lacks ``wanted``, where one of ``beside`` may stand for it."""
        if len(self._found) > MAX_ISSUES:
            return ""
        name = meant(wanted, beside)
        return f"; {shown(name)} is not read here, did you mean '{wanted}'?" if name else ""

    def raise_any(self) -> None:
        """Raises InvalidRequest if anything was found."""
        if self._found:
            raise InvalidRequest(self._found)


def shown(value: object) -> str:
    """A short form of a caller's value for a message."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else repr(value[:59] + "…")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json_name(value)
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def json_name(value: object) -> str:
    """What JSON calls the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
