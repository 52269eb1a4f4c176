"""JSON responses, and the exact shapes of errors.

A 422 is FastAPI's list of issues; everything else is ``{"detail": {"error_type", "message"}}``,
which the SDKs of the field turn into an exception's message. What went wrong inside is logged
under the request's id and never told.
"""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import Response

from jevserve.api.refusals import MethodNotAllowed
from jevserve.errors import (
    AuthenticationError,
    EngineFailed,
    InvalidRequest,
    JevserveError,
    RetryableError,
)

#: SDKs give up at once when the advised wait would cross their budget of 30 s per call.
MAX_RETRY_AFTER_MS = 20_000

#: Characters of one part of an issue's location, and of one message.
MAX_TEXT = 1024

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_response(
    content: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A JSON response.

    Raises:
        EngineFailed: a number in ``content`` is not finite.
    """
    try:
        text = _ENCODER.encode(content)
    except ValueError:
        raise EngineFailed("a number of the answer is not finite") from None
    return Response(text.encode("utf-8", "replace"), status, headers, media_type="application/json")


def error_response(error: JevserveError, request_id: str) -> Response:
    """The response that tells a caller of ``error``."""
    if isinstance(error, InvalidRequest):
        return json_response({"detail": [_issue(i.loc, i.msg, i.type) for i in error.issues]}, 422)
    headers: dict[str, str] = {}
    message = error.message
    if isinstance(error, RetryableError):
        wait = min(max(error.retry_after_ms, 1), MAX_RETRY_AFTER_MS)
        headers["retry-after"] = str(math.ceil(wait / 1000))
        headers["retry-after-ms"] = str(wait)
    elif isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    elif isinstance(error, MethodNotAllowed):
        headers["allow"] = error.allow
    elif error.status >= 500:
        return internal_error(request_id, error.error_type)
    detail = {"error_type": error.error_type, "message": _clip(message)}
    return json_response({"detail": detail}, error.status, headers)


def internal_error(request_id: str, error_type: str = "internal_error") -> Response:
    """A 500 that says nothing of the inside."""
    message = f"The service failed to answer. Its operator finds the cause under {request_id}."
    return json_response({"detail": {"error_type": error_type, "message": message}}, 500)


def _issue(loc: tuple[str | int, ...], msg: str, type: str) -> dict[str, Any]:
    path = [_clip(part) if isinstance(part, str) else part for part in loc]
    return {"loc": path, "msg": _clip(msg), "type": type}


def _clip(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
