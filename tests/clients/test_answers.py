"""Clients of the field on a real service: each reads the numbers that the service sent."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import httpx
import pytest
from backports import zstd

from tests.clients.field import CLIENTS, SIDES, Client, Speak
from tests.serving.service import Service

pytestmark = pytest.mark.ray

TICKET = "My card was charged twice for one order. Please refund one payment today!"
LONG = [TICKET] + [f"Line {i} of the history says nothing of interest." for i in range(24)]
QUESTIONS = {
    "bare": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": None, "delivery": None, "login": None},
    },
    "described": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": "payments and refunds", "delivery": "parcels and couriers"},
    },
    "money": {"type": "noul", "instructions": "Does the customer want money back?"},
    "one-sided": {
        "type": "noul",
        "instructions": "Does the customer want money back?",
        "criteria": {"true": "a customer wants money back"},
    },
    "mood": {
        "type": "score",
        "instructions": "How angry is the customer?",
        "criteria": ["delighted", "calm", "annoyed"],
    },
}
STRUCTURED = {
    "choice": {
        "type": "choice",
        "instructions": {"ask": "Which team?", "hints": ["money", {"means": "billing"}]},
        "criteria": {
            "billing": {"does": ["payments", "refunds"]},
            "delivery": ["parcels", "couriers"],
            "Über 🙂": None,
        },
    },
    "noul": {
        "type": "noul",
        "instructions": ["Is it about money?", {"sure": True}],
        "criteria": {"true": {"about": "money"}, "false": ["about", "anything else"]},
    },
    "score": {
        "type": "score",
        "instructions": {"ask": "How angry?"},
        "criteria": ["calm\n", {"b": [1, None], "a": {"mood": "cross"}}, ["furious", 2.5]],
    },
}


def plain(service: Service, state: Any, questions: dict[str, Any]) -> dict[str, Any]:
    """What the service says to a client that adds nothing of its own."""
    response = service.ask({"state": state, "questions": questions})
    assert response.status_code == 200, response.text
    return response.json()


def agree(client: Client, understood: dict[str, Any], sent: dict[str, Any]) -> None:
    """The client read all that was sent, and read it right."""
    usage = sent["usage"]
    assert understood["model"] == sent["model"] == "jev-embed"
    assert understood["usage"] == [usage["input_tokens"], usage["output_tokens"]]
    assert list(understood["answers"]) != []
    assert set(understood["answers"]) == set(sent["answers"])
    for id, expected in sent["answers"].items():
        answer = understood["answers"][id]
        left_out = set() if client.legend else {"legend"}
        assert set(answer) == set(expected) - left_out
        for name, value in answer.items():
            if isinstance(value, float):
                assert value == pytest.approx(expected[name], abs=1e-6)
            elif name == "probabilities":
                assert value == pytest.approx(expected[name], abs=1e-6)
                assert math.fsum(value.values()) == pytest.approx(1, abs=1e-6)
            else:
                assert value == expected[name]


@pytest.mark.parametrize("state", [TICKET, LONG], ids=["short", "over 1 KiB"])
@pytest.mark.parametrize(("client", "verb"), SIDES, ids=str)
def test_every_kind_of_question_is_answered_in_the_services_numbers(
    service: Service, speak: Speak, client: Client, verb: str, state: Any
) -> None:
    understood = speak(client).say(verb, service.url, state=state, questions=QUESTIONS)
    sent = plain(service, state, QUESTIONS)
    agree(client, understood, sent)
    if state is TICKET:
        assert understood["answers"]["bare"]["choice"] == "billing"
        assert understood["answers"]["described"]["choice"] == "billing"


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_structured_texts_are_answered_and_structured_levels_come_back_as_they_were(
    service: Service, speak: Speak, client: Client
) -> None:
    state = {"ticket": {"text": TICKET, "tags": ["card", None, 2]}}
    understood = speak(client).say("ask", service.url, state=state, questions=STRUCTURED)
    agree(client, understood, plain(service, state, STRUCTURED))
    if client.legend:
        legend = understood["answers"]["score"]["legend"]
        assert list(legend.values()) == STRUCTURED["score"]["criteria"]
        assert json.dumps(legend["1"]) == json.dumps(STRUCTURED["score"]["criteria"][1])


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.lists_models], ids=str)
def test_models_are_listed(service: Service, speak: Speak, client: Client) -> None:
    assert speak(client).say("models", service.url) == ["jev-embed", "jev-latest"]


def test_a_client_that_names_neither_model_nor_key_gets_the_default_model(
    service: Service, speak: Speak
) -> None:
    client = next(c for c in CLIENTS if c.distribution == "systemone-client")
    case = {"state": TICKET, "questions": QUESTIONS, "model": None, "key": None}
    agree(client, speak(client).say("ask", service.url, **case), plain(service, TICKET, QUESTIONS))


@pytest.mark.parametrize("pack", [zstd.compress, gzip.compress])
def test_a_body_is_the_same_whichever_way_it_is_packed(service: Service, pack: Any) -> None:
    body = {"state": LONG, "questions": QUESTIONS}
    headers = {
        "content-type": "application/json",
        "content-encoding": "gzip" if pack is gzip.compress else "zstd",
    }
    packed = pack(json.dumps(body).encode())
    response = httpx.post(f"{service.url}/v1/systemone", content=packed, headers=headers)
    assert response.json()["answers"] == plain(service, LONG, QUESTIONS)["answers"]


def test_a_table_is_filled_row_by_row_by_a_client_that_checks_every_answer(
    service: Service, speak: Speak
) -> None:
    client = next(c for c in CLIENTS if c.distribution == "jev-pandas")
    texts = [TICKET, "The parcel never came.", "Thank you, all is well!"]
    topics = {f"topic {i}": f"a message about number {i}" for i in range(40)}
    questions = {
        "many": {"type": "choice", "instructions": "Which topic?", "criteria": topics},
        "money": QUESTIONS["money"],
        "mood": QUESTIONS["mood"],
    }
    rows = speak(client).say("table", service.url, state=texts, questions=questions)
    assert [row["text"] for row in rows] == texts
    for row in rows:
        sent = plain(service, {"text": row["text"]}, questions)["answers"]
        assert [row[f"{id}_error"] for id in questions] == [None] * 3
        assert row["money_probability"] == pytest.approx(sent["money"]["noul"], abs=1e-6)
        assert row["many_label"] == sent["many"]["choice"]
        assert row["mood_value"] == pytest.approx(sent["mood"]["score"], abs=1e-6)
        for id in ("many", "mood"):
            assert row[f"{id}_confidence"] == pytest.approx(sent[id]["confidence"], abs=1e-6)
            found = json.loads(row[f"{id}_probabilities"])
            assert found == pytest.approx(sent[id]["probabilities"], abs=1e-6)
