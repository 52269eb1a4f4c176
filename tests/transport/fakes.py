"""Stand-ins for an engine and for broken peers. They fake the engine, never the transport."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from jevserve.decisions.plan import (
    DecisionResult,
    PlanBuilder,
    PlannedDecision,
    Readout,
    ReadoutKind,
    RowResult,
)
from jevserve.errors import Overloaded
from jevserve.transport.base import DecisionExecutor, ReplicaReport, ReplicaState
from jevserve.transport.connection import ConnectionLink
from jevserve.transport.limits import DEFAULT_BOUNDS, Bounds, Timing
from jevserve.transport.messages import (
    PROTOCOL_VERSION,
    Challenge,
    Hello,
    Message,
    Proof,
    Report,
    decode,
    encode,
)
from jevserve.transport.secret import ClusterSecret, Role, TlsFiles
from jevserve.transport.server import TransportServer

M = TypeVar("M")

SECRET = ClusterSecret(b"a secret that only tests share..")

#: Production's waits with frequent reports: for every test that is not about a wait.
PATIENT = Timing(report=0.01)

#: Short waits, for tests in which one of them has to run out.
QUICK = Timing(handshake=5.0, report=0.01, dead=0.3, stall=0.5, grace=0.3, stop=2.0)


def decision(
    id: str = "d", tokens: int = 8, rows: int = 2, deadline_ms: int = 30_000
) -> PlannedDecision:
    """A planned decision: one shared trunk, ``rows`` branches, a label readout on each."""
    build = PlanBuilder()
    trunk = build.segment(list(range(tokens)))
    for i in range(rows):
        branch = build.segment([1_000 + i, 2_000 + i], trunk)
        build.row(branch, Readout(ReadoutKind.LABELS, labels=(0, 1)))
    return PlannedDecision(id, "revision", build.build(), salt="salt", deadline_ms=deadline_ms)


def echo(decision: PlannedDecision) -> DecisionResult:
    """An answer that can be told from every other: each row's values are its last token and n."""
    plan = decision.plan
    rows = tuple(
        RowResult((float(plan.tokens(i)[-1]), float(len(decision.id))), 0, plan.row_length(i))
        for i in range(len(plan.rows))
    )
    return DecisionResult(decision.id, rows, engine_ms=1.0, replica="fake")


class FakeExecutor(DecisionExecutor):
    """An engine that answers as ``behave`` says and counts what happens to its decisions."""

    def __init__(
        self, behave: Callable[[PlannedDecision], Awaitable[DecisionResult]] | None = None
    ) -> None:
        self.behave = behave
        self.started = self.finished = self.cancelled = self.running = 0
        self.state = ReplicaState.READY
        self._moved = asyncio.Event()

    async def execute(self, decision: PlannedDecision) -> DecisionResult:
        if self.state is not ReplicaState.READY:
            raise Overloaded("not ready", retry_after_ms=1, reason=self.state.value)
        self.started += 1
        self.running += 1
        self._tell()
        try:
            result = echo(decision) if self.behave is None else await self.behave(decision)
            self.finished += 1
            return result
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            self._tell()

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, condition: Callable[[FakeExecutor], bool]) -> None:
        """Wait until the counters are as ``condition`` says; fails after ten seconds."""
        async with asyncio.timeout(10):
            while not condition(self):
                await self._moved.wait()

    def report(self) -> ReplicaReport:
        return ReplicaReport(
            "fake", "model", "revision", self.state, 16, 1e4, backlog_rows=self.running
        )

    async def drain(self) -> None:
        self.state = ReplicaState.DRAINING
        await self.until(lambda e: e.running == 0)


async def never(decision: PlannedDecision) -> DecisionResult:
    """Behaviour of an engine that does not answer."""
    await asyncio.Event().wait()
    return echo(decision)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells, such as a socket gone; fails after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.005)


class RawPeer:
    """A hand-driven end of a connection: says exactly the bytes a test wants, when it wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> RawPeer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def say(self, message: Message) -> None:
        self.write_frame(encode(message))

    def write_frame(self, payload: bytes) -> None:
        self.writer.write(len(payload).to_bytes(4, "little") + payload)

    async def hear(self) -> Message:
        async with asyncio.timeout(10):
            length = int.from_bytes(await self.reader.readexactly(4), "little")
            return decode(await self.reader.readexactly(length))

    async def hear_of(self, kind: type[M]) -> M:
        """The next message of one kind; others (reports) are passed over."""
        while not isinstance(message := await self.hear(), kind):
            pass
        return message

    async def ended(self) -> None:
        """Wait until the other end closed the connection."""
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(65_536):
                    pass

    async def prove_as_client(self, secret: ClusterSecret = SECRET) -> None:
        nonce = secrets.token_bytes(32)
        self.say(Hello(PROTOCOL_VERSION, nonce))
        challenge = await self.hear_of(Challenge)
        self.say(Proof(secret.proof(Role.CLIENT, PROTOCOL_VERSION, nonce, challenge.nonce)))
        await self.hear_of(Proof)
        await self.hear_of(Report)

    async def prove_as_server(self) -> None:
        """The server's half of the handshake, with a first report."""
        hello, nonce = await self.hear_of(Hello), secrets.token_bytes(32)
        self.say(Challenge(PROTOCOL_VERSION, nonce))
        await self.hear_of(Proof)
        self.say(Proof(SECRET.proof(Role.SERVER, PROTOCOL_VERSION, hello.nonce, nonce)))
        self.say(Report(FakeExecutor().report()))

    def close(self) -> None:
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def fake_replica(
    script: Callable[[RawPeer], Awaitable[None]],
) -> AsyncIterator[int]:
    """A port on which every connection is handled by ``script``, then closed."""
    scripts: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        scripts.add(task)
        with contextlib.suppress(
            asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError
        ):
            await script(RawPeer(reader, writer))
        scripts.discard(task)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(scripts):
            task.cancel()
        await asyncio.gather(*scripts, return_exceptions=True)


class Rig:
    """A real server on a fake engine, and real links to it; an async context manager."""

    def __init__(
        self,
        executor: FakeExecutor | None = None,
        bounds: Bounds = DEFAULT_BOUNDS,
        timing: Timing = PATIENT,
        tls: TlsFiles | None = None,
    ) -> None:
        self.executor = executor or FakeExecutor()
        self.server = TransportServer(
            self.executor, SECRET, "127.0.0.1", tls=tls, bounds=bounds, timing=timing
        )
        self.timing = timing
        self.links: list[ConnectionLink] = []

    async def link(
        self, secret: ClusterSecret = SECRET, port: int = 0, tls: TlsFiles | None = None
    ) -> ConnectionLink:
        link = ConnectionLink(
            "127.0.0.1", port or self.server.port, secret, tls, timing=self.timing
        )
        self.links.append(link)
        await link.open()
        return link

    async def __aenter__(self) -> Rig:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for link in self.links:
            await link.close()
        await self.server.stop()
