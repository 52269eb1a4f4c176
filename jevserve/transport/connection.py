"""The router's end of a kept-alive multiplexed connection to one engine replica."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable

from jevserve.decisions.plan import DecisionResult, PlannedDecision
from jevserve.errors import EngineFailed, Overloaded, TransportError
from jevserve.transport.base import KeptLink, ReplicaReport
from jevserve.transport.frames import FrameStream
from jevserve.transport.handshake import as_client
from jevserve.transport.limits import DEFAULT_BOUNDS, DEFAULT_TIMING, Bounds, Timing
from jevserve.transport.messages import (
    Answer,
    Cancel,
    Decide,
    Drain,
    Drained,
    Failed,
    Report,
    decode,
    encode,
)
from jevserve.transport.secret import ClusterSecret, TlsFiles

log = logging.getLogger(__name__)

#: What a client is told when its deadline passed at a replica that did not say so itself.
LATE_RETRY_MS = 200


class ConnectionLink(KeptLink):
    """One connection that carries every decision from this router to one replica.

    Opened once; a broken link stays broken, and a new one takes its place.
    """

    def __init__(
        self,
        host: str,
        port: int,
        secret: ClusterSecret,
        tls: TlsFiles | None = None,
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._port, self._secret, self._tls = host, port, secret, tls
        self._bounds, self._timing, self._clock = bounds, timing, clock
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[DecisionResult | None]] = {}
        self._stream: FrameStream | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._report: tuple[ReplicaReport, float] | None = None
        self._heard = 0.0
        self._end: str | None = None
        self._lost = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        """Connect, prove the secret and wait for the first report.

        Raises:
            TransportError: not reachable within the handshake time, refused, or opened before.
        """
        if self._stream is not None or self._end is not None:
            raise TransportError("a link is opened once")
        try:
            async with asyncio.timeout(self._timing.handshake):
                await self._connect()
        except TimeoutError:
            self._break(f"no answer within {self._timing.handshake:g} s")
        except (OSError, TransportError) as error:
            self._break(str(error))
        except BaseException:
            self._break("opening was cancelled")
            raise
        if self._end is not None:
            raise TransportError(f"{self}: {self._end}")

    async def _connect(self) -> None:
        context = self._tls.client() if self._tls else None
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=context)
        self._stream = stream = FrameStream(reader, writer, self._bounds, self._timing)
        await as_client(stream, self._secret)
        self._dispatch(await stream.receive())
        if self._report is None:
            raise TransportError("the replica opened with something else than its report")
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._watch())]

    async def send(self, decision: PlannedDecision) -> DecisionResult:
        """See ``EngineLink.send``. Ends at most ``timing.grace`` after the decision's deadline.

        Raises:
            Overloaded: the deadline passed.
        """
        stream = self._open_stream()
        number = next(self._numbers)
        payload = encode(Decide(number, decision))
        seconds = max(0.0, decision.deadline_ms / 1e3) + self._timing.grace
        try:
            async with asyncio.timeout(seconds) as limit:
                result = await self._ask(stream, number, payload)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Overloaded(
                "the deadline passed before the engine answered",
                retry_after_ms=LATE_RETRY_MS,
                reason="deadline",
            ) from None
        if result is None or result.id != decision.id:
            raise EngineFailed("the replica answered another decision")
        if len(result.rows) != len(decision.plan.rows):
            raise EngineFailed(
                f"the replica answered {len(result.rows)} rows of {len(decision.plan.rows)}"
            )
        return result

    async def _ask(self, stream: FrameStream, number: int, payload: bytes) -> DecisionResult | None:
        """Send a numbered message and wait for what answers it."""
        future: asyncio.Future[DecisionResult | None] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        self._idle.clear()
        sent = False
        try:
            await self._room(stream)
            self._open_stream().send(payload)
            sent = True
            return await future
        except asyncio.CancelledError:
            # Cancelling a task cancels the future it awaits; any other outcome is an answer.
            if sent and future.cancelled() and self.alive:
                stream.send(encode(Cancel(number)))
            raise
        finally:
            self._pending.pop(number, None)
            if future.done() and not future.cancelled():
                future.exception()  # marks it seen where the wait was given up
            if not self._pending:
                self._idle.set()

    async def _room(self, stream: FrameStream) -> None:
        try:
            await stream.room()
        except TransportError as error:
            self._break(str(error))
            raise

    def report(self) -> tuple[ReplicaReport, float] | None:
        if self._report is None:
            return None
        report, at = self._report
        return report, self._clock() - at

    async def drain(self) -> None:
        """Ask the replica to accept nothing more; returns when its last decision is answered.

        Raises:
            TransportError: the link broke before.
        """
        stream = self._open_stream()
        number = next(self._numbers)
        await self._ask(stream, number, encode(Drain(number)))

    async def close(self) -> None:
        self._break("the link was closed", polite=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def alive(self) -> bool:
        return self._end is None and bool(self._tasks)

    @property
    def in_flight(self) -> int:
        """Messages sent and not answered."""
        return len(self._pending)

    async def lost(self) -> str:
        await self._lost.wait()
        return self._end or ""

    async def idle(self) -> None:
        await self._idle.wait()

    def __str__(self) -> str:
        return f"link to {self._host}:{self._port}"

    def _open_stream(self) -> FrameStream:
        if not self.alive or self._stream is None:
            raise TransportError(f"{self}: {self._end or 'not open'}")
        return self._stream

    async def _read(self) -> None:
        assert self._stream is not None
        try:
            while True:
                self._dispatch(await self._stream.receive())
        except TransportError as error:
            self._break(str(error))
        except Exception as error:
            log.exception("%s: a message could not be handled", self)
            self._break(f"a message could not be handled: {type(error).__name__}")

    def _dispatch(self, payload: bytes) -> None:
        message = decode(payload)
        self._heard = self._clock()
        match message:
            case Report(report):
                self._report = (report, self._heard)
            case Answer(number, result):
                self._settle(number, result)
            case Failed(0):
                raise TransportError(f"the replica refused the connection: {message.message!r}")
            case Failed(number):
                future = self._pending.get(number)
                if future is not None and not future.done():
                    future.set_exception(message.error())
            case Drained(number):
                self._settle(number, None)
            case _:
                raise TransportError("the replica sent a message that only routers send")

    def _settle(self, number: int, result: DecisionResult | None) -> None:
        # Nobody waits: an answer that crossed its cancellation, or a second one.
        future = self._pending.get(number)
        if future is not None and not future.done():
            future.set_result(result)

    async def _watch(self) -> None:
        """Break a link whose replica says nothing while decisions are outstanding.

        Seen twice before it counts: when this process was stopped or busy itself, reports that
        arrived meanwhile are read before the second look.
        """
        suspect = False
        while self._end is None:
            await asyncio.sleep(self._timing.dead / 10)
            silent = self._clock() - self._heard > self._timing.dead
            if silent and self._pending and suspect:
                self._break(f"no word from the replica for {self._timing.dead:g} s")
            suspect = silent and bool(self._pending)

    def _break(self, reason: str, polite: bool = False) -> None:
        if self._end is not None:
            return
        self._end = reason
        if not polite:
            log.warning("%s: %s", self, reason)
        if self._stream is not None:
            if polite:
                self._stream.close()
            else:
                self._stream.abort()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(TransportError(f"{self}: {reason}"))
        this = asyncio.current_task()
        for task in self._tasks:
            if task is not this:
                task.cancel()
        self._lost.set()
