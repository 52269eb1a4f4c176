"""Links to engines that do not exist: they fake the engine, while pool and policies are real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from jevserve.decisions.plan import DecisionResult, PlannedDecision, RowResult
from jevserve.transport.base import KeptLink, ReplicaReport, ReplicaState
from jevserve.transport.pool import Address, LinkPool

REVISION = "revision"

Behaviour = Callable[[PlannedDecision], Awaitable[DecisionResult]]


def answered(decision: PlannedDecision, replica: str = "") -> DecisionResult:
    """One result a row: value i of a row is minus i, so the first candidate is the likeliest."""
    plan = decision.plan
    rows = tuple(
        RowResult(
            tuple(-float(i) for i in range(max(1, len(row.readout.labels)))),
            cached_tokens=1,
            computed_tokens=plan.row_length(index) - 1,
        )
        for index, row in enumerate(plan.rows)
    )
    return DecisionResult(decision.id, rows, engine_ms=3.0, queue_ms=0.5, replica=replica)


class FakeEngineLink(KeptLink):
    """A link that is open at once and answers as ``behave`` says.

    Attributes:
        sent: every decision that was sent, in order.
        cancelled: how many were cancelled while they waited.
        age_s: age of the report.
    """

    def __init__(self, replica: str, behave: Behaviour | None = None, **report: object) -> None:
        self.replica, self.behave = replica, behave
        self.sent: list[PlannedDecision] = []
        self.cancelled = 0
        self.age_s = 0.0
        self.arrived = asyncio.Event()
        self._report = ReplicaReport(replica, "m", REVISION, ReplicaState.READY, reuse_quantum=16)
        self.says(**report)
        self._lost = asyncio.Event()

    def says(self, **report: object) -> None:
        """Change what the replica reports."""
        self._report = replace(self._report, **report)

    async def open(self) -> None:
        pass

    async def send(self, decision: PlannedDecision) -> DecisionResult:
        self.sent.append(decision)
        self.arrived.set()
        try:
            if self.behave is not None:
                return await self.behave(decision)
            return answered(decision, self.replica)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def report(self) -> tuple[ReplicaReport, float]:
        return self._report, self.age_s

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        self._lost.set()

    @property
    def alive(self) -> bool:
        return not self._lost.is_set()

    async def lost(self) -> str:
        await self._lost.wait()
        return "closed"

    async def idle(self) -> None:
        pass


async def pool_of(*links: FakeEngineLink) -> LinkPool:
    """A real pool whose members are these links, all open."""
    by_replica = {link.replica: link for link in links}
    pool = LinkPool(lambda address: by_replica[address.host])
    pool.update({replica: Address(replica, 1) for replica in by_replica})
    async with asyncio.timeout(10):
        while len(pool.links()) < len(links):
            await pool.change()
    return pool


def failing(*errors: Exception) -> Behaviour:
    """Raises the errors one after another, then answers."""
    left = list(errors)

    async def behave(decision: PlannedDecision) -> DecisionResult:
        if left:
            raise left.pop(0)
        return answered(decision)

    return behave


class Held:
    """Behaviour of an engine that answers only once it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, decision: PlannedDecision) -> DecisionResult:
        await self.gate.wait()
        return answered(decision)
