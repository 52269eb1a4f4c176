"""JSON schemas of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from jevserve.api import systemone as limits
from jevserve.api.assets import FORMATS, MAX_ASSETS, MAX_PLACEHOLDER


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(
    properties: dict[str, Any], required: tuple[str, ...] | None = None, **more: Any
) -> dict[str, Any]:
    """An object that needs ``required`` fields, all of them by default."""
    needed = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": needed, **more}


def _text(description: str, *, null: bool) -> dict[str, Any]:
    types = ["string", "object", "array"]
    return {"type": [*types, "null"] if null else types, "description": description}


def _one_of(*names: str) -> dict[str, Any]:
    mapping = {n.partition("Q")[0].partition("A")[0].lower(): ref(n)["$ref"] for n in names}
    return {
        "oneOf": [ref(n) for n in names],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_PROBABILITIES = {"type": "object", "additionalProperties": _PROBABILITY, "minProperties": 1}
_COUNT = {"type": "integer", "minimum": 0}
_MS = {"type": "number", "minimum": 0}
_INSTRUCTIONS = _text("What the model should decide.", null=True)


def _label(most: int, description: str) -> dict[str, Any]:
    return {"type": ["string", "null"], "maxLength": most, "description": description}


SCHEMAS: dict[str, Any] = {
    "SystemOneRequest": _object(
        {
            "model": _label(
                limits.MAX_MODEL_NAME, "A name from GET /v1/models; the default model if absent."
            ),
            "state": _text("What the questions are about.", null=False),
            "questions": {
                "type": "object",
                "description": "Question ids, chosen by the caller, to questions.",
                "minProperties": 1,
                "maxProperties": limits.MAX_QUESTIONS,
                "propertyNames": {"minLength": 1, "maxLength": limits.MAX_ID},
                "additionalProperties": ref("Question"),
            },
            "assets": {
                "type": ["object", "null"],
                "description": "Placeholders, used in any text, to images.",
                "minProperties": 1,
                "maxProperties": MAX_ASSETS,
                "propertyNames": {"minLength": 1, "maxLength": MAX_PLACEHOLDER},
                "additionalProperties": ref("Asset"),
            },
            "cache_salt": {
                "type": ["string", "null"],
                "minLength": 1,
                "maxLength": limits.MAX_SALT,
                "pattern": r"\S",
                "description": "The caller's own partition of its prefix cache.",
            },
            "x_deadline_ms": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": limits.MAX_DEADLINE_MS,
                "description": "Milliseconds the caller will wait.",
            },
            "user": _label(limits.MAX_LABEL, "Accepted and ignored."),
            "session_id": _label(limits.MAX_LABEL, "Accepted and ignored."),
            "priority": {"type": ["integer", "null"], "description": "Accepted and ignored."},
            "provider": {"type": ["object", "null"], "description": "Accepted and ignored."},
            "trace": {"type": ["object", "null"], "description": "Accepted and ignored."},
            "images": {"type": ["array", "null"], "maxItems": 0, "description": "Use assets."},
            "videos": {"type": ["array", "null"], "maxItems": 0, "description": "Not read."},
        },
        required=("state", "questions"),
    ),
    "Question": _one_of("NoulQuestion", "ChoiceQuestion", "ScoreQuestion"),
    "NoulQuestion": _object(
        {
            "type": {"const": "noul"},
            "instructions": _INSTRUCTIONS,
            "criteria": {
                "type": ["object", "null"],
                "properties": {
                    "true": _text("What counts as yes.", null=True),
                    "false": _text("What counts as no.", null=True),
                },
            },
        },
        required=("type",),
        description="A yes/no question; instructions or one described outcome must be there.",
    ),
    "ChoiceQuestion": _object(
        {
            "type": {"const": "choice"},
            "instructions": _INSTRUCTIONS,
            "criteria": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": limits.MAX_OPTIONS,
                "additionalProperties": _text("When this option applies.", null=True),
                "description": "Option names to descriptions.",
            },
        },
        required=("type", "criteria"),
    ),
    "ScoreQuestion": _object(
        {
            "type": {"const": "score"},
            "instructions": _INSTRUCTIONS,
            "criteria": {
                "type": "array",
                "minItems": 1,
                "maxItems": limits.MAX_LEVELS,
                "items": _text("What this level means.", null=False),
                "description": "Levels, lowest first.",
            },
        },
        required=("type", "criteria"),
    ),
    "Asset": _object(
        {
            "type": {"enum": ["image", None]},
            "format": {"enum": [*FORMATS, None]},
            "data_base64": {"type": ["string", "null"], "contentEncoding": "base64"},
            "part": {"type": ["string", "null"], "description": "Name of a part of the form."},
        },
        required=(),
    ),
    "SystemOneResponse": _object(
        {
            "model": {"type": "string", "description": "The model that answered, never an alias."},
            "answers": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": ref("Answer"),
                "description": "Exactly one answer for every question id.",
            },
            "usage": ref("Usage"),
            "x_jevserve": ref("Account"),
        },
    ),
    "Answer": _one_of("NoulAnswer", "ChoiceAnswer", "ScoreAnswer"),
    "NoulAnswer": _object({"type": {"const": "noul"}, "noul": _PROBABILITY}),
    "ChoiceAnswer": _object(
        {
            "type": {"const": "choice"},
            "choice": {"type": "string", "description": "The most probable option."},
            "confidence": _PROBABILITY,
            "probabilities": _PROBABILITIES,
        },
        description="confidence = (p_max - 1/n) / (1 - 1/n), and 1 for a single option.",
    ),
    "ScoreAnswer": _object(
        {
            "type": {"const": "score"},
            "score": {"type": "number", "minimum": 0, "description": "Sum of i * p_i."},
            "confidence": _PROBABILITY,
            "legend": {
                "type": "object",
                "additionalProperties": _text("The level as it was sent.", null=False),
            },
            "probabilities": _PROBABILITIES,
        },
        description="confidence = max(0, 1 - E|i - mode| / D) with D = mean of |i - (n-1)/2|, "
        "and 1 for a single level.",
    ),
    "Usage": _object({"input_tokens": _COUNT, "output_tokens": _COUNT}),
    "Account": _object(
        {
            "cached_tokens": _COUNT,
            "computed_tokens": _COUNT,
            "rows": _COUNT,
            "plan_ms": _MS,
            "engine_ms": _MS,
            "total_ms": _MS,
            "replica": {"type": "string"},
        },
        description="Where tokens and milliseconds went.",
    ),
    "Models": _object(
        {
            "models": {
                "type": "array",
                "items": _object(
                    {
                        "name": {"type": "string"},
                        "description": {"type": "string"},
                        "release_date": {"type": "string"},
                        "x_model": {"type": "string", "description": "What the name resolves to."},
                        "x_ready": {"type": "boolean"},
                        "x_limits": {"type": "object"},
                    }
                ),
            },
            "object": {"const": "list"},
            "data": {
                "type": "array",
                "items": _object(
                    {
                        "id": {"type": "string"},
                        "object": {"const": "model"},
                        "created": {"type": "integer"},
                        "owned_by": {"type": "string"},
                    }
                ),
            },
        }
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "Readiness": _object(
        {
            "ready": {"type": "boolean"},
            "details": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    ),
    "ValidationErrors": _object(
        {
            "detail": {
                "type": "array",
                "minItems": 1,
                "items": _object(
                    {
                        "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                        "msg": {"type": "string"},
                        "type": {"type": "string"},
                    }
                ),
            }
        }
    ),
    "Error": _object(
        {
            "detail": _object(
                {
                    "error_type": {"type": "string", "description": "Stable; branch on it."},
                    "message": {"type": "string"},
                }
            )
        }
    ),
}
