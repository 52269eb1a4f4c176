"""Clients of the field and our refusals: their own exceptions, our words, and when to come back.

Overload cannot be had on demand from a real engine, so what decides here is a stand-in; the HTTP
layer in front of it is real.
"""

from __future__ import annotations

from typing import Any

import pytest

from jevserve.errors import Overloaded, RateLimited
from tests.clients.door import Door
from tests.clients.field import CLIENTS, SIDES, Client, Refused, Speak

QUESTION = {"type": "noul", "instructions": "Is it about money?"}
CASE = {"state": "st", "questions": {"q": QUESTION}}
TOO_MANY = {
    "type": "choice",
    "instructions": "Which?",
    "criteria": {f"option {i}": None for i in range(256)},
}
sides = pytest.mark.parametrize(("client", "verb"), SIDES, ids=str)


def busy(status: int, wait_ms: int) -> Exception:
    if status == 429:
        return RateLimited("the quota is used up", retry_after_ms=wait_ms, reason="quota")
    return Overloaded("the queue is full", retry_after_ms=wait_ms, reason="queue")


def refused(speak: Speak, door: Door, client: Client, verb: str, **case: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        speak(client).say(verb, door.address, **CASE | case)
    return caught.value


def check(client: Client, raised: Refused, door: Door, status: int, words: str) -> None:
    """The client told the status by its class, and our words and id where it can."""
    assert [e.status for e in door.exchanges] == [status] * len(door.exchanges)
    assert client.errors[status] in raised.classes
    assert (words if status in client.told else str(status)) in raised.words
    if client.request_ids:
        assert raised.request_id == door.exchanges[-1].answered["x-typesafe-request-id"]


@sides
@pytest.mark.parametrize(
    ("status", "case", "words"),
    [
        (400, {"model": "nope"}, "Unknown model: nope"),
        (422, {"questions": {"q": TOO_MANY}, "raw": True}, "256 options, at most 255"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_once_and_in_our_words(
    door: Door, speak: Speak, client: Client, verb: str, status: int, case: Any, words: str
) -> None:
    raised = refused(speak, door, client, verb, retries=2, **case)
    check(client, raised, door, status, words)
    assert len(door.exchanges) == 1


@sides
def test_a_wrong_key_is_told_once_and_the_right_one_is_let_in(
    keyed: Door, speak: Speak, client: Client, verb: str
) -> None:
    raised = refused(speak, keyed, client, verb, key="bad", retries=2)
    check(client, raised, keyed, 401, "not known")
    assert len(keyed.exchanges) == 1
    assert speak(client).say(verb, keyed.address, **CASE, key="good")["model"] == "fake-1"


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.keyless], ids=str)
def test_a_missing_key_is_told(keyed: Door, speak: Speak, client: Client) -> None:
    check(client, refused(speak, keyed, client, "ask", key=None), keyed, 401, "no API key")
    assert "authorization" not in keyed.exchanges[0].headers


@sides
@pytest.mark.parametrize(
    ("status", "words"), [(429, "the quota is used up"), (503, "the queue is full")]
)
def test_a_refusal_for_now_is_the_clients_own_exception(
    door: Door, speak: Speak, client: Client, verb: str, status: int, words: str
) -> None:
    door.service.refusals = [busy(status, 10)]
    check(client, refused(speak, door, client, verb), door, status, words)


@pytest.mark.parametrize(
    ("client", "verb", "status"),
    [(c, verb, 503 if verb == "ask" else 429) for c, verb in SIDES if c.advice],
    ids=str,
)
def test_a_client_comes_back_no_sooner_than_it_was_told_and_is_answered(
    door: Door, speak: Speak, client: Client, verb: str, status: int
) -> None:
    # Longer than any of these clients would wait by itself before its second attempt.
    door.service.refusals = [busy(status, 600)]
    understood = speak(client).say(verb, door.address, **CASE, retries=1)
    assert understood["model"] == "fake-1"
    first, second = door.exchanges
    assert (first.status, second.status) == (status, 200)
    assert first.answered["retry-after-ms"] == "600"
    assert first.answered["retry-after"] == "1"
    assert client.advice is not None
    advised = float(first.answered[client.advice])
    assert second.at - first.at >= (advised / 1000 if client.advice.endswith("ms") else advised)


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.advice], ids=str)
def test_a_client_gives_up_after_its_own_number_of_attempts(
    door: Door, speak: Speak, client: Client
) -> None:
    door.service.refusals = [busy(503, 10) for _ in range(3)]
    check(client, refused(speak, door, client, "ask", retries=1), door, 503, "the queue is full")
    assert len(door.exchanges) == 2
