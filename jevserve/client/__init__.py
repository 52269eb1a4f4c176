"""A small client of the System One API, over httpx."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from jevserve.errors import JevserveError

#: Seconds for a whole request; the service's own deadline is shorter.
TIMEOUT_S = 10.0


class ServiceError(JevserveError):
    """The service refused, failed or could not be reached; ``message`` is what it said."""

    error_type = "service_error"


class Client:
    """Asks one service. Use it as a context manager, or ``close`` it.

    Args:
        url: address of the service, with a path prefix where it has one.
        api_key: sent as a bearer token where given.
        timeout_s: seconds for one request.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._url = url.rstrip("/")
        self._http = httpx.Client(headers=headers, timeout=timeout_s)

    def decide(
        self, state: Any, questions: dict[str, Any], *, model: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """The answer body of ``POST /v1/systemone``; ``fields`` are further top-level fields.

        Raises:
            ServiceError: anything but an answer.
        """
        body = {"state": state, "questions": questions} | fields
        named = {"model": model} if model else {}
        answer = self._call("POST", "/v1/systemone", "answers", body | named)
        answers = answer["answers"]
        if not isinstance(answers, dict) or questions.keys() - answers.keys():
            raise ServiceError(f"{self._url} left questions unanswered")
        return answer

    def models(self) -> list[dict[str, Any]]:
        """The entries of ``GET /v1/models``."""
        listed: list[dict[str, Any]] = self._call("GET", "/v1/models", "models")["models"]
        return listed

    def close(self) -> None:
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

    def _call(self, method: str, path: str, wanted: str, body: Any = None) -> dict[str, Any]:
        try:
            response = self._http.request(method, self._url + path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceError(
                f"{self._url} did not answer ({error}); is the service running?"
            ) from error
        if response.status_code != 200:
            raise ServiceError(f"{response.status_code}: {response.text[:2000]}")
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or wanted not in answer:
            raise ServiceError(f"{self._url} is not a decision service: no {wanted!r} answered")
        return answer
