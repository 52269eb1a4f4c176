"""The fallback transport: the same promises as a connection, through calls that return bytes.

The calls go to a real server in this process; only Ray is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import EngineFailed, JevserveError, Overloaded, TransportError
from jevserve.transport.handle import LOST_AFTER, POLL_S, HandleLink
from jevserve.transport.messages import Answer, Cancel, Decide, Failed, Report, decode, encode
from tests.transport.fakes import PATIENT, FakeExecutor, Rig, decision, echo, eventually, never


class Ticks:
    """A clock and a sleep in a test's hand: a sleeper wakes when the test lets time pass."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self._wakes = 0
        self._wake: asyncio.Queue[None] = asyncio.Queue()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._wake.get()
        self.now += seconds

    async def pass_once(self) -> None:
        """Wake the sleeper; returns when it sleeps again or is gone."""
        self.wake()
        for _ in range(100):
            await asyncio.sleep(0)
            if self.sleeps_again():
                return

    def wake(self) -> None:
        self._wakes += 1
        self._wake.put_nowait(None)

    def sleeps_again(self) -> bool:
        return len(self.slept) > self._wakes


class Handle:
    """A link to a server in this process, by two functions as Ray's handle gives them.

    Attributes:
        broken: raised by every call while it is set, as Ray does for a replica that is gone.
        forgotten: calls never return, as those to a replica that Serve does not know.
        calls: decisions that were sent.
    """

    def __init__(self, executor: FakeExecutor | None = None, grace: float = 1.0) -> None:
        self.rig = Rig(executor)
        self.ticks = Ticks()
        self.broken: BaseException | None = None
        self.forgotten = False
        self.calls = 0
        self.answer: Callable[[bytes], bytes] | None = None
        self.report: bytes | None = None
        timing = replace(PATIENT, handshake=0.05, grace=grace)
        self.link = HandleLink(
            self.decide, self.fetch, timing=timing, clock=self.ticks.clock, sleep=self.ticks.sleep
        )

    async def decide(self, payload: bytes) -> bytes:
        self.calls += 1
        await self._reach()
        if self.answer is not None:
            return self.answer(payload)
        return await self.rig.server.answer(payload)

    async def fetch(self) -> bytes:
        await self._reach()
        return self.rig.server.report() if self.report is None else self.report

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        if self.forgotten:
            await asyncio.Event().wait()

    async def __aenter__(self) -> Handle:
        await self.link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.link.close()


async def test_decisions_are_answered_each_with_its_own_result() -> None:
    asked = [decision(f"decision-{i}", tokens=i + 1) for i in range(50)]
    async with Handle() as handle:
        answers = await asyncio.gather(*(handle.link.send(d) for d in asked))

    assert answers == [echo(d) for d in asked]


@pytest.mark.parametrize(
    "error",
    [Overloaded("busy", retry_after_ms=77, reason="queue"), EngineFailed("the engine broke")],
)
async def test_what_the_replica_answers_instead_of_a_result_is_raised(
    error: JevserveError,
) -> None:
    async def fail(asked: PlannedDecision) -> DecisionResult:
        raise error

    async with Handle(FakeExecutor(fail)) as handle:
        with pytest.raises(type(error)) as caught:
            await handle.link.send(decision())

        assert vars(caught.value) == vars(error)
        assert handle.link.alive


async def test_an_engine_that_raises_something_else_is_an_engine_that_failed() -> None:
    async def broken(asked: PlannedDecision) -> DecisionResult:
        raise ZeroDivisionError("a secret of the engine")

    async with Handle(FakeExecutor(broken)) as handle:
        with pytest.raises(EngineFailed) as caught:
            await handle.link.send(decision())

    assert "secret" not in caught.value.message


@pytest.mark.parametrize("error", [RuntimeError("actor died"), asyncio.CancelledError()])
async def test_a_call_that_breaks_may_be_tried_elsewhere(error: BaseException) -> None:
    """Given what Ray raises for a replica that is gone or was told to give up, then nobody is
    told that the caller left: the decision is free for another replica."""
    async with Handle() as handle:
        handle.broken = error
        with pytest.raises(TransportError) as caught:
            await handle.link.send(decision())
        assert "actor died" not in caught.value.message

        handle.broken = None
        assert await handle.link.send(decision()) == echo(decision())


@pytest.mark.parametrize(
    "answer",
    [
        encode(Cancel(1)),
        encode(Answer(1, echo(decision("another")))),
        encode(Report(FakeExecutor().report())),
    ],
    ids=["no answer", "another decision's", "a report"],
)
async def test_an_answer_that_does_not_fit_its_decision_is_an_error(answer: bytes) -> None:
    async with Handle() as handle:
        handle.answer = lambda _: answer
        with pytest.raises(EngineFailed):
            await handle.link.send(decision())


async def test_an_answer_that_cannot_be_read_is_the_links_failure() -> None:
    async with Handle() as handle:
        handle.answer = lambda _: b"\xc1"
        with pytest.raises(TransportError, match="malformed"):
            await handle.link.send(decision())


async def test_cancelling_a_send_cancels_the_decision_at_the_replica() -> None:
    async with Handle(FakeExecutor(never)) as handle:
        executor = handle.rig.executor
        sending = asyncio.create_task(handle.link.send(decision()))
        await executor.until(lambda e: e.running == 1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await executor.until(lambda e: e.running == 0)

        assert executor.cancelled == 1
        assert handle.rig.server.in_flight == 0
        async with asyncio.timeout(5):
            await handle.link.idle()


async def test_a_call_that_never_returns_does_not_hold_the_caller() -> None:
    """Given a replica that Serve has forgotten, then send ends a grace after the deadline."""
    async with Handle(grace=0.01) as handle:
        handle.forgotten = True
        async with asyncio.timeout(5):
            with pytest.raises(Overloaded) as caught:
                await handle.link.send(decision(deadline_ms=20))
            await handle.link.idle()

    assert caught.value.reason == "deadline"
    assert caught.value.retry_after_ms > 0


async def test_a_replica_that_does_not_report_cannot_be_opened() -> None:
    handle = Handle()
    for broken, forgotten in ((RuntimeError("no such actor"), False), (None, True)):
        handle.broken, handle.forgotten = broken, forgotten
        async with asyncio.timeout(5):
            with pytest.raises(TransportError, match="no report"):
                await handle.link.open()
        assert not handle.link.alive
        assert handle.link.report() is None
        with pytest.raises(TransportError, match="not reachable"):
            await handle.link.send(decision())

    assert handle.calls == 0


async def test_something_else_than_a_report_is_refused() -> None:
    handle = Handle()
    handle.report = encode(Failed(1, "engine_error", "no"))
    with pytest.raises(TransportError, match="something else"):
        await handle.link.open()


async def test_the_report_is_the_replicas_and_ages_until_the_next_one() -> None:
    async with Handle() as handle:
        link, ticks = handle.link, handle.ticks
        assert link.report() == (handle.rig.executor.report(), 0.0)

        ticks.now += 0.5
        assert link.report() == (handle.rig.executor.report(), 0.5)

        handle.rig.executor.running = 3
        ticks.now = 100.0
        await ticks.pass_once()
        seen = link.report()

        assert seen is not None
        assert (seen[0].backlog_rows, seen[1]) == (3, 0.0)
        assert set(ticks.slept) == {POLL_S}
        handle.rig.executor.running = 0


@pytest.mark.parametrize("error", [RuntimeError("gone"), asyncio.CancelledError()])
async def test_polls_that_fail_in_a_row_lose_the_link(error: BaseException) -> None:
    async with Handle() as handle:
        link, ticks = handle.link, handle.ticks
        handle.broken = error
        for _ in range(LOST_AFTER - 1):
            await ticks.pass_once()
            assert link.alive
        handle.broken = None
        await ticks.pass_once()  # one that succeeds starts the count anew
        handle.broken = error
        for _ in range(LOST_AFTER - 1):
            await ticks.pass_once()
            assert link.alive
        await ticks.pass_once()

        async with asyncio.timeout(5):
            assert await link.lost() == "no report"
        assert not link.alive
        calls = handle.calls
        with pytest.raises(TransportError, match="no report"):
            await link.send(decision())
        assert handle.calls == calls


async def test_a_poll_that_never_returns_counts_as_failed() -> None:
    async with Handle() as handle:
        handle.forgotten = True
        async with asyncio.timeout(10):
            for _ in range(LOST_AFTER - 1):
                handle.ticks.wake()
                await eventually(handle.ticks.sleeps_again)
                assert handle.link.alive
            handle.ticks.wake()
            assert await handle.link.lost() == "no report"


async def test_closing_fails_what_is_in_flight_and_closing_again_is_fine() -> None:
    async with Handle(FakeExecutor(never)) as handle:
        sending = asyncio.create_task(handle.link.send(decision()))
        await handle.rig.executor.until(lambda e: e.running == 1)
        await handle.link.close()
        await handle.link.close()

        with pytest.raises(TransportError, match="closed"):
            await sending
        assert handle.rig.executor.cancelled == 1
        async with asyncio.timeout(5):
            assert await handle.link.lost() == "closed"
            await handle.link.idle()


async def test_idle_and_drained_once_the_last_decision_is_answered() -> None:
    gate = asyncio.Event()

    async def held(asked: PlannedDecision) -> DecisionResult:
        await gate.wait()
        return echo(asked)

    async with Handle(FakeExecutor(held)) as handle, asyncio.timeout(5):
        await handle.link.idle()
        sends = [asyncio.create_task(handle.link.send(decision(str(i)))) for i in range(2)]
        await handle.rig.executor.until(lambda e: e.running == 2)
        waits = [asyncio.create_task(w) for w in (handle.link.idle(), handle.link.drain())]
        await asyncio.sleep(0)
        assert not any(w.done() for w in waits)
        gate.set()
        await asyncio.gather(*waits)

        assert [s.result().id for s in sends if s.done()] == ["0", "1"]


async def test_a_server_answers_one_decision_without_a_connection() -> None:
    rig = Rig()
    message = decode(await rig.server.answer(encode(Decide(7, decision()))))

    assert message == Answer(7, echo(decision()))
    assert rig.server.in_flight == 0


async def test_a_server_that_drains_refuses_and_answers_what_it_accepted() -> None:
    gate = asyncio.Event()

    async def held(asked: PlannedDecision) -> DecisionResult:
        await gate.wait()
        return echo(asked)

    rig = Rig(FakeExecutor(held))
    accepted = asyncio.create_task(rig.server.answer(encode(Decide(1, decision()))))
    await rig.executor.until(lambda e: e.running == 1)
    drained = asyncio.create_task(rig.server.drain())
    await asyncio.sleep(0)

    refused = decode(await rig.server.answer(encode(Decide(2, decision()))))
    assert isinstance(refused, Failed)
    assert (refused.number, refused.reason) == (2, "draining")
    assert not drained.done()
    gate.set()
    async with asyncio.timeout(5):
        await drained
        assert decode(await accepted) == Answer(1, echo(decision()))


@pytest.mark.parametrize("message", [Cancel(1), Report(FakeExecutor().report())])
async def test_only_a_decision_can_be_asked_of_a_server(message: Cancel | Report) -> None:
    with pytest.raises(TransportError, match="only a decision"):
        await Rig().server.answer(encode(message))


async def test_what_is_no_message_reaches_no_engine() -> None:
    rig = Rig()
    with pytest.raises(TransportError, match="malformed"):
        await rig.server.answer(b"\xc1")

    assert rig.executor.started == 0
