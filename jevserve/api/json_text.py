"""Strict JSON: UTF-8 alone, bounded in depth and number of values, finite numbers, real text.

Every refusal is a 422 whose first location is ``body``; duplicate keys keep their last value.

Nothing here holds the interpreter for long, so that a body of the largest size, parsed in a
thread, leaves the event loop its turns: bytes are gone through in steps, and a large body is read
by the standard library's scanner in Python instead of the one in C.
"""

from __future__ import annotations

import codecs
import json
import re
from array import array
from itertools import accumulate
from json import scanner

from jevserve.errors import InvalidRequest, Location

#: Bodies over this take milliseconds to parse and to read: work for a thread.
LARGE = 64 * 2**10

#: Deepest nesting of arrays and objects.
MAX_DEPTH = 64

#: Most separators and brackets, hence about the most values: four times the tokens that a request
#: may have. It keeps a parsed body within a small multiple of its text.
MAX_VALUES = 2**18

#: Most backslashes. Strings full of escapes are what takes the longest to read.
MAX_ESCAPES = 2**20

#: Bytes gone through at a time.
STEP = 256 * 2**10

_STRING = re.compile(rb'"[^"]*"')
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},'))

#: Brackets as signed bytes, by how much they go deeper.
_DEEPER = bytes.maketrans(b"[{]}", bytes((1, 1, 255, 255)))

#: An escape that may be half of a surrogate pair; without one, no string can be unencodable.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON; send null or a string")


def _integer(digits: str) -> int:
    if not digits.isascii():
        raise ValueError(f"{digits[:40]} is not written in the digits 0 to 9")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits) if digits.isascii() else _integer(digits)
    if value - value != 0.0:
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer
    )


_DECODER = _decoder()


def _patient_decoder() -> json.JSONDecoder:
    """Ten times slower for each value, but other threads run in between."""
    decoder = _decoder()
    decoder.scan_once = scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder


def parse_json(data: bytes) -> object:
    """The value that ``data`` spells.

    Raises:
        InvalidRequest: not UTF-8, not JSON, too deep, too many values, a number that is not
            finite, or a string that UTF-8 cannot carry.
    """
    _check_structure(data)
    decoder = _patient_decoder() if len(data) > LARGE else _DECODER
    try:
        value: object = decoder.decode(_text(data))
    except UnicodeDecodeError as error:
        text = data[: error.start].decode("utf-8")
        raise _invalid(text, len(text), "the body is not UTF-8 text", error.start) from None
    except json.JSONDecodeError as error:
        reason = error.msg
        if data.startswith(codecs.BOM_UTF8):
            reason = "the body starts with a byte order mark; send plain UTF-8"
        raise _invalid(error.doc, error.pos, reason, error.pos) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        # int() names a number of too many digits, the hooks above name the rest.
        raise InvalidRequest.at(("body",), f"JSON decode error: {error}", "json_invalid") from None
    if any(_SURROGATE.search(data, at, at + STEP + 3) for at in range(0, len(data), STEP)):
        _refuse_surrogates(value)
    return value


def _text(data: bytes) -> str:
    """Raises UnicodeDecodeError, whose ``start`` counts from the beginning of ``data``."""
    if len(data) <= STEP:
        return data.decode("utf-8")
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        pieces = [decode(data[at : at + STEP]) for at in range(0, len(data), STEP)]
        return "".join((*pieces, decode(b"", True)))
    except UnicodeDecodeError:
        return data.decode("utf-8")


def _invalid(text: str, position: int, reason: str, loc: int) -> InvalidRequest:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    message = f"JSON decode error: {reason} (line {line}, column {column})"
    return InvalidRequest.at(("body", loc), message, "json_invalid")


def _too_deep() -> InvalidRequest:
    return InvalidRequest.at(
        ("body",), f"JSON nests deeper than {MAX_DEPTH} levels; flatten it", "json_too_deep"
    )


def _too_long(most: int, what: str) -> InvalidRequest:
    return InvalidRequest.at(
        ("body",), f"the JSON has more than {most} {what}; send less at a time", "json_too_long"
    )


def _check_structure(data: bytes) -> None:
    """Bound depth and number of values before anything is built from them."""
    if sum(data.count(b"\\", at, at + STEP) for at in range(0, len(data), STEP)) > MAX_ESCAPES:
        raise _too_long(MAX_ESCAPES, "escape sequences")
    if len(data) <= LARGE and data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    values = strings = depth = at = 0
    inside = False
    while at < len(data):
        piece = _piece(data, at)
        at += len(piece)
        if not inside and len(piece) >= STEP and not piece.translate(None, _NOT_STRUCTURE):
            raise _too_long(STEP, "digits or blanks in a row")
        quoted, inside = _structure(piece, inside)
        strings += quoted.count(b'"') // 2
        if strings > 2 * MAX_VALUES:
            # More strings than values may be; matching them would take long.
            raise _too_long(MAX_VALUES, "values")
        bare = _STRING.sub(b"", quoted)
        values += bare.count(b",") + bare.count(b"[") + bare.count(b"{")
        if values > MAX_VALUES:
            raise _too_long(MAX_VALUES, "values")
        depths = list(accumulate(array("b", bare.translate(_DEEPER, b",")), initial=depth))
        if max(depths) > MAX_DEPTH:
            raise _too_deep()
        if min(depths) < 0:
            # It closes what was never opened: the parser gets no further, and says it better.
            return
        depth = depths[-1]


def _piece(data: bytes, at: int) -> bytes:
    """A step of ``data`` that does not end between a backslash and what it escapes."""
    piece = data[at : at + STEP]
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece if backslashes % 2 == 0 else data[at : at + STEP + 1]


def _structure(piece: bytes, inside: bool) -> tuple[bytes, bool]:
    """Brackets and commas of a piece, with quotes around those inside strings.

    Args:
        piece: a piece of JSON text.
        inside: whether it begins inside a string.

    Returns:
        The structure, in which every string is closed, and whether the piece ends inside one.
    """
    if b"\\" in piece:
        piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
    bare = piece.translate(None, _NOT_STRUCTURE)
    if inside:
        bare = b'"' + bare
    inside = bare.count(b'"') % 2 == 1
    if inside:
        bare += b'"'
    # With nothing but structure left, two quotes in a row are an empty string or the seam of two
    # strings; without them, what was inside a string still is.
    return bare.replace(b'""', b""), inside


def _refuse_surrogates(value: object) -> None:
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
