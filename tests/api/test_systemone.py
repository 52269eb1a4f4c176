"""The System One dialect: what is accepted, and by what name everything else is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.api.issues import MAX_ISSUES
from jevserve.api.systemone import MAX_QUESTIONS, OFFICIAL_FIELDS, parse
from jevserve.decisions.request import Choice, DecisionRequest, Media, Noul, Score
from jevserve.errors import InvalidRequest, UsageError
from tests.api.forms import jpeg, png

EXTENSIONS = (
    *("cache_salt", "x_deadline_ms", "user", "session_id", "priority"),
    *("provider", "trace", "images", "videos"),
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "issues.json").read_text())


def body(**fields: object) -> dict:
    return {"state": "st", "questions": {"n": {"type": "noul", "instructions": "x"}}, **fields}


def ask(question: object) -> dict:
    return body(questions={"q": question})


def issues(value: object, **kwargs) -> list[tuple]:
    with pytest.raises(InvalidRequest) as caught:
        parse(value, **kwargs)
    return [(i.loc, i.type) for i in caught.value.issues]


def test_the_smallest_request_of_the_sdk_is_read():
    request = parse(
        {
            "state": "st",
            "model": "jev-latest",
            "questions": {
                "n": {"type": "noul", "instructions": "x"},
                "c": {"type": "choice", "criteria": {"a": None, "b": "d"}},
                "s": {"type": "score", "criteria": ["lo", "hi"]},
            },
        }
    )
    assert request == DecisionRequest(
        state="st",
        model="jev-latest",
        questions=(
            ("n", Noul("x")),
            ("c", Choice((("a", None), ("b", "d")))),
            ("s", Score(("lo", "hi"))),
        ),
    )


texts = st.text(max_size=8) | st.dictionaries(st.text(max_size=4), st.integers(), max_size=2)
texts |= st.lists(st.text(max_size=4), max_size=2)
maybe = st.none() | texts
questions = (
    st.builds(Noul, instructions=texts, true=maybe, false=maybe)
    | st.builds(
        Choice,
        options=st.dictionaries(st.text(max_size=4), maybe, min_size=1, max_size=9).map(
            lambda d: tuple(d.items())
        ),
        instructions=maybe,
    )
    | st.builds(
        Score,
        levels=st.lists(texts, min_size=1, max_size=10).map(tuple),
        instructions=maybe,
    )
)
requests = st.builds(
    DecisionRequest,
    state=texts,
    questions=st.dictionaries(st.text(min_size=1, max_size=9), questions, min_size=1).map(
        lambda d: tuple(d.items())
    ),
    model=st.none() | st.text(max_size=9),
    cache_salt=st.none() | st.text(min_size=1, max_size=9).filter(str.strip),
    deadline_ms=st.none() | st.integers(1, 600_000),
)


def written(request: DecisionRequest, omit: bool) -> dict:
    """The body that asks for ``request``; absent texts are left out or written as null."""

    def question(q: Noul | Choice | Score) -> dict:
        if isinstance(q, Choice):
            criteria: object = dict(q.options)
        elif isinstance(q, Score):
            criteria = list(q.levels)
        else:
            sides = {"true": q.true, "false": q.false}
            criteria = {k: v for k, v in sides.items() if v is not None or not omit}
        out = {"type": type(q).__name__.lower(), "criteria": criteria}
        if q.instructions is not None or not omit:
            out["instructions"] = q.instructions
        return out

    extras = {
        "model": request.model,
        "cache_salt": request.cache_salt,
        "x_deadline_ms": request.deadline_ms,
    }
    return {
        "state": request.state,
        "questions": {id: question(q) for id, q in request.questions},
        **{k: v for k, v in extras.items() if v is not None or not omit},
    }


@given(requests, st.booleans())
def test_every_request_survives_being_written_and_read(request, omit):
    assert parse(written(request, omit)) == request


@pytest.mark.parametrize("state", ["", "x", {}, {"a": [1]}, [], [{"role": "user"}]])
def test_a_state_may_be_any_text_object_or_array(state):
    assert parse(body(state=state)).state == state


@pytest.mark.parametrize("criteria", [None, {}, {"true": None}, {"true": "y"}, {"false": ["n"]}])
def test_a_noul_may_leave_out_any_side(criteria):
    question = {"type": "noul", "instructions": "x", "criteria": criteria}
    assert isinstance(parse(ask(question)).questions[0][1], Noul)
    one_sided = {"type": "noul", "criteria": {"false": "n"}}
    assert parse(ask(one_sided)).questions[0][1] == Noul(None, None, "n")


def test_one_option_and_one_level_are_enough_and_names_may_be_anything():
    assert parse(ask({"type": "choice", "criteria": {"": None}}))
    assert parse(ask({"type": "score", "criteria": [{}]}))
    names = ["", "1", "a.b", "A.b", "환불 🙂"]
    request = parse(ask({"type": "choice", "criteria": dict.fromkeys(names)}))
    assert [n for n, _ in request.questions[0][1].options] == names


def test_the_largest_documented_question_is_read_and_one_more_is_refused():
    assert parse(ask({"type": "choice", "criteria": {str(i): None for i in range(255)}}))
    assert parse(ask({"type": "score", "criteria": ["x"] * 10}))
    assert issues(ask({"type": "choice", "criteria": {str(i): None for i in range(256)}})) == [
        (("body", "questions", "q", "choice", "criteria"), "too_long")
    ]
    assert issues(ask({"type": "score", "criteria": ["x"] * 11})) == [
        (("body", "questions", "q", "score", "criteria"), "too_long")
    ]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: c["name"])
def test_a_wrong_request_has_its_golden_issues(case):
    with pytest.raises(InvalidRequest) as caught:
        parse(case["body"])
    found = [{"loc": list(i.loc), "msg": i.msg, "type": i.type} for i in caught.value.issues]
    assert found == case["issues"]


def test_unknown_fields_are_ignored_at_every_level():
    question = {"type": "choice", "criteria": {"a": None}, "x_note": 1, "weight": [2]}
    request = parse(body(questions={"q": question}, x_trace_id="t", seed=7, stream=True))
    assert request.questions == (("q", Choice((("a", None),))),)


def test_a_strict_service_refuses_unknown_fields_as_the_hosted_one_does():
    assert parse(body(model="m"), strict=True)
    with pytest.raises(UsageError, match=r"Invalid request\..*'seed'"):
        parse(body(seed=7), strict=True)


def test_too_many_questions_are_refused_by_count():
    question = {"type": "noul", "instructions": "x"}
    many = {str(i): question for i in range(MAX_QUESTIONS + 1)}
    assert issues(body(questions=many)) == [(("body", "questions"), "too_long")]


def test_issues_are_listed_up_to_a_bound():
    found = issues(body(questions={str(i): None for i in range(1000)}))
    assert len(found) == MAX_ISSUES + 1
    assert found[-1] == (("body",), "truncated")


def test_the_deadline_header_wins_over_the_body():
    assert parse(body(x_deadline_ms=5), deadline_header=None).deadline_ms == 5
    assert parse(body(x_deadline_ms=5), deadline_header=" 700 ").deadline_ms == 700


@pytest.mark.parametrize("value", ["", "0", "600001", "-1", "1.5", "1e3", "²", "9" * 5000, "soon"])
def test_a_deadline_header_that_is_no_deadline_is_refused_by_name(value):
    assert issues(body(), deadline_header=value) == [
        (("header", "x-jevserve-deadline-ms"), "int_range")
    ]


def asset(data: bytes = png(), **fields: object) -> dict:
    return {"type": "image", "data_base64": base64.b64encode(data).decode(), **fields}


def test_images_are_read_from_base64_and_from_parts():
    assets = {"<a>": asset(format="png"), "<b>": asset(jpeg(), format="jpg"), "<c>": {"part": "p"}}
    request = parse(body(assets=assets, state="<a><b><c>"), parts={"p": png(400, 300)})
    assert request.media == (
        Media("<a>", "image/png", png()),
        Media("<b>", "image/jpeg", jpeg()),
        Media("<c>", "image/png", png(400, 300)),
    )


def test_with_a_part_the_base64_is_ignored():
    assets = {"<a>": {"part": "p", "data_base64": 5}}
    assert parse(body(assets=assets, state="<a>"), parts={"p": png()}).media


@pytest.mark.parametrize(
    ("assets", "loc", "type"),
    [
        ({}, (), "too_short"),
        ([], (), "dict_type"),
        ({f"<{i}>": {} for i in range(65)}, (), "too_long"),
        ({"": {"part": "p"}}, ("",), "string_too_short"),
        ({"<a>": "x"}, ("<a>",), "dict_type"),
        ({"<a>": {}}, ("<a>",), "missing"),
        ({"<a>": asset(type="video")}, ("<a>", "type"), "literal_error"),
        ({"<a>": asset(type=["image"])}, ("<a>", "type"), "literal_error"),
        ({"<a>": asset(format="gif")}, ("<a>", "format"), "literal_error"),
        ({"<a>": asset(data_base64="!")}, ("<a>", "data_base64"), "base64"),
        ({"<a>": asset(data_base64="é")}, ("<a>", "data_base64"), "base64"),
        ({"<a>": asset(data_base64=7)}, ("<a>", "data_base64"), "string_type"),
        ({"<a>": asset(b"no image")}, ("<a>",), "image"),
        ({"<a>": asset(png(10, 10))}, ("<a>",), "image"),
        ({"<a>": {"part": "other"}}, ("<a>", "part"), "part"),
        ({"<a>": {"part": 5}}, ("<a>", "part"), "string_type"),
    ],
)
def test_a_wrong_asset_is_refused_by_name(assets, loc, type):
    found = issues(body(assets=assets, state="<a>"), parts={})
    assert found == [(("body", "assets", *loc), type)]


@pytest.mark.parametrize(
    "place",
    [
        {"state": ["about", {"picture": "<a>"}]},
        {"questions": {"q": {"type": "noul", "instructions": "Is <a> a dog?"}}},
        {"questions": {"q": {"type": "choice", "criteria": {"x": ["<a>"], "y": None}}}},
        {"questions": {"q": {"type": "score", "criteria": ["like <a>", "else"]}}},
    ],
)
def test_an_image_is_used_where_any_text_holds_its_placeholder(place):
    assert parse(body(assets={"<a>": asset()}, **place)).media


def test_an_image_that_no_text_uses_is_refused_by_its_placeholder():
    keys = {"q": {"type": "choice", "criteria": {"<a>": None}}}
    assets = {"<a>": asset(), "<b>": asset()}
    assert issues(body(assets=assets, state="<b><", user="<a>", questions=keys)) == [
        (("body", "assets", "<a>"), "asset_unused")
    ]


def test_a_text_that_names_no_asset_is_text():
    state = "<image:0123456789abcdef0123456789abcdef> and <a>"
    assert parse(body(assets={"<a>": asset()}, state=state)).state == state


def test_images_count_at_every_use():
    one = png() + bytes(10 * 2**20)
    assets = {"<a>": {"part": "p"}, "<b>": asset()}
    assert parse(body(assets=assets, state="<a><b><a><a>"), parts={"p": one}).media
    assert issues(body(assets=assets, state="<a><b><a><a><a>"), parts={"p": one}) == [
        (("body", "assets"), "too_long")
    ]


def test_a_part_that_is_not_there_or_not_used_is_refused():
    assert issues(body(assets={"<a>": {"part": "p"}})) == [
        (("body", "assets", "<a>", "part"), "part")
    ]
    assert issues(body(), parts={"p": b""}) == [(("body", "p"), "part_unused")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from([*sorted(OFFICIAL_FIELDS), *EXTENSIONS])
odd_questions = st.dictionaries(
    st.text(max_size=3),
    json_values
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["noul", "choice", "score", "box"]) | json_values},
        optional={"instructions": json_values, "criteria": json_values},
    ),
    max_size=3,
)


@given(
    json_values | st.dictionaries(fields, json_values),
    st.none() | odd_questions,
    st.booleans(),
)
def test_any_json_is_read_or_refused_and_never_raises_anything_else(value, odd, strict):
    if odd is not None and isinstance(value, dict):
        value = {"state": "s", **value, "questions": odd}
    try:
        request = parse(value, strict=strict)
    except (InvalidRequest, UsageError):
        return
    assert [id for id, _ in request.questions] == list(value["questions"])
