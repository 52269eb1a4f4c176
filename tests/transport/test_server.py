"""The replica's end: bounds, deadlines, draining, and nothing left of routers that are gone."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from jevserve.decisions.plan import DecisionResult, PlannedDecision, RowResult
from jevserve.errors import EngineFailed, Overloaded, TransportError
from jevserve.transport.base import ReplicaReport, ReplicaState
from jevserve.transport.frames import FrameStream
from jevserve.transport.limits import DEFAULT_BOUNDS
from jevserve.transport.messages import Answer, Cancel, Decide, Failed, Report
from jevserve.transport.server import Peer
from tests.transport.fakes import (
    PATIENT,
    QUICK,
    FakeExecutor,
    RawPeer,
    Rig,
    decision,
    echo,
    eventually,
    never,
)


async def raw(rig: Rig) -> RawPeer:
    peer = await RawPeer.connect(rig.server.port)
    await peer.prove_as_client()
    return peer


async def test_a_decision_whose_deadline_has_passed_never_reaches_the_engine() -> None:
    async with Rig() as rig:
        link = await rig.link()
        for late in (0, -5):
            with pytest.raises(Overloaded) as caught:
                await link.send(decision(deadline_ms=late))
            assert caught.value.reason == "deadline"

        assert rig.executor.started == 0


async def test_a_decision_that_runs_past_its_deadline_is_cancelled_and_refused() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        with pytest.raises(Overloaded) as caught:
            await (await rig.link()).send(decision(deadline_ms=30))

        assert caught.value.reason == "deadline" and caught.value.retry_after_ms > 0
        assert rig.executor.cancelled == 1


async def test_an_engine_bug_is_an_engine_error_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def bug(asked: PlannedDecision) -> DecisionResult:
        raise KeyError("internal detail")

    async with Rig(FakeExecutor(bug)) as rig:
        with pytest.raises(EngineFailed) as caught:
            await (await rig.link()).send(decision())

        assert "detail" not in str(caught.value)
        assert "internal detail" in caplog.text


async def test_an_engine_that_cancels_or_times_out_by_itself_still_answers() -> None:
    faults: list[BaseException] = [asyncio.CancelledError(), TimeoutError()]

    async def gives_up(asked: PlannedDecision) -> DecisionResult:
        raise faults.pop()

    async with Rig(FakeExecutor(gives_up)) as rig:
        link = await rig.link()
        for _ in range(2):
            with pytest.raises(EngineFailed):
                await link.send(decision())


async def test_an_answer_that_cannot_travel_is_an_engine_error_and_the_link_lives() -> None:
    async def too_much(asked: PlannedDecision) -> DecisionResult:
        return replace(echo(asked), rows=(RowResult((0.0,) * 50_000),), engine_ms=1.0)

    async def nonsense(asked: PlannedDecision) -> DecisionResult:
        return replace(echo(asked), engine_ms=float("nan"))

    for behave in (too_much, nonsense):
        bounds = replace(DEFAULT_BOUNDS, frame=100_000)
        async with Rig(FakeExecutor(behave), bounds=bounds) as rig:
            link = await rig.link()
            with pytest.raises(EngineFailed):
                await link.send(decision())
            assert link.alive


@pytest.mark.parametrize("bound", ["per_connection", "in_flight"])
async def test_decisions_in_flight_are_bounded_and_the_surplus_refused_at_once(
    bound: str,
) -> None:
    bounds = replace(DEFAULT_BOUNDS, **{bound: 3})
    async with Rig(FakeExecutor(never), bounds=bounds) as rig:
        first, second = await rig.link(), await rig.link()
        held = [asyncio.create_task(first.send(decision(str(i)))) for i in range(3)]
        await rig.executor.until(lambda e: e.running == 3)
        with pytest.raises(Overloaded) as caught:
            await first.send(decision("surplus"))
        other = asyncio.create_task(second.send(decision("other")))
        if bound == "in_flight":
            with pytest.raises(Overloaded):
                await other
        else:
            await rig.executor.until(lambda e: e.running == 4)

        assert caught.value.reason == "queue" and caught.value.retry_after_ms > 0
        for task in (*held, other):
            task.cancel()
        await rig.executor.until(lambda e: e.running == 0)


async def test_a_router_that_is_gone_takes_its_decisions_with_it_and_no_others() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        staying, leaving = await rig.link(), await raw(rig)
        kept = asyncio.create_task(staying.send(decision("kept")))
        for i in range(1, 51):
            leaving.say(Decide(i, decision(str(i))))
        await rig.executor.until(lambda e: e.running == 51)
        leaving.close()
        await rig.executor.until(lambda e: e.running == 1)

        assert rig.executor.cancelled == 50 and not kept.done()
        await eventually(lambda: rig.server.connections == 1 and rig.server.in_flight == 1)
        kept.cancel()


async def test_a_request_number_used_twice_ends_the_connection() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        peer = await raw(rig)
        peer.say(Decide(5, decision()))
        peer.say(Decide(5, decision()))
        await peer.ended()
        await rig.executor.until(lambda e: e.running == 0)

        assert rig.executor.started <= 1


async def test_cancelling_what_is_unknown_or_answered_is_ignored() -> None:
    async with Rig() as rig:
        peer = await raw(rig)
        peer.say(Cancel(1))
        peer.say(Decide(1, decision()))
        assert (await peer.hear_of(Answer)).number == 1
        peer.say(Cancel(1))
        peer.say(Cancel(77))
        peer.say(Decide(2, decision()))

        assert (await peer.hear_of(Answer)).number == 2


async def test_a_decision_cancelled_in_the_same_breath_leaves_nothing() -> None:
    async with Rig() as rig:
        peer = await raw(rig)
        for i in range(1, 2_001):
            peer.say(Decide(i, decision()))
            peer.say(Cancel(i))
        peer.say(Decide(3_000, decision()))
        while (await peer.hear_of(Answer)).number != 3_000:
            pass

        await eventually(lambda: rig.server.in_flight == 0)
        assert rig.executor.running == 0


async def test_a_router_that_sends_what_only_replicas_send_is_dropped() -> None:
    async with Rig() as rig:
        peer = await raw(rig)
        peer.say(Report(rig.executor.report()))
        await peer.ended()


async def test_a_router_that_reads_nothing_is_not_read_and_then_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given 1 MB answers that nobody takes, then memory is bounded and the connection ends."""
    queued: list[int] = []
    send = FrameStream.send

    def counted(stream: FrameStream, payload: bytes) -> None:
        send(stream, payload)
        queued.append(stream.waiting_bytes)

    async def large(asked: PlannedDecision) -> DecisionResult:
        return replace(echo(asked), rows=(RowResult((0.0,) * 250_000),))

    monkeypatch.setattr(FrameStream, "send", counted)
    bounds = replace(DEFAULT_BOUNDS, outbound=128 * 1024)
    async with Rig(FakeExecutor(large), bounds=bounds, timing=QUICK) as rig:
        peer = await raw(rig)
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for i in range(1, 21):
            peer.say(Decide(i, decision()))
        stream = next(iter(rig.server._peers)).stream
        looks: list[int] = []

        def stuck() -> bool:
            looks.append(stream.waiting_bytes)
            return stream.crowded and len(looks) > 5 and len(set(looks[-5:])) == 1

        await eventually(lambda: stuck() or rig.server.connections == 0)
        for i in range(21, 31):
            peer.say(Decide(i, decision()))
        await eventually(lambda: rig.server.connections == 0)
        await eventually(lambda: rig.server.in_flight == 0)

        assert rig.executor.started <= 20
        assert max(queued) < 128 * 1024 + 1_100_000


async def test_reports_come_at_their_pace_to_every_router() -> None:
    async with Rig() as rig:
        one, two = await raw(rig), await raw(rig)
        rig.executor.state = ReplicaState.DRAINING
        for peer in (one, two):
            while (await peer.hear_of(Report)).report.state is not ReplicaState.DRAINING:
                pass


async def test_a_replica_that_cannot_report_stays_up(caplog: pytest.LogCaptureFixture) -> None:
    async with Rig() as rig:
        link = await rig.link()

        def broken() -> ReplicaReport:
            raise RuntimeError("no report today")

        rig.executor.report = broken  # type: ignore[method-assign]
        await eventually(lambda: "cannot report" in caplog.text)

        assert await link.send(decision()) == echo(decision())
        with pytest.raises(TransportError):
            await rig.link()


async def test_drain_answers_everything_in_flight_and_refuses_what_comes_after() -> None:
    release = asyncio.Event()

    async def held(asked: PlannedDecision) -> DecisionResult:
        await release.wait()
        return echo(asked)

    async with Rig(FakeExecutor(held)) as rig:
        link, other = await rig.link(), await rig.link()
        sends = [asyncio.create_task(link.send(decision(str(i)))) for i in range(20)]
        await rig.executor.until(lambda e: e.running == 20)
        draining = asyncio.create_task(other.drain())
        await eventually(lambda: rig.server.draining)
        for late in (link, other):
            with pytest.raises(Overloaded) as caught:
                await late.send(decision("late"))
            assert str(caught.value) == "the replica is draining"
            assert caught.value.reason == "draining"
        assert not draining.done()
        release.set()

        assert await asyncio.gather(*sends) == [echo(decision(str(i))) for i in range(20)]
        async with asyncio.timeout(1):
            await draining
        assert rig.executor.started == rig.executor.finished == 20


async def test_what_arrives_just_before_drain_is_answered_and_not_lost() -> None:
    """Conservation: of 200 decisions around the start of a drain each ends in one known way."""
    async with Rig() as rig:
        link = await rig.link()
        sends = [asyncio.create_task(link.send(decision(str(i)))) for i in range(100)]
        await asyncio.sleep(0)
        drained = asyncio.create_task(link.drain())
        await asyncio.sleep(0)
        sends += [asyncio.create_task(link.send(decision(str(i)))) for i in range(100, 200)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        await drained

        assert outcomes[:100] == [echo(decision(str(i))) for i in range(100)]
        assert all(isinstance(o, Overloaded) for o in outcomes[100:])


async def test_a_decision_accepted_before_drain_began_reaches_the_engine() -> None:
    """Given a drain that starts between accepting a decision and its first step."""
    async with Rig() as rig:
        link, entered = await rig.link(), rig.server.entered
        drains: list[asyncio.Task[None]] = []

        def drain_as_well() -> None:
            entered()
            drains.append(asyncio.create_task(rig.server.drain()))

        rig.server.entered = drain_as_well  # type: ignore[method-assign]
        assert await link.send(decision()) == echo(decision())
        await asyncio.gather(*drains)


async def test_drain_waits_for_answers_even_if_the_engine_says_it_is_done() -> None:
    release = asyncio.Event()

    async def held(asked: PlannedDecision) -> DecisionResult:
        await release.wait()
        return echo(asked)

    class Hasty(FakeExecutor):
        async def drain(self) -> None: ...

    async with Rig(Hasty(held)) as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        await rig.executor.until(lambda e: e.running == 1)
        draining = asyncio.create_task(rig.server.drain())
        done, _ = await asyncio.wait([draining], timeout=0.05)
        assert not done
        release.set()

        assert await sending == echo(decision())
        await draining


async def test_reports_do_not_pile_up_for_a_router_that_does_not_read() -> None:
    class FakeStream:
        crowded = True
        sent = 0

        def send(self, payload: bytes) -> None:
            self.sent += 1

        def close(self) -> None: ...

    async with Rig() as rig:
        stream, reader = FakeStream(), await raw(rig)
        rig.server._peers.add(Peer(rig.server, stream))  # type: ignore[arg-type]
        for _ in range(3):
            await reader.hear_of(Report)
        assert stream.sent == 0
        stream.crowded = False
        for _ in range(3):
            await reader.hear_of(Report)
        assert stream.sent > 0


async def test_stop_cancels_what_is_in_flight_and_routers_learn_of_it_at_once() -> None:
    async with Rig(FakeExecutor(never)) as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        await rig.executor.until(lambda e: e.running == 1)
        await rig.server.stop()

        with pytest.raises(TransportError):
            await sending
        assert rig.executor.running == 0 and rig.server.in_flight == 0


async def test_stop_does_not_wait_for_an_engine_that_ignores_cancellation() -> None:
    release = asyncio.Event()

    async def stubborn(asked: PlannedDecision) -> DecisionResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return echo(asked)

    async with Rig(FakeExecutor(stubborn), timing=replace(PATIENT, stop=0.1)) as rig:
        link = await rig.link()
        sending = asyncio.create_task(link.send(decision()))
        await rig.executor.until(lambda e: e.running == 1)
        async with asyncio.timeout(5):
            await rig.server.stop()
        with pytest.raises(TransportError):
            await sending
        release.set()


async def test_three_hundred_connections_leak_neither_memory_nor_descriptors() -> None:
    async def once(rig: Rig) -> None:
        link = await rig.link()
        await link.send(decision(tokens=500))
        await link.close()
        rig.links.clear()

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with Rig() as rig:
        for _ in range(30):
            await once(rig)
        await eventually(lambda: rig.server.connections == 0)
        gc.collect()
        before, tasks = descriptors(), len(asyncio.all_tasks())
        tracemalloc.start()
        base = tracemalloc.get_traced_memory()[0]
        for _ in range(300):
            await once(rig)
        await eventually(lambda: rig.server.connections == 0)
        # Closed connections are remembered for the second that they may take to say goodbye.
        await asyncio.sleep(1.1)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - base
        tracemalloc.stop()

        assert descriptors() <= before
        assert len(asyncio.all_tasks()) <= tasks
        assert grown < 300 * 1_024, f"{grown} bytes"


async def test_a_thousand_abandoned_handshakes_leak_nothing() -> None:
    async with Rig() as rig:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(1_000):
            peer = await RawPeer.connect(rig.server.port)
            peer.writer.write(b"\x30\x00")
            peer.close()
        await eventually(lambda: not rig.server._handlers)

        assert rig.server._unproven == 0
        assert len(os.listdir("/proc/self/fd")) <= before + 2


async def test_a_failed_message_carries_no_number_zero_for_a_decision() -> None:
    async with Rig() as rig:
        peer = await raw(rig)
        peer.say(Decide(1, decision(deadline_ms=0)))

        assert (await peer.hear_of(Failed)).number == 1
