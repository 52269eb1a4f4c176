"""The HTTP layer in front of a service that is as busy as a test wants it, and what it saw."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.service import Caller
from jevserve.decisions.request import DecisionRequest, DecisionResponse
from tests.api.live import serve
from tests.fakes import FakeService


class BusyService(FakeService):
    """Refuses with what is on its list, one after another, before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[Exception] = []

    async def decide(self, request: DecisionRequest, caller: Caller) -> DecisionResponse:
        if self.refusals:
            raise self.refusals.pop(0)
        return await super().decide(request, caller)


@dataclass
class Exchange:
    """One request as it arrived, and the head of its response.

    Attributes:
        at: when it arrived, seconds of the monotonic clock.
    """

    at: float
    path: str
    headers: dict[str, str]
    status: int = 0
    answered: dict[str, str] = field(default_factory=dict)


class Door:
    """An address, the service behind it, and every exchange since the test began."""

    def __init__(self, options: ApiOptions | None = None) -> None:
        self.service = BusyService()
        self.exchanges: list[Exchange] = []
        self.address = ""
        self._app: ASGIApp = build_app(self.service, options)

    @contextlib.contextmanager
    def open(self) -> Iterator[Door]:
        with serve(self) as self.address:
            yield self

    def clear(self) -> None:
        self.service.refusals.clear()
        self.service.calls.clear()
        self.exchanges.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(time.monotonic(), scope["path"], text(scope["headers"]))
        self.exchanges.append(exchange)

        async def seen(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                exchange.answered = text(message["headers"])
            await send(message)

        await self._app(scope, receive, seen)


def text(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in headers}
