"""Every error a caller or an operator can cause, in one family.

An error knows the HTTP status it maps to, a stable machine-readable type, and (for request
errors) the path of the field at fault. The wire shapes built from them live in
``jevserve.api.responses``; nothing else in the package raises across a module boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

Location = tuple[str | int, ...]


class JevserveError(Exception):
    """Base of the family.

    Attributes:
        status: HTTP status code the error maps to.
        error_type: stable identifier a client may branch on.
    """

    status: ClassVar[int] = 500
    error_type: ClassVar[str] = "internal_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class Issue:
    """One thing wrong with a request: where, what, and a stable type (FastAPI's 422 item)."""

    loc: Location
    msg: str
    type: str


class InvalidRequest(JevserveError):
    """The body is readable but its content is not a valid request (422)."""

    status = 422
    error_type = "invalid_request"

    def __init__(self, issues: list[Issue]) -> None:
        if not issues:
            raise ValueError("InvalidRequest needs at least one issue")
        super().__init__("; ".join(f"{'.'.join(map(str, i.loc))}: {i.msg}" for i in issues))
        self.issues = issues

    @classmethod
    def at(cls, loc: Location, msg: str, type: str = "value_error") -> InvalidRequest:
        return cls([Issue(loc, msg, type)])


class UsageError(JevserveError):
    """The request cannot be served as asked: unknown model, images for a text model, … (400)."""

    status = 400
    error_type = "api_usage_error"


class MaxTokensExceeded(JevserveError):
    """The request does not fit the model; nothing is ever truncated instead (400)."""

    status = 400
    error_type = "max_tokens_exceeded"


class BodyTooLarge(JevserveError):
    """The body, encoded or decoded, is over the configured limit (413)."""

    status = 413
    error_type = "body_too_large"


class UnsupportedBody(JevserveError):
    """A content type or content encoding that the service does not read (415)."""

    status = 415
    error_type = "unsupported_body"


class AuthenticationError(JevserveError):
    """No key, or a key the service does not know (401)."""

    status = 401
    error_type = "authentication_error"


class RetryableError(JevserveError):
    """The same request may succeed later; carries when.

    Attributes:
        retry_after_ms: milliseconds after which a retry is worth it.
        reason: short stable word for metrics and logs (``deadline``, ``queue``, ``draining``, …).
    """

    status = 503
    error_type = "overloaded_error"

    def __init__(self, message: str, *, retry_after_ms: int, reason: str) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        self.reason = reason


class RateLimited(RetryableError):
    """The tenant's quota is used up (429)."""

    status = 429
    error_type = "rate_limit_error"


class Overloaded(RetryableError):
    """No capacity that could answer in time (503)."""


class EngineFailed(JevserveError):
    """An engine answered with an error or with numbers that cannot be an answer (500)."""

    error_type = "engine_error"


class CheckpointError(JevserveError):
    """A checkpoint that cannot be found, verified, recognised or prepared (operator's error)."""

    error_type = "checkpoint_error"


class SettingsError(JevserveError):
    """A configuration that cannot work; the message names the setting and the remedy."""

    error_type = "settings_error"


class TransportError(JevserveError):
    """A peer that could not be reached, proved no secret, or broke the protocol."""

    error_type = "transport_error"
