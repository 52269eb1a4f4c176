"""Every message that crosses a process, and its bytes.

A message is a msgpack array whose first item names it. Decoding is strict and bounded: whatever
the bytes, it returns a message or raises TransportError. Requests are numbered by the client in
strictly rising order; number 0 is the connection itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgpack  # type: ignore[import-untyped]

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import (
    BodyTooLarge,
    EngineFailed,
    JevserveError,
    MaxTokensExceeded,
    Overloaded,
    RateLimited,
    RetryableError,
    TransportError,
    UsageError,
)
from jevserve.transport.base import ReplicaReport
from jevserve.transport.fields import binary, integer, text
from jevserve.transport.limits import MAX_ERROR_TEXT, MAX_FRAME, MAX_NAME, MAX_ROWS, MAX_SEGMENTS
from jevserve.transport.records import (
    pack_decision,
    pack_report,
    pack_result,
    read_decision,
    read_report,
    read_result,
)

#: Changes with any layout here or in ``records``, and with PLAN_VERSION.
PROTOCOL_VERSION = 1

NONCE_BYTES = 32
MAC_BYTES = 32

#: Longest Retry-After that a peer may ask for: one hour.
MAX_RETRY_MS = 3_600_000


@dataclass(frozen=True)
class Hello:
    """Client, first: the version it speaks and its nonce."""

    version: int
    nonce: bytes


@dataclass(frozen=True)
class Challenge:
    """Server's answer to Hello."""

    version: int
    nonce: bytes


@dataclass(frozen=True)
class Proof:
    """Client first, then server: the MAC that only a holder of the secret can make."""

    mac: bytes


@dataclass(frozen=True)
class Decide:
    number: int
    decision: PlannedDecision


@dataclass(frozen=True)
class Answer:
    number: int
    result: DecisionResult


@dataclass(frozen=True)
class Failed:
    """What came instead of an answer; number 0 refuses the connection.

    Attributes:
        error_type: of a JevserveError.
        message: shown to the client of the service.
        retry_after_ms: of a RetryableError, else 0.
        reason: of a RetryableError, else empty.
    """

    number: int
    error_type: str
    message: str
    retry_after_ms: int = 0
    reason: str = ""

    @classmethod
    def of(cls, number: int, error: JevserveError) -> Failed:
        message = error.message
        if len(message) > MAX_ERROR_TEXT:
            message = message[: MAX_ERROR_TEXT - 1] + "…"
        if isinstance(error, RetryableError):
            retry = min(max(0, int(error.retry_after_ms)), MAX_RETRY_MS)
            return cls(number, error.error_type, message, retry, error.reason[:MAX_NAME])
        return cls(number, error.error_type, message)

    def error(self) -> JevserveError:
        """The error to raise; a type that cannot be rebuilt becomes EngineFailed."""
        retryable = RETRYABLE.get(self.error_type)
        if retryable is not None:
            return retryable(self.message, retry_after_ms=self.retry_after_ms, reason=self.reason)
        return PLAIN.get(self.error_type, EngineFailed)(self.message)


#: Errors that a replica may answer with, by their type on the wire.
RETRYABLE: dict[str, type[RetryableError]] = {c.error_type: c for c in (Overloaded, RateLimited)}
PLAIN: dict[str, type[JevserveError]] = {
    c.error_type: c
    for c in (EngineFailed, MaxTokensExceeded, UsageError, BodyTooLarge, TransportError)
}


@dataclass(frozen=True)
class Cancel:
    """Nobody waits for this number any more; not answered."""

    number: int


@dataclass(frozen=True)
class Report:
    report: ReplicaReport


@dataclass(frozen=True)
class Drain:
    number: int


@dataclass(frozen=True)
class Drained:
    """The last decision in flight at the replica is answered."""

    number: int


Handshake: TypeAlias = Hello | Challenge | Proof | Failed
Message: TypeAlias = (
    Hello | Challenge | Proof | Decide | Answer | Failed | Cancel | Report | Drain | Drained
)


def encode(message: Message) -> bytes:
    """The payload of a frame. Raises TransportError for content the other end would refuse."""
    match message:
        case Decide():
            fields: list[object] = ["decide", message.number, pack_decision(message.decision)]
        case Answer():
            fields = ["answer", message.number, pack_result(message.result)]
        case Report():
            fields = ["report", pack_report(message.report)]
        case Failed():
            fields = [
                "failed",
                message.number,
                message.error_type,
                message.message,
                message.retry_after_ms,
                message.reason,
            ]
        case Cancel():
            fields = ["cancel", message.number]
        case Drain():
            fields = ["drain", message.number]
        case Drained():
            fields = ["drained", message.number]
        case Hello():
            fields = ["hello", message.version, message.nonce]
        case Challenge():
            fields = ["challenge", message.version, message.nonce]
        case Proof():
            fields = ["proof", message.mac]
    try:
        packed: bytes = msgpack.packb(fields)
    except (ValueError, OverflowError, UnicodeEncodeError) as error:
        raise TransportError("a message cannot be packed") from error
    return packed


def version_of(value: object) -> int:
    return integer(value, "version", 0, 65_535)


def nonce_of(value: object) -> bytes:
    return binary(value, "nonce", NONCE_BYTES)


def number_of(value: object) -> int:
    return integer(value, "number")


def failed_of(number: object, type: object, message: object, retry: object, why: object) -> Failed:
    return Failed(
        number_of(number),
        text(type, "error_type"),
        text(message, "message", MAX_ERROR_TEXT),
        integer(retry, "retry_after_ms", 0, MAX_RETRY_MS),
        text(why, "reason"),
    )


#: For each name the number of fields after it, and what reads them.
READERS: dict[str, tuple[int, Callable[..., Message]]] = {
    "hello": (2, lambda version, nonce: Hello(version_of(version), nonce_of(nonce))),
    "challenge": (2, lambda version, nonce: Challenge(version_of(version), nonce_of(nonce))),
    "proof": (1, lambda mac: Proof(binary(mac, "mac", MAC_BYTES))),
    "decide": (2, lambda number, value: Decide(number_of(number), read_decision(value))),
    "answer": (2, lambda number, value: Answer(number_of(number), read_result(value))),
    "failed": (5, failed_of),
    "cancel": (1, lambda number: Cancel(number_of(number))),
    "report": (1, lambda value: Report(read_report(value))),
    "drain": (1, lambda number: Drain(number_of(number))),
    "drained": (1, lambda number: Drained(number_of(number))),
}

HANDSHAKE = frozenset({"hello", "challenge", "proof", "failed"})


def decode(payload: bytes) -> Message:
    """The message of a proven peer's frame."""
    # No list can hold more items than there are bytes: a short frame cannot ask for much memory.
    return read(payload, min(len(payload), max(MAX_ROWS, MAX_SEGMENTS)), MAX_FRAME)


def decode_handshake(payload: bytes) -> Handshake:
    """The message of a peer that has proved nothing yet: four small kinds and no others."""
    message = read(payload, 8, 64, HANDSHAKE)
    assert isinstance(message, Hello | Challenge | Proof | Failed)
    return message


def read(
    payload: bytes, max_array: int, max_binary: int, allowed: frozenset[str] | None = None
) -> Message:
    try:
        fields = msgpack.unpackb(
            payload,
            use_list=True,
            max_array_len=max_array,
            max_bin_len=max_binary,
            max_str_len=4 * MAX_ERROR_TEXT,
            max_map_len=0,
            max_ext_len=0,
        )
    except Exception as error:  # msgpack raises a dozen kinds, ValueError to StackError
        raise TransportError(f"malformed message: {type(error).__name__}") from None
    if type(fields) is not list or not fields or type(fields[0]) is not str:
        raise TransportError("malformed message: it has no name")
    name = fields[0]
    if name not in READERS or (allowed is not None and name not in allowed):
        raise TransportError("malformed message: unexpected kind")
    count, reader = READERS[name]
    if len(fields) != count + 1:
        raise TransportError(f"malformed message: {name} has {len(fields) - 1} fields")
    return reader(*fields[1:])
