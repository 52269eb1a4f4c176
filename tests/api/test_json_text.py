"""Strict JSON: the same values as the standard library, fewer bodies."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.api import json_text
from jevserve.api.json_text import MAX_DEPTH, parse_json
from jevserve.errors import InvalidRequest

text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('[]{}",\\'), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=200,
)


def refusal(data: bytes) -> tuple[tuple, str, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_json(data)
    (issue,) = caught.value.issues
    assert issue.loc[0] == "body"
    return issue.loc, issue.type, issue.msg


@given(values, st.booleans())
def test_every_value_comes_back_as_it_was_written(value, ascii):
    assert parse_json(json.dumps(value, ensure_ascii=ascii).encode()) == value


@given(values, st.booleans())
def test_brackets_are_counted_outside_strings_alone(value, ascii):
    document = json.dumps(value, ensure_ascii=ascii).encode()
    quoted, inside = json_text._structure(document, False)
    bare = json_text._STRING.sub(b"", quoted).replace(b",", b"")
    assert not inside

    def brackets(v: object) -> int:
        if isinstance(v, dict):
            return 2 + sum(map(brackets, v.values()))
        return 2 + sum(map(brackets, v)) if isinstance(v, list) else 0

    assert len(bare) == brackets(value)


@given(
    st.integers(MAX_DEPTH - 10, MAX_DEPTH + 10),
    st.integers(0, 3),
    st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"[":', "}]"), ('["]",', "]")]),
)
def test_depth_is_allowed_up_to_the_limit_and_not_one_further(depth, siblings, brackets):
    opening, closing = brackets
    levels = 2 if opening.startswith("[{") else 1
    repeat = depth // levels
    body = opening * repeat + "1" + closing * repeat
    body = "[" + ",".join([body] * (siblings + 1)) + "]"
    if levels * repeat + 1 <= MAX_DEPTH:
        parse_json(body.encode())
    else:
        assert refusal(body.encode())[1] == "json_too_deep"


@pytest.mark.parametrize("bracket", [b"[", b'{"a":', b"[{", b'["",'])
def test_a_million_open_brackets_are_refused_and_not_recursed_into(bracket):
    assert refusal(bracket * 1_000_000)[1] in ("json_too_deep", "json_too_long")


def test_too_many_values_are_refused_before_they_are_built(monkeypatch):
    monkeypatch.setattr(json_text, "MAX_VALUES", 1000)
    monkeypatch.setattr(json_text, "LARGE", 1000)
    assert refusal(b"[" + b"0," * 3000 + b"0]")[1] == "json_too_long"
    assert refusal(b'"["[' * 3000)[1] == "json_too_long"
    assert parse_json(b'["' + b"0," * 3000 + b'"]') == ["0," * 3000]


def outcome(data: bytes) -> object:
    try:
        return parse_json(data)
    except InvalidRequest as error:
        return [(i.loc, i.type, i.msg) for i in error.issues]


documents = st.tuples(values, st.booleans()).map(lambda v: json.dumps(v[0], ensure_ascii=v[1]))
broken = st.text(st.sampled_from('[]{}",:\\\n u0d8 1e-.éN\u0661'), max_size=120)


@given(
    (documents | broken).map(str.encode)
    | st.tuples(documents.map(str.encode), st.integers(0, 200), st.binary(max_size=3)).map(
        lambda v: v[0][: v[1]] + v[2] + v[0][v[1] :]
    )
)
def test_a_large_body_is_read_as_a_small_one_is(data):
    small = outcome(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "LARGE", 0)
        patch.setattr(json_text, "STEP", 7)
        large = outcome(data)
    said = str(large)
    if "in a row" in said:
        assert len(data) >= 7
    elif "digits 0 to 9" in said:
        assert "json_invalid" in str(small)
    else:
        assert json.dumps(large) == json.dumps(small)


@pytest.mark.parametrize(
    "run", [b" " * 600_000, b"1" * 600_000, b"1." + b"0" * 600_000, b"\n" * 600_000]
)
def test_no_run_of_digits_or_blanks_takes_long(run):
    assert refusal(b'{"a":' + run + b"1}")[1] == "json_too_long"
    assert parse_json(b'{"a":"' + run.replace(b"\n", b" ") + b'"}')


def test_strings_full_of_escapes_are_refused_before_they_are_read():
    assert refusal(b'["' + b"\\n" * 2**20 + b'\\n"]')[1] == "json_too_long"
    assert parse_json(b'["' + b"\\n" * 1000 + b'"]')


def test_a_large_number_in_other_digits_than_ours_is_no_number():
    body = '{"a": "%s", "b": 1\u0661}' % ("x" * json_text.LARGE)
    assert refusal(body.encode())[1] == "json_invalid"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"{", "line 1, column 2"),
        (b'{\n  "a": 1,\n  "b" 2\n}', "line 3, column 7"),
        ('{\n"é": "'.encode() + b'\xff"}', "line 2, column 7"),
        (b'{"a": 1}\n\nx', "line 3, column 1"),
    ],
)
def test_what_is_not_json_is_pointed_at_by_line_and_column(body, where):
    assert where in refusal(body)[2]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(number):
    _, type, msg = refusal(f'{{"state": [{number}]}}'.encode())
    assert type == "json_invalid"
    assert number in msg


def test_an_integer_of_any_length_is_refused_or_harmless():
    assert parse_json(b"1" * 4300) == int("1" * 4300)
    assert refusal(b"1" * 5000)[1] == "json_invalid"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Expecting value"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": "\x01"}', "control character"),
        (b"{'a': 1}", "double quotes"),
    ],
)
def test_what_is_not_json_is_refused_saying_why(body, said):
    _, type, msg = refusal(body)
    assert type == "json_invalid"
    assert said in msg


def test_half_a_surrogate_pair_is_refused_by_the_name_of_its_field():
    assert refusal(rb'{"state": ["x", {"k": "a\ud83d"}]}')[0] == ("body", "state", 1, "k")
    assert refusal(rb'{"questions": {"\udc00": 1}}')[0] == ("body", "questions", "\\udc00")
    assert parse_json(rb'["\ud83d\ude42", "\\ud83d"]') == ["🙂", "\\ud83d"]


def test_a_repeated_key_keeps_its_last_value():
    assert parse_json(b'{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


@given(st.binary(max_size=300) | st.text(st.sampled_from('[]{}",:\\u0d8 1e'), max_size=200))
def test_any_bytes_are_parsed_or_refused_and_never_raise_anything_else(data):
    data = data if isinstance(data, bytes) else data.encode()
    with contextlib.suppress(InvalidRequest):
        json.dumps(parse_json(data), ensure_ascii=False, allow_nan=False).encode()
