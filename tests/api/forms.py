"""Forms and images as clients send them."""

from __future__ import annotations

import struct
import zlib

BOUNDARY = "5f2c9a7be1d04c6f8a3b"


def form(*parts: tuple[str, str, bytes], boundary: str = BOUNDARY) -> bytes:
    """(name, content type, content) parts, written as typesafe-sdk 0.7.5 writes them."""
    out = b""
    for name, kind, content in parts:
        disposition = f'form-data; name="{name}"'
        if name != "request":
            disposition += f'; filename="{name}"'
        out += f"--{boundary}\r\nContent-Disposition: {disposition}\r\n".encode()
        out += f"Content-Type: {kind}\r\n\r\n".encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


def png(width: int = 300, height: int = 300) -> bytes:
    """A grey PNG still."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * min(width, 2000)) * min(height, 2000))
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def jpeg(width: int = 300, height: int = 300) -> bytes:
    """The headers of a JPEG still, which is all that is read of it here."""
    app = b"\xff\xe0\x00\x10JFIF\x00" + bytes(9)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + app + b"\xff\xff" + frame + b"\xff\xd9"
