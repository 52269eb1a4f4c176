"""The exact bytes of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jevserve.api.refusals import BodyTimeout, MalformedBody, MethodNotAllowed, UnknownPath
from jevserve.api.responses import (
    MAX_RETRY_AFTER_MS,
    error_response,
    internal_error,
    json_response,
)
from jevserve.errors import (
    AuthenticationError,
    BodyTooLarge,
    CheckpointError,
    EngineFailed,
    InvalidRequest,
    Issue,
    JevserveError,
    MaxTokensExceeded,
    Overloaded,
    RateLimited,
    SettingsError,
    TransportError,
    UnsupportedBody,
    UsageError,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "errors.json").read_text())

ERRORS: dict[str, JevserveError] = {
    "issues": InvalidRequest(
        [
            Issue(("body", "state"), "Field required", "missing"),
            Issue(("body", "questions", "q.1", "score", "criteria", 1), "no level", "text_type"),
        ]
    ),
    "unknown model": UsageError("Unknown model: nope"),
    "tokens": MaxTokensExceeded("state and question 'q' take 40 tokens; the model reads 32"),
    "malformed body": MalformedBody("cut short"),
    "no key": AuthenticationError("no API key"),
    "path": UnknownPath("Nothing is served at '/x'"),
    "method": MethodNotAllowed("/v1/models answers GET", "GET, HEAD, OPTIONS"),
    "slow body": BodyTimeout("too slow"),
    "large body": BodyTooLarge("too large"),
    "body type": UnsupportedBody("send JSON"),
    "quota": RateLimited("quota used up", retry_after_ms=150, reason="quota"),
    "overload": Overloaded("queue is full", retry_after_ms=1001, reason="queue"),
    "long wait": Overloaded("queue is full", retry_after_ms=90_000, reason="queue"),
    "engine": EngineFailed("CUDA error at 0xdead"),
    "checkpoint": CheckpointError("/models/secret is broken"),
    "settings": SettingsError("http.port is 0"),
    "transport": TransportError("10.0.0.7 refused"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_its_golden_shape(name):
    response = error_response(ERRORS[name], "req_1")
    headers = {
        k: v for k, v in response.headers.items() if k not in ("content-length", "content-type")
    }
    assert response.headers["content-type"] == "application/json"
    assert {
        "status": response.status_code,
        "headers": headers,
        "body": json.loads(bytes(response.body)),
    } == GOLDEN[name]


@pytest.mark.parametrize("name", ["engine", "checkpoint", "settings", "transport"])
def test_a_failure_inside_is_told_by_request_id_alone(name):
    body = bytes(error_response(ERRORS[name], "req_1").body).decode()
    assert "req_1" in body
    assert ERRORS[name].message not in body


def test_an_unforeseen_failure_says_nothing_but_its_id():
    response = internal_error("req_2")
    assert response.status_code == 500
    assert json.loads(bytes(response.body))["detail"]["error_type"] == "internal_error"


def test_a_wait_is_kept_within_what_clients_sit_out():
    response = error_response(ERRORS["long wait"], "req_1")
    assert int(response.headers["retry-after-ms"]) == MAX_RETRY_AFTER_MS
    assert int(response.headers["retry-after"]) * 1000 == MAX_RETRY_AFTER_MS


def test_long_names_and_messages_are_cut():
    error = InvalidRequest.at(("body", "x" * 10_000), "y" * 10_000)
    assert len(bytes(error_response(error, "req_1").body)) < 4_000


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_never_leaves(number):
    with pytest.raises(EngineFailed):
        json_response({"answers": [number]})


def test_text_is_sent_as_utf_8():
    assert bytes(json_response({"k": "환불 🙂"}).body) == '{"k":"환불 🙂"}'.encode()
