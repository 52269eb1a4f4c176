"""Nobody gets in, and no replica is believed, without the cluster secret."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from jevserve.errors import TransportError
from jevserve.transport.limits import DEFAULT_BOUNDS
from jevserve.transport.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Challenge,
    Decide,
    Failed,
    Hello,
    Proof,
)
from jevserve.transport.secret import ClusterSecret, Role, TlsFiles
from tests.transport.certificates import authority
from tests.transport.fakes import (
    PATIENT,
    SECRET,
    RawPeer,
    Rig,
    decision,
    echo,
    eventually,
    fake_replica,
)

WRONG = ClusterSecret(b"another secret of enough bytes..")


async def test_a_router_with_another_secret_is_refused_and_the_reason_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Rig() as rig:
        with pytest.raises(TransportError, match="did not prove"):
            await rig.link(WRONG)

        assert rig.server.connections == 0
        assert "the router did not prove the cluster secret" in caplog.text
        assert "bytes.." not in caplog.text and "only tests share" not in caplog.text
        assert (await (await rig.link()).send(decision())) == echo(decision())


async def test_a_replica_with_another_secret_is_not_believed() -> None:
    async def impostor(peer: RawPeer) -> None:
        await peer.hear_of(Hello)
        peer.say(Challenge(PROTOCOL_VERSION, bytes(32)))
        await peer.hear_of(Proof)
        peer.say(Proof(bytes(32)))
        await peer.ended()

    async with Rig() as rig, fake_replica(impostor) as port:
        with pytest.raises(TransportError, match="did not prove"):
            await rig.link(port=port)


async def test_a_proof_sent_back_proves_nothing() -> None:
    """Given a replica that returns the router's own nonce and proof, then it is refused."""

    async def mirror(peer: RawPeer) -> None:
        hello = await peer.hear_of(Hello)
        peer.say(Challenge(PROTOCOL_VERSION, hello.nonce))
        peer.say(await peer.hear_of(Proof))
        await peer.ended()

    async with Rig() as rig, fake_replica(mirror) as port:
        with pytest.raises(TransportError, match="did not prove"):
            await rig.link(port=port)


async def test_a_recorded_handshake_does_not_open_a_second_connection() -> None:
    async with Rig() as rig:
        nonce = os.urandom(32)
        first = await RawPeer.connect(rig.server.port)
        first.say(Hello(PROTOCOL_VERSION, nonce))
        challenge = await first.hear_of(Challenge)
        proof = Proof(SECRET.proof(Role.CLIENT, PROTOCOL_VERSION, nonce, challenge.nonce))
        first.say(proof)
        await first.hear_of(Proof)

        second = await RawPeer.connect(rig.server.port)
        second.say(Hello(PROTOCOL_VERSION, nonce))
        assert (await second.hear_of(Challenge)).nonce != challenge.nonce
        second.say(proof)
        refusal = await second.hear_of(Failed)

        assert refusal.number == 0 and "did not prove" in refusal.message
        first.close()


async def test_a_peer_of_another_version_is_told_so_on_both_sides() -> None:
    async def future(peer: RawPeer) -> None:
        await peer.hear_of(Hello)
        peer.say(Challenge(99, bytes(32)))
        await peer.ended()

    async with Rig() as rig, fake_replica(future) as port:
        with pytest.raises(TransportError, match="version 99"):
            await rig.link(port=port)
        peer = await RawPeer.connect(rig.server.port)
        peer.say(Hello(99, bytes(32)))
        refusal = await peer.hear_of(Failed)

        assert "version 99" in refusal.message and str(PROTOCOL_VERSION) in refusal.message


@pytest.mark.parametrize(
    "opening",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        bytes(64),
        b"\x05\x00\x00\x00\xdd\xff\xff\xff\xff",
        (64 * 1024 * 1024).to_bytes(4, "little"),
    ],
    ids=["http", "tls", "zeros", "list bomb", "huge length"],
)
async def test_garbage_instead_of_a_hello_ends_the_connection_at_once(opening: bytes) -> None:
    async with Rig(timing=replace(PATIENT, handshake=60.0)) as rig:
        peer = await RawPeer.connect(rig.server.port)
        peer.writer.write(opening)
        await peer.ended()

        assert (await (await rig.link()).send(decision())) == echo(decision())


@pytest.mark.parametrize("message", [Cancel(1), Decide(1, decision()), Proof(bytes(32))])
async def test_nothing_is_executed_before_the_proof(message: Cancel | Decide | Proof) -> None:
    async with Rig() as rig:
        peer = await RawPeer.connect(rig.server.port)
        peer.say(message)
        await peer.ended()

        assert rig.executor.started == 0


async def test_a_peer_that_says_nothing_is_dropped_when_the_handshake_time_is_over() -> None:
    async with Rig(timing=replace(PATIENT, handshake=0.5)) as rig:
        peer = await RawPeer.connect(rig.server.port)
        refusal = await peer.hear_of(Failed)
        await peer.ended()

        assert "no proof within 0.5 s" in refusal.message


async def test_a_replica_that_says_nothing_fails_the_open_in_time() -> None:
    async def mute(peer: RawPeer) -> None:
        await peer.ended()

    async with Rig(timing=replace(PATIENT, handshake=0.5)) as rig, fake_replica(mute) as port:
        with pytest.raises(TransportError, match=r"no answer within 0\.5 s"):
            await rig.link(port=port)


async def test_unproven_connections_are_bounded_and_routers_get_in_afterwards() -> None:
    timing = replace(PATIENT, handshake=5.0)
    async with Rig(bounds=replace(DEFAULT_BOUNDS, unproven=3), timing=timing) as rig:
        waiting = [await RawPeer.connect(rig.server.port) for _ in range(3)]
        await eventually(lambda: rig.server._unproven == 3)
        surplus = await RawPeer.connect(rig.server.port)
        await surplus.ended()
        for peer in waiting:
            peer.close()
        await eventually(lambda: rig.server._unproven == 0)

        assert (await (await rig.link()).send(decision())) == echo(decision())


async def test_with_tls_files_both_ends_need_a_certificate_of_the_authority(
    tmp_path: Path,
) -> None:
    ours, others = authority(tmp_path / "ours"), authority(tmp_path / "others")
    mixed = TlsFiles(others.cert, others.key, ours.ca)
    async with Rig(tls=ours) as rig:
        link = await rig.link(tls=ours)
        assert await link.send(decision(tokens=5_000)) == echo(decision(tokens=5_000))
        for stranger in (others, mixed, None):
            with pytest.raises(TransportError):
                await rig.link(tls=stranger)

        assert rig.server.connections == 1


async def test_opening_can_be_cancelled_and_leaves_nothing_behind() -> None:
    async def mute(peer: RawPeer) -> None:
        await peer.ended()

    async with Rig(timing=replace(PATIENT, handshake=60.0)) as rig, fake_replica(mute) as port:
        opening = asyncio.create_task(rig.link(port=port))
        await eventually(lambda: bool(rig.links) and rig.links[0]._stream is not None)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

        assert not rig.links[0].alive


async def test_a_refused_connection_is_logged_without_what_the_peer_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with Rig() as rig:
        peer = await RawPeer.connect(rig.server.port)
        peer.write_frame(b"\xa9my-secret")
        await peer.ended()

    assert "refused" in caplog.text and "my-secret" not in caplog.text
