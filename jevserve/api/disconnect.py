"""Work that stops when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from jevserve.api.body import Receive
from jevserve.api.refusals import ClientDisconnected

T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client leaves.

    ``receive`` must have delivered the whole body already: what it says next is that the client
    is gone.

    Raises:
        ClientDisconnected: the client left first; ``work`` has been cancelled and has ended.
        Exception: whatever ``work`` raises.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        watch.result()
        raise ClientDisconnected("the client left before it was answered")
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            # Its engines are told before this request counts as over.
            await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class OneAtATime:
    """Calls in a thread, the next one only when the one before has ended: even where its client has
    left, since a thread cannot be stopped."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore()

    async def __call__(self, call: Callable[[], T]) -> T:
        await self._turn.acquire()
        job = asyncio.get_running_loop().run_in_executor(None, call)
        job.add_done_callback(self._ended)
        return await asyncio.shield(job)

    def _ended(self, job: asyncio.Future[Any]) -> None:
        self._turn.release()
        if not job.cancelled():
            job.exception()  # nobody else may want it any more
