"""The pages of the documentation, taken apart: blocks, links, headings and prose.

A page's blocks are run in their order. The block that follows a command, if it is tagged ``json``
or ``text``, is the command's output. A block with a file name after its language is that file; a
second one of the same name continues it. A comment may stand before a block:

    <!-- not run: REASON -->    a reason of ``REASONS``
    <!-- exit: 2 -->            the command fails with this code
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Why a block may stand there without being run.
REASONS = {
    "a drawing": "not a command",
    "a signature": "written from the code by scripts/docs-reference",
    "an example from the code": "written from the code by scripts/docs-reference",
    "the service of the tests runs already": "started once, by the fixture",
    "starts a service of its own": "a start takes most of a minute; tests/serving starts them",
    "needs a service with keys": "tests/api and tests/serving ask one",
    "judges the machine of the tests": "which may be short of something",
    "needs the hub": "tests fetch no checkpoints",
    "needs a repository address": "this checkout's own is not known to it",
    "tests run no tests": "they would wait for themselves",
    "takes minutes": "longer than a test of pages may take",
    "removes files": "of the account that runs the tests",
    "output of a run that took minutes": "the command beside it is not run either",
}

COMMANDS = ("sh", "python")
OUTPUTS = ("json", "text")
LANGUAGES = (*COMMANDS, *OUTPUTS, "yaml")

FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)")
NOTE = re.compile(r"<!-- (not run|exit): (.+) -->")
HEADING = re.compile(r"(#{1,6}) (.+)")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: of its first line of text, from 1.
        file: name of the file that it is, empty for none.
        not_run: why it is not run, empty where it is.
        exit: code with which its command ends.
        before: the last paragraph before it.
        output: what the command shows, None where the page shows nothing.
    """

    page: Path
    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""
    exit: int = 0
    before: str = ""
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in COMMANDS and not self.not_run and not self.file


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        blocks: in order; an output is part of the command before it.
        prose: everything but the text of blocks, with the number of each line.
        problems: what would go unchecked, each with its place.
    """

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[tuple[int, str], ...]
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def links(self) -> Iterator[tuple[int, str]]:
        for number, line in self.prose:
            # A link inside inline code is an example.
            for target in LINK.findall(INLINE.sub("``", line)):
                yield number, target

    def code(self) -> Iterator[tuple[int, str]]:
        """What stands in backticks."""
        for number, line in self.prose:
            for text in INLINE.findall(line):
                yield number, text

    def anchors(self) -> set[str]:
        """Names that links may point to, as GitHub makes them from headings."""
        found: dict[str, int] = {}
        names = set()
        for _, line in self.prose:
            heading = HEADING.fullmatch(line)
            if heading is None:
                continue
            slug = anchor(heading[2])
            again = found.get(slug, 0)
            found[slug] = again + 1
            names.add(f"{slug}-{again}" if again else slug)
        return names


def anchor(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def paths() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def read(path: Path) -> Page:
    return parsed(path, path.read_text(encoding="utf-8"))


def parsed(path: Path, text: str) -> Page:
    """A page's parts."""
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    problems: list[str] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    output_of: Block | None = None
    for number, line in lines:
        fence = FENCE.fullmatch(line)
        if fence is None:
            prose.append((number, line))
            if HEADING.fullmatch(line):
                output_of = None
            continue
        inside: list[str] = []
        ended = False
        for _, within in lines:
            ended = within.strip() == fence["ticks"]
            if ended:
                break
            inside.append(within.removeprefix(fence["indent"]))
        language, _, file = fence["info"].strip().partition(" ")
        not_run, code, before = said_before(prose)
        block = Block(path, number + 1, language, "\n".join(inside), file, not_run, code, before)
        place = f"{path}:{number}"
        if not ended:
            problems.append(f"{place}: the block has no end")
        if language not in LANGUAGES:
            problems.append(f"{place}: a block needs one of {', '.join(LANGUAGES)}")
        if not_run and not_run not in REASONS:
            problems.append(f"{place}: {not_run!r} is no reason not to run a block; see REASONS")
        if language in OUTPUTS and not file and not not_run:
            if output_of is None:
                problems.append(f"{place}: {language}, but of which command?")
            else:
                blocks[-1] = replace(output_of, output=block.text)
            output_of = None
            continue
        blocks.append(block)
        output_of = block if language in COMMANDS and not file else None
    return Page(path, tuple(blocks), tuple(prose), tuple(problems))


def said_before(prose: list[tuple[int, str]]) -> tuple[str, int, str]:
    """Why the block that follows is not run, the code it ends with, and the last paragraph."""
    before = [line.strip() for _, line in prose]
    not_run, code = "", 0

    def drop_blank() -> None:
        while before and not before[-1]:
            before.pop()

    drop_blank()
    while before and (note := NOTE.fullmatch(before[-1])):
        before.pop()
        if note[1] == "exit":
            code = int(note[2])
        else:
            not_run = note[2]
    drop_blank()
    paragraph: list[str] = []
    while before and before[-1]:
        paragraph.append(before.pop())
    return not_run, code, "\n".join(reversed(paragraph))
