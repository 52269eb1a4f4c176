"""Whether a decision can be answered in time, from the very numbers routing uses."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from jevserve.errors import Overloaded
from jevserve.routing.policy import ReplicaView

#: Retry-After, milliseconds: never so short that clients hammer, never so long that they leave.
MIN_RETRY_MS = 50
MAX_RETRY_MS = 10_000
#: Retry-After where the wait is not known.
UNKNOWN_RETRY_MS = 200
#: Spreads the retries of clients that were refused together.
JITTER = 0.2


class Verdict(StrEnum):
    """Why a decision was admitted or not; a label of metrics.

    FITS: measured rate and backlog say that it can be answered in time.
    UNKNOWN: the rate is not measured or the report is old; that never refuses.
    DEADLINE: it cannot be answered in time.
    QUEUE: the router has as many decisions in flight as it may.
    """

    FITS = "fits"
    UNKNOWN = "unknown"
    DEADLINE = "deadline"
    QUEUE = "queue"


@dataclass(frozen=True)
class Admission:
    """A verdict, and what it was drawn from.

    Attributes:
        need_ms: milliseconds until the answer as far as known, 0 where unknown.
        retry_after_ms: when to try again; 0 for an admitted decision.
    """

    verdict: Verdict
    need_ms: float = 0.0
    retry_after_ms: int = 0

    @property
    def admitted(self) -> bool:
        return self.verdict in (Verdict.FITS, Verdict.UNKNOWN)

    def check(self) -> None:
        """Raises Overloaded unless admitted."""
        if self.admitted:
            return
        if self.verdict is Verdict.QUEUE:
            message = "the service has no room for another decision now"
        elif self.need_ms:
            message = (
                f"an answer would take about {self.need_ms:.0f} ms, which is past the deadline; "
                "retry later, allow more time, or send less"
            )
        else:
            message = "the deadline has passed"
        raise Overloaded(message, retry_after_ms=self.retry_after_ms, reason=self.verdict.value)


def admit(
    cost_tokens: int,
    remaining_ms: float,
    view: ReplicaView,
    now: float,
    in_flight: int,
    max_in_flight: int,
    rng: random.Random,
) -> Admission:
    """Admit a decision to the replica chosen for it, or say when to come back.

    It must wait for the tokens ahead of it and compute its own. How many of its own come from the
    cache is not known here, so the whole cost is counted: a decision may be refused that a warm
    cache would have saved, never the other way round.

    Args:
        cost_tokens: tokens of the decision, shared text counted once.
        remaining_ms: milliseconds until its deadline.
        view: the chosen replica.
        now: seconds of the clock of ``view.received_at``.
        in_flight: decisions this router has in flight, without this one.
        max_in_flight: as many as it may have.
        rng: source of the jitter of Retry-After.
    """
    wait = view.wait_s(now) if view.fresh(now) else None
    retry = retry_after_ms(wait, rng)
    if remaining_ms <= 0:
        return Admission(Verdict.DEADLINE, 0.0, retry)
    if in_flight >= max_in_flight:
        return Admission(Verdict.QUEUE, 0.0, retry)
    rate = view.report.tokens_per_second
    if wait is None or rate <= 0.0:
        return Admission(Verdict.UNKNOWN)
    need_ms = 1e3 * (wait + cost_tokens / rate)
    if need_ms > remaining_ms:
        return Admission(Verdict.DEADLINE, need_ms, retry)
    return Admission(Verdict.FITS, need_ms)


def retry_after_ms(wait_s: float | None, rng: random.Random) -> int:
    """The wait as milliseconds in [50, 10000], give or take a fifth; 200 or so where unknown."""
    base = UNKNOWN_RETRY_MS if wait_s is None else min(1e3 * wait_s, MAX_RETRY_MS)
    jittered = max(base, MIN_RETRY_MS) * rng.uniform(1 - JITTER, 1 + JITTER)
    return round(min(max(jittered, MIN_RETRY_MS), MAX_RETRY_MS))
