"""Reading a request body: bounded in bytes, memory and time, then decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from starlette.datastructures import Headers

from jevserve.api.encoding import decode, encoding_of
from jevserve.api.refusals import BodyTimeout, ClientDisconnected, MalformedBody
from jevserve.errors import BodyTooLarge, Overloaded, UnsupportedBody

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(frozen=True)
class BodyLimits:
    """What a body may cost.

    Attributes:
        encoded: bytes on the wire.
        decoded: bytes after Content-Encoding.
        buffered: bytes of all bodies held at one time; over it, new ones are told to come back.
        read_timeout_s: seconds from the first read to the last byte.
    """

    encoded: int = 32 * 2**20
    decoded: int = 32 * 2**20
    buffered: int = 512 * 2**20
    read_timeout_s: float = 20.0


class Format(StrEnum):
    JSON = "json"
    FORM = "form"


def format_of(headers: Headers) -> tuple[Format, bytes]:
    """How the body is written, and the boundary of a form.

    A missing type, ``text/plain`` and everything that ends in ``json`` are read as JSON.

    Raises:
        UnsupportedBody: another media type, or a charset that is not UTF-8.
        MalformedBody: a form without a usable boundary.
    """
    value = headers.get("content-type", "")
    media, _, rest = value.partition(";")
    media = media.strip().lower()
    parameters = _parameters(rest)
    if media == "multipart/form-data":
        boundary = parameters.get("boundary", "")
        if not 1 <= len(boundary) <= 70 or not boundary.isascii():
            raise MalformedBody("multipart/form-data needs a boundary of 1 to 70 ASCII characters")
        return Format.FORM, boundary.encode()
    if media and media != "text/plain" and not media.endswith(("/json", "+json")):
        raise UnsupportedBody(
            f"Content-Type {media[:100]!r} is not read here: send 'application/json', or "
            "'multipart/form-data' with images"
        )
    charset = parameters.get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedBody(f"charset {charset[:40]!r} is not read here: send UTF-8")
    return Format.JSON, b""


def _parameters(text: str) -> dict[str, str]:
    found = {}
    for item in text.split(";")[:16]:
        name, _, value = item.partition("=")
        found[name.strip().lower()] = value.strip().strip('"')
    return found


class BodyMemory:
    """Bytes of request bodies held by this process, against one budget."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def lease(self) -> BodyLease:
        return BodyLease(self)


class BodyLease:
    """One request's share of the budget; leaving the ``with`` block gives it back."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._held = 0

    def grow(self, n: int) -> None:
        """Raises Overloaded when the budget has no room for ``n`` more bytes."""
        if self._memory.held + n > self._memory.limit:
            raise Overloaded(
                "too many large bodies are being read; retry shortly",
                retry_after_ms=500,
                reason="body_memory",
            )
        self._memory.held += n
        self._held += n

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._memory.held -= self._held
        self._held = 0


async def read_body(
    receive: Receive, headers: Headers, limits: BodyLimits, lease: BodyLease
) -> bytes:
    """The whole body, decoded from its Content-Encoding.

    Raises:
        UnsupportedBody, MalformedBody, BodyTooLarge, BodyTimeout, Overloaded: as they say.
        ClientDisconnected: the client left while sending.
    """
    encoding = encoding_of(headers.getlist("content-encoding"))
    declared = headers.get("content-length")
    if declared is not None:
        if not (declared.isascii() and declared.isdigit()):
            raise MalformedBody("Content-Length is not a number")
        if len(declared) > 18 or int(declared) > limits.encoded:
            raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.read_timeout_s):
            data = await _read(receive, limits, lease)
    except TimeoutError:
        raise BodyTimeout(
            f"the body did not arrive within {limits.read_timeout_s:g} s of its headers"
        ) from None
    decoded = await decode(encoding, data, limits.decoded)
    if decoded is not data:
        lease.grow(len(decoded))
    elif len(decoded) > limits.decoded:
        raise BodyTooLarge(f"the body has more than {limits.decoded} bytes")
    return decoded


async def _read(receive: Receive, limits: BodyLimits, lease: BodyLease) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected("the client left while sending its body")
        chunk: bytes = message.get("body", b"")
        if chunk:
            size += len(chunk)
            if size > limits.encoded:
                raise _too_large(limits)
            lease.grow(len(chunk))
            chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limits: BodyLimits) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limits.encoded} bytes; send less at a time")
