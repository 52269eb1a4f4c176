"""A running service: answers of every kind, and none at all."""

from __future__ import annotations

import socket
import time
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from jevserve import __version__
from jevserve.doctor.findings import Finding, Verdict
from jevserve.doctor.service import examine

GOOD: dict[str, tuple[int, Any]] = {
    "/healthz": (200, {"status": "ok"}),
    "/openapi.json": (200, {"info": {"version": __version__}}),
    "/readyz": (200, {"ready": True, "details": {"m": "1 of 1 replicas ready"}}),
    "/v1/models": (200, {"models": [{"name": "m"}]}),
    "/v1/systemone": (200, {"answers": {}, "x_jevserve": {"total_ms": 3.2}}),
}


def judged(
    answers: dict[str, tuple[int, Any]] | None = None, key: str | None = None, ahead: float = 0.0
) -> dict[str, Finding]:
    known = GOOD | (answers or {})

    def answer(request: httpx.Request) -> httpx.Response:
        status, body = known[request.url.path]
        headers = {"date": formatdate(time.time() + ahead, usegmt=True), "x-request-id": "r-1"}
        if isinstance(body, Exception):
            raise body
        content = {"text": body} if isinstance(body, str) else {"json": body}
        return httpx.Response(status, headers=headers, **content)

    findings = list(examine("http://service:8795", key, httpx.MockTransport(answer)))
    assert key is None or key not in " ".join(f.seen + f.remedy for f in findings)
    return {f.check: f for f in findings}


def bad(findings: dict[str, Finding]) -> dict[str, Verdict]:
    return {c: f.verdict for c, f in findings.items() if f.verdict is not Verdict.OK}


def test_a_good_service_is_fine_and_says_how_long_a_decision_took() -> None:
    found = judged()

    assert bad(found) == {}
    assert "3 of them in the service" in found["decision"].seen
    assert found["models"].seen == "m"


@pytest.mark.parametrize(
    ("answers", "check", "verdict"),
    [
        ({"/healthz": (404, "nginx")}, "reachable", Verdict.PROBLEM),
        ({"/healthz": (302, "")}, "reachable", Verdict.PROBLEM),
        ({"/openapi.json": (200, {"info": {"version": "0.0.1"}})}, "version", Verdict.WARNING),
        ({"/openapi.json": (200, ["odd"])}, "version", Verdict.SKIPPED),
        ({"/readyz": (503, {"details": {"m": "0 of 1 replicas ready"}})}, "ready", Verdict.PROBLEM),
        (
            {"/readyz": (200, {"details": {"m": "1 of 1", "n": "0 of 1 replicas ready"}})},
            "ready",
            Verdict.WARNING,
        ),
        ({"/v1/models": (200, "<html>")}, "models", Verdict.PROBLEM),
        ({"/v1/models": (401, {"detail": "no"})}, "key", Verdict.PROBLEM),
        ({"/v1/systemone": (500, {"detail": {"message": "boom"}})}, "decision", Verdict.PROBLEM),
        ({"/v1/systemone": (200, httpx.ReadTimeout("slow"))}, "v1/systemone", Verdict.PROBLEM),
    ],
)
def test_what_is_wrong_with_a_service_is_named(
    answers: dict[str, Any], check: str, verdict: Verdict
) -> None:
    assert judged(answers)[check].verdict is verdict


@pytest.mark.parametrize("key", ["s3cret\nkey", "“s3cret”"])
def test_a_key_that_cannot_be_sent_is_told_unseen(key: str) -> None:
    found = judged(key=key)

    assert bad(found) == {"key": Verdict.PROBLEM}
    assert "s3cret" not in found["key"].seen


def test_a_key_that_is_missing_and_one_that_is_wrong_are_told_apart() -> None:
    refused = {"/v1/models": (401, {"detail": "no"})}

    assert "--key" in judged(refused)["key"].remedy
    assert "does not know this key" in judged(refused, key="s3cret-key")["key"].seen
    assert judged(refused)["decision"].verdict is Verdict.SKIPPED


def test_a_failed_decision_names_its_request_id() -> None:
    found = judged({"/v1/systemone": (500, {"detail": {"message": "boom"}})})

    assert "boom" in found["decision"].seen
    assert "r-1" in found["decision"].remedy


def test_clocks_that_are_apart_are_told() -> None:
    assert bad(judged(ahead=300)) == {"clock": Verdict.WARNING}
    assert "behind" in judged(ahead=-300)["clock"].seen


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("http://127.0.0.1:{port}", "nothing listens on 127.0.0.1:"),
        ("http://no-such-host.invalid", "no-such-host.invalid"),
        ("127.0.0.1", "http"),
        ("ftp://127.0.0.1", "http"),
        ("http://[::1", "URL"),
        ("", "http"),
    ],
)
def test_an_address_where_nothing_answers_is_one_problem_with_a_remedy(url: str, seen: str) -> None:
    (finding,) = examine(url.format(port=free_port()), None)

    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen + finding.remedy
