"""Serve's membership as the service hears of it, and which replica a handle call goes to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jevserve.serving.membership import TARGET, Members, Membership, MembershipRouter
from jevserve.transport.pool import Address

REPLICAS: Any = [SimpleNamespace(replica_id=SimpleNamespace(unique_id=id)) for id in "abc"]


def pending(**kwargs: str) -> Any:
    context = SimpleNamespace(should_backoff=False)
    future = asyncio.get_running_loop().create_future()
    return SimpleNamespace(kwargs=kwargs, future=future, routing_context=context)


async def choose(call: Any) -> list[list[Any]]:
    router: Any = None
    return await MembershipRouter.choose_replicas(router, REPLICAS, call)


async def test_a_call_goes_to_the_replica_that_it_names() -> None:
    call = pending(**{TARGET: "b"})

    assert await choose(call) == [[REPLICAS[1]]]
    assert not call.future.done()


@pytest.mark.parametrize("kwargs", [{}, {TARGET: ""}])
async def test_a_call_that_names_none_goes_to_any(kwargs: dict[str, str]) -> None:
    assert await choose(pending(**kwargs)) == [REPLICAS]
    assert await choose(None) == [REPLICAS]


async def test_a_call_to_a_replica_that_is_gone_ends_at_once() -> None:
    """Given a replica that left, then Serve does not wait for it on everybody's event loop: the
    call is cancelled, and what is returned makes Serve look at that."""
    call = pending(**{TARGET: "gone"})

    (candidates,) = await choose(call)

    assert call.future.cancelled()
    assert candidates


@pytest.mark.parametrize("kwargs", [{}, {TARGET: "b"}, {TARGET: "gone"}])
async def test_serve_waits_between_its_tries(kwargs: dict[str, str]) -> None:
    call = pending(**kwargs)
    await choose(call)

    assert call.routing_context.should_backoff


def test_listeners_hear_the_members_now_and_after_every_change() -> None:
    membership, heard = Membership(), []
    one, two = {"a": Address("h", 1)}, {"a": Address("h", 1), "b": Address("h", 2)}
    membership.publish("early", one)

    def listener(members: Members) -> None:
        heard.append(dict(members))

    membership.listen("early", listener)
    membership.listen("late", listener)
    assert heard == [one]

    for members in (one, two, two):
        membership.publish("early", members)
    membership.publish("late", one)
    membership.publish("another", two)
    assert heard == [one, two, one]
