"""Frames: cutting, bounds, batching, back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.errors import TransportError
from jevserve.transport.frames import FrameDecoder, FrameStream
from jevserve.transport.limits import DEFAULT_BOUNDS, UNPROVEN_FRAME, Bounds, Timing
from tests.transport.fakes import PATIENT, QUICK


@given(st.lists(st.binary(max_size=300), max_size=20), st.randoms(use_true_random=False))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(frames, rng) -> None:  # type: ignore[no-untyped-def]
    data = b"".join(len(f).to_bytes(4, "little") + f for f in frames)
    decoder, out = FrameDecoder(300), []
    while data:
        n = rng.randint(1, 400)
        decoder.feed(data[:n])
        data = data[n:]
        while (frame := decoder.next()) is not None:
            out.append(frame)

    assert out == frames


def test_a_frame_over_the_bound_is_refused_on_its_length_alone() -> None:
    decoder = FrameDecoder(UNPROVEN_FRAME)
    decoder.feed((UNPROVEN_FRAME + 1).to_bytes(4, "little"))

    with pytest.raises(TransportError, match="4097 bytes"):
        decoder.next()


def test_a_claimed_length_costs_no_memory() -> None:
    decoder = FrameDecoder(DEFAULT_BOUNDS.frame)
    decoder.feed(DEFAULT_BOUNDS.frame.to_bytes(4, "little") + b"x")

    assert decoder.next() is None
    assert sys.getsizeof(decoder._buffer) < 1_000


@contextlib.asynccontextmanager
async def streams(
    bounds: Bounds = DEFAULT_BOUNDS, timing: Timing = PATIENT
) -> AsyncIterator[tuple[FrameStream, FrameStream]]:
    """Two ends of one loopback connection, both proven."""
    accepted: asyncio.Future[FrameStream] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result(FrameStream(reader, writer, bounds, timing))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    opened = await asyncio.open_connection(*server.sockets[0].getsockname())
    client = FrameStream(*opened, bounds, timing)
    other = await accepted
    client.proven()
    other.proven()
    try:
        yield client, other
    finally:
        client.abort()
        other.abort()
        server.close()


async def test_what_is_sent_in_one_turn_goes_out_in_one_write_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with streams() as (client, server):
        writes: list[int] = []
        write = client._writer.write

        def counted(data: bytes) -> None:
            writes.append(len(data))
            write(data)

        monkeypatch.setattr(client._writer, "write", counted)
        for i in range(100):
            client.send(b"%d" % i)

        assert [await server.receive() for _ in range(100)] == [b"%d" % i for i in range(100)]
        assert len(writes) == 1


async def test_small_frames_do_not_wait_for_acknowledgements() -> None:
    async with streams() as (client, server):
        for stream in (client, server):
            sock = stream._writer.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_a_sender_waits_while_the_peer_reads_nothing_and_gives_up() -> None:
    async with streams(replace(DEFAULT_BOUNDS, outbound=64 * 1024), QUICK) as (client, _):

        async def send_for_ever() -> None:
            while True:
                await client.room()
                client.send(bytes(64 * 1024))

        with pytest.raises(TransportError, match="takes no bytes"):
            await asyncio.wait_for(send_for_ever(), 30)

        # One message over the bound at most: memory does not grow with what wants to be sent.
        assert client.waiting_bytes < 4 * 64 * 1024


async def test_a_slow_peer_is_waited_for_as_long_as_it_takes_bytes() -> None:
    async with streams(replace(DEFAULT_BOUNDS, outbound=64 * 1024)) as (client, server):

        async def produce() -> None:
            for i in range(200):
                await client.room()
                client.send(bytes([i % 256]) * 64 * 1024)

        producing = asyncio.create_task(produce())
        for i in range(200):
            assert (await server.receive())[0] == i % 256
        await producing


async def test_an_oversized_message_is_refused_where_it_would_be_sent() -> None:
    async with streams(replace(DEFAULT_BOUNDS, frame=1_000)) as (client, server):
        with pytest.raises(TransportError, match="at most 1000"):
            client.send(bytes(1_001))
        client.send(b"still fine")

        assert await server.receive() == b"still fine"


async def test_a_large_frame_passes() -> None:
    async with streams() as (client, server):
        payload = bytes(range(256)) * 40_000
        client.send(payload)

        assert await server.receive() == payload


async def test_closing_delivers_what_was_sent_and_then_ends() -> None:
    async with streams() as (client, server):
        client.send(b"last words")
        client.close()

        assert await server.receive() == b"last words"
        with pytest.raises(TransportError, match="closed the connection"):
            await server.receive()
        client.send(b"ignored")
