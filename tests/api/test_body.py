"""Reading a body: bounded in bytes, time and memory."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from starlette.datastructures import Headers

from jevserve.api.body import BodyLimits, BodyMemory, Format, format_of, read_body
from jevserve.api.refusals import BodyTimeout, ClientDisconnected, MalformedBody
from jevserve.errors import BodyTooLarge, Overloaded, UnsupportedBody

LIMITS = BodyLimits(encoded=1000, decoded=2000, buffered=10_000, read_timeout_s=5)


def sender(*messages: dict):
    """An ASGI ``receive`` that counts how often it was asked."""
    queue = list(messages)

    async def receive() -> dict:
        receive.calls += 1
        if not queue:
            await asyncio.Event().wait()
        return queue.pop(0)

    receive.calls = 0
    return receive


def chunks(*bodies: bytes) -> list[dict]:
    return [
        {"type": "http.request", "body": b, "more_body": i < len(bodies) - 1}
        for i, b in enumerate(bodies)
    ]


async def read(receive, limits=LIMITS, **headers: str) -> bytes:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    with BodyMemory(limits.buffered).lease() as lease:
        return await read_body(receive, Headers(named), limits, lease)


async def test_chunks_are_joined_and_decoded():
    packed = gzip.compress(b"x" * 1500)
    receive = sender(*chunks(packed[:10], b"", packed[10:]))
    assert await read(receive, content_encoding="gzip") == b"x" * 1500


async def test_a_declared_length_over_the_limit_is_refused_before_a_byte_is_read():
    receive = sender(*chunks(b"x"))
    with pytest.raises(BodyTooLarge):
        await read(receive, content_length="1001")
    with pytest.raises(BodyTooLarge):
        await read(receive, content_length="9" * 5000)
    assert receive.calls == 0


async def test_a_body_of_the_limit_is_read_and_one_more_byte_is_refused():
    assert len(await read(sender(*chunks(b"x" * 500, b"x" * 500)))) == 1000
    with pytest.raises(BodyTooLarge):
        await read(sender(*chunks(b"x" * 500, b"x" * 501)))


async def test_a_decoded_limit_below_the_encoded_one_holds_for_plain_bodies_too():
    with pytest.raises(BodyTooLarge):
        await read(sender(*chunks(b"x" * 11)), BodyLimits(encoded=1000, decoded=10))


async def test_a_sender_that_stalls_gets_a_timeout():
    receive = sender({"type": "http.request", "body": b"{", "more_body": True})
    with pytest.raises(BodyTimeout):
        await read(receive, BodyLimits(read_timeout_s=0.01))


async def test_a_client_that_leaves_while_sending_is_noticed():
    receive = sender(
        {"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}
    )
    with pytest.raises(ClientDisconnected):
        await read(receive)


async def test_a_length_that_is_no_number_is_refused():
    with pytest.raises(MalformedBody):
        await read(sender(*chunks(b"{}")), content_length="²")


async def test_bodies_beyond_the_memory_budget_are_told_to_come_back_and_room_is_given_back():
    memory = BodyMemory(1000)
    headers = Headers()
    with memory.lease() as first:
        await read_body(sender(*chunks(b"x" * 900)), headers, LIMITS, first)
        with memory.lease() as second, pytest.raises(Overloaded) as caught:
            await read_body(sender(*chunks(b"x" * 101)), headers, LIMITS, second)
        assert caught.value.reason == "body_memory"
        assert memory.held == 900
    assert memory.held == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON; Charset="UTF-8"',
        "application/vnd.api+json",
        "text/json",
        "text/plain",
    ],
)
def test_a_missing_plain_or_json_type_is_read_as_json(value):
    headers = Headers({} if value is None else {"content-type": value})
    assert format_of(headers) == (Format.JSON, b"")


@pytest.mark.parametrize(
    "value",
    [
        "application/x-www-form-urlencoded",
        "application/xml",
        "image/png",
        "application/json; charset=utf-16",
        "nonsense",
    ],
)
def test_another_type_is_refused_naming_what_is_read(value):
    with pytest.raises(UnsupportedBody, match=r"application/json|UTF-8"):
        format_of(Headers({"content-type": value}))


@pytest.mark.parametrize("boundary", ["", "; boundary=", "; boundary=" + "x" * 71, "; boundary=é"])
def test_a_form_without_a_usable_boundary_is_refused(boundary):
    with pytest.raises(MalformedBody, match="boundary"):
        format_of(Headers({"content-type": f"multipart/form-data{boundary}"}))
