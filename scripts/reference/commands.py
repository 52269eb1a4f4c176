"""Every command of the command line with its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

import typer

from jevserve.cli.main import app
from scripts.reference.docstrings import markdown
from scripts.reference.regions import code, table

HEAD = ("Option", "Value", "Default", "Variable", "Meaning")


def regions() -> dict[str, str]:
    parts = [described(words, command) for words, command in commands()]
    return {"commands": "\n".join(parts)}


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, and the words that call it."""

    def below(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*words, name))
            else:
                yield (*words, name), command

    yield from below(typer.main.get_command(app), ("jevserve",))


def described(words: tuple[str, ...], command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = [*words, *(["[OPTIONS]"] if options else []), *map(argument_name, arguments)]
    parts = [f"## {' '.join(words)}\n", f"`{' '.join(usage)}`\n", paragraphs(command.help)]
    if command.epilog:
        parts.append(example(command.epilog))
    if arguments:
        rows = [(code(argument_name(a)), a.help or "") for a in arguments]
        parts.append(table(("Argument", "Meaning"), rows))
    if options:
        parts.append(table(HEAD, map(row, options)))
    return "\n".join(parts)


def paragraphs(text: str) -> str:
    return "\n".join(line.strip() for line in markdown(text).strip().splitlines()) + "\n"


def example(epilog: str) -> str:
    said, _, shown = epilog.partition(": ")
    return f"{said}: `{shown}`\n"


def argument_name(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]{}")
    return name if argument.required else f"[{name}]"


def row(option: Any) -> tuple[str, ...]:
    names = ", ".join(map(code, [*option.opts, *option.secondary_opts]))
    value = "" if option.is_flag else type_name(option)
    default = option.default
    shown = "" if option.is_flag or default is None or callable(default) else code(default)
    variable = option.envvar
    variables = [variable] if isinstance(variable, str) else list(variable or ())
    return names, value, shown, ", ".join(map(code, variables)), option.help or ""


def type_name(option: Any) -> str:
    kind = option.type_descriptor.annotation
    if get_origin(kind) is not None:
        (kind,) = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        name = ", ".join(code(member.value) for member in kind)
    else:
        name = {"str": "text", "int": "number", "float": "number"}.get(
            kind.__name__, kind.__name__.lower()
        )
    return f"{name}, repeatable" if option.multiple else name
