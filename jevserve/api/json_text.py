"""Strict JSON: UTF-8 alone, bounded in depth and number of values, finite numbers, real text.

Every refusal is a 422 whose first location is ``body``; duplicate keys keep their last value.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import NoReturn

from jevserve.errors import InvalidRequest, Location

#: Deepest nesting of arrays and objects.
MAX_DEPTH = 64

#: Most separators and brackets, hence about the most values: four times the tokens that a request
#: may have. It keeps a parsed body within a small multiple of its text.
MAX_VALUES = 2**18

_STRING = re.compile(rb'"[^"]*"')
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},'))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")

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
    if _SURROGATE.search(data) and not _encodable(json.dumps(value, ensure_ascii=False)):
        _refuse_surrogate(value)
    return value


def _invalid(position: int, reason: str) -> InvalidRequest:
    return InvalidRequest.at(("body", position), f"JSON decode error: {reason}", "json_invalid")


def _too_deep() -> InvalidRequest:
    return InvalidRequest.at(
        ("body",), f"JSON nests deeper than {MAX_DEPTH} levels; flatten it", "json_too_deep"
    )


def _too_long() -> InvalidRequest:
    return InvalidRequest.at(
        ("body",), f"more than {MAX_VALUES} JSON values; send less at a time", "json_too_long"
    )


def _check_structure(data: bytes) -> None:
    """Bound depth and number of values before anything is built from them."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH and data.count(b",") <= MAX_VALUES:
        return
    bare = _structure(data)
    if bare.count(b'"') > 4 * MAX_VALUES:
        # More strings than values may be; matching them would take long.
        raise _too_long()
    bare = _STRING.sub(b"", bare)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > MAX_VALUES:
        raise _too_long()
    if _deeper(bare.translate(_ONE_KIND, b",")):
        raise _too_deep()


def _structure(data: bytes) -> bytes:
    """The brackets and commas of ``data``, and quotes around those that are inside strings."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # With nothing but structure left, two quotes in a row are an empty string or the seam of two
    # strings; without them, what was inside a string still is.
    return data.translate(None, _NOT_STRUCTURE).replace(b'""', b"")


def _deeper(brackets: bytes) -> bool:
    """Whether square brackets nest deeper than MAX_DEPTH. Each round takes the innermost level."""
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):
            break
        brackets = outer
    else:
        return bool(brackets)
    # Unbalanced brackets are no JSON; what is wrong with a shallow one the parser says better.
    depths = accumulate(1 if b == ord("[") else -1 for b in brackets)
    return any(depth > MAX_DEPTH for depth in depths)


def _refuse_surrogate(value: object) -> NoReturn:
    """Name the first string that holds half of a surrogate pair: no tokenizer and no response
    takes it."""
    pending: list[tuple[Location, object]] = [(("body",), value)]
    while pending:
        loc, value = pending.pop()
        if isinstance(value, str) and not _encodable(value):
            raise _surrogate(loc)
        if isinstance(value, dict):
            for key in value:
                if not _encodable(key):
                    raise _surrogate((*loc, key.encode("utf-8", "backslashreplace").decode()))
            pending.extend(((*loc, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            items = reversed(list(enumerate(value)))
            pending.extend(((*loc, i), item) for i, item in items)
    raise AssertionError("no such string")


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
