"""One open link per known replica, whatever breaks."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from jevserve.errors import JevserveError, TransportError
from jevserve.transport.base import EngineLink, KeptLink, ReplicaReport

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where a replica listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Backoff:
    """Seconds between attempts to reach a replica.

    Attributes:
        first: after the second failure in a row; the first is retried at once.
        most: the wait doubles up to this.
        settled: a link open for this long starts the count anew when it breaks.
    """

    first: float = 0.1
    most: float = 5.0
    settled: float = 5.0

    def wait(self, failures: int, rng: random.Random) -> float:
        """Half to all of the doubled wait, so that routers do not return in step."""
        if failures <= 1:
            return 0.0
        full = min(self.most, self.first * 2.0 ** min(failures - 2, 30))
        return full * (0.5 + 0.5 * rng.random())


DEFAULT_BACKOFF = Backoff()

#: This many failures in a row take a replica out until a reconnect succeeds.
OUT_AFTER = 2


class Keeper:
    """Keeps one replica's link open: connects, waits until it is lost, connects again."""

    def __init__(self, pool: LinkPool, replica: str, address: Address) -> None:
        self._pool, self.replica, self.address = pool, replica, address
        self.link: KeptLink | None = None
        self.failures = 0
        self.task = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Runs until cancelled."""
        attempts = 0
        while True:
            opened = await self._open()
            if opened is not None:
                began = self._pool.clock()
                await opened
                if self._pool.clock() - began >= self._pool.backoff.settled:
                    attempts = 0
            attempts += 1
            self.failures += 1
            self._pool.changed()
            await self._pool.sleep(self._pool.backoff.wait(attempts, self._pool.rng))

    async def _open(self) -> Awaitable[str] | None:
        """Try once; gives what to await for the loss of the open link."""
        link = self._pool.connect(self.address)
        try:
            await link.open()
        except JevserveError as error:
            log.info("%s at %s: %s", self.replica, self.address, error)
            return None
        except Exception:
            # Whatever it was, this replica is tried again like any other.
            log.exception("%s at %s could not be opened", self.replica, self.address)
            return None
        except asyncio.CancelledError:
            await link.close()
            raise
        self.link, self.failures = link, 0
        self._pool.changed()
        return link.lost()

    async def retire(self) -> None:
        """Stop keeping; close the link once its decisions are answered, or it is lost."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        link = self.link
        if link is None:
            return
        waits = [asyncio.ensure_future(w) for w in (link.idle(), link.lost())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await link.close()


class LinkPool:
    """Links of one router to the replicas that membership names.

    ``update`` may be called at any time with the current members; the pool connects, reconnects
    and lets go in the background. A replica is served by ``links`` only while its link is alive:
    membership alone puts nobody in.
    """

    def __init__(
        self,
        connect: Callable[[Address], KeptLink],
        backoff: Backoff = DEFAULT_BACKOFF,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.connect, self.backoff, self.clock, self.sleep = connect, backoff, clock, sleep
        self.rng = rng or random.Random()
        self._keepers: dict[str, Keeper] = {}
        self._retiring: dict[asyncio.Task[None], Keeper] = {}
        self._change: asyncio.Future[None] | None = None
        self._closed = False

    def update(self, members: Mapping[str, Address]) -> None:
        """Make the members these. A replica at a new address is a new replica.

        Raises:
            TransportError: the pool is closed.
        """
        if self._closed:
            raise TransportError("the link pool is closed")
        for replica, keeper in list(self._keepers.items()):
            if members.get(replica) != keeper.address:
                del self._keepers[replica]
                task = asyncio.get_running_loop().create_task(keeper.retire())
                self._retiring[task] = keeper
                task.add_done_callback(self._retiring.pop)
        for replica, address in members.items():
            if replica not in self._keepers:
                self._keepers[replica] = Keeper(self, replica, address)
        self.changed()

    def links(self) -> dict[str, EngineLink]:
        """Open links by replica id."""
        return {r: k.link for r, k in self._keepers.items() if k.link is not None and k.link.alive}

    def reports(self) -> dict[str, tuple[ReplicaReport, float]]:
        """Last report and its age in seconds of every open link, by replica id."""
        found = ((r, link.report()) for r, link in self.links().items())
        return {r: report for r, report in found if report is not None}

    def out(self) -> frozenset[str]:
        """Members that failed twice in a row and have not been reached since."""
        return frozenset(r for r, k in self._keepers.items() if k.failures >= OUT_AFTER)

    async def change(self) -> None:
        """Returns after the next change of members or links."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._change)

    def changed(self) -> None:
        """Wake everybody who waits for a change."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
        self._change = None

    async def close(self) -> None:
        """Close every link at once; decisions in flight fail with TransportError."""
        self._closed = True
        keepers = [*self._keepers.values(), *self._retiring.values()]
        tasks = [*self._retiring, *(k.task for k in keepers)]
        self._keepers = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(k.link.close() for k in keepers if k.link is not None))
