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
_CONFIDENCE = {**_PROBABILITY, "description": "0 where all are alike, 1 where one is certain."}


def _probabilities(description: str) -> dict[str, Any]:
    shape = {"type": "object", "additionalProperties": _PROBABILITY, "minProperties": 1}
    return {**shape, "description": description}


def _count(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


def _ms(description: str) -> dict[str, Any]:
    return {"type": "number", "minimum": 0, "description": description}


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
                "description": "What `true` and `false` mean; one of them is enough.",
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
            "format": {"enum": [*FORMATS, None], "description": "Checked against the bytes."},
            "data_base64": {
                "type": ["string", "null"],
                "contentEncoding": "base64",
                "description": "The image itself, where it is no part of a form.",
            },
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
            "usage": {**ref("Usage"), "description": "What was read."},
            "x_jevserve": {**ref("Account"), "description": "Where tokens and time went."},
        },
    ),
    "Answer": _one_of("NoulAnswer", "ChoiceAnswer", "ScoreAnswer"),
    "NoulAnswer": _object(
        {
            "type": {"const": "noul"},
            "noul": {**_PROBABILITY, "description": "Probability of yes."},
        }
    ),
    "ChoiceAnswer": _object(
        {
            "type": {"const": "choice"},
            "choice": {"type": "string", "description": "The most probable option."},
            "confidence": _CONFIDENCE,
            "probabilities": _probabilities("Of each option, as asked; sum 1."),
        },
        description="confidence = (p_max - 1/n) / (1 - 1/n), and 1 for a single option.",
    ),
    "ScoreAnswer": _object(
        {
            "type": {"const": "score"},
            "score": {"type": "number", "minimum": 0, "description": "Sum of i * p_i."},
            "confidence": _CONFIDENCE,
            "legend": {
                "type": "object",
                "description": "Each level as it was sent, by its number.",
                "additionalProperties": _text("The level as it was sent.", null=False),
            },
            "probabilities": _probabilities("Of each level, by its number; sum 1."),
        },
        description="confidence = max(0, 1 - E|i - mode| / D) with D = mean of |i - (n-1)/2|, "
        "and 1 for a single level.",
    ),
    "Usage": _object(
        {
            "input_tokens": _count("Tokens of the request; text that rows share counts once."),
            "output_tokens": _count("Always 0: no text is generated."),
        }
    ),
    "Account": _object(
        {
            "cached_tokens": _count("Taken from the engine's prefix cache, summed over rows."),
            "computed_tokens": _count(
                "Computed, summed over rows; rows that share text may each compute it."
            ),
            "rows": _count("Rows that the engine read."),
            "plan_ms": _ms("Planning in the router."),
            "engine_ms": _ms("In the engine replica, from arrival to the last row."),
            "total_ms": _ms("In the router, from the parsed request to the answers."),
            "replica": {
                "type": "string",
                "description": "The engine replica, empty where none was needed.",
            },
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
                        "x_revision": {"type": "string"},
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
