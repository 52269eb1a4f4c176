"""A fleet: which replica gets a decision, what is tried again, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jevserve.decisions.plan import PlanBuilder, PlannedDecision, Readout, ReadoutKind
from jevserve.errors import (
    EngineFailed,
    JevserveError,
    MaxTokensExceeded,
    Overloaded,
    TransportError,
)
from jevserve.serving.fleet import ATTEMPTS, Fleet
from jevserve.transport.base import STALE_AFTER_S, ReplicaState
from tests.serving.fake_engines import REVISION, FakeEngineLink, Held, failing, pool_of

KEYS = (b"k" * 16,)
COST = 100


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """A fleet on fake links and a given clock."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self.fleet, self.clock = fleet, clock
        self.made: list[PlannedDecision] = []
        build = PlanBuilder()
        build.row(build.segment([1, 2, 3]), Readout(ReadoutKind.SCALAR))
        self.plan = build.build()

    def decision(self, milliseconds_left: int) -> PlannedDecision:
        id = f"attempt-{len(self.made)}"
        self.made.append(PlannedDecision(id, REVISION, self.plan, deadline_ms=milliseconds_left))
        return self.made[-1]

    async def decide(
        self,
        *,
        keys: tuple[bytes, ...] = KEYS,
        cost: int = COST,
        within_s: float = 8.0,
        revision: str = REVISION,
    ) -> str:
        """The id of the attempt that was answered."""
        deadline = self.clock.now + within_s
        return (await self.fleet.decide(self.decision, keys, cost, revision, deadline)).id


@asynccontextmanager
async def rig(*links: FakeEngineLink) -> AsyncIterator[Rig]:
    pool, clock = await pool_of(*links), Clock()
    try:
        yield Rig(Fleet(pool, clock=clock, rng=random.Random(1)), clock)
    finally:
        await pool.close()


def overloaded(reason: str, retry_after_ms: int = 321) -> Overloaded:
    return Overloaded("no", retry_after_ms=retry_after_ms, reason=reason)


async def test_a_decision_goes_to_the_only_replica_with_the_time_that_is_left() -> None:
    link = FakeEngineLink("a")
    async with rig(link) as r:
        assert await r.decide(within_s=2.5) == "attempt-0"

    assert [d.deadline_ms for d in link.sent] == [2_500]


async def test_equal_keys_go_to_one_replica() -> None:
    links = [FakeEngineLink(name) for name in "abcd"]
    async with rig(*links) as r:
        for _ in range(10):
            await r.decide()

    assert sorted(len(link.sent) for link in links) == [0, 0, 0, 10]


async def test_keys_spread_over_replicas() -> None:
    links = [FakeEngineLink(name) for name in "abcd"]
    async with rig(*links) as r:
        for i in range(60):
            await r.decide(keys=(hashlib.blake2b(bytes([i]), digest_size=16).digest(),))

    assert all(link.sent for link in links)


async def test_what_was_sent_since_a_report_counts_as_waiting() -> None:
    links = [FakeEngineLink(name, tokens_per_second=1e4, reuse_quantum=0) for name in "ab"]
    async with rig(*links) as r:
        for _ in range(10):
            await r.decide(keys=())

    assert [len(link.sent) for link in links] == [5, 5]


async def test_a_broken_link_costs_a_retry_elsewhere_with_less_time() -> None:
    links = [FakeEngineLink(name) for name in "ab"]
    async with rig(*links) as r:

        async def breaks(_: PlannedDecision) -> None:
            r.clock.now += 0.75
            raise TransportError("gone")

        await r.decide()
        (owner,) = [link for link in links if link.sent]
        (other,) = [link for link in links if link is not owner]
        owner.behave = breaks

        assert await r.decide() == "attempt-2"

    assert [d.id for d in other.sent] == ["attempt-2"]
    assert [d.deadline_ms for d in r.made[1:]] == [8_000, 7_250]


@pytest.mark.parametrize("reason", ["draining", "starting", "queue", "engine_died"])
async def test_what_one_replica_cannot_take_now_another_does(reason: str) -> None:
    links = [FakeEngineLink(name) for name in "ab"]
    async with rig(*links) as r:
        await r.decide()
        (owner,) = [link for link in links if link.sent]
        (other,) = [link for link in links if link is not owner]
        owner.behave = failing(overloaded(reason))

        assert await r.decide() == "attempt-2"
        assert [d.id for d in other.sent] == ["attempt-2"]

        assert await r.decide() == "attempt-3"

    assert [d.id for d in owner.sent] == ["attempt-0", "attempt-1", "attempt-3"]


async def test_when_every_replica_refuses_the_last_refusal_is_told() -> None:
    links = [FakeEngineLink(name, failing(overloaded("queue"))) for name in "ab"]
    async with rig(*links) as r:
        with pytest.raises(Overloaded) as refused:
            await r.decide()

    assert (refused.value.reason, refused.value.retry_after_ms) == ("queue", 321)
    assert [len(link.sent) for link in links] == [1, 1]


@pytest.mark.parametrize("error", [TransportError("gone"), overloaded("queue")])
async def test_attempts_are_bounded(error: JevserveError) -> None:
    links = [FakeEngineLink(str(i), failing(*[error] * 9)) for i in range(ATTEMPTS + 3)]
    async with rig(*links) as r:
        with pytest.raises(Overloaded):
            await r.decide()

    assert sum(len(link.sent) for link in links) == ATTEMPTS
    assert max(len(link.sent) for link in links) == 1


async def test_when_every_link_breaks_nobody_is_left() -> None:
    links = [FakeEngineLink(name, failing(TransportError("gone"))) for name in "ab"]
    async with rig(*links) as r:
        with pytest.raises(Overloaded, match="every replica that was tried failed") as refused:
            await r.decide()

    assert refused.value.reason == "no_replica"
    assert refused.value.retry_after_ms > 0


@pytest.mark.parametrize(
    "error", [EngineFailed("broken"), MaxTokensExceeded("too long"), overloaded("deadline")]
)
async def test_an_answer_that_another_replica_would_give_too_is_final(
    error: JevserveError,
) -> None:
    links = [FakeEngineLink(name, failing(error)) for name in "ab"]
    async with rig(*links) as r:
        with pytest.raises(type(error)) as raised:
            await r.decide()

    assert raised.value is error
    assert sum(len(link.sent) for link in links) == 1


@pytest.mark.parametrize(
    "unfit",
    [
        {"state": ReplicaState.STARTING},
        {"state": ReplicaState.DRAINING},
        {"revision": "another"},
    ],
)
async def test_a_replica_that_is_not_ready_or_of_another_revision_gets_nothing(
    unfit: dict[str, object],
) -> None:
    link = FakeEngineLink("a", **unfit)
    async with rig(link) as r:
        assert r.fleet.ready(REVISION) == 0
        with pytest.raises(Overloaded, match="no replica is ready") as refused:
            await r.decide()

        fit = {"state": ReplicaState.READY, "revision": REVISION}
        link.says(**fit)
        assert r.fleet.ready(REVISION) == 1
        await r.decide()

    assert refused.value.reason == "no_replica"
    assert len(link.sent) == 1


async def test_a_replica_not_heard_of_lately_is_unknown() -> None:
    link = FakeEngineLink("a")
    link.age_s = STALE_AFTER_S + 0.1
    async with rig(link) as r:
        assert r.fleet.ready(REVISION) == 0
        with pytest.raises(Overloaded, match="no replica is ready"):
            await r.decide()


async def test_without_replicas_nobody_can_answer() -> None:
    async with rig() as r:
        with pytest.raises(Overloaded) as refused:
            await r.decide()

    assert refused.value.reason == "no_replica"


@pytest.mark.parametrize("within_s", [0.0, -1.0])
async def test_a_deadline_that_has_passed_makes_no_engine_call(within_s: float) -> None:
    link = FakeEngineLink("a")
    async with rig(link) as r:
        with pytest.raises(Overloaded) as refused:
            await r.decide(within_s=within_s)

    assert refused.value.reason == "deadline"
    assert link.sent == []


async def test_a_decision_that_cannot_be_answered_in_time_makes_no_engine_call() -> None:
    link = FakeEngineLink("a", tokens_per_second=1_000.0, backlog_tokens=7_000)
    async with rig(link) as r:
        await r.decide(cost=900)
        with pytest.raises(Overloaded, match="past the deadline") as refused:
            await r.decide(cost=1_100)

    assert refused.value.reason == "deadline"
    assert refused.value.retry_after_ms > 1_000
    assert len(link.sent) == 1


async def test_a_deadline_that_passes_between_attempts_ends_them() -> None:
    links = [FakeEngineLink(name) for name in "ab"]
    async with rig(*links) as r:

        async def breaks_late(_: PlannedDecision) -> None:
            r.clock.now += 9.0
            raise TransportError("gone")

        for link in links:
            link.behave = breaks_late
        with pytest.raises(Overloaded) as refused:
            await r.decide(within_s=8.0)

    assert refused.value.reason == "deadline"
    assert sum(len(link.sent) for link in links) == 1


async def test_a_cancelled_decision_is_cancelled_at_its_replica_and_not_tried_again() -> None:
    links = [FakeEngineLink(name, Held()) for name in "ab"]
    async with rig(*links) as r:
        task = asyncio.create_task(r.decide())
        async with asyncio.timeout(10):
            await asyncio.wait(
                [asyncio.ensure_future(link.arrived.wait()) for link in links],
                return_when=asyncio.FIRST_COMPLETED,
            )
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert sum(link.cancelled for link in links) == 1
    assert sum(len(link.sent) for link in links) == 1
