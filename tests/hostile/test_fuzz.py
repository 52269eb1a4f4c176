"""Whatever arrives, the door answers in time, in JSON, with a reason, and never with a 5xx."""

from __future__ import annotations

from random import Random

import pytest

from tests.hostile.cases import FAMILIES, case
from tests.hostile.fuzz import door, run

MIB = 2**20


def test_a_case_is_its_seed_and_number():
    numbers = Random(7).sample(range(10_000), 20)
    assert [case(3, n) for n in numbers] == [case(3, n) for n in numbers]
    assert case(3, 1) != case(4, 1)


def test_hostile_requests_break_no_promise():
    with door() as (url, process):
        outcome = run(url, seed=7, cases=500, process=process)
    assert not outcome.failures
    assert all(outcome.statuses[name] for name in FAMILIES)


@pytest.mark.long
def test_ten_thousand_hostile_requests_break_no_promise_and_leave_no_memory_behind():
    with door() as (url, process):
        outcome = run(url, seed=1, cases=10_000, process=process)
    assert not outcome.failures
    assert outcome.growth() <= 10 * MIB
