"""Clients that go away leave nothing behind in the service, whenever and however they go."""

from __future__ import annotations

import pytest

from tests.hostile.disconnects import MOMENTS, departure, run
from tests.serving.service import Service

pytestmark = pytest.mark.ray


def test_a_departure_is_its_seed_and_number() -> None:
    assert [departure(3, n) for n in range(20)] == [departure(3, n) for n in range(20)]
    assert departure(3, 1) != departure(4, 1)


@pytest.mark.parametrize(
    ("count", "warm"), [(200, 300), pytest.param(2_000, 2_000, marks=pytest.mark.long)]
)
def test_clients_that_leave_leave_nothing_behind(service: Service, count: int, warm: int) -> None:
    outcome = run(service, 7, count, warm)
    assert not outcome.failures
    ways = {(moment, reset) for moment, reset, _ in outcome.clients}
    assert ways == {(moment, reset) for moment in MOMENTS for reset in (False, True)}
    # Some left rows in the engine, or nothing was tested.
    assert outcome.counted("jevserve_engine_rows_total") > outcome.counted(
        "vllm:request_success_total"
    )
