"""The System One dialect: a JSON body to a ``DecisionRequest``.

Shapes follow the official OpenAPI document as typesafe-sdk 0.7.5 carries it, and the hosted
service where that was measured. Locations of issues are FastAPI's. What a field may hold is as
wide as the official service accepts; everything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar

from jevserve.api.assets import parse_assets
from jevserve.api.issues import Issues, json_name, shown
from jevserve.api.spelling import meant
from jevserve.decisions.request import (
    Choice,
    DecisionRequest,
    Noul,
    Question,
    Score,
    StructuredText,
)
from jevserve.errors import InvalidRequest, Location, UsageError

#: Most questions of a request, whatever the model; models may advertise less.
MAX_QUESTIONS = 4096

#: Characters of a question id. Ids are echoed and never shown to a model.
MAX_ID = 1024

#: Documented limits of the dialect; models may advertise less.
MAX_OPTIONS = 255
MAX_LEVELS = 10

MAX_MODEL_NAME = 256
MAX_SALT = 256
MAX_LABEL = 256
MAX_DEADLINE_MS = 600_000

DEADLINE_HEADER = "x-jevserve-deadline-ms"

#: Fields of the official schema; a strict service takes no others.
OFFICIAL_FIELDS = frozenset({"model", "state", "questions", "assets"})


def parse(
    body: object,
    *,
    parts: Mapping[str, bytes] | None = None,
    deadline_header: str | None = None,
    strict: bool = False,
) -> DecisionRequest:
    """The request that a parsed JSON body asks for.

    Args:
        body: what the JSON text spelled.
        parts: asset parts of a multipart form by name, None for a plain JSON body.
        deadline_header: value of ``x-jevserve-deadline-ms``; wins over the body's field.
        strict: refuse top-level fields that are not official, as the hosted service does.

    Raises:
        InvalidRequest: listing every issue, up to a bound.
        UsageError: an unknown field on a strict service.
    """
    if not isinstance(body, dict):
        raise InvalidRequest.at(
            ("body",), f"Input should be a JSON object, not {json_name(body)}", "dict_type"
        )
    if strict and (unknown := [k for k in body if k not in OFFICIAL_FIELDS]):
        names = ", ".join(shown(k) for k in unknown[:10])
        raise UsageError(f"Invalid request. Unknown top-level fields: {names}")
    issues = Issues()
    request = DecisionRequest(
        state=_state(body, issues),
        questions=_questions(body, issues),
        model=_string(body, "model", MAX_MODEL_NAME, issues),
        media=parse_assets(body, parts, issues),
        cache_salt=_cache_salt(body, issues),
        deadline_ms=_deadline(body, deadline_header, issues),
    )
    _ignored_fields(body, issues)
    issues.raise_any()
    return request


def _is_text(value: object) -> TypeGuard[StructuredText]:
    return isinstance(value, str | dict | list)


def _state(body: dict[str, Any], issues: Issues) -> StructuredText:
    value = body.get("state")
    if value is None:
        issues.missing(("body",), "state", body)
    elif _is_text(value):
        return value
    else:
        issues.add(
            ("body", "state"),
            f"Input should be a string, an object or an array, not {json_name(value)}",
            "text_type",
        )
    return ""


def _questions(body: dict[str, Any], issues: Issues) -> tuple[tuple[str, Question], ...]:
    loc: Location = ("body", "questions")
    value = body.get("questions")
    if value is None:
        issues.missing(("body",), "questions", body)
        return ()
    if not isinstance(value, dict):
        issues.add(
            loc,
            f"Input should be an object from question id to question, not {json_name(value)}",
            "dict_type",
        )
        return ()
    if not value:
        issues.add(loc, "at least one question is needed", "too_short")
    if len(value) > MAX_QUESTIONS:
        issues.add(
            loc,
            f"{len(value)} questions, at most {MAX_QUESTIONS}; send several requests",
            "too_long",
        )
        return ()
    found = []
    for id, question in value.items():
        if not 1 <= len(id) <= MAX_ID:
            issues.add(
                (*loc, id),
                f"a question id has 1 to {MAX_ID} characters, this one has {len(id)}",
                "string_too_short" if not id else "string_too_long",
            )
        parsed = _question((*loc, id), question, issues)
        if parsed is not None:
            found.append((id, parsed))
    return tuple(found)


def _question(loc: Location, value: object, issues: Issues) -> Question | None:
    if not isinstance(value, dict):
        issues.add(loc, f"Input should be a question object, not {json_name(value)}", "dict_type")
        return None
    kind = value.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]((*loc, kind), value, issues)
    known = ", ".join(f'"{k}"' for k in _KINDS)
    if kind is None:
        issues.missing(loc, "type", value, f": one of {known}")
    else:
        text = f"type must be one of {known}, not {shown(kind)}"
        issues.add((*loc, "type"), text + _other_kind(kind), "literal_error")
    return None


def _other_kind(kind: object) -> str:
    near = (k for k in _KINDS if isinstance(kind, str) and meant(k, (kind,)))
    return next((f'; did you mean "{k}"?' for k in near), "")


def _optional_text(loc: Location, value: object, issues: Issues) -> StructuredText | None:
    if value is None or _is_text(value):
        return value
    issues.add(
        loc,
        f"Input should be a string, an object, an array or null, not {json_name(value)}",
        "text_type",
    )
    return None


def _instructions(loc: Location, question: dict[str, Any], issues: Issues) -> StructuredText | None:
    return _optional_text((*loc, "instructions"), question.get("instructions"), issues)


def _noul(loc: Location, question: dict[str, Any], issues: Issues) -> Noul:
    instructions = _instructions(loc, question, issues)
    at = (*loc, "criteria")
    criteria = question.get("criteria")
    if criteria is None:
        criteria = {}
    elif not isinstance(criteria, dict):
        issues.add(
            at,
            f"Input should be an object with 'true' and/or 'false', not {json_name(criteria)}",
            "dict_type",
        )
        return Noul(instructions)
    elif criteria and "true" not in criteria and "false" not in criteria:
        # Ignoring these keys would answer another question than the one asked.
        keys = ", ".join(shown(k) for k in list(criteria)[:5])
        issues.add(at, f"a noul's criteria are 'true' and/or 'false', found {keys}")
        return Noul(instructions)
    true = _optional_text((*at, "true"), criteria.get("true"), issues)
    false = _optional_text((*at, "false"), criteria.get("false"), issues)
    given = (question.get("instructions"), criteria.get("true"), criteria.get("false"))
    if all(text is None for text in given):
        text = "a noul needs 'instructions' or a described outcome in 'criteria'"
        hint = issues.hint("instructions", question) or issues.hint("criteria", question)
        issues.add(loc, text + hint)
    return Noul(instructions, true, false)


_Criteria = TypeVar("_Criteria", dict[str, Any], list[Any])


def _criteria(
    loc: Location,
    question: dict[str, Any],
    kind: type[_Criteria],
    wanted: str,
    issues: Issues,
) -> _Criteria | None:
    """The question's ``criteria`` where they are of ``kind``; ``wanted`` says so in words."""
    criteria = question.get("criteria")
    if criteria is None:
        issues.missing(loc, "criteria", question, f": {wanted}")
        return None
    if not isinstance(criteria, kind):
        text = f"Input should be {wanted}, not {json_name(criteria)}"
        issues.add((*loc, "criteria"), text, f"{kind.__name__}_type")
        return None
    return criteria


def _choice(loc: Location, question: dict[str, Any], issues: Issues) -> Choice | None:
    instructions = _instructions(loc, question, issues)
    at = (*loc, "criteria")
    wanted = "an object from option name to description or null"
    criteria = _criteria(loc, question, dict, wanted, issues)
    if criteria is None or _wrong_count(at, "options", len(criteria), MAX_OPTIONS, issues):
        return None
    options = [(n, _optional_text((*at, n), d, issues)) for n, d in criteria.items()]
    return Choice(tuple(options), instructions)


def _score(loc: Location, question: dict[str, Any], issues: Issues) -> Score | None:
    instructions = _instructions(loc, question, issues)
    at = (*loc, "criteria")
    wanted = "an array of level descriptions, lowest level first"
    criteria = _criteria(loc, question, list, wanted, issues)
    if criteria is None or _wrong_count(at, "levels", len(criteria), MAX_LEVELS, issues):
        return None
    for i, level in enumerate(criteria):
        if not _is_text(level):
            issues.add(
                (*at, i),
                "a level is described by a string, an object or an array, not by "
                f"{json_name(level)}",
                "text_type",
            )
    return Score(tuple(criteria), instructions)


_KINDS: dict[str, Callable[[Location, dict[str, Any], Issues], Question | None]] = {
    "choice": _choice,
    "noul": _noul,
    "score": _score,
}


def _wrong_count(loc: Location, what: str, n: int, most: int, issues: Issues) -> bool:
    if n == 0:
        issues.add(loc, f"no {what}, at least 1 is needed", "too_short")
    elif n > most:
        issues.add(loc, f"{n} {what}, at most {most}", "too_long")
    return not 1 <= n <= most


def _string(body: dict[str, Any], name: str, most: int, issues: Issues) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        issues.add(
            ("body", name), f"Input should be a string, not {json_name(value)}", "string_type"
        )
        return None
    if len(value) > most:
        issues.add(("body", name), f"{len(value)} characters, at most {most}", "string_too_long")
        return None
    return value


def _cache_salt(body: dict[str, Any], issues: Issues) -> str | None:
    salt = _string(body, "cache_salt", MAX_SALT, issues)
    if salt is not None and not salt.strip():
        issues.add(
            ("body", "cache_salt"),
            f"a salt has 1 to {MAX_SALT} characters that are not all blank; leave it out for none",
            "string_too_short",
        )
    return salt


def _deadline(body: dict[str, Any], header: str | None, issues: Issues) -> int | None:
    value = body.get("x_deadline_ms")
    allowed = f"milliseconds from 1 to {MAX_DEADLINE_MS}"
    if value is not None and not (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_DEADLINE_MS
    ):
        issues.add(
            ("body", "x_deadline_ms"),
            f"Input should be an integer number of {allowed}, not {shown(value)}",
            "int_range",
        )
        value = None
    if header is None:
        return value
    digits = header.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 9:
        milliseconds = int(digits)
        if 1 <= milliseconds <= MAX_DEADLINE_MS:
            return milliseconds
    issues.add(
        ("header", DEADLINE_HEADER),
        f"should be a whole number of {allowed}, not {shown(header)}",
        "int_range",
    )
    return None


def _ignored_fields(body: dict[str, Any], issues: Issues) -> None:
    """Fields of other servers: their values change nothing here, but must be what they claim."""
    for name in ("user", "session_id"):
        _string(body, name, MAX_LABEL, issues)
    priority = body.get("priority")
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
        issues.add(
            ("body", "priority"), f"Input should be an integer, not {shown(priority)}", "int_type"
        )
    for name in ("provider", "trace"):
        value = body.get(name)
        if value is not None and not isinstance(value, dict):
            issues.add(
                ("body", name), f"Input should be an object, not {json_name(value)}", "dict_type"
            )
    for name in ("images", "videos"):
        if body.get(name) not in (None, []):
            issues.add(
                ("body", name),
                "is not read here; attach images through 'assets' and their placeholders",
                "unsupported_field",
            )
