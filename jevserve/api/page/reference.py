"""The OpenAPI document written out as a page: operations, bodies, and every field's limits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Any

from jevserve.api.openapi import openapi
from jevserve.api.page import Page, build, docs_frame

#: Keywords that bound a value, and how they are told.
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "pattern": "matches {}",
}


@cache
def docs_page(root_path: str, keys: bool) -> Page:
    """The reference page; arguments as of ``openapi``."""
    document = openapi(root_path, keys)
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    parts = {
        "title": f"{escape(document['info']['title'])} {escape(document['info']['version'])}",
        "about": escape(document["info"]["description"]),
        "keys": _keys(keys),
        "contents": _contents(operations, schemas),
        "operations": "".join(_operation(*o, keys) for o in operations),
        "schemas": "".join(_schema(name, schema) for name, schema in schemas.items()),
    }
    html = docs_frame()
    for name, text in parts.items():
        html = html.replace(f"<!-- {name} -->", text)
    return build(html)


def _keys(keys: bool) -> str:
    if not keys:
        return "No API key is needed here."
    return (
        "Operations marked <em>key</em> need an API key: send <code>Authorization: Bearer "
        "&lt;key&gt;</code> or <code>X-API-Key: &lt;key&gt;</code>."
    )


def _contents(operations: list[tuple[str, str, dict[str, Any]]], schemas: Iterable[str]) -> str:
    links = [
        f'<li><a href="#{o["operationId"]}"><b>{method}</b> {escape(path)}</a></li>'
        for method, path, o in operations
    ]
    links += [f'<li><a href="#{name}">{name}</a></li>' for name in schemas]
    return "".join(links)


def _operation(method: str, path: str, operation: dict[str, Any], keys: bool) -> str:
    id = operation["operationId"]
    key = ' <span class="tag">key</span>' if keys and "security" not in operation else ""
    parts = [
        f'<section class="card entry" id="{id}">',
        f'<h3><a href="#{id}"><b>{method}</b> <code>{escape(path)}</code></a>{key}</h3>',
        f"<p>{escape(operation['summary'])}. {_prose(operation.get('description', ''))}</p>",
    ]
    for parameter in operation.get("parameters", ()):
        parts.append("<h4>Headers</h4>" + _table([_field(parameter["name"], parameter["schema"],
                     parameter["required"], parameter["description"])]))  # fmt: skip
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h4>Body: {_type(content['schema'])} <small>{escape(media)}</small></h4>")
        parts += [_example(e["summary"], e["value"]) for e in content["examples"].values()]
    parts.append("<h4>Responses</h4>")
    parts += [_response(status, r) for status, r in sorted(operation["responses"].items())]
    return "".join([*parts, "</section>"])


def _response(status: str, response: dict[str, Any]) -> str:
    told = f"<b>{status}</b> {escape(response['description'])}"
    details = []
    for media, content in response.get("content", {}).items():
        details.append(f"<p>Body: {_type(content['schema'])} <small>{escape(media)}</small></p>")
        if "example" in content:
            details.append(_example("For example", content["example"]))
    headers = response.get("headers", {})
    if headers:
        rows = [
            _field(name, h.get("schema", {}), True, h.get("description", ""))
            for name, h in headers.items()
        ]
        details.append(_table(rows))
    return f"<details><summary>{told}</summary>{''.join(details)}</details>"


def _example(summary: str, value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return f'<p>{escape(summary)}:</p><pre tabindex="0">{escape(text)}</pre>'


def _schema(name: str, schema: dict[str, Any]) -> str:
    parts = [f'<section class="card entry" id="{name}"><h3><a href="#{name}">{name}</a></h3>']
    if "description" in schema:
        parts.append(f"<p>{_prose(schema['description'])}</p>")
    if "properties" in schema:
        needed = schema.get("required", ())
        rows = [
            _field(field, s, field in needed, s.get("description", ""))
            for field, s in schema["properties"].items()
        ]
        parts.append(_table(rows))
    else:
        parts.append(f"<p>{_type(schema)}</p>")
    return "".join([*parts, "</section>"])


def _table(rows: list[str]) -> str:
    head = "<tr><th scope=col>Name<th scope=col>Type<th scope=col>Meaning and limits</tr>"
    body = "".join(rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _field(name: str, schema: dict[str, Any], needed: bool, description: str) -> str:
    optional = "" if needed else ' <span class="quiet">optional</span>'
    limits = _bounds(schema)
    if "propertyNames" in schema:
        limits += [f"names: {bound}" for bound in _bounds(schema["propertyNames"])]
    told = " ".join(
        filter(None, (_prose(description), f'<span class="quiet">{escape("; ".join(limits))}</span>'
                      if limits else ""))
    )  # fmt: skip
    return f"<tr><td><code>{escape(name)}</code>{optional}<td>{_type(schema)}<td>{told}</tr>"


def _bounds(schema: dict[str, Any]) -> list[str]:
    return [told.format(schema[word]) for word, told in _BOUNDS.items() if word in schema]


def _type(schema: dict[str, Any]) -> str:
    """A schema's type in words, with links to what it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "oneOf" in schema:
        return " or ".join(_type(s) for s in schema["oneOf"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(json.dumps(v))}</code>" for v in values)
    types = schema.get("type", "any")
    words = " or ".join([types] if isinstance(types, str) else types)
    if "items" in schema and types == "array":
        return f"array of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{words}, each entry {_type(schema['additionalProperties'])}"
    if "properties" in schema:
        inner = ", ".join(
            f"<code>{escape(n)}</code>: {_type(s)}" for n, s in schema["properties"].items()
        )
        return f"{words} with {inner}"
    return words


def _prose(text: str) -> str:
    """Escaped text in which `words` between backquotes are code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(pieces))
