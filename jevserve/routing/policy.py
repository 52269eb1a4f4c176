"""What every routing policy sees and says.

A policy is a pure function of explicit inputs, time included: it never waits, keeps no state
between calls, and gives the same choice in every router that sees the same inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jevserve.transport.base import STALE_AFTER_S, ReplicaReport, ReplicaState


class Reason(StrEnum):
    """Why a replica was chosen; a label of metrics."""

    ONLY = "only"
    AFFINITY = "affinity"
    SPILL = "spill"
    TWO_CHOICES = "two_choices"


@dataclass(frozen=True)
class Choice:
    replica: str
    reason: Reason


@dataclass(frozen=True)
class ReplicaView:
    """What a router knows of one replica.

    Attributes:
        replica: its id in membership, by which its link is found.
        report: its last report.
        received_at: when that came, seconds of the router's monotonic clock.
        sent_tokens: tokens this router has sent to it since, which the report cannot know.
    """

    replica: str
    report: ReplicaReport
    received_at: float
    sent_tokens: int = 0

    def fresh(self, now: float) -> bool:
        """Whether the report still says anything; an old one means unknown, never idle."""
        return now - self.received_at <= STALE_AFTER_S

    def waiting_tokens(self, now: float) -> float:
        """Tokens ahead of a decision sent now: reported backlog, worked off since, plus own."""
        done = self.report.tokens_per_second * max(0.0, now - self.received_at)
        return max(0.0, self.report.backlog_tokens - done) + self.sent_tokens

    def wait_s(self, now: float) -> float | None:
        """Seconds until a decision sent now would start, None where the rate is not measured."""
        waiting = self.waiting_tokens(now)
        if waiting == 0.0:
            return 0.0
        rate = self.report.tokens_per_second
        return waiting / rate if rate > 0.0 else None


def candidates(replicas: Sequence[ReplicaView], revision: str, now: float) -> list[ReplicaView]:
    """Replicas that may be chosen: ready, heard of lately, and of the planned revision."""
    return [
        v
        for v in replicas
        if v.report.state is ReplicaState.READY and v.report.revision == revision and v.fresh(now)
    ]


class RoutingPolicy(Protocol):
    """One way to choose."""

    def choose(
        self,
        keys: tuple[bytes, ...],
        replicas: Sequence[ReplicaView],
        now: float,
        cost_tokens: int,
        *,
        revision: str,
        seed: int,
    ) -> Choice | None:
        """The replica for one decision, None when nothing is ready.

        Args:
            keys: affinity keys, shortest prefix first; empty for a decision that shares nothing.
            replicas: every replica the router knows of the model.
            now: seconds of the clock of ``received_at``.
            cost_tokens: tokens of the decision, shared text counted once.
            revision: content hash of the model that the decision was planned for.
            seed: what stands for chance, different for every decision.
        """
        ...
