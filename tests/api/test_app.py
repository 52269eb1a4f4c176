"""The application, called in process: what each exchange looks like from outside."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re

import httpx
import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jevserve.api.app import ApiOptions, BodyLimits, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.decisions.plan import Lane
from jevserve.errors import EngineFailed, Overloaded
from tests.api.forms import BOUNDARY, form, png
from tests.fakes import FakeService

BODY = {"state": "st", "questions": {"n": {"type": "noul", "instructions": "x"}}}
PATH = "/v1/systemone"


class Rig:
    """An application, the service behind it, and a client in front."""

    def __init__(self, options: ApiOptions | None = None, **service: bool) -> None:
        self.service = FakeService(**service)
        self.app = build_app(self.service, options)
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://door")

    async def post(self, path: str = PATH, **kwargs) -> httpx.Response:
        return await self.client.post(path, **kwargs)

    async def get(self, path: str, **kwargs) -> httpx.Response:
        return await self.client.get(path, **kwargs)

    async def metric(self, name: str) -> float:
        page = (await self.get("/metrics")).text
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["detail"]["error_type"]


async def test_a_decision_is_answered_in_the_official_shape(rig):
    questions = {
        "c": {"type": "choice", "criteria": {"a": None, "b": "d"}},
        "s": {"type": "score", "criteria": ["lo", {"hi": 1}]},
        "n": {"type": "noul", "instructions": "x"},
    }
    response = await rig.post(json={"state": "st", "questions": questions})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert list(answer) == ["model", "answers", "usage", "x_jevserve"]
    assert answer["model"] == "fake-1"
    assert list(answer["answers"]) == ["c", "s", "n"]
    assert list(answer["answers"]["c"]) == ["type", "choice", "confidence", "probabilities"]
    assert answer["answers"]["s"]["legend"] == {"0": "lo", "1": {"hi": 1}}
    assert set(answer["answers"]["s"]["probabilities"]) == {"0", "1"}
    assert list(answer["answers"]["n"]) == ["type", "noul"]
    assert answer["usage"] == {"input_tokens": 4, "output_tokens": 0}
    assert answer["x_jevserve"] == {
        "cached_tokens": 0,
        "computed_tokens": 4,
        "rows": 3,
        "plan_ms": 0.0,
        "engine_ms": 0.5,
        "total_ms": 1.0,
        "replica": "fake-replica",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/v1/systemone/",
        "/systemone",
        "/api/v1/systemone",
        "/api/alpha/decisions",
        "/v1/decisions",
        "/any/prefix/v1/systemone",
        "/v1/systemone/v1/systemone",
    ],
)
async def test_every_alias_answers_without_a_redirect(rig, path):
    assert (await rig.post(path, json=BODY)).status_code == 200


async def test_a_configured_prefix_is_removed_whether_or_not_the_ingress_did_it():
    rig = Rig(ApiOptions(root_path="/jev/"))
    for path in ("/jev/healthz", "/healthz", "/jev/metrics", "/jev/v1/models"):
        assert (await rig.get(path)).status_code == 200
    assert (await rig.get("/jev/openapi.json")).json()["servers"] == [{"url": "/jev"}]
    assert (await rig.get("/other/healthz")).status_code == 404


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"input": "x", "questions": [{"type": "predicate"}]}, "OpenAI"),
        ({"context": "x", "schema": {"a": {"type": "boolean"}}}, "JEVfire"),
    ],
)
async def test_another_dialect_is_refused_by_its_name(rig, body, dialect):
    response = await rig.post("/v1/decisions", json=body)
    assert error(response) == (400, "api_usage_error")
    assert dialect in response.json()["detail"]["message"]
    assert (await rig.post(json=body)).status_code == 422


@pytest.mark.parametrize("pack", [zstd.compress, gzip.compress])
async def test_a_compressed_body_is_read(rig, pack):
    encoding = "zstd" if pack is zstd.compress else "gzip"
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    content = pack(json.dumps(BODY | {"state": "x" * 600_000}).encode())
    assert (await rig.post(content=content, headers=headers)).status_code == 200
    assert len(rig.service.calls[0][0].state) == 600_000


async def test_images_reach_a_model_that_reads_them_and_are_refused_by_one_that_does_not():
    assets = {"<image:00>": {"type": "image", "part": "asset-0"}}
    body = BODY | {"state": ["see", "<image:00>"], "assets": assets}
    content = form(
        ("request", "application/json", json.dumps(body).encode()), ("asset-0", "image/png", png())
    )
    headers = {
        "content-type": f"multipart/form-data; boundary={BOUNDARY}",
        "typesafe-danger-zone-images": "true",
    }
    seeing, reading = Rig(media=True), Rig()
    assert (await seeing.post(content=content, headers=headers)).status_code == 200
    assert seeing.service.calls[0][0].media[0].data == png()
    refused = await reading.post(content=content, headers=headers)
    assert error(refused) == (400, "api_usage_error")


async def test_models_are_listed_in_both_shapes_with_their_aliases(rig):
    listed = (await rig.get("/v1/models")).json()
    assert [m["name"] for m in listed["models"]] == ["fake-1", "jev-latest"]
    assert all(isinstance(m["release_date"], str) for m in listed["models"])
    assert [d["id"] for d in listed["data"]] == ["fake-1", "jev-latest"]
    assert listed["data"][0]["created"] == 1795996800


async def test_health_is_immediate_and_readiness_follows_the_model():
    rig = Rig(ready=False)
    assert (await rig.get("/healthz")).status_code == 200
    not_ready = await rig.get("/readyz")
    assert not_ready.status_code == 503
    assert not_ready.json() == {"ready": False, "details": {"fake-1": "loading weights"}}
    rig.service.ready = True
    assert (await rig.get("/readyz")).status_code == 200


async def test_every_response_carries_the_request_id_and_the_service_knows_it(rig):
    responses = [
        await rig.post(json=BODY),
        await rig.post(content=b"{"),
        await rig.get("/nowhere"),
        await rig.get(PATH),
        await rig.get("/metrics"),
        await rig.client.options(PATH),
    ]
    ids = [r.headers["x-typesafe-request-id"] for r in responses]
    assert all(re.fullmatch(r"req_[0-9a-f]{24}", i) for i in ids)
    assert len(set(ids)) == len(ids)
    assert [r.headers["x-request-id"] for r in responses] == ids
    assert rig.service.calls[0][1].request_id == ids[0]


async def test_a_callers_plain_request_id_is_echoed_and_an_odd_one_is_not(rig):
    echoed = await rig.post(json=BODY, headers={"x-request-id": "abc-1"})
    assert echoed.headers["x-request-id"] == "abc-1"
    odd = await rig.post(json=BODY, headers={"x-request-id": "a b" + "c" * 200})
    assert odd.headers["x-request-id"] == odd.headers["x-typesafe-request-id"]


async def test_a_trace_is_passed_on_and_nonsense_is_not(rig):
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    await rig.post(json=BODY, headers={"traceparent": trace})
    await rig.post(json=BODY, headers={"traceparent": "x" * 55})
    assert [caller.trace for _, caller in rig.service.calls] == [trace, ""]


async def test_an_unknown_path_names_the_right_one(rig):
    response = await rig.post("/v1/chat/completions", json=BODY)
    assert error(response) == (404, "not_found")
    assert "POST /v1/systemone" in response.json()["detail"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", PATH, "POST, OPTIONS"), ("POST", "/v1/models", "GET, HEAD, OPTIONS")],
)
async def test_a_wrong_method_names_the_allowed_ones(rig, method, path, allow):
    response = await rig.client.request(method, path)
    assert error(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == allow


async def test_options_tell_the_methods_and_grant_no_other_origin(rig):
    origin = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    response = await rig.client.options(PATH, headers=origin)
    assert response.status_code == 204
    assert response.headers["allow"] == "POST, OPTIONS"
    assert "access-control-allow-origin" not in response.headers
    assert (await rig.client.head("/v1/models")).status_code == 200


class Keyed(Rig):
    def __init__(self) -> None:
        super().__init__(ApiOptions(keys=load_keys(None, {ENV_KEYS: "shop:good"})))


async def test_with_keys_a_missing_or_wrong_one_is_refused_and_a_known_one_names_the_tenant():
    rig = Keyed()
    for headers in ({}, {"authorization": "Bearer bad"}):
        for response in (
            await rig.post(json=BODY, headers=headers),
            await rig.get("/v1/models", headers=headers),
        ):
            assert error(response) == (401, "authentication_error")
            assert response.headers["www-authenticate"] == "Bearer"
    assert (await rig.get("/healthz")).status_code == 200
    response = await rig.post(json=BODY, headers={"authorization": "Bearer good"})
    assert response.status_code == 200
    assert rig.service.calls[0][1].tenant == "shop"
    assert rig.service.calls[0][1].lane is Lane.INTERACTIVE


async def test_without_keys_any_header_is_accepted(rig):
    headers = {"authorization": "Bearer whatever", "x-api-key": "x"}
    assert (await rig.post(json=BODY, headers=headers)).status_code == 200
    assert rig.service.calls[0][1].tenant == ""


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer bad"},
        {"content-encoding": "br"},
        {"content-type": "image/png"},
        {"content-length": str(2**40)},
    ],
)
async def test_a_refusal_by_key_type_or_length_is_sent_before_the_body_is_read(headers):
    rig = Keyed()
    sent = {"authorization": "Bearer good", "transfer-encoding": "chunked"} | headers
    order = []

    async def receive():
        order.append("receive")
        return {"type": "http.request", "body": b"{}", "more_body": order.count("receive") < 3}

    async def send(message):
        order.append(message.get("status", message.get("more_body", "")))

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
    }
    await rig.app(scope, receive, send)
    # The whole answer goes first; then the rest of the body is drained, then the stream ends.
    assert order[0] in (401, 413, 415)
    assert order[1:] == [True, "receive", "receive", "receive", False]
    assert rig.service.calls == []


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        (Overloaded("full", retry_after_ms=150, reason="queue"), 503, "overloaded_error"),
        (EngineFailed("secret 0xdead"), 500, "engine_error"),
        (RuntimeError("secret 0xdead"), 500, "internal_error"),
    ],
)
async def test_a_failure_of_the_service_is_told_in_shape_and_without_its_inside(
    rig, raised, status, told
):
    rig.service.error = raised
    response = await rig.post(json=BODY)
    assert error(response) == (status, told)
    assert "0xdead" not in response.text
    if status == 503:
        assert response.headers["retry-after"] == "1"
        assert response.headers["retry-after-ms"] == "150"
    else:
        assert response.headers["x-typesafe-request-id"] in response.text


async def test_an_answer_that_is_not_finite_fails_closed(rig, monkeypatch):
    async def decide(request, caller):
        answered = await FakeService().decide(request, caller)
        object.__setattr__(answered.answers[0][1], "noul", float("nan"))
        return answered

    monkeypatch.setattr(rig.service, "decide", decide)
    assert error(await rig.post(json=BODY)) == (500, "engine_error")


async def test_answers_that_do_not_match_the_questions_fail_closed(rig, monkeypatch):
    async def decide(request, caller):
        answered = await FakeService().decide(request, caller)
        object.__setattr__(answered, "answers", answered.answers[:-1])
        return answered

    monkeypatch.setattr(rig.service, "decide", decide)
    assert error(await rig.post(json=BODY)) == (500, "engine_error")


BAD: dict[str, tuple[bytes, dict[str, str], int]] = {
    "empty": (b"", {}, 422),
    "no JSON": (b"{", {}, 422),
    "an array": (b"[]", {}, 422),
    "not UTF-8": (b'{"state":"\xff"}', {}, 422),
    "deep": (b"[" * 100_000, {}, 422),
    "surrogate": (rb'{"state":"\ud800","questions":{}}', {}, 422),
    "NaN": (b'{"state":[NaN],"questions":{}}', {}, 422),
    "huge integer": (b'{"state":[' + b"9" * 10_000 + b"]}", {}, 422),
    "no questions": (b'{"state":"x","questions":{}}', {}, 422),
    "cut zstd": (zstd.compress(b"{}" * 99)[:-3], {"content-encoding": "zstd"}, 400),
    "no gzip": (b"{}", {"content-encoding": "gzip"}, 400),
    "zstd bomb": (zstd.compress(bytes(2**22)), {"content-encoding": "zstd"}, 413),
    "gzip bomb": (gzip.compress(bytes(2**22)), {"content-encoding": "gzip"}, 413),
    "too long": (b" " * (2**20 + 1), {}, 413),
    "encoding": (b"{}", {"content-encoding": "br"}, 415),
    "type": (b"a=b", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "no boundary": (b"", {"content-type": "multipart/form-data"}, 400),
    "no form": (b"x", {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}, 400),
    "deadline": (json.dumps(BODY).encode(), {"x-jevserve-deadline-ms": "soon"}, 422),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_request_gets_its_status_and_costs_no_decision(name):
    content, headers, status = BAD[name]
    rig = Rig(ApiOptions(body=BodyLimits(encoded=2**20, decoded=2**20)))
    response = await rig.post(content=content, headers=headers)
    assert response.status_code == status
    detail = response.json()["detail"]
    if status == 422:
        assert all(set(issue) == {"loc", "msg", "type"} for issue in detail)
    else:
        assert set(detail) == {"error_type", "message"}
    assert rig.service.calls == []


headers = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from(
            ["application/json", "text/plain", f"multipart/form-data; boundary={BOUNDARY}"]
        )
        | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
        "content-encoding": st.sampled_from(["zstd", "gzip", "identity", "br", "gzip,zstd", ""]),
        "x-jevserve-deadline-ms": st.text(st.characters(max_codepoint=126), max_size=8),
        "x-typesafe-retry-count": st.text(st.characters(max_codepoint=126), max_size=8),
        "authorization": st.text(st.characters(max_codepoint=126), max_size=20),
    },
)
contents = (
    st.binary(max_size=200)
    | st.binary(max_size=100).map(zstd.compress)
    | st.binary(max_size=100).map(gzip.compress)
    | st.binary(max_size=100).map(lambda b: form(("request", "application/json", b)))
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.sampled_from([*BODY, "type", "q"]), v),
        max_leaves=10,
    ).map(lambda v: json.dumps(v).encode())
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(contents, headers, st.sampled_from([PATH, "/v1/decisions"]))
async def test_a_hostile_request_never_gets_a_5xx_and_always_a_json_answer(content, headers, path):
    rig = Rig()
    response = await rig.post(path, content=content, headers=headers)
    assert response.status_code < 500
    assert response.json()
    assert (response.status_code == 200) == bool(rig.service.calls) or error(response)[0] == 400


async def test_exchanges_are_counted_and_callers_words_never_become_labels(rig):
    await rig.post(json=BODY, headers={"x-typesafe-retry-count": "1"})
    await rig.post(json=BODY | {"model": "evil-model"}, headers={"x-typesafe-retry-count": "9"})
    await rig.get("/evil-path")
    assert await rig.metric('jevserve_http_requests_total{route="/v1/systemone",status="200"}') == 1
    assert await rig.metric('jevserve_http_requests_total{route="other",status="404"}') == 1
    assert await rig.metric('jevserve_refusals_total{reason="api_usage_error"}') == 1
    assert await rig.metric('jevserve_http_retries_total{attempt="3+"}') == 1
    assert await rig.metric('jevserve_questions_total{kind="noul",model="fake-1"}') == 1
    page = (await rig.get("/metrics")).text
    assert "evil" not in page
    assert page.startswith("# jevserve: the view of one process")


async def test_keys_are_in_no_log_and_no_error(caplog):
    rig = Keyed()
    rig.service.error = RuntimeError("boom")
    digest = hashlib.sha256(b"good").hexdigest()
    with caplog.at_level("DEBUG"):
        answers = [
            await rig.post(json=BODY, headers={"authorization": "Bearer good"}),
            await rig.post(json=BODY, headers={"x-api-key": "wrong-one"}),
        ]
    assert "boom" in caplog.text
    for text in (caplog.text, *(a.text for a in answers)):
        assert "Bearer good" not in text
        assert "wrong-one" not in text
        assert digest not in text


async def test_a_websocket_is_turned_away(rig):
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": PATH, "headers": [], "query_string": b""}
    with contextlib.suppress(Exception):
        await rig.app(scope, receive, send)
    assert [m["type"] for m in sent] == ["websocket.close"]
