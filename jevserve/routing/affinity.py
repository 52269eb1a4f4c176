"""Prefix affinity by rendezvous hashing, with a spill when the owner is busy.

Rendezvous (highest random weight): every replica scores every key, the highest score owns it.
All routers agree without talking, and a lost replica moves only the keys that it owned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from jevserve.routing.policy import Choice, Reason, ReplicaView, candidates

MASK = 2**64 - 1


@dataclass(frozen=True)
class AffinityPolicy:
    """The owner of the longest key, unless it is busy and the runner-up is not.

    Attributes:
        spill_after_s: wait at the owner from which the runner-up is considered.
        spill_ratio: the runner-up takes over when its wait is below this share of the owner's.
            Half: a cold replica computes the shared prefix again, which must be worth it.
    """

    spill_after_s: float = 0.2
    spill_ratio: float = 0.5

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
        """See ``RoutingPolicy.choose``. The cost of the decision does not change this choice."""
        ready = candidates(replicas, revision, now)
        if not ready:
            return None
        if len(ready) == 1:
            return Choice(ready[0].replica, Reason.ONLY)
        if not keys or not any(v.report.reuse_quantum for v in ready):
            first, second = top_two(seed & MASK, ready)
            least = min((first, second), key=lambda v: pressure(v, now))
            return Choice(least.replica, Reason.TWO_CHOICES)
        owner, next_owner = top_two(int.from_bytes(keys[-1][:8], "little"), ready)
        wait = owner.wait_s(now)
        if wait is not None and wait > self.spill_after_s:
            other = next_owner.wait_s(now)
            if other is not None and other < self.spill_ratio * wait:
                return Choice(next_owner.replica, Reason.SPILL)
        return Choice(owner.replica, Reason.AFFINITY)


def top_two(key: int, ready: list[ReplicaView]) -> tuple[ReplicaView, ReplicaView]:
    """The two highest scores for a key; the order of ``ready`` does not matter."""
    first = second = ready[0]
    best = next_best = (-1, "")
    for view in ready:
        score = (mix(key ^ identity(view.replica)), view.replica)
        if score > best:
            second, next_best = first, best
            first, best = view, score
        elif score > next_best:
            second, next_best = view, score
    return first, second


def pressure(view: ReplicaView, now: float) -> tuple[float, float]:
    """Orders replicas by wait; one whose rate is not measured yet comes after idle ones."""
    wait = view.wait_s(now)
    return (float("inf") if wait is None else wait, view.waiting_tokens(now))


@lru_cache(maxsize=16_384)
def identity(replica: str) -> int:
    """64 bits that stand for a replica id, the same in every process."""
    return int.from_bytes(hashlib.blake2b(replica.encode(), digest_size=8).digest(), "little")


def mix(x: int) -> int:
    """A bijection of 64-bit numbers in which every input bit changes half of the output bits.

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014, variant 13 of Stafford's).
    """
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)
