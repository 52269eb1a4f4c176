"""Strict JSON: UTF-8 alone, bounded in depth and number of values, finite numbers, real text.

Every refusal is a 422 whose first location is ``body``; duplicate keys keep their last value.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate

from jevserve.errors import InvalidRequest, Location

#: Deepest nesting of arrays and objects.
MAX_DEPTH = 64

#: Most separators and brackets, hence about the most values. Ten times what any model could read,
#: and what keeps a parsed body within a small multiple of its text.
MAX_VALUES = 1_000_000

_STRING = re.compile(rb'"[^"]*"')
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},'))
_DEPTH = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

#: An escape that may be half of a surrogate pair; without one, no string can be unencodable.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0.0:
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def parse_json(data: bytes) -> object:
    """The value that ``data`` spells.

    Raises:
        InvalidRequest: not UTF-8, not JSON, too deep, too many values, a number that is not
            finite, or a string that UTF-8 cannot carry.
    """
    _check_structure(data)
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _invalid(error.start, "the body is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        if data.startswith(b"\xef\xbb\xbf"):
            raise _invalid(0, "the body starts with a byte order mark; send plain UTF-8") from None
        raise _invalid(error.pos, error.msg) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        # int() names a number of too many digits, the hooks above name the rest.
        raise _invalid(0, str(error)[:200]) from None
    if _SURROGATE.search(data):
        _check_text(value)
    return value


def _invalid(position: int, reason: str) -> InvalidRequest:
    return InvalidRequest.at(("body", position), f"JSON decode error: {reason}", "json_invalid")


def _too_deep() -> InvalidRequest:
    return InvalidRequest.at(
        ("body",), f"JSON nests deeper than {MAX_DEPTH} levels; flatten it", "json_too_deep"
    )


def _check_structure(data: bytes) -> None:
    """Bound depth and number of values before anything is built from them."""
    brackets = data.count(b"[") + data.count(b"{")
    commas = data.count(b",")
    if brackets <= MAX_DEPTH and brackets + commas <= MAX_VALUES:
        return
    bare = _structure(data)
    if len(bare) > 2 * MAX_VALUES:
        raise InvalidRequest.at(
            ("body",), f"more than {MAX_VALUES} JSON values; send less at a time", "json_too_long"
        )
    if _deeper(bare.replace(b",", b"")):
        raise _too_deep()


def _structure(data: bytes) -> bytes:
    """The brackets and commas of ``data`` that are not inside strings, by passes of C code alone
    unless strings hold some too."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # With nothing but structure left, two quotes in a row are an empty string or the seam of two
    # strings; without them, what was inside a string still is.
    bare = data.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    return _STRING.sub(b"", bare) if b'"' in bare else bare


def _deeper(brackets: bytes) -> bool:
    """Whether brackets nest deeper than MAX_DEPTH. Each round takes the innermost level away."""
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(outer) == len(brackets):
            break
        brackets = outer
    else:
        return bool(brackets)
    # Unbalanced brackets are no JSON; what is wrong with a shallow one the parser says better.
    depths = accumulate(_DEPTH.get(b, 0) for b in brackets)
    return any(depth > MAX_DEPTH for depth in depths)


def _check_text(value: object) -> None:
    """Refuse halves of surrogate pairs: no tokenizer and no response takes them."""
    pending: list[tuple[Location, object]] = [(("body",), value)]
    while pending:
        loc, value = pending.pop()
        if isinstance(value, str):
            if not _encodable(value):
                raise _surrogate(loc)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not _encodable(key):
                    raise _surrogate((*loc, key.encode("utf-8", "backslashreplace").decode()))
                pending.append(((*loc, key), item))
        elif isinstance(value, list):
            pending.extend(((*loc, i), item) for i, item in enumerate(value))


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _surrogate(loc: Location) -> InvalidRequest:
    return InvalidRequest.at(
        loc, "holds half of a surrogate pair, which is not text; remove it", "string_unicode"
    )
