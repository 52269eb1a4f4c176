"""Affinity routing: same choice everywhere, only ready replicas, spill only when it pays."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.routing.affinity import AffinityPolicy
from jevserve.routing.policy import Choice, Reason, ReplicaView, RoutingPolicy
from jevserve.transport.base import STALE_AFTER_S, ReplicaReport, ReplicaState

POLICY: RoutingPolicy = AffinityPolicy()
NOW = 1_000.0


def view(
    name: str,
    backlog: int = 0,
    sent: int = 0,
    age: float = 0.0,
    state: ReplicaState = ReplicaState.READY,
    quantum: int = 16,
    rate: float = 1_000.0,
    revision: str = "rev",
) -> ReplicaView:
    report = ReplicaReport(name, "model", revision, state, quantum, rate, backlog_tokens=backlog)
    return ReplicaView(name, report, NOW - age, sent)


def key(n: int) -> bytes:
    return hashlib.blake2b(b"%d" % n, digest_size=16).digest()


def choose(
    keys: tuple[bytes, ...], replicas: list[ReplicaView], seed: int = 0, revision: str = "rev"
) -> Choice | None:
    return POLICY.choose(keys, replicas, NOW, 100, revision=revision, seed=seed)


def owner(n: int, replicas: list[ReplicaView]) -> str:
    choice = choose((key(n),), replicas)
    assert choice is not None and choice.reason is Reason.AFFINITY
    return choice.replica


FLEET = [view(f"engine-{i}") for i in range(10)]


def test_a_key_has_one_owner_whatever_the_order_in_which_replicas_are_known() -> None:
    rng = random.Random(1)
    for n in range(100):
        shuffled = rng.sample(FLEET, len(FLEET))
        assert owner(n, FLEET) == owner(n, shuffled)


def test_owners_are_those_of_every_version_of_this_policy() -> None:
    """Golden: routers of different releases run side by side and must agree."""
    assert [owner(n, FLEET) for n in range(6)] == GOLDEN_OWNERS


GOLDEN_OWNERS = ["engine-3", "engine-6", "engine-8", "engine-1", "engine-7", "engine-2"]


def test_keys_spread_evenly() -> None:
    counts = Counter(owner(n, FLEET) for n in range(10_000))

    assert len(counts) == 10
    assert all(850 < c < 1_150 for c in counts.values())


def test_losing_a_replica_moves_only_its_own_keys() -> None:
    left = FLEET[1:]
    for n in range(500):
        before = owner(n, FLEET)
        if before != "engine-0":
            assert owner(n, left) == before


def test_the_longest_key_decides() -> None:
    for n in range(50):
        alone, with_shorter = choose((key(n),), FLEET), choose((key(n + 1), key(n)), FLEET)
        assert alone == with_shorter


@pytest.mark.parametrize(
    "unfit",
    [
        view("x", state=ReplicaState.STARTING),
        view("x", state=ReplicaState.DRAINING),
        view("x", age=STALE_AFTER_S + 0.01),
        view("x", revision="other"),
    ],
    ids=["starting", "draining", "stale", "another revision"],
)
def test_an_unfit_replica_is_never_chosen(unfit: ReplicaView) -> None:
    assert choose((key(1),), [unfit]) is None
    assert choose((), [unfit, unfit]) is None
    for n in range(50):
        assert choose((key(n),), [unfit, view("fit")]) == Choice("fit", Reason.ONLY)


def test_nothing_known_is_nothing_chosen() -> None:
    assert choose((key(1),), []) is None


def two_for(n: int) -> tuple[str, str]:
    """Owner and runner-up of a key."""
    first = owner(n, FLEET)
    return first, owner(n, [v for v in FLEET if v.replica != first])


def loaded(loads: dict[str, int], quantum: int = 16, rate: float = 1_000.0) -> list[ReplicaView]:
    return [view(v.replica, loads.get(v.replica, 0), quantum=quantum, rate=rate) for v in FLEET]


def test_a_busy_owner_spills_to_the_runner_up_when_that_waits_less_than_half() -> None:
    first, second = two_for(3)

    assert choose((key(3),), loaded({first: 1_000})) == Choice(second, Reason.SPILL)
    assert choose((key(3),), loaded({first: 1_000, second: 499})) == Choice(second, Reason.SPILL)


@pytest.mark.parametrize(("own", "other"), [(200, 0), (1_000, 500), (1_000, 2_000)])
def test_the_owner_keeps_its_key_when_moving_would_not_pay(own: int, other: int) -> None:
    first, second = two_for(3)

    assert choose((key(3),), loaded({first: own, second: other})) == Choice(first, Reason.AFFINITY)


def test_an_owner_of_unknown_rate_keeps_its_key() -> None:
    first, _ = two_for(3)

    choice = choose((key(3),), loaded({first: 10**6}, rate=0.0))
    assert choice == Choice(first, Reason.AFFINITY)


def test_what_this_router_sent_since_the_report_counts() -> None:
    first, second = two_for(3)
    views = [replace(v, sent_tokens=1_000 if v.replica == first else 0) for v in FLEET]

    assert choose((key(3),), views) == Choice(second, Reason.SPILL)


def test_what_was_worked_off_since_the_report_counts() -> None:
    first, _ = two_for(3)
    views = [view(v.replica, 1_000 if v.replica == first else 0, age=0.9) for v in FLEET]

    assert choose((key(3),), views) == Choice(first, Reason.AFFINITY)


@pytest.mark.parametrize("quantum", [0, 16])
def test_without_keys_or_cache_the_less_loaded_of_two_is_taken(quantum: int) -> None:
    keys = () if quantum else (key(3),)
    busy = "engine-4"
    views = loaded({busy: 10_000}, quantum=quantum)
    choices = [choose(keys, views, seed) for seed in range(2_000)]
    counts = Counter(c.replica for c in choices if c is not None)

    assert all(c is not None and c.reason is Reason.TWO_CHOICES for c in choices)
    assert counts[busy] == 0
    assert len(counts) == 9 and min(counts.values()) > 100
    assert choices == [choose(keys, views, seed) for seed in range(2_000)]


views = st.lists(
    st.builds(
        view,
        st.sampled_from([f"r{i}" for i in range(20)]),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.floats(0, 4),
        state=st.sampled_from(ReplicaState),
        quantum=st.sampled_from([0, 16]),
        rate=st.sampled_from([0.0, 1e3, 1e5]),
    ),
    max_size=8,
    unique_by=lambda v: v.replica,
)


@given(views, st.lists(st.binary(min_size=16, max_size=16), max_size=3), st.integers(0, 2**80))
def test_a_choice_is_always_a_fit_replica_and_the_same_again(
    replicas: list[ReplicaView], keys: list[bytes], seed: int
) -> None:
    choice = choose(tuple(keys), replicas, seed)
    fit = {v.replica for v in replicas if v.report.state is ReplicaState.READY and v.fresh(NOW)}

    assert choice == choose(tuple(keys), replicas[::-1], seed)
    assert (choice is None) == (not fit)
    assert choice is None or choice.replica in fit
