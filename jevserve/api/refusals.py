"""Errors that only HTTP knows: a body that cannot be read, a path or method that does not exist."""

from __future__ import annotations

from jevserve.errors import JevserveError


class MalformedBody(JevserveError):
    """The bytes of the body are not what its headers say they are (400)."""

    status = 400
    error_type = "malformed_body"


class BodyTimeout(JevserveError):
    """The client took too long to send its body (408)."""

    status = 408
    error_type = "body_timeout"


class UnknownPath(JevserveError):
    """Nothing is served at this path (404)."""

    status = 404
    error_type = "not_found"


class MethodNotAllowed(JevserveError):
    """The path exists, but not for this method (405).

    Attributes:
        allow: methods of the path, as the ``Allow`` header lists them.
    """

    status = 405
    error_type = "method_not_allowed"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class ClientDisconnected(JevserveError):
    """The client left before it was answered; nobody reads the response (499)."""

    status = 499
    error_type = "client_disconnected"
