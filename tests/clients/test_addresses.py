"""Base addresses as people write them, and bodies as clients send them."""

from __future__ import annotations

import json

import pytest

from tests.clients.door import Door
from tests.clients.field import CLIENTS, SIDES, Client, Refused, Speak

CASE = {"state": "st", "questions": {"q": {"type": "noul", "instructions": "Is it so?"}}}
by_name = {c.distribution: c for c in CLIENTS}


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_a_base_address_may_have_a_prefix_a_slash_or_all_of_the_path(
    door: Door, speak: Speak, client: Client
) -> None:
    for base in ("/", "/team/a", "/team/a/", "/v1", "/v1/systemone", "/api/v1/systemone/"):
        understood = speak(client).say("ask", door.address + base, **CASE)
        assert understood["model"] == "fake-1", base
    assert {e.status for e in door.exchanges} == {200}
    # The path was really appended to what stood there already.
    assert door.exchanges[-1].path.startswith("/api/v1/systemone/v1/systemone")


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.lists_models], ids=str)
@pytest.mark.parametrize("base", ["/", "/team/a/", "/v1/systemone"])
def test_models_are_listed_under_the_same_addresses(
    door: Door, speak: Speak, client: Client, base: str
) -> None:
    assert speak(client).say("models", door.address + base) == ["fake-1", "jev-latest"]


def test_a_client_with_a_path_of_its_own_is_answered_or_told_the_right_one(
    door: Door, speak: Speak
) -> None:
    system_one = speak(by_name["system-one"])
    alias = system_one.say("ask", door.address, **CASE, path="/api/alpha/decisions")
    assert alias["model"] == "fake-1"
    with pytest.raises(Refused, match="POST /v1/systemone"):
        system_one.say("ask", door.address, **CASE, path="/v1/decide")
    assert door.exchanges[-1].status == 404


@pytest.mark.parametrize(("client", "verb"), SIDES, ids=str)
def test_a_large_body_arrives_whole_however_the_client_packs_it(
    door: Door, speak: Speak, client: Client, verb: str
) -> None:
    state = {"lines": [f"line {i}: ü 🙂" for i in range(500)]}
    speak(client).say(verb, door.address, **CASE)
    speak(client).say(verb, door.address, **CASE | {"state": state})
    assert [call[0].state for call in door.service.calls] == ["st", state]
    packed = "zstd" if str(client) == "typesafe-sdk-0.7.5" else None
    assert [e.headers.get("content-encoding") for e in door.exchanges] == [None, packed]
    if packed:
        assert int(door.exchanges[1].headers["content-length"]) < len(json.dumps(state)) / 2
