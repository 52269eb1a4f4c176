"""The fallback transport: the same messages through a Ray Serve handle.

Slower (a hop costs milliseconds) but needs no port of its own, so it works where pods may only
talk through Ray. The caller gives two functions bound to one replica; nothing here imports Ray.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import EngineFailed, TransportError
from jevserve.transport.base import KeptLink, ReplicaReport
from jevserve.transport.messages import Answer, Decide, Failed, Report, decode, encode

#: Seconds between report calls: each is a handle call, so ten times rarer than pushed reports.
POLL_S = 1.0

#: Failed polls in a row after which the replica counts as lost.
LOST_AFTER = 3


class HandleLink(KeptLink):
    """A link to one replica through calls that return bytes.

    Args:
        decide: sends an encoded Decide, returns an encoded Answer or Failed.
        fetch_report: returns an encoded Report.
    """

    def __init__(
        self,
        decide: Callable[[bytes], Awaitable[bytes]],
        fetch_report: Callable[[], Awaitable[bytes]],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._decide, self._fetch_report = decide, fetch_report
        self._clock, self._sleep = clock, sleep
        self._numbers = itertools.count(1)
        self._report: tuple[ReplicaReport, float] | None = None
        self._in_flight = 0
        self._idle, self._lost = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._why = ""
        self._poller: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._poll()
        self._poller = asyncio.get_running_loop().create_task(self._keep_polling())

    async def send(self, decision: PlannedDecision) -> DecisionResult:
        if not self.alive:
            raise TransportError(f"the replica is not reachable: {self._why}")
        self._in_flight += 1
        self._idle.clear()
        try:
            message = decode(await self._decide(encode(Decide(next(self._numbers), decision))))
        except (TransportError, asyncio.CancelledError):
            raise
        except Exception as error:
            # Ray raises many types for a replica that is gone; all mean "try another".
            raise TransportError(f"the handle call failed: {type(error).__name__}") from error
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        if isinstance(message, Failed):
            raise message.error()
        if not isinstance(message, Answer) or message.result.id != decision.id:
            raise EngineFailed("the replica answered another decision")
        return message.result

    def report(self) -> tuple[ReplicaReport, float] | None:
        if self._report is None:
            return None
        report, at = self._report
        return report, self._clock() - at

    async def drain(self) -> None:
        """Serve itself drains a replica that is reached through handles."""
        await self._idle.wait()

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
        self._lose("closed")

    @property
    def alive(self) -> bool:
        return self._report is not None and not self._lost.is_set()

    async def lost(self) -> str:
        await self._lost.wait()
        return self._why

    async def idle(self) -> None:
        await self._idle.wait()

    def _lose(self, why: str) -> None:
        self._why = self._why or why
        self._lost.set()

    async def _poll(self) -> None:
        try:
            message = decode(await self._fetch_report())
        except (TransportError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise TransportError(f"no report: {type(error).__name__}") from error
        if not isinstance(message, Report):
            raise TransportError("the replica sent something else than its report")
        self._report = (message.report, self._clock())

    async def _keep_polling(self) -> None:
        failures = 0
        while failures < LOST_AFTER:
            await self._sleep(POLL_S)
            try:
                await self._poll()
                failures = 0
            except TransportError:
                failures += 1
        self._lose("no report")
