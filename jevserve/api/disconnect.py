"""Work that stops when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
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
