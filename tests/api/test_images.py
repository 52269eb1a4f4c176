"""Images are recognised and measured from their headers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.api.images import MAX_IMAGE_BYTES, Image, inspect
from tests.api.forms import jpeg, png


@given(st.integers(280, 1568), st.integers(280, 1568))
def test_a_still_within_the_limits_is_measured(width, height):
    assert inspect(png(width, height)) == Image("image/png", width, height)
    assert inspect(jpeg(width, height)) == Image("image/jpeg", width, height)


@pytest.mark.parametrize("make", [png, jpeg])
@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((255, 400), "256 to 1568 pixels"),
        ((400, 1569), "256 to 1568 pixels"),
        ((256, 300), "pixels, allowed"),
        ((65_000, 65_000), "256 to 1568 pixels"),
        ((0, 0), "256 to 1568 pixels"),
    ],
)
def test_a_size_outside_the_limits_is_refused_with_the_limits(make, size, said):
    with pytest.raises(ValueError, match=said):
        inspect(make(*size))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"\xff\xd8" + b"\xff" * 100_000,
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 100_000,
        png()[:33] + b"\0\0\0\x08acTL" + png()[33:],
    ],
)
def test_what_is_no_still_is_refused(data):
    with pytest.raises(ValueError, match=r"PNG|JPEG"):
        inspect(data)


def test_a_file_over_the_limit_is_refused():
    with pytest.raises(ValueError, match="bytes, at most"):
        inspect(png() + bytes(MAX_IMAGE_BYTES))


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b""]), st.binary(max_size=300))
def test_any_bytes_are_measured_or_refused_and_never_raise_anything_else(magic, data):
    with contextlib.suppress(ValueError):
        assert inspect(magic + data).width > 0
