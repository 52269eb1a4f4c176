"""Parts of a page that are written from the code, between two comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

BEGIN = "<!-- {}: written by scripts/docs-reference -->\n"
END = "<!-- end of {} -->\n"


def filled(page: str, regions: Mapping[str, str]) -> str:
    """``page`` with the text of every region replaced.

    Raises:
        ValueError: the two comments of a region are not there exactly once.
    """
    for name, text in regions.items():
        begin, end = BEGIN.format(name), END.format(name)
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"needs one {begin.strip()} and one {end.strip()}")
        before, _, rest = page.partition(begin)
        page = before + begin + text + end + rest.partition(end)[2]
    return page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table without the columns that are empty in every row."""
    found = [[cell(c) for c in row] for row in rows]
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in found)]
    lines = [[head[i] for i in kept], ["---"] * len(kept)]
    lines += [[row[i] or "–" for i in kept] for row in found]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    return f"`{text}`"
