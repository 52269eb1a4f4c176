"""One call of the API without its network: what to send, when to try again, what came back.

``call`` is a generator, so that the blocking and the asynchronous client share all of it: they do
what it yields and send back what came of it.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from jevserve.errors import JevserveError, UsageError

#: Waits between attempts where the service advises none, as the SDKs of the field have them.
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 5.0

#: A slow client, a full queue, or a service that failed: the same request may succeed later.
_RETRIED = frozenset({408, 429, *range(500, 600)})

MAX_MESSAGE = 2_000


class ServiceError(JevserveError):
    """The service refused, failed or could not be reached; ``message`` is what it said.

    Attributes:
        http_status: of its answer, 0 where there was none.
        request_id: what to quote to the service's operator; empty where it told none.
        issues: (field, what is wrong with it), of a request that is no valid one.
    """

    error_type = "service_error"

    def __init__(
        self,
        message: str,
        http_status: int = 0,
        request_id: str = "",
        issues: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.request_id = request_id
        self.issues = issues


@dataclass(frozen=True)
class Request:
    """What is sent: ``headers`` are those of this request alone."""

    method: str
    url: str
    body: bytes | None = None


@dataclass(frozen=True)
class Attempt:
    """Send the request; answer with the response, or with httpx's error."""

    request: Request
    headers: dict[str, str]
    timeout_s: float


@dataclass(frozen=True)
class Wait:
    """Wait; answer with None."""

    seconds: float


Steps = Generator[Attempt | Wait, httpx.Response | Exception | None, httpx.Response]


def call(
    request: Request,
    timeout_s: float,
    retries: int,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> Steps:
    """The steps of one call; its value is a response of status 200.

    Args:
        timeout_s: for the whole call, attempts and waits together.
        retries: attempts after the first one.

    Raises:
        ServiceError: anything but a 200 in the end.
    """
    until = clock() + timeout_s
    for attempt in range(retries + 1):
        headers = {"content-type": "application/json"} if request.body is not None else {}
        if attempt:
            headers["x-typesafe-retry-count"] = str(attempt)
        outcome = yield Attempt(request, headers, max(until - clock(), 0.001))
        if isinstance(outcome, httpx.Response):
            if outcome.status_code == 200:
                return outcome
            error = refusal(request.url, outcome)
        else:
            error = unreachable(request.url, outcome)
        wait = advised_wait(outcome)
        if wait is None:
            wait = min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S) * (1 - jitter() / 4)
        hopeless = not retried(outcome) or clock() + wait >= until
        if hopeless or attempt == retries:
            raise error
        yield Wait(wait)
    raise AssertionError("unreachable")


def retried(outcome: httpx.Response | Exception | None) -> bool:
    """Whether another attempt may end better; a decision changes nothing, so it may be repeated."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in _RETRIED
    return isinstance(outcome, httpx.TransportError) and not isinstance(
        outcome, httpx.UnsupportedProtocol | httpx.LocalProtocolError
    )


def advised_wait(outcome: httpx.Response | Exception | None) -> float | None:
    """Seconds the service asks to wait: ``retry-after-ms``, else ``Retry-After``; None for none."""
    if not isinstance(outcome, httpx.Response):
        return None
    after = outcome.headers.get("retry-after", "")
    for text, unit in ((outcome.headers.get("retry-after-ms", ""), 1e-3), (after, 1.0)):
        with suppress(ValueError):
            seconds = float(text) * unit
            if math.isfinite(seconds):
                return max(seconds, 0.0)
    try:
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0)
    except ValueError:
        return None


def unreachable(url: str, outcome: Exception | None) -> ServiceError:
    address = shown(url).removesuffix("/v1/systemone").removesuffix("/v1/models")
    why = f"{outcome}" or type(outcome).__name__
    return ServiceError(f"{address} did not answer ({why}); is the service running there?")


def shown(url: str) -> str:
    """The address for people and files: without what stands before an @, a password among it."""
    scheme, separator, rest = url.rpartition("://")
    place, slash, path = rest.partition("/")
    return scheme + separator + place.rpartition("@")[2] + slash + path


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries an API key; white space around it, as files have it, is none of it.

    Raises:
        UsageError: it cannot stand in a header; the key is not shown.
    """
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the API key holds characters that no header may: ASCII, in one line")
    return {"authorization": f"Bearer {key}"} if key else {}


def refusal(url: str, response: httpx.Response) -> ServiceError:
    """What a response of any other status than 200 says, in one error."""
    status = response.status_code
    text = response.text[:MAX_MESSAGE].strip()
    message = text
    issues: tuple[tuple[str, str], ...] = ()
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        message, issues = _said(body, text)
    if status == 401:
        message += "; give the key with api_key=, --key or JEVSERVE_API_KEY"
    id = response.headers.get("x-typesafe-request-id", "")
    return ServiceError(f"{status}: {message[:MAX_MESSAGE]}", status, id, issues)


def _said(body: dict[str, Any], text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Message and issues, from the shapes of errors that services of the field have."""
    detail = body.get("detail", body.get("error", body))
    if isinstance(detail, list):
        found = [(_field(i.get("loc")), str(i.get("msg"))) for i in detail if isinstance(i, dict)]
        return "; ".join(f"{where}: {what}" if where else what for where, what in found), tuple(
            found
        )
    if isinstance(detail, dict):
        return str(detail.get("message") or text), ()
    return str(detail), ()


def _field(loc: Any) -> str:
    parts = [str(part) for part in loc] if isinstance(loc, list) else []
    return ".".join(parts[1:] if parts[:1] == ["body"] else parts)
