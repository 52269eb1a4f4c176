"""pytest-jev, which asks the service from a run of pytest: suites that hold and that do not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.field import BARE, environment
from tests.serving.service import Service

pytestmark = pytest.mark.ray

SUITE = """
TICKET = "My card was charged twice for one order. Please refund one payment today!"
TEAMS = {"billing": "payments and refunds", "delivery": "parcels and couriers"}

def test_team(jev):
    assert jev.choice(TICKET, "Which team?", TEAMS) == "%(team)s"

def test_tone(jev):
    levels = ["a greeting to a friend", "a complaint about a payment"]
    assert jev.score(TICKET, "How does it sound?", levels) >= levels[1]

def test_claims(jev):
    jev.expect(TICKET, holds="the customer wants money back", threshold=%(threshold)s)
"""


def run(service: Service, folder: Path, *args: str, **words: object) -> tuple[int, str]:
    """Exit status and output of pytest with the suite."""
    (folder / "test_suite.py").write_text(SUITE % words)
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [environment("field"), "-m", "pytest", "--jev-require", *args],
        cwd=folder,
        env=BARE | {"TYPESAFE_BASE_URL": service.url, "TYPESAFE_API_KEY": "any", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_suite_about_real_text_passes(service: Service, tmp_path: Path) -> None:
    status, output = run(service, tmp_path, team="billing", threshold=0.5)
    assert status == 0, output
    assert "3 passed" in output
    assert "3 requests" in output and "jev-embed via typesafe" in output


def test_a_suite_that_is_wrong_about_the_text_fails_with_the_services_numbers(
    service: Service, tmp_path: Path
) -> None:
    status, output = run(service, tmp_path, team="delivery", threshold=0.99)
    assert status == 1, output
    assert "2 failed, 1 passed" in output
    assert "jev chose 'billing', not 'delivery'" in output
    assert "needs >= 0.99" in output


def test_a_model_that_is_not_served_fails_the_suite_in_our_words(
    service: Service, tmp_path: Path
) -> None:
    status, output = run(service, tmp_path, "--jev-model=nope", team="billing", threshold=0.5)
    assert status == 1, output
    assert "3 failed" in output
    assert "Unknown model: nope. Known: jev-embed" in output
