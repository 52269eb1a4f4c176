"""The contracts that hold the house together: a change of any of them shows up here.

One golden file for each shape; ``python -m tests.contracts.shapes`` writes them anew after a
change that was meant. Bytes on the wire have golden files of their own beside the transport.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from pathlib import Path

import pytest

from jevserve.admission.deadline import admit
from jevserve.admission.salt import cache_salt
from jevserve.api.auth import load_keys
from jevserve.api.systemone import DEADLINE_HEADER, parse
from jevserve.decisions.plan import GroupRecord, Lane
from jevserve.routing.affinity import AffinityPolicy
from jevserve.routing.policy import Reason, ReplicaView
from jevserve.settings import ModelSettings
from jevserve.telemetry.metrics import ALL_METRICS
from jevserve.transport.base import ReplicaReport, ReplicaState
from tests.contracts.shapes import GOLDEN, SHAPES, golden, text_of

WIRE_GOLDEN = Path(__file__).parents[1] / "transport" / "golden"


@pytest.mark.parametrize("name", SHAPES)
def test_a_contract_is_the_committed_one(name: str) -> None:
    assert text_of(name) == golden(name).read_text(), (
        "a frozen contract has changed; if that is meant, change every user of it in the same "
        "commit and run: python -m tests.contracts.shapes"
    )


def test_every_golden_file_belongs_to_a_contract() -> None:
    assert {p.stem for p in GOLDEN.iterdir()} == set(SHAPES)


@pytest.mark.parametrize("message", ["decide", "answer", "report", "failed", "cancel", "drain"])
def test_every_message_has_its_bytes_committed_beside_the_transport(message: str) -> None:
    assert bytes.fromhex((WIRE_GOLDEN / f"{message}.hex").read_text())


def test_a_group_record_is_read_back_from_the_wire() -> None:
    record = GroupRecord("decision", 3, 2, (5, 9), 8_000)

    assert record.to_wire() == {
        "v": 1,
        "g": "decision",
        "n": 3,
        "i": 2,
        "cuts": [5, 9],
        "dl": 8_000,
    }
    assert GroupRecord.from_wire(record.to_wire()) == record


def test_the_cache_salt_is_an_hmac_over_tenant_and_callers_salt() -> None:
    key = bytes(range(32))
    fields = (b"jevserve cache salt v1", b"acme", b"session-1")
    message = b"".join(len(f).to_bytes(8, "big") + f for f in fields)

    expected = hmac.new(key, message, hashlib.sha256).hexdigest()
    assert cache_salt(key, "acme", "session-1") == expected
    assert cache_salt(key, "acme", None) != cache_salt(key, "acme", "")
    assert cache_salt(key, "a", "b", "request") != cache_salt(key, "a", "b", "request")


def test_a_deadline_comes_from_its_header_or_its_field() -> None:
    body = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "x"}}}

    assert DEADLINE_HEADER == "x-jevserve-deadline-ms"
    assert parse(body | {"x_deadline_ms": 700}).deadline_ms == 700
    assert parse(body | {"x_deadline_ms": 700}, deadline_header="80").deadline_ms == 80
    assert parse(body).deadline_ms is None


def test_the_default_deadline_is_shorter_than_the_clients_patience() -> None:
    assert 0 < ModelSettings(name="m").deadline_ms < 10_000


def test_a_keys_file_is_a_list_of_tenants(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"key").hexdigest()
    path = tmp_path / "keys.yaml"
    path.write_text(f"- {{tenant: acme, sha256: '{digest}', quota: 5, lane: batch}}\n")

    keys = load_keys(path, {})

    assert keys is not None
    (key,) = keys.entries
    assert (key.tenant, key.digest.hex(), key.quota, key.lane) == ("acme", digest, 5, Lane.BATCH)


def test_every_metric_carries_the_prefix() -> None:
    assert ALL_METRICS
    assert all(spec.name.startswith("jevserve_") for spec in ALL_METRICS)


def test_policies_give_a_reason_for_every_choice_and_depend_on_nothing_else() -> None:
    def view(replica: str, backlog: int) -> ReplicaView:
        report = ReplicaReport(
            replica, "m", "r", ReplicaState.READY, 16, 1_000.0, backlog_tokens=backlog
        )
        return ReplicaView(replica, report, received_at=10.0)

    policy, views = AffinityPolicy(), [view("a", 0), view("b", 5_000)]
    for keys in ((), (b"k" * 16,)):
        choices = {
            policy.choose(keys, order, 10.0, 100, revision="r", seed=7)
            for order in (views, views[::-1], views)
        }
        (choice,) = choices
        assert choice is not None
        assert choice.reason in set(Reason)

    verdicts = {admit(100, 8_000.0, views[0], 10.0, 0, 1, random.Random(1)) for _ in range(2)}
    (verdict,) = verdicts
    assert verdict.verdict.value == "fits"
