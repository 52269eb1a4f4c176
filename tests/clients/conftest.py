"""Two doors without engines for all tests of clients, and their drivers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jevserve.api.app import ApiOptions
from jevserve.api.auth import ENV_KEYS, load_keys
from tests.clients.door import Door
from tests.clients.field import Client, Conversation, Speak


@pytest.fixture(scope="session")
def speak() -> Iterator[Speak]:
    started: dict[str, Conversation] = {}

    def of(client: Client) -> Conversation:
        if str(client) not in started:
            started[str(client)] = Conversation(client)
        return started[str(client)]

    yield of
    for conversation in started.values():
        conversation.close()


@pytest.fixture(scope="session")
def open_door() -> Iterator[Door]:
    with Door().open() as door:
        yield door


@pytest.fixture(scope="session")
def locked_door() -> Iterator[Door]:
    with Door(ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}))).open() as door:
        yield door


@pytest.fixture
def door(open_door: Door) -> Door:
    """Lets everybody in."""
    open_door.clear()
    return open_door


@pytest.fixture
def keyed(locked_door: Door) -> Door:
    """Lets in who has the key ``good``."""
    locked_door.clear()
    return locked_door
