"""The application with fake decisions, in a process of its own: prints its port, serves.

python -m tests.hostile.door
"""

from __future__ import annotations

from collections import deque

import uvicorn

from jevserve.api.app import ApiOptions, BodyLimits, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from tests.fakes import FakeService
from tests.hostile.cases import KEY

#: Seconds for a body to arrive; a case that never sends all of it is over after that.
READ_S = 0.5


class Server(uvicorn.Server):
    async def startup(self, sockets: list | None = None) -> None:  # type: ignore[type-arg]
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def main() -> None:
    service = FakeService()
    # It would keep every request otherwise.
    service.calls = deque(maxlen=1)  # type: ignore[assignment]
    options = ApiOptions(
        keys=load_keys(None, {ENV_KEYS: KEY}), body=BodyLimits(read_timeout_s=READ_S)
    )
    app = build_app(service, options)
    Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False, ws="none")).run()


if __name__ == "__main__":
    main()
