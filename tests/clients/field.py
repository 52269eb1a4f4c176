"""The clients of the field that are put to the service, and how a test talks with one.

Each runs in an environment of its own making (``scripts/setup-clients``), driven by a script of
``tests/clients/drivers``; none is imported here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DRIVERS = Path(__file__).parent / "drivers"
ENVIRONMENTS = Path(sys.prefix) / "clients"

#: All that a client gets of the environment: nothing that would send it elsewhere.
BARE = {k: os.environ[k] for k in ("PATH", "HOME", "LD_LIBRARY_PATH") if k in os.environ}


@dataclass(frozen=True)
class Client:
    """One client, as far as tests have to know it.

    Attributes:
        distribution: its name on the package index, and of its driver.
        version: what the locks hold.
        errors: class that it raises by status.
        environment: folder of its environment.
        asynchronous: whether it has a second, asynchronous side.
        lists_models: whether it reads ``/v1/models``.
        keyless: whether it may leave out the key.
        advice: header whose wait it keeps before it tries again, None where it never does.
        legend: whether it passes on the legend of a score.
        told: statuses of which it passes on what the service said.
        request_ids: whether its errors have the response's request id.
    """

    distribution: str
    version: str
    errors: dict[int, str]
    environment: str = "field"
    asynchronous: bool = True
    lists_models: bool = False
    keyless: bool = False
    advice: str | None = None
    legend: bool = True
    told: tuple[int, ...] = (400, 401, 422, 429, 503)
    request_ids: bool = False

    def __str__(self) -> str:
        return f"{self.distribution}-{self.version}"


def errors(other: str, **named: str) -> dict[int, str]:
    """Class by status: those named, and one for all others."""
    return dict.fromkeys((400, 401, 422, 429, 503), other) | {
        {"key": 401, "rate": 429}[what]: cls for what, cls in named.items()
    }


OFFICIAL = {
    400: "TypeSafeBadRequestError",
    401: "TypeSafeAuthenticationError",
    422: "TypeSafeUnprocessableEntityError",
    429: "TypeSafeRateLimitError",
    503: "TypeSafeInternalServerError",
}
# The same names without the prefix.
OPENAI_LIKE = {status: cls.removeprefix("TypeSafe") for status, cls in OFFICIAL.items()}

CLIENTS = (
    Client(
        "typesafe-sdk",
        "0.7.5",
        OFFICIAL,
        lists_models=True,
        advice="retry-after-ms",
        request_ids=True,
    ),
    Client(
        "typesafe-sdk",
        "0.5.7",
        OFFICIAL,
        environment="sdk-0.5",
        lists_models=True,
        advice="retry-after-ms",
        request_ids=True,
    ),
    Client(
        "jev-lite",
        "0.0.6",
        OPENAI_LIKE,
        lists_models=True,
        advice="retry-after",
        request_ids=True,
    ),
    Client(
        "pydecide",
        "0.2.19",
        errors("BackendError", key="AuthError", rate="RateLimitError"),
        legend=False,
    ),
    Client(
        "system-one",
        "0.4.0",
        errors("APIError", key="AuthenticationError"),
        keyless=True,
        advice="retry-after-ms",
    ),
    Client("systemone-client", "0.1.0", errors("SystemOneError"), keyless=True),
    # Of what it would have tried again it keeps the status alone.
    Client(
        "jev-pandas",
        "0.1.1",
        errors("JevError"),
        asynchronous=False,
        advice="retry-after",
        told=(400, 401, 422),
    ),
)

#: Every client and each of its sides: (client, verb to ask with).
SIDES = tuple((c, verb) for c in CLIENTS for verb in ("ask", "ask_async")[: 1 + c.asynchronous])


def environment(name: str) -> Path:
    """The python of an environment of clients."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is missing: run scripts/setup-clients", pytrace=False)
    return python


class Refused(Exception):
    """What a client raised.

    Attributes:
        classes: names of its class and all bases, its own first.
        words: what its user can read of what the service said.
        request_id: of the response, where the client keeps it.
    """

    def __init__(self, classes: list[str], words: str, request_id: str | None) -> None:
        super().__init__(f"{classes[0]}: {words}")
        self.classes, self.words, self.request_id = classes, words, request_id


class Conversation:
    """A client's driver at work."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._process = subprocess.Popen(
            [environment(client.environment), DRIVERS / f"{client.distribution}.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=DRIVERS,
            env=BARE,
        )
        assert self._reply()["version"] == client.version, "run scripts/setup-clients"

    def say(self, verb: str, url: str, **case: Any) -> Any:
        """What the client understood of the service's answer.

        Raises:
            Refused: it raised.
        """
        defaults = {"key": "any", "model": "jev-latest", "retries": 0}
        line = json.dumps({"verb": verb, "url": url} | defaults | case)
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        reply = self._reply()
        if "raised" in reply:
            raise Refused(**reply["raised"])
        return reply["understood"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver of {self.client} has ended"
        reply: dict[str, Any] = json.loads(line)
        return reply


#: The one conversation with a client, started when it is first asked for.
Speak = Callable[[Client], Conversation]
