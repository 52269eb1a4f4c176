"""What each path does: authenticate, read, translate, decide, render."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jevserve.api.auth import Keys
from jevserve.api.body import BodyLimits, BodyMemory, Format, format_of, read_body
from jevserve.api.disconnect import OneAtATime, while_connected
from jevserve.api.door import REQUEST_ID
from jevserve.api.encoding import encoding_of
from jevserve.api.json_text import LARGE, parse_json
from jevserve.api.multipart import parse_form
from jevserve.api.openapi import openapi
from jevserve.api.page import ask_page
from jevserve.api.page.reference import docs_page
from jevserve.api.refusals import UnknownPath
from jevserve.api.responses import json_response
from jevserve.api.service import Caller, DecisionService
from jevserve.api.systemone import DEADLINE_HEADER, parse
from jevserve.api.systemone_response import render
from jevserve.decisions.request import DecisionRequest, DecisionResponse
from jevserve.errors import UsageError
from jevserve.telemetry.metrics import HttpMetrics

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class ApiOptions:
    """How the door behaves.

    Attributes:
        keys: who may ask; None lets everybody in, as one tenant, and ignores every key.
        body: what a body may cost.
        strict_fields: refuse top-level fields that are not official, as the hosted service does.
        root_path: prefix under which the service is published, whether or not the ingress
            removes it; empty for none.
        correlate: add ``x-request-id`` to responses; off where the server around the application
            does.
        page: serve the page at ``/``.
    """

    keys: Keys | None = None
    body: BodyLimits = field(default_factory=BodyLimits)
    strict_fields: bool = False
    root_path: str = ""
    correlate: bool = True
    page: bool = True


class Endpoints:
    """The handlers, bound to the service behind them."""

    def __init__(self, service: DecisionService, options: ApiOptions, metrics: HttpMetrics) -> None:
        self._service = service
        self._options = options
        self._metrics = metrics
        self._memory = BodyMemory(options.body.buffered)
        # No two would be read at once anyway, and each that tries takes turns from everybody else.
        self._large = OneAtATime()

    async def systemone(self, request: Request) -> Response:
        return await self._decide(request, sniff=False)

    async def decisions(self, request: Request) -> Response:
        """Several dialects share this path; the body's own fields tell which one is spoken."""
        return await self._decide(request, sniff=True)

    async def _decide(self, http: Request, *, sniff: bool) -> Response:
        caller = self._caller(http)
        headers = http.headers
        # A body nobody could read is refused before it is sent.
        encoding_of(headers.getlist("content-encoding"))
        format, boundary = format_of(headers)
        deadline = headers.get(DEADLINE_HEADER)
        strict = self._options.strict_fields

        def interpret(data: bytes) -> DecisionRequest:
            parts = None
            if format is Format.FORM:
                data, parts = parse_form(data, boundary)
            body = parse_json(data)
            if sniff:
                refuse_other_dialects(body)
            return parse(body, parts=parts, deadline_header=deadline, strict=strict)

        async def decide(data: bytes) -> tuple[DecisionRequest, DecisionResponse]:
            if len(data) > LARGE:
                request = await self._large(lambda: interpret(data))
            else:
                request = interpret(data)
            return request, await self._service.decide(request, caller)

        with self._memory.lease() as lease:
            data = await read_body(http.receive, headers, self._options.body, lease)
            self._metrics.body_read(len(data))
            request, response = await while_connected(http.receive, decide(data))
        answer = json_response(render(request, response))
        self._metrics.decided(request, response)
        return answer

    async def models(self, http: Request) -> Response:
        self._caller(http)
        return json_response(models_body(self._service))

    async def healthz(self, http: Request) -> Response:
        return json_response({"status": "ok"})

    async def readyz(self, http: Request) -> Response:
        readiness = self._service.readiness()
        body = {"ready": readiness.ready, "details": readiness.details}
        return json_response(body, 200 if readiness.ready else 503)

    async def metrics(self, http: Request) -> Response:
        return Response(self._metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, http: Request) -> Response:
        return json_response(openapi(self._options.root_path, self._options.keys is not None))

    async def docs(self, http: Request) -> Response:
        page = docs_page(self._options.root_path, self._options.keys is not None)
        return page.response(http.headers)

    async def page(self, http: Request) -> Response:
        if not self._options.page:
            raise UnknownPath(
                "The page is turned off here (http.page). The API is described at /docs, decisions "
                "are answered at POST /v1/systemone."
            )
        return ask_page().response(http.headers)

    def _caller(self, http: Request) -> Caller:
        """Raises AuthenticationError where keys are configured and none of them is presented."""
        request_id = http.scope[REQUEST_ID]
        trace = http.headers.get("traceparent", "")
        if not _TRACEPARENT.fullmatch(trace):
            trace = ""
        if self._options.keys is None:
            return Caller(request_id=request_id, trace=trace)
        key = self._options.keys.authenticate(http.headers)
        return Caller(key.tenant, key.lane, request_id, trace)


def refuse_other_dialects(body: object) -> None:
    """Raises UsageError for a body that is plainly of a dialect that is not served yet."""
    if not isinstance(body, dict) or "state" in body:
        return
    name = ""
    if "input" in body and isinstance(body.get("questions"), list):
        name = "OpenAI Decisions ('input' and an array of questions)"
    elif "context" in body and "schema" in body:
        name = "JEVfire ('context' and 'schema')"
    if name:
        raise UsageError(
            f"The dialect {name} is not served yet. Send a System One body: 'state' and an object "
            "of 'questions'."
        )


def models_body(service: DecisionService) -> dict[str, Any]:
    """Every model and alias, in the official shape and in OpenAI's at once."""
    models: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    for card in service.models():
        for name in (card.name, *card.aliases):
            models.append(
                {
                    "name": name,
                    "description": card.description,
                    "release_date": card.release_date,
                    "x_model": card.name,
                    "x_ready": card.ready,
                    "x_revision": card.revision,
                    "x_limits": card.limits,
                }
            )
            data.append(
                {
                    "id": name,
                    "object": "model",
                    "created": unix_time(card.release_date),
                    "owned_by": "jevserve",
                }
            )
    return {"models": models, "object": "list", "data": data}


def unix_time(timestamp: str) -> int:
    """Seconds since 1970 of an RFC 3339 timestamp, 0 where it is none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return 0
