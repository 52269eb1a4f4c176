"""The replica's end: takes decisions from proven routers and reports every 100 ms."""

from __future__ import annotations

import asyncio
import logging

from jevserve.decisions.plan import PlannedDecision
from jevserve.errors import EngineFailed, JevserveError, Overloaded, TransportError
from jevserve.transport.base import DecisionExecutor
from jevserve.transport.frames import FrameStream
from jevserve.transport.handshake import as_server
from jevserve.transport.limits import DEFAULT_BOUNDS, DEFAULT_TIMING, Bounds, Timing
from jevserve.transport.messages import (
    Answer,
    Cancel,
    Decide,
    Drain,
    Drained,
    Failed,
    Message,
    Report,
    decode,
    encode,
)
from jevserve.transport.secret import ClusterSecret, TlsFiles

log = logging.getLogger(__name__)

#: A full or leaving replica is told about by the next report, two reports later at most.
RETRY_MS = 200


class TransportServer:
    """Serves one executor to routers that know the cluster secret.

    ``start``, then any number of connections, then ``drain`` and ``stop``.
    """

    def __init__(
        self,
        executor: DecisionExecutor,
        secret: ClusterSecret,
        host: str = "",
        port: int = 0,
        tls: TlsFiles | None = None,
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.executor, self.secret, self.bounds, self.timing = executor, secret, bounds, timing
        self._host, self._port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._reporter: asyncio.Task[None] | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._unproven = 0
        self._peers: set[Peer] = set()
        self.in_flight = 0
        self.draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Listen and begin to report. Raises OSError when the address is taken."""
        context = self._tls.server() if self._tls else None
        self._server = await asyncio.start_server(
            self._accept,
            # One family: with both, port 0 would give each a port of its own.
            self._host or "0.0.0.0",
            self._port,
            ssl=context,
            ssl_handshake_timeout=self.timing.handshake if context else None,
        )
        self._reporter = asyncio.get_running_loop().create_task(self._push_reports())

    @property
    def port(self) -> int:
        """The port it listens on; of use where 0 was asked for."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """Proven connections."""
        return len(self._peers)

    async def drain(self) -> None:
        """Refuse what comes from now on; returns when everything accepted is answered."""
        self.draining = True
        # Accepted decisions whose task has not run yet reach the executor first.
        await asyncio.sleep(0)
        await self.executor.drain()
        await self._idle.wait()

    async def stop(self) -> None:
        """Stop listening, close every connection and cancel what is in flight on it."""
        if self._server is not None:
            self._server.close()
        if self._reporter is not None:
            self._reporter.cancel()
        for peer in list(self._peers):
            peer.stream.close()
        for handler in list(self._handlers):
            handler.cancel()
        if self._handlers:
            _, left = await asyncio.wait(self._handlers, timeout=self.timing.stop)
            if left:
                log.error("%d connections still hold decisions that ignore cancellation", len(left))

    def entered(self) -> None:
        self.in_flight += 1
        self._idle.clear()

    def left(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()

    def report(self) -> bytes:
        """The current report as the payload of a frame."""
        return encode(Report(self.executor.report()))

    async def answer(self, payload: bytes) -> bytes:
        """One encoded Decide in, one encoded Answer or Failed out: a decision without a connection.

        Raises:
            TransportError: the payload is no Decide.
        """
        message = decode(payload)
        if not isinstance(message, Decide):
            raise TransportError("only a decision can be asked for here")
        refusal = self.refusal(message.decision, 0)
        if refusal is not None:
            return encode(Failed.of(message.number, refusal))
        self.entered()
        try:
            return await self.outcome(message.number, message.decision)
        finally:
            self.left()

    def refusal(self, decision: PlannedDecision, on_connection: int) -> Overloaded | None:
        """Why a decision is not accepted now, None where it is."""
        if decision.deadline_ms <= 0:
            return late()
        if self.draining:
            return Overloaded("the replica is draining", retry_after_ms=RETRY_MS, reason="draining")
        bounds = self.bounds
        if on_connection >= bounds.per_connection or self.in_flight >= bounds.in_flight:
            return Overloaded("the replica is full", retry_after_ms=RETRY_MS, reason="queue")
        return None

    async def outcome(self, number: int, decision: PlannedDecision) -> bytes:
        """The answer, or what went wrong; always something, unless cancelled by the router."""
        try:
            async with asyncio.timeout(decision.deadline_ms / 1e3) as limit:
                result = await self.executor.execute(decision)
            payload = encode(Answer(number, result))
            if len(payload) <= self.bounds.frame:
                return payload
            error: JevserveError = EngineFailed("the answer is too large to travel")
        except JevserveError as raised:
            error = raised
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = EngineFailed("the engine gave the decision up")
        except Exception:
            if limit.expired():
                error = late()
            else:
                log.exception("decision %s failed", decision.id)
                error = EngineFailed("the engine failed on this decision")
        if isinstance(error, TransportError):
            # Not the link's failure: the same answer would fail on any other link.
            error = EngineFailed(f"the engine's answer cannot travel: {error.message}")
        return encode(Failed.of(number, error))

    async def _push_reports(self) -> None:
        while True:
            await asyncio.sleep(self.timing.report)
            try:
                payload = self.report()
            except Exception:
                # No report is the truth then: routers see this replica go stale.
                log.exception("the replica cannot report")
                continue
            for peer in self._peers:
                if not peer.stream.crowded:
                    peer.stream.send(payload)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        stream = None
        try:
            stream = FrameStream(reader, writer, self.bounds, self.timing)
            await self._serve(stream)
        except TransportError as error:
            log.info("connection from %s ended: %s", stream and stream.peer, error)
        except asyncio.CancelledError:
            pass  # stop() ended it; asyncio would report a cancelled handler as an error
        except OSError as error:
            log.info("connection ended before it began: %s", error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self._handlers.discard(handler)
            if stream is not None:
                stream.close()
            else:
                writer.transport.abort()

    async def _serve(self, stream: FrameStream) -> None:
        if not await self._proves(stream):
            return
        peer = Peer(self, stream)
        stream.send(self.report())
        self._peers.add(peer)
        try:
            await peer.serve()
        finally:
            self._peers.discard(peer)
            await peer.cancel_all()

    async def _proves(self, stream: FrameStream) -> bool:
        """Whether the peer proved the secret in time; a refusal is logged and told."""
        if self._unproven >= self.bounds.unproven or self.connections >= self.bounds.connections:
            log.warning("refused %s: too many connections", stream.peer)
            stream.abort()
            return False
        self._unproven += 1
        try:
            async with asyncio.timeout(self.timing.handshake):
                await as_server(stream, self.secret)
            return True
        except TimeoutError:
            refusal = f"no proof within {self.timing.handshake:g} s"
        except TransportError as error:
            refusal = error.message
        finally:
            self._unproven -= 1
        log.warning("refused %s: %s", stream.peer, refusal)
        stream.send(encode(Failed.of(0, TransportError(refusal))))
        return False


class Peer:
    """One proven router's connection and its decisions in flight."""

    def __init__(self, server: TransportServer, stream: FrameStream) -> None:
        self._server, self.stream = server, stream
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._last = 0

    async def serve(self) -> None:
        """Returns never; raises TransportError when the connection ends or breaks a rule."""
        while True:
            self._handle(decode(await self.stream.receive()))
            # A router that does not read its answers is not read either.
            await self.stream.room()

    async def cancel_all(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _handle(self, message: Message) -> None:
        match message:
            case Decide(number, decision):
                self._begin(number)
                refusal = self._server.refusal(decision, len(self._tasks))
                if refusal is not None:
                    self.stream.send(encode(Failed.of(number, refusal)))
                else:
                    self._run(number, decision)
            case Cancel(number):
                task = self._tasks.get(number)
                if task is not None:
                    task.cancel()
            case Drain(number):
                self._begin(number)
                task = asyncio.get_running_loop().create_task(self._drain(number))
                self._tasks[number] = task
                task.add_done_callback(lambda _: self._tasks.pop(number))
            case _:
                raise TransportError("the router sent a message that only replicas send")

    def _begin(self, number: int) -> None:
        if number <= self._last:
            raise TransportError("the router used a request number twice")
        self._last = number

    def _run(self, number: int, decision: PlannedDecision) -> None:
        self._server.entered()
        task = asyncio.get_running_loop().create_task(self._decide(number, decision))
        self._tasks[number] = task
        # A callback: it runs too when the task is cancelled before its first step.
        task.add_done_callback(lambda _: self._finish(number))

    def _finish(self, number: int) -> None:
        del self._tasks[number]
        self._server.left()

    async def _decide(self, number: int, decision: PlannedDecision) -> None:
        payload = await self._server.outcome(number, decision)
        try:
            await self.stream.room()
            self.stream.send(payload)
        except TransportError as error:
            log.info("%s: an answer was not delivered: %s", self.stream.peer, error)
            self.stream.abort()

    async def _drain(self, number: int) -> None:
        try:
            await self._server.drain()
            message: Message = Drained(number)
        except Exception:
            log.exception("draining failed")
            message = Failed.of(number, EngineFailed("the replica could not drain"))
        self.stream.send(encode(message))


def late() -> Overloaded:
    return Overloaded("the deadline has passed", retry_after_ms=RETRY_MS, reason="deadline")
