"""The outermost layer: ids, paths, methods, errors and metrics of every HTTP exchange.

Pure ASGI, so that a client's disconnect and a task's cancellation pass through it unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jevserve.api.paths import Endpoint, normal_prefix, resolve
from jevserve.api.refusals import MethodNotAllowed, UnknownPath
from jevserve.api.responses import error_response, internal_error
from jevserve.errors import JevserveError, RetryableError
from jevserve.telemetry.metrics import HttpMetrics

logger = logging.getLogger("jevserve.api")

#: Where the request id lies in an ASGI scope.
REQUEST_ID = "jevserve.request_id"

#: A refused body this small is read and dropped by the server, which keeps the connection.
SMALL_REST = 64 * 2**10

#: Seconds for which the rest of a refused body is still read before the connection is closed, so
#: that the client, busy sending, gets to see the refusal instead of a reset.
LINGER_S = 2.0

_CALLERS_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Door:
    """Wraps the application.

    Args:
        app: what answers at canonical paths.
        root_path: prefix under which the service is published, empty for none.
        metrics: where exchanges are recorded.
        correlate: whether responses get an ``x-request-id`` here; not where a server around the
            application adds one already.
    """

    def __init__(
        self, app: ASGIApp, *, root_path: str, metrics: HttpMetrics, correlate: bool = True
    ) -> None:
        self._correlate = correlate
        self._app = app
        self._root_path = normal_prefix(root_path)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, correlate=self._correlate)
        self._metrics.request_started(exchange.headers.get("x-typesafe-retry-count"))
        started = time.perf_counter()
        route = "other"
        try:
            prefixes = (normal_prefix(scope.get("root_path", "")), self._root_path)
            endpoint = resolve(scope["path"], prefixes)
            if endpoint is not None:
                route = endpoint.path
            await self._answer(endpoint, exchange)
        finally:
            elapsed = time.perf_counter() - started
            self._metrics.request_ended(route, exchange.status or 499, elapsed)

    async def _answer(self, endpoint: Endpoint | None, exchange: Exchange) -> None:
        try:
            inner = admit(endpoint, exchange)
            if inner is None:
                assert endpoint is not None
                await exchange.respond(Response(status_code=204, headers={"allow": endpoint.allow}))
            else:
                await self._app(inner, exchange.receive, exchange.send)
        except JevserveError as error:
            self._refused(error, exchange.request_id)
            if exchange.status:
                raise
            # A client that has left may have taken its socket along.
            with contextlib.suppress(OSError):
                await exchange.refuse(error_response(error, exchange.request_id))
        except Exception:
            logger.exception("request %s failed", exchange.request_id)
            self._metrics.refused("internal_error")
            if exchange.status:
                raise
            await exchange.refuse(internal_error(exchange.request_id))

    def _refused(self, error: JevserveError, request_id: str) -> None:
        if isinstance(error, RetryableError):
            self._metrics.refused(error.reason)
            return
        self._metrics.refused(error.error_type)
        if error.status >= 500:
            logger.error("request %s failed: %s", request_id, error.message, exc_info=error)


def admit(endpoint: Endpoint | None, exchange: Exchange) -> Scope | None:
    """The scope for the application, at the canonical path; None for an OPTIONS.

    Raises:
        UnknownPath, MethodNotAllowed: with the way out.
    """
    scope = exchange.scope
    method, path = scope["method"], scope["path"]
    if endpoint is None:
        raise UnknownPath(
            f"Nothing is served at {path[:200]!r}. Decisions are answered at POST /v1/systemone "
            "and models are listed at GET /v1/models; a client that appends these paths itself "
            "needs the address before them."
        )
    if method == "OPTIONS":
        return None
    if method not in endpoint.methods:
        raise MethodNotAllowed(
            f"{endpoint.path} answers {endpoint.allow}, not {method[:20]}", endpoint.allow
        )
    inner = dict(scope)
    inner["path"] = endpoint.path
    inner["raw_path"] = endpoint.path.encode()
    inner["root_path"] = ""
    inner[REQUEST_ID] = exchange.request_id
    return inner


class Exchange:
    """One request and its response, as far as the door cares.

    Attributes:
        request_id: made here, told in every response.
        status: of the response once it has started, 0 before.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, correlate: bool = True
    ) -> None:
        self.scope = scope
        self._correlate = correlate
        self.headers = Headers(scope=scope)
        self.request_id = f"req_{secrets.token_hex(12)}"
        self.status = 0
        self._receive = receive
        self._send = send
        self._body_read = False
        theirs = self.headers.get("x-request-id", "")
        # An id from an ingress is kept, so that its logs and ours meet.
        self._correlation_id = theirs if _CALLERS_ID.fullmatch(theirs) else self.request_id

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body", False):
            self._body_read = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            headers["x-typesafe-request-id"] = self.request_id
            if self._correlate:
                headers["x-request-id"] = self._correlation_id
            message = {**message, "headers": headers.raw}
        await self._send(message)

    async def respond(self, response: Response) -> None:
        await response(self.scope, self.receive, self.send)

    async def refuse(self, response: Response) -> None:
        """Send an error, whatever is left of the request's body."""
        if self._body_read or not self._much_left():
            await self.respond(response)
            return
        response.headers["connection"] = "close"
        start: Message = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
        await self.send(start)
        # The client has all of the response after this, the server closes only after the next.
        await self.send({"type": "http.response.body", "body": response.body, "more_body": True})
        try:
            async with asyncio.timeout(LINGER_S):
                while not self._body_read:
                    await self.receive()
        except TimeoutError:
            pass
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    def _much_left(self) -> bool:
        if "transfer-encoding" in self.headers:
            return True
        length = self.headers.get("content-length", "0")
        plain = length.isascii() and length.isdigit() and len(length) <= 9
        return not plain or int(length) > SMALL_REST
