"""The OpenAPI document of what the door answers, written by hand because bodies are parsed by hand.

It promises nothing that a request could disprove: everything a schema allows is answered or
refused with a listed status, and the tests hold it against the running application.
"""

from __future__ import annotations

from typing import Any

from jevserve import __version__
from jevserve.api import systemone as limits
from jevserve.api.assets import FORMATS, MAX_ASSETS, MAX_PLACEHOLDER
from jevserve.api.json_text import MAX_DEPTH, MAX_VALUES
from jevserve.api.openapi_schemas import SCHEMAS, ref

_REQUEST = {
    "model": "jev-latest",
    "state": "Hi, I was charged twice for my March invoice. Please fix this today.",
    "questions": {
        "refund": {"type": "noul", "instructions": "Is the customer asking for money back?"},
        "team": {
            "type": "choice",
            "instructions": "Which team should handle this?",
            "criteria": {"billing": "Payments and refunds", "technical": None},
        },
        "anger": {"type": "score", "criteria": ["Calm", "Frustrated", "Very angry"]},
    },
}

_ANSWERS = {
    "refund": {"type": "noul", "noul": 0.97},
    "team": {
        "type": "choice",
        "choice": "billing",
        "confidence": 0.92,
        "probabilities": {"billing": 0.96, "technical": 0.04},
    },
    "anger": {
        "type": "score",
        "score": 1.25,
        "confidence": 0.625,
        "legend": {"0": "Calm", "1": "Frustrated", "2": "Very angry"},
        "probabilities": {"0": 0.0, "1": 0.75, "2": 0.25},
    },
}

_RESPONSE = {
    "model": "jev-embed",
    "answers": _ANSWERS,
    "usage": {"input_tokens": 74, "output_tokens": 0},
}

_ID_HEADERS = {
    "x-typesafe-request-id": {
        "description": "Id of this request, also in the service's logs.",
        "schema": {"type": "string", "pattern": "^req_[0-9a-f]{24}$"},
    },
    "x-request-id": {
        "description": "The caller's own x-request-id where it sent a plain one, else the same id.",
        "schema": {"type": "string"},
    },
}

_RETRY_HEADERS = {
    "Retry-After": {
        "description": "Whole seconds after which a retry is worth it.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "retry-after-ms": {
        "description": "The same in milliseconds.",
        "schema": {"type": "integer", "minimum": 1},
    },
}


def _response(
    description: str, schema: str, example: Any = None, headers: dict[str, Any] | None = None
) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": ref(schema)}
    if example is not None:
        content["example"] = example
    return {
        "description": description,
        "headers": _ID_HEADERS | (headers or {}),
        "content": {"application/json": content},
    }


def _error(status: str, description: str, error_type: str, message: str) -> dict[str, Any]:
    example = {"detail": {"error_type": error_type, "message": message}}
    headers: dict[str, Any] = {}
    if status in ("429", "503"):
        headers = _RETRY_HEADERS
    elif status == "401":
        headers = {"WWW-Authenticate": {"schema": {"const": "Bearer"}}}
    return _response(description, "Error", example, headers)


_ISSUE = {
    "loc": ["body", "questions", "anger", "score", "criteria"],
    "msg": "no levels, at least 1 is needed",
    "type": "too_short",
}

_REFUSALS = {
    status: _error(status, *rest)
    for status, *rest in (
        (
            "400", "The request cannot be served as asked: unknown model, images for a text model, "
            "too many tokens, or a body that its encoding contradicts.",
            "api_usage_error", "Unknown model: no-such-model",
        ),
        ("401", "No API key, or one that is not known.", "authentication_error",
         "this API key is not known here"),
        ("408", "The body took too long to arrive.", "body_timeout",
         "the body did not arrive within 20 s of its headers"),
        ("413", "The body is too large, before or after decoding.", "body_too_large",
         "the body is larger than 33554432 bytes; send less at a time"),
        ("415", "A media type or content encoding that is not read.", "unsupported_body",
         "Content-Encoding 'br' is not read here"),
        ("429", "The quota is used up.", "rate_limit_error", "too many requests"),
        ("500", "The service failed; its logs tell why.", "internal_error",
         "The service failed to answer."),
        ("503", "No capacity that could answer in time.", "overloaded_error", "overloaded"),
    )
}  # fmt: skip

_DECISION_RESPONSES = {
    "200": _response("One answer for every question.", "SystemOneResponse", _RESPONSE),
    "422": _response(
        "The body is no valid request; every issue is listed.", "ValidationErrors",
        {"detail": [_ISSUE]},
    ),
    **_REFUSALS,
}  # fmt: skip

_DEADLINE = {
    "name": limits.DEADLINE_HEADER,
    "in": "header",
    "required": False,
    "description": "Milliseconds the caller will wait; wins over x_deadline_ms in the body.",
    "schema": {"type": "integer", "minimum": 1, "maximum": limits.MAX_DEADLINE_MS},
}

_JSON_BODY = {
    "schema": ref("SystemOneRequest"),
    "examples": {"ticket": {"summary": "One of each kind of question", "value": _REQUEST}},
}


def _decide(summary: str, id: str, description: str) -> dict[str, Any]:
    return {
        "post": {
            "operationId": id,
            "summary": summary,
            "description": description,
            "parameters": [_DEADLINE],
            "requestBody": {"required": True, "content": {"application/json": _JSON_BODY}},
            "responses": _DECISION_RESPONSES,
        }
    }


def _get(summary: str, id: str, responses: dict[str, Any], *, open: bool = True) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": id, "summary": summary, "responses": responses}
    if open:
        operation["security"] = []
    return {"get": operation}


def openapi(root_path: str, keys: bool) -> dict[str, Any]:
    """The document.

    Args:
        root_path: prefix under which the service is published.
        keys: whether API keys are configured.
    """
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "jevserve",
            "version": __version__,
            "description": "Typed questions about a state, answered with a probability for every "
            "candidate. The wire format is TypeSafe System One; SDKs for it work unchanged.",
        },
        "paths": _paths(),
        "components": {"schemas": SCHEMAS},
    }
    if root_path.strip("/"):
        document["servers"] = [{"url": f"/{root_path.strip('/')}"}]
    if keys:
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        document["security"] = [{"bearer": []}, {"header": []}]
    return document


def _paths() -> dict[str, Any]:
    body_notes = (
        "Bodies may be compressed (Content-Encoding: zstd or gzip) and have at most "
        f"{MAX_DEPTH} levels of nesting and {MAX_VALUES} JSON values. Images are sent as `assets`: "
        f"up to {MAX_ASSETS} {'/'.join(FORMATS)} stills keyed by a placeholder of at most "
        f"{MAX_PLACEHOLDER} characters, as base64 or as parts of a multipart/form-data body whose "
        "first part, named `request`, is this JSON. Also answered at /systemone, "
        "/api/v1/systemone and /api/alpha/decisions, and under any path prefix."
    )
    models = {
        "200": _response("Every model and alias.", "Models"),
        "401": _REFUSALS["401"],
        "500": _REFUSALS["500"],
    }
    page = {"description": "The page.", "headers": _ID_HEADERS}
    text = {**page, "content": {"text/plain": {"schema": {"type": "string"}}}}
    html = {**page, "content": {"text/html": {"schema": {"type": "string"}}}}
    known = {"description": "The browser has this very page.", "headers": _ID_HEADERS}
    off = _response("The page is turned off.", "Error")
    return {
        "/v1/systemone": _decide("Answer questions about a state", "system_one", body_notes),
        "/v1/decisions": _decide(
            "Answer questions about a state",
            "decisions",
            "The same as /v1/systemone for a body with `state`; other dialects of this path are "
            "refused with 400.",
        ),
        "/v1/models": _get("List models and aliases", "models", models, open=False),
        "/healthz": _get(
            "Whether the process answers", "healthz", {"200": _response("It does.", "Health")}
        ),
        "/readyz": _get(
            "Whether the default model answers",
            "readyz",
            {
                "200": _response("It does.", "Readiness"),
                "503": _response("Not now.", "Readiness"),
            },
        ),
        "/metrics": _get("Prometheus metrics of this one process", "metrics", {"200": text}),
        "/docs": _get("This document for people", "docs", {"200": html, "304": known}),
        "/": _get("A page to ask in", "page", {"200": html, "304": known, "404": off}),
    }
