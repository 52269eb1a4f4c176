"""The ledger: own tokens count until the next report, and no longer."""

from __future__ import annotations

from jevserve.routing.ledger import SentLedger
from jevserve.transport.base import ReplicaReport

A, B = ReplicaReport("a", "m", "r"), ReplicaReport("b", "m", "r")


def test_tokens_add_up_until_the_next_report_comes() -> None:
    ledger = SentLedger()
    a, b = ledger.views({"a": (A, 0.01), "b": (B, 0.05)}, now=10.0)
    ledger.sent(a, 100)
    (a, b) = ledger.views({"a": (A, 0.03), "b": (B, 0.07)}, now=10.02)
    ledger.sent(a, 50)
    (a, b) = ledger.views({"a": (A, 0.04), "b": (B, 0.08)}, now=10.03)

    assert (a.sent_tokens, b.sent_tokens) == (150, 0)
    (a, b) = ledger.views({"a": (A, 0.001), "b": (B, 0.01)}, now=10.1)
    assert (a.sent_tokens, b.sent_tokens) == (0, 0)


def test_tokens_sent_after_a_new_report_start_anew() -> None:
    ledger = SentLedger()
    (a,) = ledger.views({"a": (A, 0.0)}, now=10.0)
    ledger.sent(a, 100)
    (a,) = ledger.views({"a": (A, 0.0)}, now=10.1)
    ledger.sent(a, 7)

    assert ledger.views({"a": (A, 0.02)}, now=10.12)[0].sent_tokens == 7


def test_a_replica_that_left_is_forgotten() -> None:
    ledger = SentLedger()
    (a,) = ledger.views({"a": (A, 0.0)}, now=10.0)
    ledger.sent(a, 100)
    ledger.views({}, now=10.01)

    assert ledger.views({"a": (A, 0.02)}, now=10.02)[0].sent_tokens == 0
