"""A real uvicorn in a thread, on a port of its own choosing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: list | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextlib.contextmanager
def serve(app: ASGIApp) -> Iterator[str]:
    """The base address of ``app`` while it is served."""
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False, ws="none")
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.listening.wait(20)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
