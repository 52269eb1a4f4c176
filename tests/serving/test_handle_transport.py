"""The fallback transport on real parts: the same answers through Ray Serve's handles."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from tests.serving.service import running

pytestmark = pytest.mark.ray

ASKED = {
    "state": "My card was charged twice for one order. Please refund one payment today!",
    "questions": {
        "team": {"type": "choice", "criteria": {"billing": "payments, refunds", "login": None}}
    },
}


def test_decisions_travel_through_handles_where_asked_to(tmp_path: Path) -> None:
    with running(tmp_path, {"transport": {"kind": "handle"}}) as service:
        answer = service.ask(ASKED)
        assert answer.status_code == 200, answer.text
        assert answer.json()["answers"]["team"]["choice"] == "billing"
        assert answer.json()["x_jevserve"]["replica"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: service.ask(ASKED), range(24)))
        assert [a.status_code for a in answers] == [200] * 24
        assert {a.json()["answers"]["team"]["choice"] for a in answers} == {"billing"}
        assert service.stop() == 0
