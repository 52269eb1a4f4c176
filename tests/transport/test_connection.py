"""The router's end: every decision gets its own answer, or a prompt error."""

from __future__ import annotations

import asyncio
import gc
import random
from dataclasses import replace

import pytest

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import EngineFailed, JevserveError, Overloaded, TransportError
from jevserve.transport.messages import Answer, Cancel, Decide, Drain, Failed, Report, encode
from tests.transport.fakes import (
    PATIENT,
    QUICK,
    FakeExecutor,
    RawPeer,
    Rig,
    decision,
    echo,
    eventually,
    fake_replica,
    never,
)


async def test_a_decision_is_answered_and_the_report_comes_with_its_age() -> None:
    async with Rig() as rig:
        link = await rig.link()
        seen = link.report()

        assert await link.send(decision()) == echo(decision())
        assert seen is not None and seen[0] == rig.executor.report()
        assert 0 <= seen[1] < 1


async def test_a_thousand_concurrent_decisions_keep_their_answers_apart() -> None:
    rng = random.Random(7)
    waits = {f"decision-{i}": rng.random() * 0.05 for i in range(1_000)}

    async def shuffled(asked: PlannedDecision) -> DecisionResult:
        await asyncio.sleep(waits[asked.id])
        return echo(asked)

    asked = [
        decision(f"decision-{i}", tokens=rng.randint(1, 400), rows=rng.randint(1, 6))
        for i in range(1_000)
    ]
    async with Rig(FakeExecutor(shuffled)) as rig:
        link = await rig.link()
        answers = await asyncio.gather(*(link.send(d) for d in asked))

        assert answers == [echo(d) for d in asked]
        assert link.in_flight == 0


async def test_answers_may_come_in_any_order_twice_or_unasked() -> None:
    async def chaotic(peer: RawPeer) -> None:
        await peer.prove_as_server()
        first, second = await peer.hear_of(Decide), await peer.hear_of(Decide)
        peer.say(Answer(999, echo(first.decision)))
        for asked in (second, second, first, second, first):
            peer.say(Answer(asked.number, echo(asked.decision)))
        peer.say(Failed(second.number, "engine_error", "too late to matter"))
        third = await peer.hear_of(Decide)
        peer.say(Answer(third.number, echo(third.decision)))
        await peer.ended()

    async with Rig() as rig, fake_replica(chaotic) as port:
        link = await rig.link(port=port)
        both = await asyncio.gather(*(link.send(decision(id)) for id in ("a", "bb")))

        assert both == [echo(decision("a")), echo(decision("bb"))]
        assert await link.send(decision("ccc")) == echo(decision("ccc"))


@pytest.mark.parametrize(
    "answer",
    [echo(decision("another")), replace(echo(decision()), rows=echo(decision()).rows[:1])],
    ids=["another id", "a row too few"],
)
async def test_an_answer_that_does_not_fit_its_decision_is_an_error(
    answer: DecisionResult,
) -> None:
    async def wrong(asked: PlannedDecision) -> DecisionResult:
        return answer

    async with Rig(FakeExecutor(wrong)) as rig:
        with pytest.raises(EngineFailed):
            await (await rig.link()).send(decision())


@pytest.mark.parametrize(
    "error",
    [Overloaded("busy", retry_after_ms=77, reason="queue"), EngineFailed("the engine broke")],
)
async def test_what_the_replica_answers_instead_of_a_result_is_raised(
    error: JevserveError,
) -> None:
    async def fail(asked: PlannedDecision) -> DecisionResult:
        raise error

    async with Rig(FakeExecutor(fail)) as rig:
        link = await rig.link()
        with pytest.raises(type(error)) as caught:
            await link.send(decision())

        assert vars(caught.value) == vars(error)
        assert link.alive


async def test_cancelling_a_send_cancels_the_decision_at_the_replica() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        await rig.executor.until(lambda e: e.running == 1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await rig.executor.until(lambda e: e.running == 0)

        assert rig.executor.cancelled == 1 and link.in_flight == 0
        await eventually(lambda: rig.server.in_flight == 0)


async def test_a_storm_of_cancellations_leaves_nothing_pending_at_either_end() -> None:
    """Given 2,000 sends cancelled at random moments, then both ends count zero and still work."""
    rng = random.Random(11)

    async def sometimes(asked: PlannedDecision) -> DecisionResult:
        if random.Random(asked.id).random() < 0.5 and asked.id != "after":
            return await never(asked)
        await asyncio.sleep(random.Random(asked.id).random() * 0.05)
        return echo(asked)

    async with Rig(FakeExecutor(sometimes)) as rig:
        link = await rig.link()
        sends = [asyncio.create_task(link.send(decision(str(i)))) for i in range(2_000)]
        rng.shuffle(sends)
        for i, send in enumerate(sends):
            send.cancel()
            if i % 100 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*sends, return_exceptions=True)

        assert rig.executor.started > 100
        assert link.in_flight == 0 and not link._pending
        await eventually(lambda: rig.server.in_flight == 0)
        assert rig.executor.running == 0
        assert await link.send(decision("after")) == echo(decision("after"))


async def test_a_send_cancelled_before_it_starts_sends_nothing() -> None:
    async with Rig() as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await link.send(decision("b"))

        assert rig.executor.started == 1


async def test_a_replica_that_dies_in_the_middle_of_an_answer_fails_all_that_wait() -> None:
    async def dies(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.hear_of(Decide)
        await peer.hear_of(Decide)
        peer.writer.write((5_000).to_bytes(4, "little") + b"\x93\xa6answer")
        await peer.writer.drain()

    async with Rig() as rig, fake_replica(dies) as port:
        link = await rig.link(port=port)
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(
                *(link.send(decision(str(i))) for i in range(2)), return_exceptions=True
            )

        assert [type(o) for o in outcomes] == [TransportError] * 2
        assert not link.alive and link.in_flight == 0
        assert await link.lost()
        with pytest.raises(TransportError):
            await link.send(decision())
        with pytest.raises(TransportError, match="opened once"):
            await link.open()


async def test_a_replica_that_falls_silent_with_decisions_outstanding_is_dead() -> None:
    async def half_open(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.ended()

    async with Rig(timing=QUICK) as rig, fake_replica(half_open) as port:
        link = await rig.link(port=port)
        async with asyncio.timeout(5):
            with pytest.raises(TransportError, match=r"no word from the replica for 0\.3 s"):
                await link.send(decision())

        assert not link.alive


async def test_a_silent_replica_with_nothing_outstanding_is_stale_and_not_dead() -> None:
    async def half_open(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.ended()

    async with Rig(timing=QUICK) as rig, fake_replica(half_open) as port:
        link = await rig.link(port=port)
        await asyncio.sleep(3 * QUICK.dead)
        seen = link.report()

        assert link.alive and seen is not None
        assert seen[1] > 2 * QUICK.dead


async def test_a_busy_replica_that_reports_is_not_dead() -> None:
    async def slow(asked: PlannedDecision) -> DecisionResult:
        await asyncio.sleep(2.2)
        return echo(asked)

    async with Rig(FakeExecutor(slow), timing=replace(PATIENT, dead=1.0)) as rig:
        assert await (await rig.link()).send(decision()) == echo(decision())


@pytest.mark.parametrize(
    "garbage",
    [b"\xc1", b"\x92\xa6answer\x01", b"\x92\xa6cancel\x01", b""],
    ids=["no msgpack", "fields missing", "a router's message", "empty"],
)
async def test_a_replica_that_breaks_the_protocol_is_dropped(garbage: bytes) -> None:
    async def broken(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.hear_of(Decide)
        peer.write_frame(garbage)
        await peer.ended()

    async with Rig() as rig, fake_replica(broken) as port:
        link = await rig.link(port=port)
        with pytest.raises(TransportError):
            await link.send(decision())

        assert not link.alive


async def test_an_oversized_answer_is_not_read() -> None:
    async def boastful(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.hear_of(Decide)
        peer.writer.write(b"\xff\xff\xff\xff")
        await peer.ended()

    async with Rig() as rig, fake_replica(boastful) as port:
        link = await rig.link(port=port)
        with pytest.raises(TransportError, match="4294967295 bytes"):
            await link.send(decision())


async def test_a_replica_that_writes_slowly_is_understood() -> None:
    async def slow_writer(peer: RawPeer) -> None:
        await peer.prove_as_server()
        asked = await peer.hear_of(Decide)
        payload = encode(Answer(asked.number, echo(asked.decision)))
        for byte in len(payload).to_bytes(4, "little") + payload:
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await peer.ended()

    async with Rig() as rig, fake_replica(slow_writer) as port:
        assert await (await rig.link(port=port)).send(decision()) == echo(decision())


async def test_a_replica_that_ignores_the_deadline_does_not_hold_the_caller() -> None:
    """Given a replica that reports and never answers, then send ends a grace after the deadline."""
    told = asyncio.Event()

    async def forgetful(peer: RawPeer) -> None:
        await peer.prove_as_server()

        async def report() -> None:
            while True:
                peer.say(Report(FakeExecutor().report()))
                await asyncio.sleep(0.02)

        reporting = asyncio.create_task(report())
        await peer.hear_of(Cancel)
        told.set()
        reporting.cancel()

    async with Rig() as rig, fake_replica(forgetful) as port:
        link = await rig.link(port=port)
        async with asyncio.timeout(5):
            with pytest.raises(Overloaded) as caught:
                await link.send(decision(deadline_ms=20))
            await told.wait()

        assert caught.value.reason == "deadline"
        assert link.in_flight == 0


async def test_closing_fails_what_is_in_flight_and_closing_again_is_fine() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        await rig.executor.until(lambda e: e.running == 1)
        await link.close()
        await link.close()

        with pytest.raises(TransportError, match="closed"):
            await sending
        await rig.executor.until(lambda e: e.running == 0)


async def test_a_port_nobody_listens_on_is_a_transport_error() -> None:
    async with Rig() as rig:
        port = rig.server.port
    rig.links.clear()
    with pytest.raises(TransportError, match=r"refused|failed"):
        await rig.link(port=port)


async def test_drain_waits_for_the_last_answer_and_fails_with_the_link() -> None:
    async def leaves(peer: RawPeer) -> None:
        await peer.prove_as_server()
        await peer.hear_of(Drain)

    async with Rig() as rig, fake_replica(leaves) as port:
        link = await rig.link(port=port)
        with pytest.raises(TransportError):
            await link.drain()


async def test_no_failure_is_left_unretrieved(caplog: pytest.LogCaptureFixture) -> None:
    """Given sends given up just when the link breaks, then asyncio has nothing to complain of."""
    async with Rig(FakeExecutor(never)) as rig:
        link = await rig.link()
        sends = [asyncio.create_task(link.send(decision(str(i)))) for i in range(20)]
        await rig.executor.until(lambda e: e.running == 20)
        for send in sends[:10]:
            send.cancel()
        link._break("a fault injected by the test")
        await asyncio.gather(*sends, return_exceptions=True)
        del sends, send
        gc.collect()

    assert "never retrieved" not in caplog.text
