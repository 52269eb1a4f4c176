"""The servers that are compared, each a process of its own that says ``ready ADDRESS``.

python -m loadtests.overhead.servers bare|door|connection|handle
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn

from loadtests.overhead.load import ANSWER_FILE

Message = dict[str, Any]


async def bare(scope: Message, receive: Any, send: Any) -> None:
    """The least that an ASGI application can do: read the JSON, answer JSON of the same size."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    json.loads(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", LENGTH)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


ANSWER = Path(os.environ.get(ANSWER_FILE, os.devnull)).read_bytes()
LENGTH = str(len(ANSWER)).encode()


async def door_application() -> Any:
    """Our HTTP layer and router service, with links that answer in the same process."""
    from jevserve.api.app import build_app
    from jevserve.serving.fleet import Fleet
    from jevserve.serving.models import served
    from jevserve.serving.service import RouterService
    from jevserve.settings import ServiceSettings
    from jevserve.transport.base import KeptLink
    from jevserve.transport.pool import Address, LinkPool
    from jevserve.transport.secret import ClusterSecret
    from loadtests.overhead.noop import NoOpExecutor

    settings = ServiceSettings()
    (model,) = settings.models
    loaded = await asyncio.to_thread(served, model, settings)

    class InProcessLink(KeptLink):
        def __init__(self, address: Address) -> None:
            self._executor = NoOpExecutor(address.host, model.name, loaded.prepared.revision)
            self._never = asyncio.Event()

        async def open(self) -> None:
            pass

        async def send(self, decision: Any) -> Any:
            return await self._executor.execute(decision)

        def report(self) -> Any:
            return self._executor.report(), 0.0

        async def drain(self) -> None:
            pass

        async def close(self) -> None:
            self._never.set()

        @property
        def alive(self) -> bool:
            return not self._never.is_set()

        async def lost(self) -> str:
            await self._never.wait()
            return "closed"

        async def idle(self) -> None:
            pass

    pool = LinkPool(InProcessLink)
    pool.update({"noop": Address("noop", 1)})
    while not pool.links():
        await pool.change()
    secret = ClusterSecret(os.urandom(32))
    return build_app(
        RouterService(settings, {model.name: loaded}, {model.name: Fleet(pool)}, secret)
    )


async def on_uvicorn(kind: str) -> None:
    app = bare if kind == "bare" else await door_application()
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False, lifespan="off")
    await Announced(config).serve()


class Announced(uvicorn.Server):
    """Says where it listens, once it does."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"ready http://127.0.0.1:{port}", flush=True)


def on_serve(transport: str) -> None:
    """The real application, as ``jevserve serve`` starts it, with no-op engines."""
    from jevserve.serving.environment import free_ports
    from jevserve.serving.local import local_service, until_signal
    from jevserve.settings import ServiceSettings
    from loadtests.overhead.noop import use_noop_engines

    use_noop_engines()
    (port,) = free_ports(1)
    values = {"http": {"port": port}, "transport": {"kind": transport}}
    settings = ServiceSettings.model_validate(values)
    with local_service(settings, lambda what: None):
        print(f"ready http://127.0.0.1:{port}", flush=True)
        until_signal()


if __name__ == "__main__":
    (kind,) = sys.argv[1:]
    if kind in ("bare", "door"):
        asyncio.run(on_uvicorn(kind))
    else:
        on_serve(kind)
