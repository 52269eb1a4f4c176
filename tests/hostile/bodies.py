"""Bodies as bytes: JSON text spoilt, compressed, or packed into a form."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from random import Random

from backports import zstd

from tests.api.forms import BOUNDARY, form, jpeg, png
from tests.hostile.trees import valid, written

Change = Callable[[Random, bytes], bytes]


def cut(r: Random, data: bytes) -> bytes:
    return data[: r.randrange(len(data) + 1)]


def flipped(r: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 3, 20))):
        if out:
            out[r.randrange(len(out))] ^= 1 << r.randrange(8)
    return bytes(out)


def repeated(r: Random, data: bytes) -> bytes:
    a = r.randrange(len(data) + 1)
    b = min(len(data), a + r.choice((1, 5, 50)))
    return data[:b] + data[a:b] * r.choice((1, 2, 100)) + data[b:]


def removed(r: Random, data: bytes) -> bytes:
    a = r.randrange(len(data) + 1)
    return data[:a] + data[a + r.choice((1, 2, 20)) :]


def inserted(r: Random, data: bytes) -> bytes:
    a = r.randrange(len(data) + 1)
    odd = (b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", r.randbytes(7))
    odd += (b'"', b"\\", b"\\u", b"\\ud83d", b"[", b"}", b",", b"//x\n", b"\x1f", b"1e5000")
    return data[:a] + r.choice(odd) + data[a:]


BYTE_CHANGES: tuple[Change, ...] = (cut, flipped, repeated, removed, inserted)


def doubled_keys(r: Random, data: bytes) -> bytes:
    twice = rb'{"state": null, "questions": 1, "state": "first", '
    return data.replace(b"{", twice, 1)


def other_charset(r: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(r.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7")), "replace")


def not_quite_json(r: Random, data: bytes) -> bytes:
    return r.choice(
        (
            b"\xef\xbb\xbf" + data,
            data + data,
            data + b"\n" + data,
            data + b"\x00",
            data.replace(b'"', b"'"),
            data.replace(b"}", b",}"),
            data.replace(b":", b"="),
            b"// comment\n" + data,
            b"state=x&questions=y",
            b"<xml/>",
            b"null",
            b"",
            b"[]",
            re.sub(rb"\d", b"01", data),
            data.replace(b"null", b"NaN"),
            data.replace(b"null", b"-Infinity"),
            data.replace(b"null", b"9" * 5000),
            data.replace(b"null", b"1e99999"),
            data.replace(b"null", b"undefined"),
        )
    )


TEXT_CHANGES: tuple[Change, ...] = (doubled_keys, other_charset, not_quite_json)


def flood(r: Random) -> bytes:
    """A body that is much larger than what it says, up to the size limit and over it."""
    size = r.choice((2**18, 2**20, 2**22))
    before, repeated, after = r.choice(
        (
            (b"", b"[", b""),
            (b"", b"[]", b""),
            (b"", b'{"a":', b""),
            (b"[", b"1,", b"1]"),
            (b'["', b'","', b'"]'),
            (b'{"state": "', b"\\u0000", b'"}'),
            (b'{"state": ', b" ", b'"x"}'),
            (b'{"state": ', b"7", b"}"),
            (b'{"state": 0.', b"7", b"}"),
            (b'{"state": "', b"12345678", b'"}'),
            (b'{"state": "x", "questions": {', b'"q": {},', b'"r": {}}}'),
        )
    )
    return before + repeated * size + after


def gzip_oddly(r: Random, data: bytes) -> bytes:
    packed = gzip.compress(data, 1)
    return r.choice(
        (
            packed,
            packed,
            packed[:-1],
            packed[: len(packed) // 2],
            packed[:10],
            packed + b"garbage",
            packed + bytes(100),
            b"".join(gzip.compress(data[i :: len(data) or 1]) for i in range(min(len(data), 20))),
            gzip.compress(data[:9]) + gzip.compress(data[9:]),
            packed + gzip.compress(b""),
            gzip.compress(packed),
            b"\x1f\x8b" + packed[2:][::-1],
            flipped(r, packed),
            zeros_gzip(),
            b"",
        )
    )


def zstd_oddly(r: Random, data: bytes) -> bytes:
    packed = zstd.compress(data)
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
    return r.choice(
        (
            packed,
            packed,
            packed[:-1],
            packed[: len(packed) // 2],
            packed[:4],
            packed + b"garbage",
            packed * 2,
            packed * 17,
            zstd.compress(data[:9]) + zstd.compress(data[9:]),
            skippable + packed,
            packed + skippable * 40,
            zstd.compress(packed),
            flipped(r, packed),
            zstd.compress(data, zstd_dict=zstd.ZstdDict(b"state questions" * 9, is_raw=True)),
            far_window(data),
            bomb(2**28),
            bomb(2**24) * 20,
            b"",
        )
    )


def far_window(data: bytes) -> bytes:
    """A frame that asks its reader for a window of a gigabyte."""
    options = {zstd.CompressionParameter.window_log: 30}
    packer = zstd.ZstdCompressor(options=options)
    return packer.compress(data, zstd.ZstdCompressor.FLUSH_BLOCK) + packer.flush()


@cache
def zeros_gzip() -> bytes:
    return gzip.compress(bytes(2**26), 1)


@cache
def bomb(size: int) -> bytes:
    packer = zstd.ZstdCompressor()
    step = bytes(2**20)
    return b"".join(packer.compress(step) for _ in range(size >> 20)) + packer.flush()


def form_oddly(r: Random) -> tuple[str, bytes]:
    """A content type and a form that may or may not be one."""
    data = written(r, valid(r))
    request = ("request", "application/json", data)
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    whole = form(request)
    asset = ("asset-0", "image/png", png())
    seen = {"state": "<a>", "questions": {"q": {"type": "noul", "instructions": "x"}}}
    shown = ("request", "application/json", written(r, seen | {"assets": {"<a>": {"part": "p"}}}))
    return r.choice(
        (
            (kind, whole),
            (kind, whole),
            (f'multipart/form-data; boundary="{BOUNDARY}"', whole),
            (kind.upper(), whole),
            ("multipart/form-data", whole),
            ("multipart/form-data; boundary=", whole),
            ("multipart/form-data; boundary=" + "b" * 71, whole),
            ("multipart/form-data; boundary=other", whole),
            ("multipart/mixed; boundary=" + BOUNDARY, whole),
            (kind, form(request, asset)),
            (kind, form(shown, ("p", "image/png", png()))),
            (kind, form(shown, ("p", "image/jpeg", jpeg()))),
            (kind, form(shown, ("p", "image/png", png(5, 5)))),
            (kind, form(shown, ("p", "image/png", b"no image"))),
            (kind, form(asset, request)),
            (kind, form(request, request)),
            (kind, form(("Request", "application/json", data))),
            (kind, form(("", "application/json", data))),
            (kind, form(("request\r\nX-Long: " + "y" * 5000, "application/json", data))),
            (kind, form(request, *((f"a{i}", "x/y", b"") for i in range(70)))),
            (kind, whole[: -len("--\r\n")] + b"\r\n" + whole * 3000),
            (kind, form(("request", f"multipart/mixed; boundary={BOUNDARY}", whole))),
            (kind, whole.replace(b"\r\n", b"\n")),
            (kind, whole.replace(b"form-data; name", b"form-data; nom")),
            (kind, whole.replace(b'name="request"', b"name*=utf-8''request")),
            (kind, b"preamble\r\n" + whole),
            (kind, whole + b"epilogue" * 99),
            (kind, b"\r\n" * 2**18 + whole),
            (kind, b""),
            (kind, cut(r, whole)),
            (kind, flipped(r, whole)),
            (kind, inserted(r, whole)),
        )
    )
