"""The application under a real uvicorn: sockets, clients and the conformance suite."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typesafe_sdk as sdk

from jevserve.api.app import ApiOptions, BodyLimits, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.errors import Overloaded
from tests.api.forms import png
from tests.api.live import serve
from tests.fakes import FakeService

BODY = json.dumps({"state": "s", "questions": {"n": {"type": "noul", "instructions": "x"}}})
QUESTIONS = {
    "n": sdk.Noul(instructions="Is it about money?"),
    "c": sdk.Choice(criteria={"billing": None, "other": "the rest"}),
    "s": sdk.Score(criteria=["calm", {"mood": "cross"}, ["furious"]]),
}


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def address(service):
    with serve(build_app(service)) as address:
        yield address


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def head(length: int | str, *more: str) -> bytes:
    lines = ["POST /v1/systemone HTTP/1.1", "Host: door", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def received(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


class GatedService(FakeService):
    """Holds every decision until it is cancelled, and tells a thread of both."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()
        self.dropped = threading.Event()

    async def decide(self, request, caller):
        self.arrived.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.dropped.set()
            raise


def test_when_the_client_leaves_then_its_decision_is_cancelled():
    service = GatedService()
    with serve(build_app(service)) as address:
        with connect(address) as client:
            client.sendall(head(len(BODY)) + BODY.encode())
            assert service.arrived.wait(20)
            assert not service.dropped.is_set()
        assert service.dropped.wait(20)


def test_when_a_client_leaves_then_others_are_still_answered(service, address):
    with connect(address) as client:
        client.sendall(head(10_000) + b"{")
    with sdk.TypeSafeClient(api_key="k", base_url=address) as good:
        assert good.system_one("s", QUESTIONS).nouls["n"]


def test_a_slow_sender_is_told_and_cut_off():
    options = ApiOptions(body=BodyLimits(read_timeout_s=0.05))
    with serve(build_app(FakeService(), options)) as address, connect(address) as client:
        client.sendall(head(1_000_000) + b"{")
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"body_timeout" in answer


def test_a_client_that_sends_too_much_still_gets_to_read_the_refusal():
    options = ApiOptions(body=BodyLimits(encoded=1000))
    size = 8 * 2**20
    with serve(build_app(FakeService(), options)) as address, connect(address) as client:
        client.sendall(head(size))
        client.sendall(bytes(size))
        answer = received(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert b"body_too_large" in answer


def test_a_client_that_waits_to_be_told_to_continue_is_refused_without_sending():
    options = ApiOptions(body=BodyLimits(encoded=1000))
    with serve(build_app(FakeService(), options)) as address, connect(address) as client:
        client.sendall(head(10**9, "Expect: 100-continue"))
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_small_refused_body_leaves_the_connection_usable(service):
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}))
    with serve(build_app(service, options)) as address, connect(address) as client:
        client.sendall(head(len(BODY)) + BODY.encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 401 ")
        key = ("X-API-Key: good", "Connection: close")
        client.sendall(head(len(BODY), *key) + BODY.encode())
        assert received(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("compression", ["zstd", False])
@pytest.mark.parametrize("state", ["short", [{"role": "user", "content": "long " * 2000}]])
def test_the_official_sdk_is_answered(service, address, compression, state):
    options = {"api_key": "k", "base_url": f"{address}/prefix/", "compression": compression}
    with sdk.TypeSafeClient(**options) as client:
        answer = client.system_one(state, QUESTIONS)
        listed = client.models.list()
    assert answer.model == "fake-1"
    assert 0 <= answer.nouls["n"].noul <= 1
    assert answer.choices["c"].choice in ("billing", "other")
    assert answer.scores["s"].legend[2] == ["furious"]
    assert [m.name for m in listed.models] == ["fake-1", "jev-latest"]
    assert service.calls[0][0].state == state


async def test_the_official_sdk_is_answered_asynchronously(service, address):
    async with sdk.AsyncTypeSafeClient(api_key="k", base_url=address) as client:
        answers = await asyncio.gather(
            *(client.system_one(f"state {i}" * 200, QUESTIONS) for i in range(20))
        )
        assert (await client.models.list()).models
    assert len({a.nouls["n"].noul for a in answers}) > 1


@pytest.mark.parametrize(
    ("call", "raised", "said"),
    [
        ({"model": "nope"}, sdk.TypeSafeBadRequestError, "Unknown model: nope"),
        ({"extra_body": {"state": 5}}, sdk.TypeSafeUnprocessableEntityError, "state"),
        ({"extra_body": {"questions": {}}}, sdk.TypeSafeUnprocessableEntityError, "questions"),
    ],
)
def test_the_official_sdk_raises_the_matching_error_with_our_words(address, call, raised, said):
    with (
        sdk.TypeSafeClient(api_key="k", base_url=address) as client,
        pytest.raises(raised, match=said),
    ):
        client.system_one("s", QUESTIONS, **call)


def test_the_official_sdk_maps_a_wrong_key_and_a_wrong_base(service):
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}))
    with serve(build_app(service, options)) as address:
        with (
            sdk.TypeSafeClient(api_key="bad", base_url=address) as client,
            pytest.raises(sdk.TypeSafeAuthenticationError, match="not known"),
        ):
            client.system_one("s", QUESTIONS)
        with sdk.TypeSafeClient(api_key="good", base_url=address) as client:
            assert client.system_one("s", QUESTIONS).model == "fake-1"


def test_the_official_sdk_waits_as_told_and_retries(service, address):
    service.error = Overloaded("full", retry_after_ms=20, reason="queue")
    with (
        sdk.TypeSafeClient(api_key="k", base_url=address) as client,
        pytest.raises(sdk.TypeSafeInternalServerError, match="full"),
    ):
        client.system_one("s", QUESTIONS)
    assert len(service.calls) == 3


def test_the_official_sdk_sends_an_image_and_a_text_model_refuses_it(address):
    seeing = FakeService(media=True)
    image = sdk.Image(png())
    state = ["Look at this", image]
    with serve(build_app(seeing)) as other:
        with sdk.TypeSafeClient(api_key="k", base_url=other) as client:
            assert client.system_one(state, QUESTIONS).model == "fake-1"
        (media,) = seeing.calls[0][0].media
        assert media.data == png()
        assert media.placeholder in json.dumps(seeing.calls[0][0].state)
    with (
        sdk.TypeSafeClient(api_key="k", base_url=address) as client,
        pytest.raises(sdk.TypeSafeBadRequestError, match="text only"),
    ):
        client.system_one(state, QUESTIONS)


@pytest.mark.parametrize("keyed", [False, True])
def test_the_conformance_suite_passes_every_must_and_should(service, tmp_path, keyed):
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}) if keyed else None)
    report = tmp_path / "report.json"
    with serve(build_app(service, options)) as address:
        command = [Path(sys.executable).parent / "jevcompat", "test", address, "--json", report]
        env = os.environ | {"JEV_TEST_KEY": "good"}
        if keyed:
            command += ["--key-env", "JEV_TEST_KEY"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.strip().splitlines()[-1]
    assert "MUST 34/34" in summary or "MUST 32/32" in summary, summary
    assert "SHOULD 13/13" in summary or "SHOULD 15/15" in summary, summary
