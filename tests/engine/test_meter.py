"""The meter: counts that balance, and a rate that only work under load can change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.engine.meter import SATURATED_TOKENS, TAU_S, Meter

#: One event: (seconds since the one before, which of the rows under way it is for, what happens).
EVENTS = st.lists(
    st.tuples(
        st.floats(0, 30), st.integers(0, 50), st.sampled_from(["accept", "done", "drop", "step"])
    ),
    max_size=60,
)


@given(EVENTS, st.lists(st.integers(1, 2_000), min_size=1, max_size=8))
def test_the_backlog_is_always_what_came_in_less_what_left(events, lengths: list[int]) -> None:
    meter, now, waiting = Meter(), 0.0, []
    for elapsed, pick, event in events:
        now += elapsed
        if event == "accept":
            meter.accepted(len(lengths), sum(lengths), now)
            waiting += lengths
        elif event == "step":
            meter.step()
        elif waiting:
            tokens = waiting.pop(pick % len(waiting))
            if event == "done":
                meter.row_done(tokens, computed=tokens, cached=0, now=now)
            else:
                meter.row_dropped(tokens, now)
        assert (meter.backlog_rows, meter.backlog_tokens) == (len(waiting), sum(waiting))
        assert meter.tokens_per_second >= 0.0
        assert meter.round_ms >= 0.0

    for tokens in waiting:
        meter.row_dropped(tokens, now)

    assert (meter.backlog_rows, meter.backlog_tokens) == (0, 0)


def test_totals_count_everything_that_was_accepted_and_answered() -> None:
    meter = Meter()
    meter.accepted(2, 30, 0.0)
    meter.row_done(10, computed=4, cached=6, now=1.0)
    meter.row_done(20, computed=20, cached=0, now=2.0)
    meter.accepted(1, 5, 3.0)
    meter.row_dropped(5, 4.0)
    meter.step()

    assert (meter.decisions, meter.rows, meter.steps) == (2, 3, 1)
    assert (meter.computed_tokens, meter.cached_tokens) == (24, 6)


def busy(meter: Meter, start: float, rows: int, tokens: int, row_s: float) -> float:
    """A loaded engine that answers one row of ``tokens`` every ``row_s``; returns the end."""
    meter.accepted(rows, rows * tokens, start)
    for i in range(1, rows + 1):
        meter.row_done(tokens, computed=tokens, cached=0, now=start + i * row_s)
    return start + rows * row_s


@pytest.mark.parametrize("row_s", [0.01, 0.5, TAU_S])
def test_under_constant_load_the_rate_is_tokens_over_busy_time(row_s: float) -> None:
    meter = Meter()

    busy(meter, 100.0, rows=50, tokens=100, row_s=row_s)

    assert meter.tokens_per_second == pytest.approx(100 / row_s)


def test_time_without_work_does_not_count() -> None:
    meter = Meter()
    end = busy(meter, 0.0, rows=20, tokens=100, row_s=0.1)
    end = busy(meter, end + 3_600.0, rows=20, tokens=100, row_s=0.1)

    assert meter.tokens_per_second == pytest.approx(1_000)


def test_traffic_too_light_to_load_the_engine_does_not_change_the_rate() -> None:
    meter = Meter()
    end = busy(meter, 0.0, rows=20, tokens=100, row_s=0.1)
    assert SATURATED_TOKENS > 10

    for i in range(100):
        meter.accepted(1, 10, end + i)
        meter.row_done(10, computed=10, cached=0, now=end + i + 0.5)

    assert meter.tokens_per_second == pytest.approx(1_000)


def test_the_rate_follows_a_change_of_speed_within_a_few_time_constants() -> None:
    meter = Meter()
    end = busy(meter, 0.0, rows=600, tokens=100, row_s=0.1)
    assert meter.tokens_per_second == pytest.approx(1_000)

    busy(meter, end, rows=500, tokens=100, row_s=0.1 * 2)

    assert meter.tokens_per_second == pytest.approx(500, rel=0.01)


def test_before_any_load_the_rate_is_the_calibrated_one_or_none() -> None:
    meter = Meter()
    assert meter.tokens_per_second == 0.0

    meter.calibrated(tokens=600, seconds=0.5)

    assert meter.tokens_per_second == 1_200


def test_cached_tokens_are_not_work() -> None:
    meter = Meter()
    meter.accepted(10, 1_000, 0.0)
    for i in range(1, 11):
        meter.row_done(100, computed=25, cached=75, now=float(i))

    assert meter.tokens_per_second == pytest.approx(25)


def test_a_round_costs_the_busy_time_between_rounds() -> None:
    meter = Meter()
    meter.accepted(10, 1_000, 0.0)
    for i in range(1, 11):
        meter.step()
        meter.row_done(100, computed=100, cached=0, now=i * 0.02)

    assert meter.round_ms == pytest.approx(20, rel=0.01)


def test_time_without_work_makes_no_round_dearer() -> None:
    meter = Meter()
    for start in (0.0, 3_600.0):
        meter.accepted(10, 1_000, start)
        for i in range(1, 11):
            meter.step()
            meter.row_done(100, computed=100, cached=0, now=start + i * 0.02)

    assert meter.round_ms == pytest.approx(20, rel=0.02)


def test_a_clock_that_stands_still_breaks_nothing() -> None:
    meter = Meter()
    busy(meter, 5.0, rows=10, tokens=100, row_s=0.0)

    assert meter.tokens_per_second == 0.0
    assert meter.backlog_rows == 0
