"""The client: what it sends, what it gives back, and one error for everything else."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from jevserve.client import Client, ServiceError

Handler = Callable[[httpx.Request], httpx.Response]

ANSWER = {"model": "m", "answers": {"q": {"type": "noul", "noul": 0.5}}, "usage": {}}


def client(handler: Handler, url: str = "http://service.test", **options: str) -> Client:
    """A client whose requests go to ``handler``."""
    made = Client(url, **options)
    made._http = httpx.Client(headers=made._http.headers, transport=httpx.MockTransport(handler))
    return made


def test_a_decision_is_posted_under_the_services_prefix() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=ANSWER)

    with client(handle, "http://service.test/prefix/", api_key="k") as service:
        answer = service.decide({"a": "ü"}, {"q": {"type": "noul"}}, model="m", cache_salt="s")

    (request,) = seen
    assert answer == ANSWER
    assert (request.method, str(request.url)) == (
        "POST",
        "http://service.test/prefix/v1/systemone",
    )
    assert request.headers["authorization"] == "Bearer k"
    assert json.loads(request.content) == {
        "state": {"a": "ü"},
        "questions": {"q": {"type": "noul"}},
        "cache_salt": "s",
        "model": "m",
    }


def test_without_a_key_and_a_model_neither_is_sent() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        assert "model" not in json.loads(request.content)
        return httpx.Response(200, json=ANSWER)

    with client(handle) as service:
        service.decide("s", {"q": {"type": "noul"}})


@pytest.mark.parametrize("answers", [{}, {"other": {}}, None, []])
def test_an_answer_without_a_question_that_was_asked_is_none(answers: object) -> None:
    with (
        client(lambda _: httpx.Response(200, json={"answers": answers})) as service,
        pytest.raises(ServiceError, match="left questions unanswered"),
    ):
        service.decide("s", {"q": {"type": "noul"}})


def test_models_are_listed() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("GET", "/v1/models")
        return httpx.Response(200, json={"models": [{"name": "m"}]})

    with client(handle) as service:
        assert service.models() == [{"name": "m"}]


@pytest.mark.parametrize("status", [400, 401, 422, 429, 500, 503, 307])
def test_a_refusal_says_its_status_and_what_the_service_said(status: int) -> None:
    with (
        client(lambda _: httpx.Response(status, text="because of this")) as service,
        pytest.raises(ServiceError, match=f"^{status}: because of this"),
    ):
        service.decide("s", {})


def test_a_refusal_of_any_length_is_cut() -> None:
    with (
        client(lambda _: httpx.Response(500, text="x" * 100_000)) as service,
        pytest.raises(ServiceError) as failed,
    ):
        service.decide("s", {})

    assert len(failed.value.message) < 2_100


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"{}", b'"answers"', b"\xff"])
def test_an_answer_of_something_else_is_no_decision_service(body: bytes) -> None:
    with client(lambda _: httpx.Response(200, content=body)) as service:
        with pytest.raises(ServiceError, match="not a decision service"):
            service.decide("s", {})
        with pytest.raises(ServiceError, match="not a decision service"):
            service.models()


def test_a_service_that_cannot_be_reached_is_named() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with (
        client(handle) as service,
        pytest.raises(ServiceError, match=r"http://service\.test did not answer .*refused"),
    ):
        service.decide("s", {})


@pytest.mark.parametrize("url", ["service.test", "http://[", "ftp://service.test", "http://a:b"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with Client(url) as service, pytest.raises(ServiceError, match="did not answer"):
        service.decide("s", {})
