"""What must be true of every answer, whatever was asked."""

from __future__ import annotations

import email.parser
import json
import math
import re
import zlib
from typing import Any

from backports import zstd

from tests.hostile.cases import Case
from tests.hostile.exchange import Answer

_REQUEST_ID = re.compile(r"req_[0-9a-f]{24}")

#: Statuses by which a server refuses what is no HTTP: its own, below the application.
BELOW = {0, 400, 408, 411, 413, 414, 431, 501}

#: Statuses of the application; 503 is the answer to more than there is room for.
REFUSALS = {400, 401, 404, 405, 408, 413, 415, 422}


def check(case: Case, answer: Answer) -> None:
    """Raises AssertionError where the answer breaks a promise of the service."""
    ours = "x-typesafe-request-id" in answer.headers
    if case.unclean and not ours:
        assert answer.status in BELOW, answer
        return
    assert ours and _REQUEST_ID.fullmatch(answer.headers["x-typesafe-request-id"]), answer
    assert answer.headers.get("x-request-id"), answer
    if answer.status == 204:
        return
    if answer.status >= 400 and case.method != b"HEAD":
        check_refusal(answer)
    if not case.authorized:
        assert answer.status == 401, answer
    if answer.status == 200 and case.method == b"POST" and not case.unclean:
        check_answers(meaning(case), answer.json())


def check_refusal(answer: Answer) -> None:
    """JSON that says what is wrong, in words."""
    assert answer.status in REFUSALS, answer
    assert answer.headers["content-type"] == "application/json", answer
    detail = answer.json()["detail"]
    if answer.status == 422:
        assert 1 <= len(detail) <= 101
        for issue in detail:
            assert issue["loc"][0] in ("body", "header"), issue
            assert len(issue["msg"]) >= 10 and issue["type"], issue
            assert len(issue["msg"]) <= 1024
        return
    assert detail["error_type"] and 10 <= len(detail["message"]) <= 1024, detail
    assert "Traceback" not in detail["message"] and "/jevserve/" not in detail["message"], detail


def meaning(case: Case) -> dict[str, Any]:
    """The request that an accepted body spells, read by other means than the service's."""
    data = case.body
    headers = {n.lower(): v for n, v in case.headers}
    if case.framing and case.framing[0][0] == b"transfer-encoding":
        data = dechunked(data)
    encodings = {v.strip().lower() for n, v in case.headers if n == b"content-encoding"}
    if encodings & {b"gzip", b"x-gzip"}:
        data = gunzip(data)
    elif b"zstd" in encodings:
        data = zstd.decompress(data)
    kind = headers.get(b"content-type", b"")
    if kind.lower().startswith(b"multipart/"):
        whole = email.parser.BytesParser().parsebytes(b"Content-Type: " + kind + b"\r\n\r\n" + data)
        parts = whole.get_payload()
        assert isinstance(parts, list)
        payload = parts[0].get_payload(decode=True)
        assert isinstance(payload, bytes)
        data = payload
    read: dict[str, Any] = json.loads(data)
    return read


def dechunked(data: bytes) -> bytes:
    out = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        n = int(size.partition(b";")[0], 16)
        out, data = out + rest[:n], rest[n + 2 :]
        if n == 0:
            break
    return out


def gunzip(data: bytes) -> bytes:
    out = b""
    while data:
        member = zlib.decompressobj(wbits=31)
        out += member.decompress(data) + member.flush()
        data = member.unused_data
    return out


def check_answers(request: dict[str, Any], body: dict[str, Any]) -> None:
    """One answer for each question, in order, of its kind, with probabilities that add up."""
    assert list(body["answers"]) == list(request["questions"]), (request, body)
    for id, question in request["questions"].items():
        answer = body["answers"][id]
        kind = question["type"]
        assert answer["type"] == kind
        if kind == "noul":
            assert 0 <= answer["noul"] <= 1
            continue
        criteria = question["criteria"]
        probabilities = answer["probabilities"]
        names = list(criteria) if kind == "choice" else [str(i) for i in range(len(criteria))]
        assert list(probabilities) == names
        values = list(probabilities.values())
        assert all(math.isfinite(p) and 0 <= p <= 1 for p in values)
        assert math.isclose(sum(values), 1, abs_tol=1e-6)
        assert 0 <= answer["confidence"] <= 1
        if kind == "choice":
            assert probabilities[answer["choice"]] == max(values)
        else:
            expected = sum(i * p for i, p in enumerate(values))
            assert math.isclose(answer["score"], expected, abs_tol=1e-6)
            assert list(answer["legend"].values()) == criteria
