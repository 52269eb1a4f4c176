"""Strict reading of single wire fields: the type is checked, the size is bounded.

Every function raises TransportError naming the field; none converts or fills in silently.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from jevserve.errors import TransportError
from jevserve.transport.limits import MAX_NAME

#: Counters and numbers of requests stay exact in every language.
MAX_COUNT = 2**53


def malformed(what: str, value: object) -> TransportError:
    """The error for a field of a wrong type or out of range; shows the type, not the content."""
    shown = repr(value) if isinstance(value, int | float) else type(value).__name__
    return TransportError(f"malformed message: {what} is {shown[:40]}")


def integer(value: object, what: str, low: int = 0, high: int = MAX_COUNT) -> int:
    """An int (never a bool) with low <= value <= high."""
    if type(value) is not int or not low <= value <= high:
        raise malformed(what, value)
    return value


def real(value: object, what: str) -> float:
    """A finite float that is not negative."""
    if type(value) is not float or not math.isfinite(value) or value < 0:
        raise malformed(what, value)
    return value


def boolean(value: object, what: str) -> bool:
    if type(value) is not bool:
        raise malformed(what, value)
    return value


def text(value: object, what: str, longest: int = MAX_NAME) -> str:
    """A string of at most ``longest`` characters."""
    if type(value) is not str or len(value) > longest:
        raise malformed(what, value)
    return value


def binary(value: object, what: str, size: int) -> bytes:
    """Exactly ``size`` bytes."""
    if type(value) is not bytes or len(value) != size:
        raise malformed(what, value)
    return value


def items(value: object, what: str, count: int) -> list[object]:
    """A list of exactly ``count`` items."""
    if type(value) is not list or len(value) != count:
        raise malformed(what, value)
    return value


def sequence(value: object, what: str, longest: int) -> list[object]:
    """A list of at most ``longest`` items."""
    if type(value) is not list or len(value) > longest:
        raise malformed(what, value)
    return value


def pack_ids(ids: tuple[int, ...], what: str) -> bytes:
    """Little-endian uint32, four bytes each."""
    try:
        return struct.pack(f"<{len(ids)}I", *ids)
    except struct.error as error:
        raise TransportError(f"{what} holds a number that is no uint32") from error


def read_ids(value: object, what: str, longest: int) -> tuple[int, ...]:
    """Inverse of ``pack_ids`` for at most ``longest`` numbers."""
    if type(value) is not bytes or len(value) % 4 or len(value) > 4 * longest:
        raise malformed(what, value)
    return struct.unpack(f"<{len(value) // 4}I", value)


def pack_values(values: tuple[float, ...]) -> bytes:
    """Little-endian float32; what does not fit becomes infinite, and fails the decision later."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype="<f4").tobytes()


def read_values(value: object, what: str) -> tuple[float, ...]:
    """Inverse of ``pack_values``."""
    if type(value) is not bytes or len(value) % 4:
        raise malformed(what, value)
    return tuple(np.frombuffer(value, dtype="<f4").tolist())
