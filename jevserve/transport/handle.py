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
from jevserve.errors import EngineFailed, Overloaded, TransportError
from jevserve.transport.base import KeptLink, ReplicaReport
from jevserve.transport.connection import LATE_RETRY_MS
from jevserve.transport.limits import DEFAULT_TIMING, Timing
from jevserve.transport.messages import Answer, Decide, Failed, Message, Report, decode, encode

#: Seconds between report calls: each is a handle call, so ten times rarer than pushed reports.
POLL_S = 1.0

#: Failed polls in a row after which the replica counts as lost.
LOST_AFTER = 3


class HandleLink(KeptLink):
    """A link to one replica through calls that return bytes.

    Every call is bounded in time: one to a replica that Serve has forgotten would never return.

    Args:
        decide: sends an encoded Decide, returns an encoded Answer or Failed.
        fetch_report: returns an encoded Report.
        timing: ``handshake`` bounds a report call, ``grace`` a decision after its deadline.
    """

    def __init__(
        self,
        decide: Callable[[bytes], Awaitable[bytes]],
        fetch_report: Callable[[], Awaitable[bytes]],
        *,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._decide, self._fetch_report = decide, fetch_report
        self._timing, self._clock, self._sleep = timing, clock, sleep
        self._numbers = itertools.count(1)
        self._report: tuple[ReplicaReport, float] | None = None
        self._calls: set[asyncio.Future[bytes]] = set()
        self._idle, self._lost = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._why = "not open"
        self._poller: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._poll()
        self._poller = asyncio.get_running_loop().create_task(self._keep_polling())

    async def send(self, decision: PlannedDecision) -> DecisionResult:
        """See ``EngineLink.send``. Ends at most ``timing.grace`` after the decision's deadline.

        Raises:
            Overloaded: the deadline passed.
        """
        if not self.alive:
            raise TransportError(f"the replica is not reachable: {self._why}")
        payload = encode(Decide(next(self._numbers), decision))
        seconds = max(0.0, decision.deadline_ms / 1e3) + self._timing.grace
        try:
            async with asyncio.timeout(seconds):
                message = await self._ask(payload)
        except TimeoutError:
            raise Overloaded(
                "the deadline passed before the engine answered",
                retry_after_ms=LATE_RETRY_MS,
                reason="deadline",
            ) from None
        if isinstance(message, Failed):
            raise message.error()
        if not isinstance(message, Answer) or message.result.id != decision.id:
            raise EngineFailed("the replica answered another decision")
        return message.result

    async def _ask(self, payload: bytes) -> Message:
        """One call. Whatever breaks it is a TransportError, unless the caller gives up itself."""
        call = asyncio.ensure_future(self._decide(payload))
        self._calls.add(call)
        self._idle.clear()
        try:
            return decode(await call)
        except asyncio.CancelledError:
            if given_up():
                raise
            why = self._why if self._lost.is_set() else "it was cancelled"
            raise TransportError(f"the handle call failed: {why}") from None
        except TransportError:
            raise
        except Exception as error:
            # Ray raises many types for a replica that is gone; all mean "try another".
            raise TransportError(f"the handle call failed: {type(error).__name__}") from error
        finally:
            self._calls.discard(call)
            if not self._calls:
                self._idle.set()

    def report(self) -> tuple[ReplicaReport, float] | None:
        if self._report is None:
            return None
        report, at = self._report
        return report, self._clock() - at

    async def drain(self) -> None:
        """Serve itself drains a replica that is reached through handles."""
        await self._idle.wait()

    async def close(self) -> None:
        tasks: list[asyncio.Future[bytes] | asyncio.Task[None]] = [*self._calls]
        if self._poller is not None:
            self._poller.cancel()
            tasks.append(self._poller)
        self._lose("closed")
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def alive(self) -> bool:
        return self._report is not None and not self._lost.is_set()

    async def lost(self) -> str:
        await self._lost.wait()
        return self._why

    async def idle(self) -> None:
        await self._idle.wait()

    def _lose(self, why: str) -> None:
        if self._lost.is_set():
            return
        self._why = why
        self._lost.set()
        for call in self._calls:
            call.cancel()

    async def _poll(self) -> None:
        try:
            async with asyncio.timeout(self._timing.handshake):
                message = decode(await self._fetch_report())
        except TransportError:
            raise
        except asyncio.CancelledError:
            if given_up():
                raise
            raise TransportError("no report: the call was cancelled") from None
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


def given_up() -> bool:
    """Whether this very task is being cancelled, not just the call that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
