"""The two clients: the same calls, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from jevserve import __version__
from jevserve.client.call import Attempt, Request, ServiceError, Steps, bearer, call, shown
from jevserve.client.decision import Decision, decision
from jevserve.errors import UsageError

#: Where ``jevserve serve`` listens when nothing else is said.
DEFAULT_URL = "http://127.0.0.1:8795"

#: Who calls decides how much at a time.
LIMITS = httpx.Limits()


class _Calls:
    """What both clients know: the service, the key, and how long to try."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        retries: int = 2,
    ) -> None:
        """
        Args:
            url: address of the service, with a path prefix where it has one.
            api_key: sent as a bearer token where given.
            timeout_s: seconds for one call, retries and waits included.
            retries: further attempts after a refusal that a retry may mend (408, 429, 5xx) or a
                failed connection. The service's own advice on when is kept.

        Raises:
            UsageError: the key cannot be sent.
        """
        self.url = url.rstrip("/")
        self._shown = shown(self.url)
        self._timeout_s, self._retries = timeout_s, retries
        self._headers = {"user-agent": f"jevserve/{__version__}", "accept": "application/json"}
        self._headers |= bearer(api_key)

    def _decide(
        self,
        state: Any,
        questions: Mapping[str, Any],
        model: str | None,
        deadline_ms: int | None,
        fields: dict[str, Any],
    ) -> Steps:
        if odd := [id for id in questions if not isinstance(id, str)]:
            raise UsageError(f"questions: {odd[0]!r} is no name; name every question with a string")
        named = {"model": model, "x_deadline_ms": deadline_ms}
        body = {"state": state, "questions": dict(questions)} | fields
        body |= {name: value for name, value in named.items() if value is not None}
        return self._call("POST", "/v1/systemone", body)

    def _call(self, method: str, path: str, body: Any = None) -> Steps:
        sent = None if body is None else encoded(body)
        return call(Request(method, self.url + path, sent), self._timeout_s, self._retries)

    def _decision(self, response: httpx.Response, questions: Mapping[str, Any]) -> Decision:
        body = self._body(response, "answers")
        try:
            return decision(body, questions, response.headers.get("x-typesafe-request-id", ""))
        except ValueError as error:
            raise ServiceError(f"{self._shown} answered wrongly: {error}", 200) from None

    def _models(self, response: httpx.Response) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self._body(response, "models")["models"]
        return listed

    def _body(self, response: httpx.Response, wanted: str) -> dict[str, Any]:
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or wanted not in body:
            raise ServiceError(
                f"{self._shown} is not a decision service: no {wanted!r} answered", 200
            )
        return body


class Client(_Calls):
    """Asks one service, blocking. Use it as a context manager, or ``close`` it.

    One client may be used by several threads.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        retries: int = 2,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Takes what ``_Calls`` does, too.

        Args:
            transport: replaces httpx's network.
        """
        super().__init__(url, api_key=api_key, timeout_s=timeout_s, retries=retries)
        self._http = httpx.Client(headers=self._headers, transport=transport, limits=LIMITS)

    def decide(
        self,
        state: Any,
        questions: Mapping[str, Any],
        *,
        model: str | None = None,
        deadline_ms: int | None = None,
        **fields: Any,
    ) -> Decision:
        """Ask questions about a state.

        Args:
            state: text, or JSON (an object or an array).
            questions: by id; each from ``choice``, ``noul`` or ``score``, or a dictionary of the
                wire's form.
            model: name of a served model; the service's default without it.
            deadline_ms: refuse what cannot be answered within so many milliseconds.
            fields: further top-level fields, such as ``cache_salt``.

        Raises:
            ServiceError: anything but an answer to every question.
            UsageError: the request is no JSON.
        """
        steps = self._decide(state, questions, model, deadline_ms, fields)
        return self._decision(self._run(steps), questions)

    def models(self) -> list[dict[str, Any]]:
        """The entries of ``GET /v1/models``.

        Raises:
            ServiceError: anything but a list.
        """
        return self._models(self._run(self._call("GET", "/v1/models")))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, steps: Steps) -> httpx.Response:
        came: httpx.Response | Exception | None = None
        try:
            while True:
                step = steps.send(came)
                if isinstance(step, Attempt):
                    came = self._send(step)
                else:
                    time.sleep(step.seconds)
                    came = None
        except StopIteration as done:
            response: httpx.Response = done.value
            return response

    def _send(self, attempt: Attempt) -> httpx.Response | Exception:
        until, content = time.monotonic() + attempt.timeout_s, b""
        try:
            with self._http.stream(**arguments(attempt)) as response:
                # httpx itself bounds only the silence between two pieces.
                for piece in response.iter_bytes():
                    content += piece
                    if time.monotonic() > until:
                        return too_slow(attempt.timeout_s)
            return httpx.Response(response.status_code, headers=plain(response), content=content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error


class AsyncClient(_Calls):
    """Asks one service from asyncio. Use it as an asynchronous context manager, or ``close`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Takes what ``_Calls`` does, too.

        Args:
            transport: replaces httpx's network.
        """
        super().__init__(url, api_key=api_key, timeout_s=timeout_s, retries=retries)
        self._http = httpx.AsyncClient(headers=self._headers, transport=transport, limits=LIMITS)

    async def decide(
        self,
        state: Any,
        questions: Mapping[str, Any],
        *,
        model: str | None = None,
        deadline_ms: int | None = None,
        **fields: Any,
    ) -> Decision:
        """The same as ``Client.decide``."""
        steps = self._decide(state, questions, model, deadline_ms, fields)
        return self._decision(await self._run(steps), questions)

    async def models(self) -> list[dict[str, Any]]:
        """The same as ``Client.models``."""
        return self._models(await self._run(self._call("GET", "/v1/models")))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, steps: Steps) -> httpx.Response:
        came: httpx.Response | Exception | None = None
        try:
            while True:
                step = steps.send(came)
                if isinstance(step, Attempt):
                    came = await self._send(step)
                else:
                    await asyncio.sleep(step.seconds)
                    came = None
        except StopIteration as done:
            response: httpx.Response = done.value
            return response

    async def _send(self, attempt: Attempt) -> httpx.Response | Exception:
        try:
            async with asyncio.timeout(attempt.timeout_s):
                return await self._http.request(**arguments(attempt))
        except TimeoutError:
            return too_slow(attempt.timeout_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error


def plain(response: httpx.Response) -> list[tuple[str, str]]:
    """Headers of the response without its compression."""
    return [h for h in response.headers.multi_items() if h[0] != "content-encoding"]


def too_slow(timeout_s: float) -> httpx.ReadTimeout:
    return httpx.ReadTimeout(f"no whole answer in {timeout_s:.1f} s")


def arguments(attempt: Attempt) -> dict[str, Any]:
    """What httpx's ``request`` takes."""
    return {
        "method": attempt.request.method,
        "url": attempt.request.url,
        "content": attempt.request.body,
        "headers": attempt.headers,
        "timeout": attempt.timeout_s,
    }


def encoded(body: Any) -> bytes:
    """JSON of a request's body.

    Raises:
        UsageError: it cannot be JSON.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the request cannot be sent as JSON: {error}") from error
