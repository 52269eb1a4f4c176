"""The HTTP API, from its OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jevserve import errors
from jevserve.api import refusals
from jevserve.api.openapi import openapi
from jevserve.api.paths import ENDPOINTS
from scripts.reference.docstrings import docstring
from scripts.reference.regions import code, table

DOCUMENT = openapi("", keys=True)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
RESPONSES: dict[str, Any] = DOCUMENT["paths"]["/v1/systemone"]["post"]["responses"]

#: Errors that no client sees.
UNSEEN = (
    errors.CheckpointError,
    errors.SettingsError,
    errors.TransportError,
    errors.RetryableError,
    refusals.ClientDisconnected,
)

#: Statuses whose example a reader cannot make at will.
TOLD = ("401", "408", "429", "500")


def regions() -> dict[str, str]:
    names = {
        "request": "SystemOneRequest",
        "noul question": "NoulQuestion",
        "choice question": "ChoiceQuestion",
        "score question": "ScoreQuestion",
        "asset": "Asset",
        "response": "SystemOneResponse",
        "noul answer": "NoulAnswer",
        "choice answer": "ChoiceAnswer",
        "score answer": "ScoreAnswer",
        "usage": "Usage",
        "account": "Account",
    }
    return {"routes": routes()} | {region: fields(name) for region, name in names.items()}


def error_regions() -> dict[str, str]:
    return {"errors": error_table(), "examples": examples()}


def routes() -> str:
    rows = []
    for endpoint in ENDPOINTS:
        described = DOCUMENT["paths"].get(endpoint.path)
        if described is None:
            rows.append((f"`GET {endpoint.path}`", "", "no", "This API for machines"))
            continue
        ((method, operation),) = described.items()
        rows.append(
            (
                code(f"{method.upper()} {endpoint.path}"),
                ", ".join(map(code, endpoint.aliases)),
                "no" if operation.get("security") == [] else "yes",
                operation["summary"],
            )
        )
    return table(("Route", "Also at", "Needs a key", "Does"), rows)


def fields(name: str) -> str:
    schema = SCHEMAS[name]
    required = schema.get("required", ())
    rows = [
        (
            code(field),
            type_of(shape) + ("" if field in required else "; optional"),
            bounds(shape),
            shape.get("description", ""),
        )
        for field, shape in schema["properties"].items()
    ]
    return table(("Field", "Type", "Limits", "Meaning"), rows)


def type_of(shape: Mapping[str, Any]) -> str:
    if "$ref" in shape:
        return "object"
    if "const" in shape:
        return code(json.dumps(shape["const"]))
    if "enum" in shape:
        return ", ".join(code(json.dumps(value)) for value in shape["enum"])
    kinds = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    return " or ".join(", ".join(kinds).rsplit(", ", 1))


def bounds(shape: Mapping[str, Any]) -> str:
    return "; ".join(bounded(shape))


def bounded(shape: Mapping[str, Any]) -> Iterator[str]:
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " entries"),
    ):
        low, high = shape.get(least), shape.get(most)
        if low is not None and high is not None:
            yield f"{low:,} to {high:,}{unit}"
        elif high is not None:
            yield f"at most {high:,}{unit}" if high else "empty"
        elif low:
            yield f"at least {low:,}{unit if low > 1 else ''}"
    names = shape.get("propertyNames")
    if names:
        yield f"names of {bounds(names)}"


def error_table() -> str:
    rows = []
    classes = [c for c in (*subclasses(errors), *subclasses(refusals)) if c not in UNSEEN]
    for kind in sorted(classes, key=lambda c: c.status):
        said = re.sub(r" \(\d+\)\.$", ".", docstring(kind).text.splitlines()[0])
        if kind is errors.JevserveError:
            said = RESPONSES["500"]["description"]
        name = "a list of issues" if kind is errors.InvalidRequest else code(kind.error_type)
        again = kind.status in (408, 429) or kind.status >= 500
        rows.append((str(kind.status), name, said.replace("….", "…"), "yes" if again else "no"))
    return table(("Status", "`error_type`", "When", "Retry"), rows)


def subclasses(module: Any) -> Iterator[type[errors.JevserveError]]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, errors.JevserveError)
            and value.__module__ == module.__name__
        ):
            yield value


def examples() -> str:
    parts = []
    for status in TOLD:
        response = RESPONSES[status]
        body = json.dumps(response["content"]["application/json"]["example"])
        parts.append(f"{status}: {response['description']}\n")
        parts.append(f"<!-- not run: an example from the code -->\n```json\n{body}\n```\n")
    return "\n".join(parts)
