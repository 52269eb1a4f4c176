"""Admission: refuse what is known to be late, never what is unknown."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.admission.deadline import Admission, Verdict, admit, retry_after_ms
from jevserve.errors import Overloaded
from jevserve.routing.policy import ReplicaView
from jevserve.transport.base import ReplicaReport, ReplicaState

NOW = 50.0


def ask(
    cost: int = 100,
    remaining_ms: float = 1_000,
    backlog: int = 0,
    rate: float = 1_000.0,
    age: float = 0.0,
    in_flight: int = 0,
) -> Admission:
    report = ReplicaReport("r", "m", "rev", ReplicaState.READY, 16, rate, backlog_tokens=backlog)
    view = ReplicaView("r", report, NOW - age)
    return admit(cost, remaining_ms, view, NOW, in_flight, 10, random.Random(1))


def test_what_fits_is_admitted_with_the_time_it_needs() -> None:
    admission = ask(cost=100, backlog=400)

    assert admission == Admission(Verdict.FITS, 500.0)
    admission.check()


def test_what_cannot_be_done_in_time_is_refused_with_the_time_to_come_back() -> None:
    admission = ask(cost=100, backlog=2_000)

    assert admission.verdict is Verdict.DEADLINE and admission.need_ms == 2_100.0
    with pytest.raises(Overloaded, match="2100 ms") as caught:
        admission.check()
    assert caught.value.reason == "deadline"
    assert 1_600 <= caught.value.retry_after_ms <= 2_400


def test_its_own_cost_alone_can_be_too_much() -> None:
    assert ask(cost=1_001).verdict is Verdict.DEADLINE
    assert ask(cost=1_000).verdict is Verdict.FITS


@pytest.mark.parametrize(
    "unknown", [{"rate": 0.0}, {"age": 2.5}], ids=["rate not measured", "report old"]
)
def test_the_unknown_never_refuses(unknown: dict[str, float]) -> None:
    admission = ask(cost=10**9, backlog=10**9, **unknown)  # type: ignore[arg-type]

    assert admission.verdict is Verdict.UNKNOWN and admission.admitted


def test_a_deadline_in_the_past_is_refused_whatever_is_known() -> None:
    for remaining in (0, -1.0):
        with pytest.raises(Overloaded, match="has passed"):
            ask(remaining_ms=remaining, rate=0.0).check()


def test_a_full_router_refuses_by_queue() -> None:
    assert ask(in_flight=9).admitted
    with pytest.raises(Overloaded) as caught:
        ask(in_flight=10).check()
    assert caught.value.reason == "queue" and caught.value.retry_after_ms >= 50


@given(st.one_of(st.none(), st.floats(0, 1e9)), st.integers())
def test_retry_after_stays_within_its_bounds_and_near_the_wait(
    wait: float | None, seed: int
) -> None:
    retry = retry_after_ms(wait, random.Random(seed))

    assert 50 <= retry <= 10_000
    if wait is not None and 0.1 <= wait <= 8:
        assert 0.79 * 1e3 * wait <= retry <= 1.21 * 1e3 * wait


def test_retries_of_clients_refused_together_are_spread() -> None:
    rng = random.Random(2)

    assert len({retry_after_ms(1.0, rng) for _ in range(100)}) > 50


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**5))
def test_more_backlog_or_less_time_never_turns_a_refusal_into_an_admission(
    cost: int, remaining: int, backlog: int, more: int
) -> None:
    if not ask(cost, remaining, backlog).admitted:
        assert not ask(cost, remaining, backlog + more).admitted
        assert not ask(cost, remaining - more, backlog).admitted
