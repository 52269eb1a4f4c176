"""How a planned decision travels from a router to an engine replica.

One interface with two implementations: ``connection`` (own kept-alive multiplexed connection,
the default) and ``handle`` (a Ray Serve handle, the fallback). Both carry the same messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from jevserve.decisions.plan import DecisionResult, PlannedDecision


class ReplicaState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True)
class ReplicaReport:
    """What an engine replica says about itself every 100 ms.

    Routing, admission, ``Retry-After`` and scaling all read this one record. A report older than
    ``STALE_AFTER_S`` means unknown, never idle.

    Attributes:
        replica: replica id.
        model: canonical model name.
        revision: content hash of the prepared model.
        state: starting, ready or draining.
        reuse_quantum: tokens per reusable cache block, 0 where the model has no prefix cache.
        tokens_per_second: measured rate of computed tokens, 0.0 until measured.
        round_ms: measured cost of one engine round, 0.0 until measured.
        backlog_tokens: tokens accepted and not yet computed (uncached where known).
        backlog_rows: rows accepted and not yet answered.
        steps: engine rounds so far; a backlog with a standing counter means a hung engine.
        started_at: Unix time the replica became ready, 0.0 before.
        decisions: decisions accepted so far; a fall means a restart.
        rows: rows submitted so far.
        computed_tokens: tokens computed so far.
        cached_tokens: tokens taken from the prefix cache so far.
    """

    replica: str
    model: str
    revision: str
    state: ReplicaState = ReplicaState.STARTING
    reuse_quantum: int = 0
    tokens_per_second: float = 0.0
    round_ms: float = 0.0
    backlog_tokens: int = 0
    backlog_rows: int = 0
    steps: int = 0
    started_at: float = 0.0
    decisions: int = 0
    rows: int = 0
    computed_tokens: int = 0
    cached_tokens: int = 0


REPORT_EVERY_S = 0.1
STALE_AFTER_S = 2.0
#: With decisions outstanding, this long without a frame from the replica means a dead link.
DEAD_AFTER_S = 5.0


class EngineLink(ABC):
    """A router's link to one engine replica.

    Opened once (``open``), shared by every decision, closed once. Methods are safe to call
    concurrently from one event loop.
    """

    @abstractmethod
    async def open(self) -> None:
        """Connect and prove the shared secret both ways. Raises TransportError."""

    @abstractmethod
    async def send(self, decision: PlannedDecision) -> DecisionResult:
        """Execute a decision. Cancelling the awaiting task cancels it at the replica too.

        Raises:
            TransportError: the link broke before an answer came; the decision may be retried
                elsewhere (decisions are pure).
            JevserveError: what the replica answered instead of a result.
        """

    @abstractmethod
    def report(self) -> tuple[ReplicaReport, float] | None:
        """The last report and its age in seconds, None before the first."""

    @abstractmethod
    async def drain(self) -> None:
        """Ask the replica to accept nothing more; returns when its last decision is answered."""

    @abstractmethod
    async def close(self) -> None:
        """Close; decisions in flight fail with TransportError."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether ``send`` can be tried."""


class KeptLink(EngineLink):
    """A link that a pool can keep: it tells when it is lost and when nothing is in flight."""

    @abstractmethod
    async def lost(self) -> str:
        """Returns once the link is broken or closed, with the reason."""

    @abstractmethod
    async def idle(self) -> None:
        """Returns once nothing is in flight, or the link is lost."""


class DecisionExecutor(ABC):
    """The replica's side: what a transport server calls."""

    @abstractmethod
    async def execute(self, decision: PlannedDecision) -> DecisionResult:
        """Run a decision's rows; cancelling the task aborts them in the engine."""

    @abstractmethod
    def report(self) -> ReplicaReport:
        """The current report."""

    @abstractmethod
    async def drain(self) -> None:
        """Stop accepting; return when nothing is in flight."""
