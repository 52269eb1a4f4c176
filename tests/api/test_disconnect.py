"""Work stops when its client leaves, and only then."""

from __future__ import annotations

import asyncio
import threading

import pytest

from jevserve.api.disconnect import OneAtATime, while_connected
from jevserve.api.refusals import ClientDisconnected
from jevserve.errors import UsageError


class Work:
    """Runs until told what to do; remembers whether it was cancelled and has cleaned up."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.finish = asyncio.Event()
        self.error: Exception | None = None
        self.cleaned_up = False

    async def __call__(self) -> str:
        self.started.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.cleaned_up = True
            raise
        if self.error is not None:
            raise self.error
        return "done"


class Client:
    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.waiting = 0

    async def receive(self) -> dict:
        self.waiting += 1
        try:
            await self.gone.wait()
        finally:
            self.waiting -= 1
        return {"type": "http.disconnect"}


async def test_a_client_that_stays_gets_the_result_and_is_no_longer_watched():
    work, client = Work(), Client()
    task = asyncio.create_task(while_connected(client.receive, work()))
    await work.started.wait()
    work.finish.set()
    assert await task == "done"
    await asyncio.sleep(0)
    assert client.waiting == 0


async def test_an_error_of_the_work_is_passed_on():
    work, client = Work(), Client()
    work.error = UsageError("no")
    work.finish.set()
    with pytest.raises(UsageError):
        await while_connected(client.receive, work())


async def test_when_the_client_leaves_the_work_is_cancelled_and_has_ended():
    work, client = Work(), Client()
    task = asyncio.create_task(while_connected(client.receive, work()))
    await work.started.wait()
    client.gone.set()
    with pytest.raises(ClientDisconnected):
        await task
    assert work.cleaned_up


async def test_when_the_exchange_itself_is_cancelled_so_is_the_work():
    work, client = Work(), Client()
    task = asyncio.create_task(while_connected(client.receive, work()))
    await work.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cleaned_up
    await asyncio.sleep(0)
    assert client.waiting == 0


async def test_a_message_that_is_no_disconnect_changes_nothing():
    work, client = Work(), Client()
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict:
        return messages.pop() if messages else await client.receive()

    task = asyncio.create_task(while_connected(receive, work()))
    await work.started.wait()
    work.finish.set()
    assert await task == "done"


async def test_a_thread_whose_client_has_left_still_holds_its_turn():
    turns, began, go_on = OneAtATime(), [], threading.Event()

    loop, first = asyncio.get_running_loop(), asyncio.Event()

    def read(number: int) -> int:
        began.append(number)
        loop.call_soon_threadsafe(first.set)
        go_on.wait(10)
        return number

    left = asyncio.create_task(turns(lambda: read(1)))
    await first.wait()
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    never = asyncio.create_task(turns(lambda: read(2)))
    stays = asyncio.create_task(turns(lambda: read(3)))
    await asyncio.sleep(0)
    never.cancel()
    assert began == [1]

    go_on.set()

    assert await stays == 3
    assert began == [1, 3]
