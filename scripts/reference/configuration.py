"""Every setting: its type, default, variable and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from jevserve import settings
from scripts.reference.docstrings import docstring
from scripts.reference.regions import code, table

#: Region of a page: the prefix of its settings, and the class that holds them.
SECTIONS: Mapping[str, tuple[str, type[BaseModel]]] = {
    "service": ("", settings.ServiceSettings),
    "models": ("", settings.ModelSettings),
    "resources": ("resources.", settings.ResourceSettings),
    "http": ("http.", settings.HttpSettings),
    "router": ("router.", settings.RouterSettings),
    "transport": ("transport.", settings.TransportSettings),
    "metrics": ("metrics.", settings.MetricsSettings),
}

#: Where the default is made when it is asked for.
MADE = {"cache": "~/.cache/jevserve", "models": "one: jev-embed"}

HEAD = ("Setting", "Type", "Default", "Variable", "Meaning")


def regions() -> dict[str, str]:
    return {name: section(name) for name in SECTIONS}


def section(name: str) -> str:
    prefix, kind = SECTIONS[name]
    about = docstring(kind)
    meanings = {n: text for names, text in about.sections.get("Attributes", {}).items()
                for n in names.split(", ")}  # fmt: skip
    schema = kind.model_json_schema()
    rows = []
    for field, shape in schema["properties"].items():
        if any(field == p.rstrip(".") for p, _ in SECTIONS.values() if p):
            continue
        variable = variable_of(name, field)
        required = field in schema.get("required", ())
        rows.append(
            (
                code(prefix + field),
                type_of(shape),
                "required" if required else default_of(field, shape),
                code(variable) if variable else "",
                meanings.get(field, ""),
            )
        )
    return f"{about.text}\n\n" + table(HEAD, rows)


def variable_of(section: str, field: str) -> str:
    """The environment's name of a setting; empty in the list of models, which is set whole."""
    if section in ("models", "resources"):
        return ""
    return f"JEVSERVE_{SECTIONS[section][0]}{field}".replace(".", "__").upper()


def type_of(shape: Mapping[str, Any]) -> str:
    """The type as people say it, with its bounds."""
    if "anyOf" in shape:
        (shape,) = [s for s in shape["anyOf"] if s.get("type") != "null"]
    if "enum" in shape:
        return ", ".join(map(code, shape["enum"]))
    kind = {
        "integer": "whole number",
        "boolean": "true or false",
        "array": "list",
        "object": "mapping",
        "string": "path" if shape.get("format") == "path" else "text",
    }.get(shape["type"], shape["type"])
    low, high = shape.get("minimum"), shape.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    return kind if low is None else f"{kind}, at least {low}"


def default_of(field: str, shape: Mapping[str, Any]) -> str:
    if field in MADE:
        return code(MADE[field])
    default = shape.get("default")
    if default is None or default in ("", {}, []):
        return ""
    return code(str(default).lower() if isinstance(default, bool) else default)
