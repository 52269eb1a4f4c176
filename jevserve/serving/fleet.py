"""The engine replicas of one model as a router sees them: choose, admit, send, try elsewhere."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from jevserve.admission.deadline import UNKNOWN_RETRY_MS, admit
from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import Overloaded, TransportError
from jevserve.routing.affinity import AffinityPolicy
from jevserve.routing.ledger import SentLedger
from jevserve.routing.policy import ReplicaView, RoutingPolicy, candidates
from jevserve.transport.base import ReplicaReport
from jevserve.transport.pool import LinkPool

#: Attempts of one decision: decisions are pure, so a broken link or a leaving replica costs a
#: retry. More would multiply traffic when everything is failing.
ATTEMPTS = 3

#: Reasons of a replica's refusal after which another replica may well accept.
ELSEWHERE = frozenset({"draining", "starting", "queue", "engine_died"})


class Fleet:
    """Replicas of one model revision."""

    def __init__(
        self,
        pool: LinkPool,
        policy: RoutingPolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.pool = pool
        self._policy = policy or AffinityPolicy()
        self._ledger = SentLedger()
        self._clock = clock
        self._rng = rng or random.Random()

    def reports(self) -> dict[str, tuple[ReplicaReport, float]]:
        return self.pool.reports()

    def ready(self, revision: str) -> int:
        """Replicas that could take a decision now."""
        return len(self._candidates(revision, set()))

    async def decide(
        self,
        decision: Callable[[int], PlannedDecision],
        keys: tuple[bytes, ...],
        cost_tokens: int,
        revision: str,
        deadline: float,
    ) -> DecisionResult:
        """Run one decision on the replica that the policy chooses, or on another if it is lost.

        Args:
            decision: makes the planned decision for an attempt, given the milliseconds left.
            keys: affinity keys of the plan.
            cost_tokens: tokens of the plan, shared text counted once.
            revision: of the prepared model.
            deadline: seconds on the fleet's clock.

        Raises:
            Overloaded: no replica can take it, or none in time.
            JevserveError: what the replica answered.
        """
        tried: set[str] = set()
        refused: Overloaded | None = None
        seed = self._rng.getrandbits(32)
        while True:
            now = self._clock()
            views = self._candidates(revision, tried)
            choice = self._policy.choose(
                keys, views, now, cost_tokens, revision=revision, seed=seed
            )
            if choice is None:
                # A replica that said why and until when knows more than "nobody is left".
                raise refused or self._nobody(tried)
            view = next(v for v in views if v.replica == choice.replica)
            remaining = 1e3 * (deadline - now)
            admit(cost_tokens, remaining, view, now, 0, 1, self._rng).check()
            tried.add(choice.replica)
            link = self.pool.links().get(choice.replica)
            if link is None:
                continue  # lost since its report was read
            self._ledger.sent(view, cost_tokens)
            try:
                return await link.send(decision(int(remaining)))
            except TransportError:
                if len(tried) >= ATTEMPTS:
                    raise self._nobody(tried) from None
            except Overloaded as refusal:
                if refusal.reason not in ELSEWHERE or len(tried) >= ATTEMPTS:
                    raise
                refused = refusal

    def _candidates(self, revision: str, tried: set[str]) -> list[ReplicaView]:
        now = self._clock()
        views = self._ledger.views(self.reports(), now)
        return [v for v in candidates(views, revision, now) if v.replica not in tried]

    def _nobody(self, tried: set[str]) -> Overloaded:
        what = "every replica that was tried failed" if tried else "no replica is ready"
        return Overloaded(
            f"the model cannot answer now: {what}; retry",
            retry_after_ms=UNKNOWN_RETRY_MS,
            reason="no_replica",
        )
