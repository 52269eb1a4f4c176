"""The Python client: signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jevserve import client
from scripts.reference.docstrings import Docstring, docstring
from scripts.reference.regions import code, table

CLIENTS = (client.Client, client.AsyncClient)
QUESTIONS: tuple[Callable[..., Any], ...] = (client.choice, client.noul, client.score)
ANSWERS = (client.Decision, client.ChoiceAnswer, client.NoulAnswer, client.ScoreAnswer)


def regions() -> dict[str, str]:
    return {
        "clients": "\n".join(map(described_class, CLIENTS)),
        "questions": "\n".join(map(described_function, QUESTIONS)),
        "answers": "\n".join(map(described_data, (*ANSWERS, client.ServiceError))),
    }


def described_class(kind: type[Any]) -> str:
    parts = [f"### {kind.__name__}\n", signature(kind.__name__, kind)]
    about = docstring(kind)
    parts.append(f"{about.text}\n")
    # What both clients take is told once, by the class that they share.
    made = [docstring(vars(c)["__init__"]) for c in reversed(kind.__mro__) if "__init__" in vars(c)]
    arguments: dict[str, str] = {}
    for text in made:
        arguments |= text.sections.get("Args", {})
    parts.append(listed(Docstring(sections={"Args": arguments})))
    for name, method in vars(kind).items():
        if not name.startswith("_"):
            parts += [f"#### {kind.__name__}.{name}\n", signature(name, method), prose(method)]
    return "\n".join(p for p in parts if p)


def described_function(function: Callable[..., Any]) -> str:
    name = function.__name__
    return "\n".join((f"### {name}\n", signature(name, function), prose(function)))


def described_data(kind: type[Any]) -> str:
    return "\n".join((f"### {kind.__name__}\n", prose(kind)))


def prose(of: Any) -> str:
    about = docstring(of)
    return "\n".join(p for p in (f"{about.text}\n", listed(about)) if p)


def listed(about: Docstring) -> str:
    heads = {"Args": "Argument", "Attributes": "Attribute", "Raises": "Raises"}
    tables = [
        table((heads[title], "Meaning"), [(code(n), text) for n, text in entries.items()])
        for title, entries in about.sections.items()
    ]
    return "\n".join(tables)


def signature(name: str, of: Callable[..., Any]) -> str:
    """A signature as a block that nobody runs."""
    found = inspect.signature(of)
    shown = [p for p in found.parameters.values() if p.name != "self"]
    parts: list[str] = []
    starred = False
    for parameter in shown:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(shown_parameter(parameter))
    returns = found.return_annotation
    arrow = "" if isinstance(of, type) or returns is inspect.Signature.empty else f" -> {returns}"
    prefix = "async " if inspect.iscoroutinefunction(of) else ""
    head = "class " if isinstance(of, type) else f"{prefix}def "
    line = f"{head}{name}({', '.join(parts)}){arrow}"
    if len(line) > 88:
        line = f"{head}{name}(\n" + "".join(f"    {p},\n" for p in parts) + f"){arrow}"
    return f"<!-- not run: a signature -->\n```python\n{line}\n```\n"


def shown_parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    # Annotations are text: the module postpones them.
    shown = f"{stars}{parameter.name}: {parameter.annotation}"
    if parameter.default is parameter.empty:
        return shown
    return f"{shown} = {parameter.default!r}".replace("'", '"')
