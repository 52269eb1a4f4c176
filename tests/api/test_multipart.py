"""multipart/form-data: the request first, then its assets."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.api.multipart import MAX_PART_HEADERS, MAX_PARTS, parse_form
from jevserve.api.refusals import MalformedBody
from jevserve.errors import InvalidRequest
from tests.api.forms import BOUNDARY, form

B = BOUNDARY.encode()
REQUEST = ("request", "application/json", b"{}")


@given(
    st.binary(max_size=200),
    st.lists(st.binary(max_size=200) | st.just(b"\r\n--" + B[:-1]), max_size=5),
)
def test_every_part_comes_out_as_it_was_sent(request, assets):
    parts = [("request", "application/json", request)]
    parts += [(f"asset-{i}", "image/png", data) for i, data in enumerate(assets)]
    found, named = parse_form(form(*parts), B)
    assert found == request
    assert named == {f"asset-{i}": data for i, data in enumerate(assets)}


def test_a_form_that_is_cut_short_anywhere_is_refused():
    whole = form(REQUEST, ("asset-0", "image/png", b"xyz"))
    for cut in range(len(whole) - 4):
        with pytest.raises((MalformedBody, InvalidRequest)):
            parse_form(whole[:cut], B)


def test_a_bad_form_writes_nothing_to_the_log(caplog):
    with pytest.raises(MalformedBody):
        parse_form(form(REQUEST).replace(B, b"another"), B)
    assert not caplog.records


@pytest.mark.parametrize(
    ("parts", "loc"),
    [
        ([("asset-0", "image/png", b""), REQUEST], ("body", "request")),
        ([REQUEST, REQUEST], ("body", "request")),
        ([REQUEST, ("a", "x/y", b""), ("a", "x/y", b"")], ("body", "a")),
        ([REQUEST, ("", "x/y", b"")], ("body", 1)),
        ([REQUEST, ("n" * 300, "x/y", b"")], ("body", 1)),
    ],
)
def test_parts_that_are_misplaced_repeated_or_nameless_are_refused_by_name(parts, loc):
    with pytest.raises(InvalidRequest) as caught:
        parse_form(form(*parts), B)
    assert caught.value.issues[0].loc == loc


def test_too_many_parts_and_too_long_headers_are_refused():
    many = [(f"a{i}", "x/y", b"") for i in range(MAX_PARTS)]
    with pytest.raises(MalformedBody, match="parts"):
        parse_form(form(REQUEST, *many), B)
    with pytest.raises(MalformedBody, match="headers"):
        parse_form(form(("request", "x/" + "y" * MAX_PART_HEADERS, b"")), B)


def test_an_encoded_part_is_refused_and_not_misread():
    body = form(("request", "application/json\r\nContent-Transfer-Encoding: base64", b"e30="))
    with pytest.raises(MalformedBody, match="Content-Transfer-Encoding"):
        parse_form(body, B)


@given(st.binary(max_size=400), st.integers(0, 3))
def test_any_bytes_are_parsed_or_refused_and_never_raise_anything_else(noise, kind):
    whole = form(REQUEST, ("asset-0", "image/png", b"xyz"))
    at = len(noise) * 7 % len(whole)
    body = [noise, whole + noise, whole[:at] + noise + whole[at:], noise + whole][kind]
    with contextlib.suppress(MalformedBody, InvalidRequest):
        parse_form(body, B)
