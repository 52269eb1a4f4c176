"""The pool: who is in, who is out, and nobody's answer lost when a replica leaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import TransportError
from jevserve.transport.base import KeptLink, ReplicaReport
from jevserve.transport.connection import ConnectionLink
from jevserve.transport.pool import Address, Backoff, LinkPool
from tests.transport.fakes import PATIENT, SECRET, FakeExecutor, Rig, decision, echo


class FakeLink(KeptLink):
    """A link without a connection: opens when it is told to, breaks when it is told to."""

    def __init__(self, address: Address, opens: bool) -> None:
        self.address, self.opens, self.opened, self.closed = address, opens, False, False
        self._lost, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        if not self.opens:
            raise TransportError("refused by the test")
        self.opened = True

    async def send(self, decision: PlannedDecision) -> DecisionResult:
        self._idle.clear()
        return echo(decision)

    def answered(self) -> None:
        self._idle.set()

    def report(self) -> tuple[ReplicaReport, float] | None:
        return (ReplicaReport(self.address.host, "m", "r"), 0.5) if self.opened else None

    async def drain(self) -> None: ...

    async def close(self) -> None:
        self.closed = True
        self._lost.set()

    def breaks(self) -> None:
        self._lost.set()

    @property
    def alive(self) -> bool:
        return self.opened and not self._lost.is_set()

    async def lost(self) -> str:
        await self._lost.wait()
        return "broken by the test"

    async def idle(self) -> None:
        await self._idle.wait()


class Stage:
    """A pool on fake links and a clock that only moves when told."""

    def __init__(self, backoff: Backoff = Backoff()) -> None:  # noqa: B008
        self.made: list[FakeLink] = []
        self.down: set[str] = set()
        self.now = 0.0
        self.sleeps: list[float] = []
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self.pool = LinkPool(
            self.connect, backoff, clock=lambda: self.now, sleep=self.sleep, rng=random.Random(3)
        )

    def connect(self, address: Address) -> FakeLink:
        self.made.append(FakeLink(address, address.host not in self.down))
        return self.made[-1]

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if seconds > 0:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.sleepers.append((self.now + seconds, woken))
            await woken

    async def settle(self, until: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not until():  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for at, woken in self.sleepers:
            if at <= self.now and not woken.done():
                woken.set_result(None)
        for _ in range(20):
            await asyncio.sleep(0)


A, B = Address("a", 1), Address("b", 2)


async def test_members_get_links_and_those_who_leave_lose_them() -> None:
    stage = Stage()
    stage.pool.update({"a": A, "b": B})
    await stage.settle(lambda: len(stage.pool.links()) == 2)
    assert stage.pool.reports()["a"] == (ReplicaReport("a", "m", "r"), 0.5)

    stage.pool.update({"b": B})
    assert set(stage.pool.links()) == {"b"}
    await stage.settle(lambda: stage.made[0].closed)
    await stage.pool.close()
    assert stage.made[1].closed and stage.pool.links() == {}


async def test_an_unchanged_membership_changes_nothing() -> None:
    stage = Stage()
    for _ in range(5):
        stage.pool.update({"a": A})
        await stage.settle(lambda: len(stage.pool.links()) == 1)

    assert len(stage.made) == 1
    await stage.pool.close()


async def test_a_replica_at_a_new_address_is_a_new_replica() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    await stage.settle(lambda: "a" in stage.pool.links())
    stage.pool.update({"a": B})
    await stage.settle(lambda: "a" in stage.pool.links())

    assert [link.address for link in stage.made] == [A, B]
    await stage.settle(lambda: stage.made[0].closed)
    await stage.pool.close()


async def test_a_broken_link_is_out_at_once_and_replaced_at_once() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    await stage.settle(lambda: "a" in stage.pool.links())
    stage.made[0].breaks()
    assert stage.pool.links() == {}
    await stage.settle(lambda: "a" in stage.pool.links())

    assert len(stage.made) == 2 and stage.sleeps == [0.0]
    assert stage.pool.out() == frozenset()
    await stage.pool.close()


async def test_a_replica_that_failed_twice_is_out_until_a_reconnect_succeeds() -> None:
    stage = Stage()
    stage.pool.update({"a": A, "b": B})
    await stage.settle(lambda: len(stage.pool.links()) == 2)
    stage.down.add("a")
    stage.made[0].breaks()
    await stage.settle(lambda: stage.pool.out() == {"a"})
    stage.pool.update({"a": A, "b": B})
    await stage.advance(60)

    assert set(stage.pool.links()) == {"b"} and stage.pool.out() == {"a"}
    stage.down.clear()
    await stage.advance(60)
    await stage.settle(lambda: set(stage.pool.links()) == {"a", "b"})
    assert stage.pool.out() == frozenset()
    await stage.pool.close()


async def test_waits_grow_to_a_bound_and_are_jittered() -> None:
    stage = Stage(Backoff(first=0.1, most=5.0))
    stage.down.add("a")
    stage.pool.update({"a": A})
    for _ in range(12):
        await stage.advance(10)
    waits = stage.sleeps[1:]

    assert stage.sleeps[0] == 0.0
    for n, wait in enumerate(waits):
        full = min(5.0, 0.1 * 2**n)
        assert full / 2 <= wait <= full
    assert len(set(waits[-4:])) == 4
    await stage.pool.close()


async def test_a_link_that_opens_and_breaks_again_and_again_is_backed_off_too() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    for n in range(6):
        await stage.settle(lambda n=n: len(stage.made) > n and stage.made[n].opened)  # type: ignore[misc]
        stage.made[n].breaks()
        await stage.settle(lambda n=n: len(stage.sleeps) > n)  # type: ignore[misc]
        await stage.advance(stage.sleeps[-1] + 0.01)

    assert stage.sleeps[5] > 8 * stage.sleeps[1] / 2
    await stage.settle(lambda: len(stage.made) == 7 and stage.made[6].opened)
    await stage.advance(10)
    stage.made[6].breaks()
    await stage.settle(lambda: len(stage.sleeps) == 7)
    assert stage.sleeps[6] == 0.0
    await stage.pool.close()


async def test_a_removed_replica_keeps_its_link_until_its_answers_have_come() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    await stage.settle(lambda: "a" in stage.pool.links())
    await stage.pool.links()["a"].send(decision())
    stage.pool.update({})
    await stage.advance(100)
    assert not stage.made[0].closed and stage.pool.links() == {}

    stage.made[0].answered()
    await stage.settle(lambda: stage.made[0].closed)
    await stage.pool.close()


async def test_a_removed_replica_whose_link_breaks_is_let_go() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    await stage.settle(lambda: "a" in stage.pool.links())
    await stage.pool.links()["a"].send(decision())
    stage.pool.update({})
    stage.made[0].breaks()
    await stage.settle(lambda: stage.made[0].closed and not stage.pool._retiring)
    await stage.pool.close()


async def test_change_wakes_whoever_waits_for_a_replica() -> None:
    stage = Stage()

    async def first_link() -> KeptLink | object:
        while not stage.pool.links():
            await stage.pool.change()
        return stage.pool.links()["a"]

    waiting = asyncio.create_task(first_link())
    await asyncio.sleep(0)
    stage.pool.update({"a": A})
    async with asyncio.timeout(5):
        assert await waiting is stage.made[0]
    await stage.pool.close()


async def test_a_closed_pool_keeps_nothing_and_takes_nothing() -> None:
    stage = Stage()
    stage.down.add("b")
    stage.pool.update({"a": A, "b": B})
    await stage.settle(lambda: "a" in stage.pool.links() and stage.pool.out() == {"b"})
    tasks = len(asyncio.all_tasks())
    await stage.pool.close()

    assert len(asyncio.all_tasks()) == tasks - 2
    with pytest.raises(TransportError):
        stage.pool.update({"a": A})


async def test_closing_right_after_a_replica_left_closes_its_link_too() -> None:
    stage = Stage()
    stage.pool.update({"a": A})
    await stage.settle(lambda: "a" in stage.pool.links())
    stage.pool.update({})
    await stage.pool.close()

    assert stage.made[0].closed and not stage.pool._retiring


async def test_on_real_connections_a_replica_may_die_return_and_leave() -> None:
    """Given a replica killed and started again on its port, then its link comes back by itself."""
    release = asyncio.Event()

    async def held(asked: PlannedDecision) -> DecisionResult:
        if asked.id == "held":
            await release.wait()
        return echo(asked)

    pool = LinkPool(
        lambda at: ConnectionLink(at.host, at.port, SECRET, timing=PATIENT),
        Backoff(first=0.02, most=0.05),
    )

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await pool.change()

    async with Rig(FakeExecutor(held)) as rig:
        members = {"r": Address("127.0.0.1", rig.server.port)}
        pool.update(members)
        await until(lambda: "r" in pool.links())
        assert await pool.links()["r"].send(decision()) == echo(decision())
        await rig.server.stop()
        await until(lambda: pool.out() == {"r"})
        rig.server._port = members["r"].port
        await rig.server.start()
        await until(lambda: "r" in pool.links())

        last = asyncio.create_task(pool.links()["r"].send(decision("held")))
        await rig.executor.until(lambda e: e.running == 1)
        pool.update({})
        release.set()
        assert await last == echo(decision("held"))
        await pool.close()
