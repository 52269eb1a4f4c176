"""What pages name is there: links, files, commands, flags, settings, variables, metrics."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from jevserve.cli.main import app
from jevserve.telemetry.metrics import ALL_METRICS, Kind
from scripts.reference import configuration
from tests.docs.pages import ROOT, Page, paths, read

PAGES = [read(path) for path in paths()]

#: Flags of other programs that pages speak of.
OTHERS_FLAGS = {
    "--no-deps", "--extra-index-url", "--check", "--pages", "-x", "-m", "-d", "-H",
    "--hint-flags",
}  # fmt: skip

#: What a page shows to be wrong.
MISTAKES = {"JEVSERVE_PORT"}

each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def fail(page: Page, wrong: list[tuple[int, str]]) -> None:
    assert not wrong, "\n".join(f"{page.name}:{line}: {what}" for line, what in wrong)


@each_page
def test_every_link_leads_somewhere(page: Page) -> None:
    fail(page, [(n, t) for n, t in page.links() if not leads_somewhere(page, t)])


def leads_somewhere(page: Page, target: str) -> bool:
    if re.match(r"https?://", target):
        return True
    path, _, name = target.partition("#")
    to = (page.path.parent / path).resolve() if path else page.path
    if not to.exists() or not to.is_relative_to(ROOT):
        return False
    return not name or (to.suffix == ".md" and name in read(to).anchors())


def mentioned(page: Page) -> Iterator[tuple[int, str]]:
    """Lines of commands, and what stands in backticks."""
    yield from page.code()
    for block in page.blocks:
        if block.language == "sh":
            text = block.text.replace("\\\n", " ")
            for line in text.splitlines():
                yield block.line, line


@cache
def commands() -> dict[str, Any]:
    """Every word that may follow ``jevserve``, as ``jevserve models list``."""
    found: dict[str, Any] = {}

    def add(words: str, command: Any) -> None:
        found[words] = command
        for name, below in getattr(command, "commands", {}).items():
            add(f"{words} {name}", below)

    add("jevserve", typer.main.get_command(app))
    return found


def flags(command: Any) -> set[str]:
    return {"--help"} | {f for p in command.params for f in (*p.opts, *p.secondary_opts)}


@each_page
def test_every_command_and_flag_exists(page: Page) -> None:
    wrong = []
    for number, text in mentioned(page):
        for call in re.findall(r"(?:^|\s|\(|bin/)jevserve((?:\s+[^|&;)]+)?)", text):
            wrong += [(number, what) for what in unknown(call)]
        if re.fullmatch(r"--?[a-z][a-z-]*", text):
            known = set().union(*map(flags, commands().values())) | OTHERS_FLAGS
            if text not in known:
                wrong.append((number, text))
    fail(page, wrong)


def unknown(call: str) -> Iterator[str]:
    """What a call of ``jevserve`` names that there is not."""
    try:
        words = shlex.split(call)
    except ValueError:  # a quotation that goes on in the next line
        words = call.split()
    at = "jevserve"
    while words and f"{at} {words[0]}" in commands():
        at += f" {words.pop(0)}"
    command = commands()[at]
    if words and hasattr(command, "commands") and not words[0].startswith("-"):
        yield f"{at} {words[0]}"
    for word in words:
        if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in flags(command):
            yield f"{at} {word}"


@each_page
def test_every_make_target_exists(page: Page) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    wrong = []
    for number, text in mentioned(page):
        call = re.match(r"(?:[A-Z]+=\S+ )?make ([a-z][a-z-]*)", text)
        if call and call[1] not in targets:
            wrong.append((number, text))
    fail(page, wrong)


@each_page
def test_every_file_of_the_checkout_exists(page: Page) -> None:
    ours = re.compile(r"(?:jevserve|tests|scripts|docs|requirements|stubs)/[\w./*-]+")
    fail(
        page,
        [
            (number, text)
            for number, text in mentioned(page)
            for name in ours.findall(text)
            if re.fullmatch(ours, text) and not any(ROOT.glob(name.rstrip("/")))
        ],
    )


@cache
def settings() -> dict[str, str]:
    """Every setting, and its variable."""
    return {
        prefix + field: configuration.variable_of(section, field)
        for section, (prefix, kind) in configuration.SECTIONS.items()
        for field in kind.model_fields
    }


@each_page
def test_every_setting_exists(page: Page) -> None:
    sections = {name.partition(".")[0] for name in settings() if "." in name}
    one = re.compile(rf"(?:{'|'.join(sections)})\.[a-z_]+")
    named = [(n, t) for n, t in page.code() if one.fullmatch(t) and not t.endswith(".py")]
    fail(page, [(n, t) for n, t in named if t not in settings()])


@cache
def source() -> str:
    return "".join(p.read_text(encoding="utf-8") for p in (ROOT / "jevserve").rglob("*.py"))


@each_page
def test_every_variable_is_read(page: Page) -> None:
    text = page.path.read_text(encoding="utf-8")
    named = (
        set(re.findall(r"\bJEVSERVE_[A-Z_]*[A-Z]\b", text)) - set(settings().values()) - MISTAKES
    )
    assert [name for name in named if f'"{name}"' not in source()] == []


@each_page
def test_every_metric_exists(page: Page) -> None:
    names = {f"{m.name}_total" if m.kind is Kind.COUNTER else m.name for m in ALL_METRICS}
    text = page.path.read_text(encoding="utf-8")
    named = set(re.findall(r"\bjevserve_[a-z_]+[a-z]\b", text))
    histograms = {f"{m.name}_{p}" for m in ALL_METRICS for p in ("bucket", "sum", "count")}
    assert named - names - histograms == set()


def test_every_page_that_the_code_names_exists() -> None:
    page = re.compile(r"docs/[\w/.-]+\.(?:md|png)(?:#[\w-]+)?")
    files = [ROOT / "Makefile", ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    for folder in ("jevserve", "scripts", "stubs", "dockerfiles"):
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    readme = read(ROOT / "README.md")
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        if path.suffix != ".pyc"
        for name in page.findall(path.read_text(encoding="utf-8", errors="replace"))
        if not leads_somewhere(readme, name)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("serve --port 9000 file.yaml", []),
        ('decide "Is it late?" -s "My parcel"', []),
        ("models list --cache /c", []),
        ("--version", []),
        ("", []),
        ("ask this", ["jevserve ask"]),
        ("models show", ["jevserve models show"]),
        ("serve --prot 9000", ["jevserve serve --prot"]),
        ("models list --port=1", ["jevserve models list --port=1"]),
    ],
)
def test_a_call_is_held_against_the_command_line(call: str, wrong: list[str]) -> None:
    assert list(unknown(call)) == wrong


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("docs/README.md#words", True),
        ("#start", True),
        ("docs/README.md#word", False),
        ("docs/none.md", False),
        ("../outside", False),
        ("Makefile#start", False),
    ],
)
def test_a_link_is_followed_to_its_heading(target: str, found: bool) -> None:
    assert leads_somewhere(read(ROOT / "README.md"), target) is found
