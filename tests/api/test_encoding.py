"""Content-Encoding: what comes out, and what a hostile stream may cost."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from jevserve.api.encoding import MAX_FRAMES, Encoding, decode, encoding_of
from jevserve.api.refusals import MalformedBody
from jevserve.errors import BodyTooLarge, UnsupportedBody

COMPRESS = {Encoding.GZIP: gzip.compress, Encoding.ZSTD: zstd.compress}
both = pytest.mark.parametrize("encoding", COMPRESS)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], Encoding.IDENTITY),
        (["identity"], Encoding.IDENTITY),
        ([" GZIP "], Encoding.GZIP),
        (["x-gzip"], Encoding.GZIP),
        (["identity", "zstd"], Encoding.ZSTD),
    ],
)
def test_the_one_encoding_is_found_whatever_its_spelling(headers, expected):
    assert encoding_of(headers) is expected


@pytest.mark.parametrize("headers", [["br"], ["deflate"], ["gzip, gzip"], ["zstd", "gzip"], ["é"]])
def test_an_unknown_or_double_encoding_is_refused_naming_what_is_read(headers):
    with pytest.raises(UnsupportedBody, match="'zstd', 'gzip' or 'identity'"):
        encoding_of(headers)


@both
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 400))
async def test_what_a_client_compressed_comes_out_again(encoding, data, repeat):
    data *= repeat
    assert await decode(encoding, COMPRESS[encoding](data), 2**21) == data


@both
@given(pieces=st.lists(st.binary(max_size=50), min_size=1, max_size=MAX_FRAMES))
async def test_concatenated_frames_are_one_body(encoding, pieces):
    body = b"".join(map(COMPRESS[encoding], pieces))
    assert await decode(encoding, body, 2**16) == b"".join(pieces)


@both
async def test_given_too_many_frames_when_decoded_then_refused(encoding):
    body = COMPRESS[encoding](b"") * (MAX_FRAMES + 1)
    with pytest.raises(MalformedBody, match="frames"):
        await decode(encoding, body, 2**16)


@both
async def test_a_body_of_exactly_the_limit_passes_and_one_more_byte_does_not(encoding):
    limit = 700_000
    assert len(await decode(encoding, COMPRESS[encoding](b"x" * limit), limit)) == limit
    with pytest.raises(BodyTooLarge):
        await decode(encoding, COMPRESS[encoding](b"x" * (limit + 1)), limit)


@both
async def test_a_bomb_costs_little_more_memory_than_the_limit(encoding):
    limit = 4 * 2**20
    bomb = COMPRESS[encoding](bytes(256 * 2**20))
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        await decode(encoding, bomb, limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * limit


async def test_a_zstd_frame_that_wants_a_huge_window_is_refused():
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.checksum_flag: 1}
    compressor = zstd.ZstdCompressor(options=options)
    body = compressor.compress(b"x" * 1000) + compressor.flush()
    with pytest.raises(MalformedBody):
        await decode(Encoding.ZSTD, body, 2**20)


@both
@given(cut=st.floats(0, 1, exclude_max=True))
async def test_a_stream_that_is_cut_short_is_refused(encoding, cut):
    body = COMPRESS[encoding](bytes(range(256)) * 30)
    with pytest.raises(MalformedBody):
        await decode(encoding, body[: int(cut * len(body))], 2**16)


@both
@given(garbage=st.binary(min_size=1, max_size=30))
async def test_garbage_after_the_stream_is_refused(encoding, garbage):
    body = COMPRESS[encoding](b"{}") + b"\xff" + garbage
    with pytest.raises(MalformedBody, match=f"Content-Encoding says {encoding}"):
        await decode(encoding, body, 2**16)


@both
@given(garbage=st.binary(min_size=1, max_size=300))
async def test_any_bytes_are_decoded_or_refused_and_never_raise_anything_else(encoding, garbage):
    with contextlib.suppress(MalformedBody, BodyTooLarge):
        await decode(encoding, garbage, 2**16)
