"""How structured text becomes text: one rule for states, instructions and descriptions.

A string stays as it is. An object is one ``key: value`` line per entry, an array one ``- value``
line per item, in the client's order; what is nested starts on a new line, indented by two spaces.
Further lines of a nested string are indented as well, so that no string can pass for an entry
beside it. Scalars are written as JSON writes them.
"""

from __future__ import annotations

import json

from jevserve.decisions.request import StructuredText

#: Deeper levels are indented like this one, which bounds the output by a multiple of the input.
MAX_INDENT_LEVELS = 32


def render(value: StructuredText) -> str:
    """The text of ``value``. Total and deterministic for any JSON value of any depth."""
    if isinstance(value, str):
        return value
    lines: list[str] = []
    # A stack instead of recursion: nesting is bounded at the door, but not by Python's stack.
    stack: list[tuple[int, str, object]] = [(-1, "", value)]
    while stack:
        level, head, item = stack.pop()
        indent = "  " * min(max(level, 0), MAX_INDENT_LEVELS)
        if isinstance(item, dict) and item:
            children = [(level + 1, f"{one_line(str(k))}:", v) for k, v in item.items()]
        elif isinstance(item, list | tuple) and item:
            children = [(level + 1, "-", v) for v in item]
        else:
            first, *rest = scalar(item).split("\n")
            lines.append(f"{indent}{head} {first}".rstrip() if head else indent + first)
            lines.extend(f"{indent}  {line}" for line in rest)
            continue
        if head:
            lines.append(indent + head)
        stack.extend(reversed(children))
    return "\n".join(lines)


def scalar(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def one_line(text: str) -> str:
    return " ".join(text.split("\n"))
