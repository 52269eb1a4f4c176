"""The clients: what they send, when they try again, what they give back, and one error."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import httpx
import pytest

import jevserve
from jevserve.api.app import build_app
from jevserve.client import (
    AsyncClient,
    ChoiceAnswer,
    Client,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    ServiceError,
    choice,
    noul,
    score,
)
from jevserve.client.call import Attempt, Request, Wait, call
from jevserve.errors import UsageError
from tests.api.live import serve
from tests.fakes import FakeService

Handler = Callable[[httpx.Request], httpx.Response]
Decide = Callable[..., Decision]

QUESTION = {"q": {"type": "noul", "instructions": "?"}}
ANSWER = {"model": "m", "answers": {"q": {"type": "noul", "noul": 0.5}}, "usage": {}}


@pytest.fixture(params=["Client", "AsyncClient"])
def decide(request: pytest.FixtureRequest) -> Decide:
    """Asks ``QUESTION`` of a handler, through either client."""

    def blocking(handler: Handler, url: str = "http://service.test", **options: Any) -> Decision:
        asked = options.pop("ask", {})
        with Client(url, transport=httpx.MockTransport(handler), **options) as client:
            return client.decide(**({"state": "s", "questions": QUESTION} | asked))

    def awaited(handler: Handler, url: str = "http://service.test", **options: Any) -> Decision:
        asked = options.pop("ask", {})

        async def ask() -> Decision:
            transport = httpx.MockTransport(handler)
            async with AsyncClient(url, transport=transport, **options) as client:
                return await client.decide(**({"state": "s", "questions": QUESTION} | asked))

        return asyncio.run(ask())

    return blocking if request.param == "Client" else awaited


def answering(*responses: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """A handler that answers one after the other, and what it was asked."""
    left, seen = list(responses), []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        response = left.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    return handle, seen


def refused(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(
        status,
        json={"detail": {"error_type": "t", "message": "because of this"}},
        headers={"x-typesafe-request-id": "req_1"}
        | {k.replace("_", "-"): headers[k] for k in headers},
    )


def test_the_package_offers_the_clients_names() -> None:
    assert jevserve.Client is Client
    assert jevserve.choice is choice
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jevserve.nothing  # noqa: B018


def test_a_decision_is_posted_under_the_services_prefix(decide: Decide) -> None:
    handle, seen = answering(httpx.Response(200, json=ANSWER))

    answer = decide(
        handle,
        "http://service.test/prefix/",
        api_key="k",
        ask={"state": {"a": "ü"}, "model": "m", "deadline_ms": 500, "cache_salt": "s"},
    )

    (request,) = seen
    assert answer.raw == ANSWER
    assert (request.method, str(request.url)) == (
        "POST",
        "http://service.test/prefix/v1/systemone",
    )
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == {
        "state": {"a": "ü"},
        "questions": QUESTION,
        "cache_salt": "s",
        "model": "m",
        "x_deadline_ms": 500,
    }


def test_without_a_key_and_a_model_neither_is_sent(decide: Decide) -> None:
    handle, seen = answering(httpx.Response(200, json=ANSWER))

    decide(handle)

    assert "authorization" not in seen[0].headers
    assert json.loads(seen[0].content) == {"state": "s", "questions": QUESTION}


def test_every_kind_of_answer_is_typed(decide: Decide) -> None:
    answers = {
        "c": {
            "type": "choice",
            "choice": "b",
            "confidence": 0.5,
            "probabilities": {"a": 0.25, "b": 0.75},
        },
        "n": {"type": "noul", "noul": 1},
        "s": {
            "type": "score",
            "score": 0.9,
            "confidence": 0.8,
            "legend": {"1": {"deep": "x"}, "0": "lo"},
            "probabilities": {"1": 0.9, "0": 0.1},
        },
    }
    body = {
        "model": "m",
        "answers": answers,
        "usage": {"input_tokens": 3},
        "x_jevserve": {"rows": 2},
    }
    handle, _ = answering(httpx.Response(200, json=body, headers={"x-typesafe-request-id": "r"}))
    questions = {
        "s": score(["lo", {"deep": "x"}]),
        "c": choice(["a", "b"]),
        "n": noul("?"),
    }

    decision = decide(handle, ask={"questions": questions})

    assert list(decision.answers) == ["s", "c", "n"]
    assert decision["c"] == ChoiceAnswer("b", 0.5, {"a": 0.25, "b": 0.75})
    assert decision["n"] == NoulAnswer(1.0)
    assert decision["s"] == ScoreAnswer(0.9, 0.8, ["lo", {"deep": "x"}], [0.1, 0.9])
    assert (decision.model, decision.request_id) == ("m", "r")
    assert (decision.usage, decision.timings) == (body["usage"], body["x_jevserve"])


def test_questions_are_made_from_ordinary_arguments() -> None:
    assert choice(["a", "b"], "Which?") == {
        "type": "choice",
        "instructions": "Which?",
        "criteria": {"a": None, "b": None},
    }
    assert choice({"a": "first", "b": None}) == {
        "type": "choice",
        "criteria": {"a": "first", "b": None},
    }
    assert noul("Late?") == {"type": "noul", "instructions": "Late?"}
    assert noul(true="late") == {"type": "noul", "criteria": {"true": "late"}}
    assert score(["lo", "hi"], {"ask": "much?"}) == {
        "type": "score",
        "instructions": {"ask": "much?"},
        "criteria": ["lo", "hi"],
    }
    with pytest.raises(ValueError, match="twice"):
        choice(["a", "a"])
    with pytest.raises(ValueError, match="needs instructions"):
        noul()


@pytest.mark.parametrize(
    "answers",
    [
        {},
        None,
        [],
        {"other": {"type": "noul", "noul": 0.5}},
        {"q": None},
        {"q": {"type": "noul"}},
        {"q": {"type": "noul", "noul": "0.5"}},
        {"q": {"type": "noul", "noul": True}},
        {"q": {"type": "refusal"}},
        {"q": {"type": "choice", "choice": "x", "confidence": 1, "probabilities": {"a": 1}}},
        {"q": {"type": "score", "score": 0, "confidence": 1, "probabilities": {"a": 1}}},
    ],
)
def test_what_is_no_answer_to_every_question_is_an_error(decide: Decide, answers: object) -> None:
    handle, _ = answering(httpx.Response(200, json={"answers": answers}))

    with pytest.raises(ServiceError, match="answered wrongly"):
        decide(handle)


def test_models_are_listed() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("GET", "/v1/models")
        return httpx.Response(200, json={"models": [{"name": "m"}]})

    async def listed() -> list[dict[str, Any]]:
        async with AsyncClient(transport=httpx.MockTransport(handle)) as client:
            return await client.models()

    with Client(transport=httpx.MockTransport(handle)) as client:
        assert client.models() == [{"name": "m"}] == asyncio.run(listed())


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_what_a_retry_may_mend_is_tried_again(
    decide: Decide, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jevserve.client.call.FIRST_WAIT_S", 0.001)
    handle, seen = answering(
        refused(status, retry_after_ms="1"),
        httpx.ConnectError("refused"),
        httpx.Response(200, json=ANSWER),
    )

    assert decide(handle)["q"] == NoulAnswer(0.5)

    assert [r.headers.get("x-typesafe-retry-count") for r in seen] == [None, "1", "2"]
    assert len({r.content for r in seen}) == 1


@pytest.mark.parametrize("status", [307, 400, 401, 404, 413, 422])
def test_what_no_retry_mends_is_told_at_once(decide: Decide, status: int) -> None:
    handle, seen = answering(refused(status))

    with pytest.raises(ServiceError, match=f"^{status}: because of this") as failed:
        decide(handle)

    assert len(seen) == 1
    assert (failed.value.http_status, failed.value.request_id) == (status, "req_1")


def test_after_the_last_attempt_the_last_refusal_is_told(decide: Decide) -> None:
    handle, seen = answering(*[refused(503, retry_after_ms="1") for _ in range(3)])

    with pytest.raises(ServiceError, match=r"^503: because of this"):
        decide(handle)

    assert len(seen) == 3


def steps_of(*outcomes: httpx.Response | Exception, timeout_s: float = 10.0) -> list[object]:
    """What a call does when the network answers so, on a clock that only waiting moves."""
    now = 0.0
    steps = call(Request("GET", "http://x"), timeout_s, 5, clock=lambda: now, jitter=lambda: 0.0)
    done: list[object] = []
    came: httpx.Response | Exception | None = None
    left = list(outcomes)
    try:
        while True:
            step = steps.send(came)
            if isinstance(step, Wait):
                now += step.seconds
                done.append(step.seconds)
                came = None
            else:
                assert isinstance(step, Attempt)
                assert step.timeout_s == pytest.approx(timeout_s - now)
                came = left.pop(0)
    except (StopIteration, ServiceError) as end:
        return [*done, type(end).__name__]


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after-ms": "150", "retry-after": "9"}, 0.15),
        ({"retry-after": "0.2"}, 0.2),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, 0.5),
        ({"retry-after-ms": "soon"}, 0.5),
        ({"retry-after-ms": "-5"}, 0.0),
        ({}, 0.5),
    ],
)
def test_the_services_advice_on_when_is_kept(headers: dict[str, str], wait: float) -> None:
    done = steps_of(httpx.Response(503, headers=headers), httpx.Response(200))

    assert done == [pytest.approx(wait), "StopIteration"]


def test_without_advice_waits_grow_to_a_bound() -> None:
    done = steps_of(*[httpx.ReadError("gone")] * 6, timeout_s=60)

    assert done == [0.5, 1.0, 2.0, 4.0, 5.0, "ServiceError"]


def test_a_wait_that_would_outlast_the_call_is_not_waited_for() -> None:
    assert steps_of(httpx.Response(503, headers={"retry-after": "60"})) == ["ServiceError"]


def test_the_issues_of_an_invalid_request_are_named_by_their_fields(decide: Decide) -> None:
    detail = [
        {"loc": ["body", "questions", "q", "criteria"], "msg": "no options", "type": "too_short"},
        {"loc": ["body"], "msg": "wrong", "type": "t"},
    ]
    handle, _ = answering(httpx.Response(422, json={"detail": detail}))

    with pytest.raises(ServiceError) as failed:
        decide(handle)

    assert failed.value.message == "422: questions.q.criteria: no options; wrong"
    assert failed.value.issues == (("questions.q.criteria", "no options"), ("", "wrong"))


@pytest.mark.parametrize(
    "body",
    [
        {"error": "because of this"},
        {"error": {"message": "because of this"}},
        {"message": "because of this"},
        {"detail": "because of this"},
    ],
)
def test_other_services_errors_are_understood(decide: Decide, body: object) -> None:
    handle, _ = answering(httpx.Response(400, json=body))

    with pytest.raises(ServiceError, match=r"^400: because of this$"):
        decide(handle)


def test_a_refused_key_says_how_to_give_one(decide: Decide) -> None:
    handle, _ = answering(refused(401))

    with pytest.raises(ServiceError, match="JEVSERVE_API_KEY") as failed:
        decide(handle, api_key="secret-key")

    assert "secret-key" not in str(failed.value)


def test_a_refusal_of_any_length_is_cut(decide: Decide) -> None:
    handle, _ = answering(httpx.Response(400, text="x" * 100_000))

    with pytest.raises(ServiceError) as failed:
        decide(handle)

    assert len(failed.value.message) < 2_100


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"{}", b'"answers"', b"\xff"])
def test_an_answer_of_something_else_is_no_decision_service(decide: Decide, body: bytes) -> None:
    handle, _ = answering(httpx.Response(200, content=body))

    with pytest.raises(ServiceError, match="not a decision service"):
        decide(handle)


def test_a_service_that_cannot_be_reached_is_named(decide: Decide) -> None:
    handle, seen = answering(httpx.ConnectError("refused"))

    with pytest.raises(ServiceError, match=r"^http://service\.test did not answer .*refused"):
        decide(handle, retries=0)

    assert len(seen) == 1


@pytest.mark.parametrize("url", ["service.test", "http://[", "ftp://service.test", "http://a:b"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with Client(url) as client, pytest.raises(ServiceError, match="did not answer"):
        client.decide("s", QUESTION)


@pytest.mark.parametrize("state", [math.nan, object(), "\ud800", {"x": {1, 2}}])
def test_a_state_that_is_no_json_is_not_sent(decide: Decide, state: object) -> None:
    handle, seen = answering()

    with pytest.raises(UsageError, match="cannot be sent as JSON"):
        decide(handle, ask={"state": state})

    assert not seen


def test_both_clients_understand_the_real_http_layer() -> None:
    questions = {
        "c": choice({"a": "first", "b": None}),
        "n": noul("?", true="yes"),
        "s": score(["lo", "hi"]),
    }

    async def ask(url: str) -> Decision:
        async with AsyncClient(url) as client:
            return await client.decide("s", questions)

    with serve(build_app(FakeService())) as url, Client(url) as client:
        decision, again = client.decide("s", questions), asyncio.run(ask(url))
        names = [m["name"] for m in client.models()]
        with pytest.raises(ServiceError, match=r"^422: questions\.c\.") as failed:
            client.decide("s", {"c": choice([])})

    assert decision.answers == again.answers
    assert list(decision.answers) == ["c", "n", "s"]
    assert decision.model in names
    assert failed.value.request_id.startswith("req_")


@pytest.mark.parametrize("key", ["secret-key\n", " secret-key "])
def test_white_space_around_a_key_is_none_of_it(decide: Decide, key: str) -> None:
    handler, seen = answering(httpx.Response(200, json=ANSWER))

    decide(handler, api_key=key)

    assert seen[0].headers["authorization"] == "Bearer secret-key"


@pytest.mark.parametrize("key", ["secret\nkey", "“secret”", "secret\x7f"])
def test_a_key_that_no_header_may_hold_is_refused_unseen(decide: Decide, key: str) -> None:
    handler, seen = answering()

    with pytest.raises(UsageError) as told:
        decide(handler, api_key=key)

    assert "API key" in told.value.message
    assert "secret" not in told.value.message
    assert not seen


@pytest.mark.parametrize(
    "outcome",
    [
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.Response(200, json={}),
        lambda: httpx.Response(200, json=ANSWER | {"answers": {}}),
    ],
)
def test_a_password_in_the_address_is_in_no_error(
    decide: Decide, outcome: Callable[[], httpx.Response | Exception]
) -> None:
    handler, _ = answering(outcome())

    with pytest.raises(ServiceError) as told:
        decide(handler, "http://user:password@service.test/jev", retries=0)

    assert "http://service.test/jev" in told.value.message
    assert "password" not in told.value.message


@pytest.mark.parametrize("advice", ["nan", "inf", "-inf"])
def test_advice_that_is_no_time_is_none(advice: str) -> None:
    steps = call(Request("GET", "http://s"), 30.0, 1, lambda: 0.0, lambda: 0.0)
    next(steps)

    waited = steps.send(refused(503, **{"retry-after-ms": advice, "retry-after": advice}))

    assert waited == Wait(0.5)


def test_a_question_without_a_name_is_refused_before_it_is_sent(decide: Decide) -> None:
    handler, seen = answering()

    with pytest.raises(UsageError, match="1 is no name"):
        decide(handler, ask={"questions": {1: noul("?")}})

    assert not seen


@pytest.fixture
def trickling() -> Iterator[str]:
    """Address of a server whose answer comes byte by byte and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:

        def trickle() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(2**16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                    while connection.send(b" "):
                        time.sleep(0.02)

        pool.submit(trickle)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_answer_that_never_ends_is_waited_for_no_longer_than_said(
    trickling: str, asynchronous: bool
) -> None:
    def blocking() -> None:
        with Client(trickling, timeout_s=0.3, retries=0) as client:
            client.models()

    async def awaited() -> None:
        async with AsyncClient(trickling, timeout_s=0.3, retries=0) as client:
            await client.models()

    began = time.monotonic()
    with pytest.raises(ServiceError, match=r"no whole answer in 0\.3 s"):
        asyncio.run(awaited()) if asynchronous else blocking()

    assert time.monotonic() - began < 5
