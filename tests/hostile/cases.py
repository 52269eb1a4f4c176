"""Numbered hostile requests: the same seed and number always give the same bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.hostile import bodies
from tests.hostile.trees import ODD_TEXTS, bent, valid, written

#: The key that the service under test knows.
KEY = "good-key"

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Case:
    """One request as it goes over the wire.

    Attributes:
        family: what kind of hostility this is.
        headers: beside Host, Connection, a key, and the length of the body.
        body: as it is sent, encoded.
        framing: header lines that say how long the body is; None for a true Content-Length.
        unclean: no proper HTTP request, so that the server may refuse it below the application.
        authorized: whether a known key is presented.
    """

    family: str
    body: bytes = b""
    headers: Headers = ((b"content-type", b"application/json"),)
    method: bytes = b"POST"
    target: bytes = b"/v1/systemone"
    key: Headers = ((b"authorization", f"Bearer {KEY}".encode()),)
    framing: Headers | None = None
    unclean: bool = False
    authorized: bool = True

    def wire(self, host: str) -> bytes:
        framing = self.framing
        if framing is None:
            framing = ((b"content-length", str(len(self.body)).encode()),)
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target), b"host: " + host.encode()]
        lines.append(b"connection: close")
        lines += [b"%b: %b" % pair for pair in (*self.headers, *self.key, *framing)]
        return b"\r\n".join([*lines, b"", b""]) + self.body


@dataclass(frozen=True)
class Family:
    make: Callable[[Random], Case]
    weight: int


def case(seed: int, number: int) -> Case:
    r = Random(f"{seed}/{number}")
    name = r.choices(list(FAMILIES), [f.weight for f in FAMILIES.values()])[0]
    made = replace(FAMILIES[name].make(r), family=name)
    if made.framing is None and not made.unclean and r.random() < 0.1:
        made = chunked(r, made)
    return made


def chunked(r: Random, made: Case) -> Case:
    """The same body in chunks, now and then with extensions and trailers."""
    data, out = made.body, b""
    size = max(1, len(data) // r.choice((1, 2, 7)))
    for i in range(0, len(data), size):
        piece = data[i : i + size]
        extension = r.choice((b"", b"", b";a=b"))
        out += b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
    out += b"0\r\n" + r.choice((b"", b"", b"x-trailer: 1\r\n")) + b"\r\n"
    return replace(made, body=out, framing=((b"transfer-encoding", b"chunked"),))


def _valid(r: Random) -> Case:
    paths = (b"/v1/systemone", b"/team/v1/systemone/", b"/v1/decisions", b"/api/alpha/decisions")
    return Case("", written(r, valid(r)), target=r.choice(paths))


def _structure(r: Random) -> Case:
    return Case("", written(r, bent(r)))


def _text(r: Random) -> Case:
    return Case("", r.choice(bodies.TEXT_CHANGES)(r, written(r, valid(r))))


def _bytes(r: Random) -> Case:
    data = written(r, valid(r))
    for _ in range(r.choice((1, 1, 2, 4))):
        data = r.choice(bodies.BYTE_CHANGES)(r, data)
    return Case("", data)


def _flood(r: Random) -> Case:
    return Case("", bodies.flood(r))


def _encoding(r: Random) -> Case:
    data = written(r, r.choice((valid, bent))(r))
    name = r.choice(("gzip", "zstd"))
    body = (bodies.gzip_oddly if name == "gzip" else bodies.zstd_oddly)(r, data)
    kind = (b"content-type", b"application/json")
    return Case("", body, (kind, (b"content-encoding", name.encode())))


def _encoding_names(r: Random) -> Case:
    data = written(r, valid(r))
    names = (b"", b"identity", b"GZIP", b"x-gzip", b"br", b"deflate", b"gzip, gzip", b"zstd,gzip")
    names += (b"compress", b",,,", b"gzip;q=1", b"*", b"zstd" * 500, b"identity, identity", b"\xff")
    body = r.choice((data, bodies.gzip_oddly(r, data), bodies.zstd_oddly(r, data)))
    lines = tuple((b"content-encoding", n) for n in r.sample(names, r.choice((1, 1, 2))))
    return Case("", body, ((b"content-type", b"application/json"), *lines))


def _form(r: Random) -> Case:
    kind, body = bodies.form_oddly(r)
    return Case("", body, ((b"content-type", kind.encode()),))


def _types(r: Random) -> Case:
    kinds = (b"", b"text/plain", b"application/json", b"application/problem+json", b"text/html")
    kinds += (b"application/json; charset=utf-16", b"application/json;charset=\xff", b"/", b";;;")
    kinds += (b'application/json; charset="UTF-8"', b"application/json;" * 40, b"json")
    kinds += (b"application/x-www-form-urlencoded", b"a/json")
    kinds += (
        b"application/json; charset=" + b"x" * 5000,
        b"multipart/form-data; boundary=\xc3\xa9",
    )
    return Case("", written(r, valid(r)), ((b"content-type", r.choice(kinds)),))


def _small_headers(r: Random) -> Case:
    """Headers that the service reads, with values that it cannot."""
    names = (b"x-jevserve-deadline-ms", b"x-request-id", b"traceparent", b"x-typesafe-retry-count")
    names += (b"accept", b"accept-encoding", b"user-agent", b"range", b"if-none-match", b"cookie")
    values = [t.encode("utf-8", "ignore") for t in ODD_TEXTS]
    values = [v for v in values if not set(v) & set(b"\x00\r\n\x1b")]
    values += [b"0", b"1", b"-1", b"60000", b"600001", b"1e3", b"9" * 400, b"\xff\xfe", b"00-x-y-z"]
    lines = tuple((r.choice(names), r.choice(values)) for _ in range(r.choice((1, 2, 5))))
    return Case("", written(r, valid(r)), ((b"content-type", b"application/json"), *lines))


def _keys(r: Random) -> Case:
    good, name = KEY.encode(), b"authorization"
    basic = base64.b64encode(b"token:" + good)
    right = ((name, b"bearer " + good), (name, b"Basic " + basic), (b"x-api-key", good))
    wrong = (
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer x",
        b"Basic",
        b"Basic !!!",
        b"Basic " + b"A" * 5000,
    )
    wrong += (b"Bearer \xff\xfe", b"Digest " + good, b"Bearer " + good[:-1], good, b"Bearer " * 900)
    wrong += (b"Basic " + base64.b64encode(b"user:" + good), b"Basic \xc3\xa9", b"\xf0\x9f\x99\x82")
    presented: Headers = tuple((name, r.choice(wrong)) for _ in range(r.choice((0, 1, 1))))
    authorized = r.random() < 0.3
    if authorized:
        # A scheme that is not known leaves the other header to count.
        presented = (r.choice(right),)
        presented += ((b"x-api-key", b"wrong"),) if presented[0][0] == name else ()
    return Case("", written(r, valid(r)), key=presented, authorized=authorized)


def _targets(r: Random) -> Case:
    targets = (b"/", b"//", b"/v1", b"/v1/systemone/..", b"/v1/systemone%00", b"/v1/%73ystemone")
    targets += (b"/v1/systemone?x=" + b"y" * 3000, b"/" + b"a" * 8000, b"/%ff%fe", b"/v1/models")
    targets += (b"/healthz", b"/readyz", b"/metrics", b"/docs", b"/openapi.json", b"/%2e%2e/etc")
    targets += (b"/v1/systemone/v1/systemone", b"/V1/SYSTEMONE", b"/v1//systemone", b"/;a", b"*")
    methods = (
        b"GET",
        b"HEAD",
        b"POST",
        b"PUT",
        b"PATCH",
        b"DELETE",
        b"OPTIONS",
        b"TRACE",
        b"M-SEARCH",
    )
    target = r.choice(targets)
    return Case(
        "", written(r, valid(r)), method=r.choice(methods), target=target, unclean=target == b"*"
    )


def _unclean(r: Random) -> Case:
    """What is no HTTP/1.1, or says two things at once about the length of its body."""
    data = written(r, valid(r))
    n = str(len(data)).encode()
    long, te = b"content-length", b"transfer-encoding"
    framings: tuple[Headers, ...] = (
        ((long, str(len(data) + 7).encode()),),
        ((long, str(len(data) // 2).encode()),),
        ((long, b"-1"),),
        ((long, b"+" + n),),
        ((long, b"0x10"),),
        ((long, b"9" * 30),),
        ((long, n), (long, b"1")),
        ((long, n), (te, b"chunked")),
        ((te, b"gzip, chunked"),),
        ((te, b"nonsense"),),
        ((te, b"chunked"),),
        (),
    )
    spoilt = Case("", data, framing=r.choice(framings), unclean=True)
    kind = (b"content-type", b"application/json")
    whole = ((long, n),)
    return r.choice(
        (
            spoilt,
            spoilt,
            spoilt,
            replace(spoilt, framing=whole, headers=(kind, (b"x-large", b"y" * 200_000))),
            replace(spoilt, framing=whole, headers=(kind, *((b"x-many", b"y"),) * 3000)),
            replace(spoilt, framing=whole, headers=(kind, (b"bad name", b"y"))),
            replace(spoilt, framing=whole, headers=(kind, (b"x-odd", b"a\x00b"))),
            replace(spoilt, framing=whole, method=b"G\x00T"),
            replace(spoilt, framing=whole, target=b"/a b"),
            replace(spoilt, framing=whole, target=b"/\xff"),
            replace(spoilt, framing=whole, target=b"/" + b"a" * 100_000),
            replace(spoilt, framing=((te, b"chunked"),), body=b"zz\r\n" + data),
            replace(spoilt, framing=((te, b"chunked"),), body=b"ffffffffffffffff0\r\n" + data),
            replace(spoilt, framing=((te, b"chunked"),), body=b"5\r\nabc"),
        )
    )


FAMILIES = {
    "valid": Family(_valid, 12),
    "structure": Family(_structure, 30),
    "text": Family(_text, 8),
    "bytes": Family(_bytes, 12),
    "encoding": Family(_encoding, 8),
    "encoding names": Family(_encoding_names, 4),
    "form": Family(_form, 8),
    "types": Family(_types, 4),
    "small headers": Family(_small_headers, 5),
    "keys": Family(_keys, 3),
    "targets": Family(_targets, 4),
    "unclean HTTP": Family(_unclean, 3),
    "flood": Family(_flood, 2),
}
