"""The whole way on real parts: command line, Ray Serve, HAProxy, transport, vLLM, real clients."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typesafe_sdk as sdk
from backports import zstd

from jevserve.serving.environment import free_ports
from tests.engine.schedulers import RECORD_FILE
from tests.make_checkpoints import make
from tests.serving.service import Service, running

pytestmark = pytest.mark.ray

TICKET = "My card was charged twice for one order. Please refund one payment today!"
TEAMS = {"billing": "payments and refunds", "delivery": "parcels and couriers", "login": None}
ALL_KINDS = {
    "team": {"type": "choice", "criteria": TEAMS},
    "money": {
        "type": "noul",
        "criteria": {"true": "a customer wants money back", "false": "a greeting to a friend"},
    },
    "mood": {"type": "score", "criteria": ["delighted", "calm", "annoyed"]},
}
(METRICS_PORT,) = free_ports(1)
LONG = "The parcel came late, the box was open, and nobody answered the phone. " * 24


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("records") / "records"
    file.touch()
    return file


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, records: Path) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    tiny = make("llama-dense", tmp_path_factory.mktemp("checkpoints"))
    settings = {
        "models": [
            {"name": "jev-embed"},
            {
                "name": "tiny",
                "checkpoint": str(tiny),
                "replicas": 2,
                "max_model_len": 8192,
                "engine_args": {
                    "block_size": 32,
                    "scheduler_cls": "tests.engine.schedulers.RecordingScheduler",
                },
            },
        ],
        "aliases": {"small": "tiny"},
        "metrics": {"engine_port": METRICS_PORT},
    }
    with running(folder, settings, **{RECORD_FILE: str(records)}) as started:
        yield started


def added(records: Path) -> list[dict[str, Any]]:
    return [e for e in map(json.loads, records.read_text().splitlines()) if e["event"] == "added"]


def aborted(records: Path) -> int:
    """Rows that schedulers were told to drop."""
    events = map(json.loads, records.read_text().splitlines())
    return sum(len(e["ids"]) for e in events if e["event"] == "finished")


def backlog_rows() -> list[float]:
    """What every engine process says it still owes."""
    rows = []
    # Engines take the first free ports from the configured one on.
    for port in range(METRICS_PORT, METRICS_PORT + 10):
        try:
            page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
        except httpx.HTTPError:
            continue
        lines = [x for x in page.splitlines() if x.startswith("jevserve_engine_backlog_rows{")]
        rows += [float(line.split()[-1]) for line in lines]
    assert len(rows) == 3
    return rows


def test_all_three_kinds_about_real_text(service: Service) -> None:
    response = service.ask({"state": TICKET, "questions": ALL_KINDS})
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["model"] == "jev-embed"
    assert body["answers"]["team"]["choice"] == "billing"
    assert body["answers"]["money"]["noul"] > 0.5
    assert sum(body["answers"]["mood"]["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    assert body["usage"]["input_tokens"] > 0
    assert response.headers["x-typesafe-request-id"].startswith("req_")


def test_models_are_asked_by_name_and_alias(service: Service) -> None:
    asked = {"state": TICKET, "questions": {"team": ALL_KINDS["team"]}}
    names = {m: service.ask(asked | {"model": m}).json()["model"] for m in ("tiny", "small")}
    assert names == {"tiny": "tiny", "small": "tiny"}
    assert service.ask(asked | {"model": "jev-latest"}).json()["model"] == "jev-embed"
    unknown = service.ask(asked | {"model": "nobody"})
    assert unknown.status_code == 400
    assert unknown.json()["detail"]["message"].startswith("Unknown model: nobody")
    listed = httpx.get(f"{service.url}/v1/models").json()["models"]
    assert {"jev-embed", "jev-latest", "tiny", "small"} <= {m["name"] for m in listed}


def test_the_second_request_on_a_state_reports_cached_tokens(service: Service) -> None:
    asked = {"state": LONG, "model": "tiny", "questions": {"team": ALL_KINDS["team"]}}
    cold, warm = (service.ask(asked).json()["x_jevserve"] for _ in range(2))
    assert cold["cached_tokens"] == 0
    assert warm["cached_tokens"] > warm["computed_tokens"]
    # The prefix's owner was asked both times.
    assert warm["replica"] == cold["replica"]


def test_a_callers_salt_parts_the_cache_and_never_reaches_an_engine(
    service: Service, records: Path
) -> None:
    asked = {"state": LONG + "!", "model": "tiny", "questions": {"team": ALL_KINDS["team"]}}
    service.ask(asked | {"cache_salt": "mine"})
    other = service.ask(asked | {"cache_salt": "yours"}).json()["x_jevserve"]
    assert other["cached_tokens"] == 0
    assert "mine" not in records.read_text() and "yours" not in records.read_text()


def test_both_replicas_of_a_model_are_used(service: Service) -> None:
    used = set()
    for i in range(40):
        state = f"Ticket number {i} of the day. {LONG}"
        asked = {"state": state, "model": "tiny", "questions": {"team": ALL_KINDS["team"]}}
        used.add(service.ask(asked).json()["x_jevserve"]["replica"])
        if len(used) == 2:
            break
    assert len(used) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"state": 5, "questions": ALL_KINDS},
        {"state": TICKET, "questions": {"q": {"type": "choice", "criteria": {}}}},
        {"state": TICKET, "questions": {"q": {"type": "score", "criteria": ["x"] * 11}}},
        {"state": TICKET, "questions": {"": {"type": "noul", "instructions": "x"}}},
        {"state": "long " * 20_000, "questions": {"q": {"type": "noul", "instructions": "x"}}},
        {"state": TICKET, "questions": ALL_KINDS, "model": "tiny", "cache_salt": ""},
    ],
)
def test_a_bad_request_costs_no_engine_call(
    service: Service, records: Path, body: dict[str, Any]
) -> None:
    before = len(added(records))
    response = service.ask({"model": "tiny"} | body)
    assert response.status_code in (400, 422), response.text
    assert response.json()["detail"]
    # One good decision afterwards proves that the count would have seen an engine call.
    good = {"state": TICKET, "questions": {"team": ALL_KINDS["team"]}, "model": "tiny"}
    assert service.ask(good).status_code == 200
    assert len(added(records)) == before + 1


def test_a_client_that_leaves_empties_the_engines_queue(service: Service, records: Path) -> None:
    questions = {f"q{i}": {"type": "noul", "instructions": f"Is it {i}?"} for i in range(200)}
    body = json.dumps({"state": LONG * 3, "model": "tiny", "questions": questions}).encode()
    host, port = service.url.removeprefix("http://").split(":")
    before, aborted_before = len(added(records)), aborted(records)
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        until = time.monotonic() + 30
        while len(added(records)) == before:
            assert time.monotonic() < until
            time.sleep(0.002)
    # The client is gone. Its rows are taken out: the scheduler is told, and no backlog stays.
    until = time.monotonic() + 30
    while not aborted(records) > aborted_before:
        assert time.monotonic() < until, "the engine was never told"
        time.sleep(0.01)
    while any(backlog_rows()):
        assert time.monotonic() < until, f"rows are left: {backlog_rows()}"
        time.sleep(0.01)
    asked = {"state": "Short.", "model": "tiny", "questions": {"team": ALL_KINDS["team"]}}
    assert service.ask(asked).status_code == 200


@pytest.mark.parametrize("model", ["jev-embed", "tiny"])
def test_the_conformance_suite_passes(service: Service, model: str, tmp_path: Path) -> None:
    command = ["jevcompat", "test", service.url, "--model", model, "--json", str(tmp_path / "r")]
    binary = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [str(binary), *command[1:]], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "32/32" in done.stdout and "13/13" in done.stdout, done.stdout[-4000:]


def test_the_official_client_completes_all_kinds(service: Service) -> None:
    questions = {
        "team": sdk.Choice(criteria=TEAMS),
        "money": sdk.Noul(instructions="Does the customer want money back?"),
        "mood": sdk.Score(criteria=["delighted", "calm", "annoyed"]),
    }

    # Compression is on, or the large bodies below would prove nothing.
    body = zstd.compress(json.dumps({"state": TICKET, "questions": ALL_KINDS}).encode())
    headers = {"content-type": "application/json", "content-encoding": "zstd"}
    explicit = httpx.post(f"{service.url}/v1/systemone", content=body, headers=headers)
    assert explicit.json()["answers"]["team"]["choice"] == "billing"

    def check(answer: Any) -> None:
        assert answer.answers["team"].choice == "billing"
        assert 0 <= answer.answers["money"].noul <= 1
        assert 0 <= answer.answers["mood"].score <= 2

    with sdk.TypeSafeClient(api_key="any", base_url=service.url) as client:
        check(client.system_one(state=TICKET, questions=questions))
        # Bodies over 1 KiB leave the client compressed with zstd.
        check(client.system_one(state=[TICKET] + ["nothing else"] * 200, questions=questions))

    async def concurrently() -> None:
        async with sdk.AsyncTypeSafeClient(api_key="any", base_url=service.url) as client:
            calls = [client.system_one(state=TICKET, questions=questions) for _ in range(4)]
            for answer in await asyncio.gather(*calls):
                check(answer)
            check(await client.system_one(state=[TICKET] + ["else"] * 400, questions=questions))

    asyncio.run(concurrently())


def test_health_metrics_and_documentation_answer(service: Service) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        assert httpx.get(service.url + path).status_code == 200, path
    metrics = httpx.get(f"{service.url}/metrics").text
    assert 'jevserve_decisions_total{model="jev-embed"}' in metrics
    engine = httpx.get(f"http://127.0.0.1:{METRICS_PORT}/metrics").text
    assert "jevserve_engine_ready{" in engine
    assert "vllm:" in engine


def test_killing_a_replica_leaves_the_service_answering(service: Service) -> None:
    asked = {"model": "tiny", "questions": {"team": ALL_KINDS["team"]}}
    victims = service.replicas("Engine-tiny")
    assert len(victims) == 2
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(service.ask, asked | {"state": f"{i} {LONG}"}) for i in range(20)]
        concurrent.futures.wait(jobs, return_when=concurrent.futures.FIRST_COMPLETED)
        victims[0].send_signal(signal.SIGKILL)
        victims[0].wait(timeout=10)
        jobs += [pool.submit(service.ask, asked | {"state": f"{i} {LONG}"}) for i in range(20, 60)]
        answers = [job.result() for job in jobs]
    assert [a.status_code for a in answers] == [200] * 60
    # Both had been at work, and the survivor took over.
    early = {a.json()["x_jevserve"]["replica"] for a in answers[:20]}
    late = {a.json()["x_jevserve"]["replica"] for a in answers[40:]}
    assert late <= early and len(late) == 1


def test_sigterm_answers_everything_accepted(service: Service) -> None:
    # The last test of the module: the service is gone after it.
    questions = {f"q{i}": {"type": "noul", "instructions": f"Is it {i}?"} for i in range(20)}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = [
            pool.submit(service.ask, {"state": f"{i} {LONG[:700]}", "questions": questions})
            for i in range(16)
        ]
        metric = "jevserve_http_requests_in_flight "
        until = time.monotonic() + 30
        while time.monotonic() < until:
            page = httpx.get(f"{service.url}/metrics").text
            in_flight = next(line for line in page.splitlines() if line.startswith(metric))
            # The page itself is one of them.
            if float(in_flight.removeprefix(metric)) >= 12:
                break
        else:
            pytest.fail("the service was never busy enough for the test to mean anything")
        service.process.send_signal(signal.SIGTERM)
        answers = [job.result() for job in jobs]
    assert [a.status_code for a in answers] == [200] * 16
    assert all(len(a.json()["answers"]) == 20 for a in answers)
    assert service.process.wait(timeout=60) == 0
