"""Frames: a 4-byte little-endian length and a payload, over one stream."""

from __future__ import annotations

import asyncio
import socket
import struct

from jevserve.errors import TransportError
from jevserve.transport.limits import UNPROVEN_FRAME, Bounds, Timing

LENGTH = struct.Struct("<I")

#: Bytes asked of the stream at once.
CHUNK = 128 * 1024

#: How long a closing connection may take to send what is left.
LINGER_S = 1.0


class FrameDecoder:
    """Cuts received bytes into frames. Holds what was received and never what was promised.

    Attributes:
        largest: largest payload accepted; raised once the peer has proved the secret.
    """

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._buffer = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> bytes | None:
        """The next whole payload, None until more bytes come.

        Raises:
            TransportError: the peer announced a payload over ``largest``.
        """
        begin = self._start + LENGTH.size
        if len(self._buffer) < begin:
            return None
        (length,) = LENGTH.unpack_from(self._buffer, self._start)
        if length > self.largest:
            raise TransportError(f"a frame of {length} bytes, at most {self.largest} are accepted")
        if len(self._buffer) < begin + length:
            return None
        self._start = begin + length
        return bytes(memoryview(self._buffer)[begin : self._start])


class FrameStream:
    """Frames in both directions over a connected stream.

    One task may ``receive``; any task may ``send``. What is sent within one turn of the event
    loop goes out in one write.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        bounds: Bounds,
        timing: Timing,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._bounds, self._timing = bounds, timing
        self._decoder = FrameDecoder(UNPROVEN_FRAME)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._closing = False
        self.peer = str(writer.get_extra_info("peername"))
        writer.transport.set_write_buffer_limits(high=bounds.outbound)
        tune(writer.get_extra_info("socket"), timing.stall)

    def proven(self) -> None:
        """The peer has proved the secret: its frames may be large from now on."""
        self._decoder.largest = self._bounds.frame

    async def receive(self) -> bytes:
        """The next payload.

        Raises:
            TransportError: the connection ended or broke, or a frame is too large.
        """
        while (payload := self._decoder.next()) is None:
            try:
                data = await self._reader.read(CHUNK)
            except OSError as error:
                raise TransportError(f"the connection to {self.peer} broke: {error}") from error
            if not data:
                raise TransportError(f"{self.peer} closed the connection")
            self._decoder.feed(data)
        return payload

    def send(self, payload: bytes) -> None:
        """Queue a payload. Callers of anything large await ``room`` right before.

        Raises:
            TransportError: the payload is over the frame size; nothing was queued.
        """
        if len(payload) > self._bounds.frame:
            raise TransportError(
                f"a message of {len(payload)} bytes, at most {self._bounds.frame} can be sent"
            )
        if self._closing:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += (LENGTH.pack(len(payload)), payload)
        self._out_bytes += LENGTH.size + len(payload)

    @property
    def waiting_bytes(self) -> int:
        """Bytes queued and not yet taken by the operating system."""
        return self._out_bytes + self._writer.transport.get_write_buffer_size()

    @property
    def crowded(self) -> bool:
        """Whether senders have to wait."""
        return self.waiting_bytes > self._bounds.outbound

    async def room(self) -> None:
        """Wait until the peer has taken enough of what was sent.

        Raises:
            TransportError: it takes nothing for too long, or the connection broke.
        """
        while self.crowded:
            if self._closing or self._writer.is_closing():
                raise TransportError(f"the connection to {self.peer} is closed")
            self._flush()
            before = self.waiting_bytes
            try:
                async with asyncio.timeout(self._timing.stall):
                    await self._writer.drain()
            except TimeoutError as error:
                if self.waiting_bytes >= before:
                    raise TransportError(f"{self.peer} takes no bytes") from error
            except OSError as error:
                raise TransportError(f"the connection to {self.peer} broke: {error}") from error

    def close(self) -> None:
        """Send what is queued, then close; after a second whatever is left is dropped."""
        if self._closing:
            return
        self._flush()
        self._closing = True
        self._writer.close()
        self._loop.call_later(LINGER_S, self._writer.transport.abort)

    def abort(self) -> None:
        """Close at once; nothing queued is sent."""
        self._closing = True
        self._out.clear()
        self._out_bytes = 0
        self._writer.transport.abort()

    def _flush(self) -> None:
        if self._out and not self._closing and not self._writer.is_closing():
            self._writer.write(b"".join(self._out))
        self._out.clear()
        self._out_bytes = 0


def tune(sock: socket.socket, stall_s: float) -> None:
    """Small writes go out at once; a peer whose host is gone is noticed by the kernel.

    Reports keep a live connection busy, so unacknowledged bytes tell first (TCP_USER_TIMEOUT,
    tcp(7)); keep-alive probes cover a connection without any.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 5),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(1e3 * stall_s)),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
