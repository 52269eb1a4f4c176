"""One request over a socket, one response back, within a bounded time."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

#: Seconds after which an exchange counts as hung.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Answer:
    """A response; status 0 where the connection ended without one."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0

    def json(self) -> Any:
        return json.loads(self.body)


class Hung(AssertionError):
    """No end of the response in time."""


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def exchange(address: tuple[str, int], request: bytes, *, head: bool = False) -> Answer:
    """Send all of ``request`` and read until the server closes or the response is whole."""
    started = time.monotonic()
    data = b""
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        # The server may answer and close while it is still being sent to.
        with contextlib.suppress(ConnectionError):
            client.sendall(request)
        with contextlib.suppress(ConnectionError):
            while not _whole(data, head):
                if time.monotonic() - started > PATIENCE_S:
                    raise Hung(f"no answer in {PATIENCE_S} s to {request[:200]!r}")
                try:
                    piece = client.recv(2**16)
                except TimeoutError:
                    raise Hung(f"no answer in {PATIENCE_S} s to {request[:200]!r}") from None
                if not piece:
                    break
                data += piece
    return parsed(data, time.monotonic() - started)


def _whole(data: bytes, head: bool) -> bool:
    before, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    answer = parsed(before + blank, 0.0)
    if answer.status == 100:
        return _whole(body, head)
    length = answer.headers.get("content-length")
    return head or answer.status == 204 or (length is not None and len(body) >= int(length))


def parsed(data: bytes, seconds: float) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100"):
        return parsed(body, seconds)
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) < 2 or not words[1].isdigit():
        return Answer(seconds=seconds)
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Answer(int(words[1]), headers, body, seconds)
