"""Images in a request: recognised by their bytes, measured from their headers, never decoded."""

from __future__ import annotations

from dataclasses import dataclass

#: Widths and heights in pixels, areas in square pixels, sizes in bytes, as clients of the hosted
#: System One service enforce them (semantic-operators 0.12).
MIN_SIDE, MAX_SIDE = 256, 1568
MIN_AREA, MAX_AREA = 78_400, 2_458_624
MAX_IMAGE_BYTES = 16 * 2**20

#: Bytes of all images of a request, each counted as often as a text uses it.
MAX_USED_BYTES = 32 * 2**20

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"

#: JPEG markers of a frame header; C4, C8 and CC are tables and extensions.
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@dataclass(frozen=True)
class Image:
    mime: str
    width: int
    height: int


def inspect(data: bytes) -> Image:
    """What the bytes are.

    Raises:
        ValueError: not a PNG or JPEG still, or outside the limits; the message is for the caller.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise ValueError(f"the image has {len(data)} bytes, at most {MAX_IMAGE_BYTES}")
    if data.startswith(_PNG):
        image = _png(data)
    elif data.startswith(_JPEG):
        image = _jpeg(data)
    else:
        raise ValueError("not a PNG or JPEG image")
    sides = (image.width, image.height)
    if min(sides) < MIN_SIDE or max(sides) > MAX_SIDE:
        raise ValueError(
            f"the image is {image.width}x{image.height}; both sides must be {MIN_SIDE} to "
            f"{MAX_SIDE} pixels. Resize it."
        )
    area = image.width * image.height
    if not MIN_AREA <= area <= MAX_AREA:
        raise ValueError(
            f"the image has {area} pixels, allowed are {MIN_AREA} to {MAX_AREA}. Resize it."
        )
    return image


def _png(data: bytes) -> Image:
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise ValueError("the PNG image has no header")
    if b"acTL" in data[:1024]:
        raise ValueError("the PNG image is animated; send a still")
    return Image(
        "image/png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    )


def _jpeg(data: bytes) -> Image:
    at = 2
    # Real files have tens of segments and hardly a fill byte; the bound is for the others.
    for _ in range(4096):
        if data[at : at + 2] == b"\xff\xff":
            at += 1
            continue
        if at + 9 > len(data) or data[at] != 0xFF:
            break
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in _FRAME_MARKERS:
            height = int.from_bytes(data[at + 5 : at + 7], "big")
            width = int.from_bytes(data[at + 7 : at + 9], "big")
            return Image("image/jpeg", width, height)
        if length < 2 or marker in (0xD8, 0xD9, 0xDA):
            break
        at += 2 + length
    raise ValueError("the JPEG image has no frame header")
