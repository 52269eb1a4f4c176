"""The parts of a docstring: what it says, and its lists of names."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

SECTIONS = ("Args", "Attributes", "Raises")

ENTRY = re.compile(r"(\w+(?:, \w+)*): (.*)")


@dataclass
class Docstring:
    """Attributes:
    text: paragraphs before the first section.
    sections: by title, names in order and what is said of them.
    """

    text: str = ""
    sections: dict[str, dict[str, str]] = field(default_factory=dict)


def docstring(of: object) -> Docstring:
    """The own docstring of a class or function, as Markdown."""
    own = vars(of).get("__doc__") if isinstance(of, type) else getattr(of, "__doc__", None)
    found = Docstring()
    entries: dict[str, str] | None = None
    name, lines = "", []
    for line in inspect.cleandoc(own or "").splitlines():
        title = line.rstrip(":")
        if line.endswith(":") and title in SECTIONS:
            entries = found.sections.setdefault(title, {})
        elif entries is None:
            lines.append(line)
        elif line.startswith("    ") and not line.startswith("     "):
            entry = ENTRY.fullmatch(line.strip())
            assert entry is not None, line
            name = entry[1]
            entries[name] = markdown(entry[2])
        elif line.strip():
            entries[name] += " " + markdown(line.strip())
    found.text = markdown("\n".join(lines)).strip()
    return found


def markdown(text: str) -> str:
    return text.replace("``", "`")
