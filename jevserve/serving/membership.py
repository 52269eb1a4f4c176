"""Who serves a model: Ray Serve's own membership, told to the router's link pools.

Serve keeps every handle's request router informed of running replicas and the metadata they
published. ``MembershipRouter`` passes that on; a decision itself only goes through Serve where
the transport is ``handle``, and then to the replica that the routing policy has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from jevserve.transport.pool import Address

Members = Mapping[str, Address]

#: Keyword argument of a handle call that names the replica it must go to.
TARGET = "replica"


class Membership:
    """The replicas of each deployment as this process knows them, and who wants to hear."""

    def __init__(self) -> None:
        self._members: dict[str, Members] = {}
        self._listeners: dict[str, list[Callable[[Members], None]]] = {}

    def publish(self, deployment: str, members: Members) -> None:
        if self._members.get(deployment) == members:
            return
        self._members[deployment] = members
        for listener in self._listeners.get(deployment, ()):
            listener(members)

    def listen(self, deployment: str, listener: Callable[[Members], None]) -> None:
        """Call ``listener`` with the members now and after every change."""
        self._listeners.setdefault(deployment, []).append(listener)
        if deployment in self._members:
            listener(self._members[deployment])


#: One per process: Serve constructs the routers that publish to it.
MEMBERSHIP = Membership()


class MembershipRouter(RequestRouter):
    """Publishes membership; sends a handle call to the replica it names, or to any.

    Not first in, first out: that would give a call the replica that another one named.
    """

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        # Serve pickles this class by value, so its globals are copies: only an import made here
        # reaches the module that this process's routers listen to.
        from jevserve.serving import membership

        super().update_replicas(replicas)
        addresses = {}
        for replica in replicas:
            where = replica.replica_metadata
            if "host" in where:
                addresses[replica.replica_id.unique_id] = membership.Address(
                    where["host"], where["port"]
                )
        membership.MEMBERSHIP.publish(self._deployment_id.name, addresses)

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        if pending_request is None:
            return [candidate_replicas]
        # Unless told to wait between tries, Serve asks again at once, for ever, on the event loop.
        pending_request.routing_context.should_backoff = True
        target: Any = pending_request.kwargs.get(TARGET)
        if not target:
            return [candidate_replicas]
        named = [r for r in candidate_replicas if r.replica_id.unique_id == target]
        if not named:
            # Serve would wait until it comes back, and a replica that is gone never does. A call
            # that is cancelled is not sent anywhere; Serve just wants an answer that is not empty.
            pending_request.future.cancel()
        return [named or candidate_replicas]
