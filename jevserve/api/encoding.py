"""Content-Encoding of request bodies: gzip and zstd, decoded with a bound on the output.

Clients of the field compress bodies over 1 KiB by default, zstd from Python and gzip from
JavaScript. A bomb costs at most the limit in memory, whatever it claims to expand to.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from backports import zstd

from jevserve.api.refusals import MalformedBody
from jevserve.errors import BodyTooLarge, UnsupportedBody

#: Bytes handed to, and asked of, a decompressor at a time.
STEP = 64 * 2**10

#: Output decoded on the event loop; a thread does the rest.
INLINE = 256 * 2**10

#: Concatenated gzip members or zstd frames in one body; real clients send one.
MAX_FRAMES = 16


class Encoding(StrEnum):
    IDENTITY = "identity"
    GZIP = "gzip"
    ZSTD = "zstd"


def encoding_of(headers: list[str]) -> Encoding:
    """The one encoding that the values of the Content-Encoding headers name.

    Raises:
        UnsupportedBody: an encoding the service does not read, or several at once.
    """
    names = [n.strip().lower() for h in headers for n in h.split(",")]
    names = ["gzip" if n == "x-gzip" else n for n in names if n not in ("", "identity")]
    if not names:
        return Encoding.IDENTITY
    if len(names) > 1 or names[0] not in (Encoding.GZIP, Encoding.ZSTD):
        raise UnsupportedBody(
            f"Content-Encoding {', '.join(names)[:100]!r} is not read here: send one of "
            "'zstd', 'gzip' or 'identity'"
        )
    return Encoding(names[0])


class Decompressor(Protocol):
    """The interface of ``zstd.ZstdDecompressor`` that is used here."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class GzipMember:
    """One gzip member behind the interface of a zstd frame."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._starved = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return self._starved

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self._starved = len(out) < max_length and not self._inflate.unconsumed_tail
        return out


def decompressor(encoding: Encoding, limit: int) -> Callable[[], Decompressor]:
    """Makes the decompressor of one frame; its window is bounded by ``limit`` too."""
    if encoding is Encoding.GZIP:
        return GzipMember
    # 2**23 is the largest window of every ordinary compression level.
    window_log = max(23, min(limit.bit_length(), 27))
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: window_log}
    return lambda: zstd.ZstdDecompressor(options=options)


class Decoding:
    """A body on its way out of its encoding, in steps so that a caller can bound each one."""

    def __init__(self, encoding: Encoding, data: bytes, limit: int) -> None:
        self.finished = False
        self._encoding = encoding
        self._data = data
        self._limit = limit
        self._new_frame = decompressor(encoding, limit)
        self._frame = self._new_frame()
        self._frames = 1
        self._offset = 0
        self._size = 0
        self._out: list[bytes] = []

    def run(self, bound: int) -> None:
        """Decode until the end, or until at least ``bound`` bytes have come out.

        Raises:
            MalformedBody: not a stream of this encoding, cut short, or followed by something else.
            BodyTooLarge: more output than the limit.
        """
        try:
            while not self.finished and self._size < bound:
                self._step()
        except (zlib.error, zstd.ZstdError) as error:
            raise MalformedBody(
                f"the body is not a valid {self._encoding} stream (Content-Encoding says "
                f"{self._encoding}): {str(error)[:200]}"
            ) from None

    def _step(self) -> None:
        if self._frame.eof:
            self._next_frame()
            return
        data = b""
        if self._frame.needs_input:
            data = self._data[self._offset : self._offset + STEP]
            self._offset += len(data)
            if not data:
                raise MalformedBody(f"the {self._encoding} body ends before its stream does")
        piece = self._frame.decompress(data, STEP)
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTooLarge(f"the body decodes to more than {self._limit} bytes")
        self._out.append(piece)

    def _next_frame(self) -> None:
        self._offset -= len(self._frame.unused_data)
        if self._offset == len(self._data):
            self.finished = True
            return
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise MalformedBody(f"the {self._encoding} body has more than {MAX_FRAMES} frames")
        self._frame = self._new_frame()

    def result(self) -> bytes:
        return self._out[0] if len(self._out) == 1 else b"".join(self._out)


async def decode(encoding: Encoding, data: bytes, limit: int) -> bytes:
    """The decoded body. Large ones are decoded in a thread.

    Raises:
        MalformedBody, BodyTooLarge: see ``Decoding.run``.
    """
    if encoding is Encoding.IDENTITY:
        return data
    decoding = Decoding(encoding, data, limit)
    decoding.run(INLINE)
    if not decoding.finished:
        await asyncio.to_thread(decoding.run, limit + 1)
    return decoding.result()
