"""The runner itself: what it reads from a page, and what it calls different."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.comparing import difference
from tests.docs.pages import ROOT, Block, anchor, parsed
from tests.docs.shell import Shell

PAGE = ROOT / "docs" / "page.md"


def block(text: str, **more: object) -> Block:
    return Block(PAGE, 1, "sh", text, **more)  # type: ignore[arg-type]


def test_a_block_after_a_command_is_its_output() -> None:
    page = parsed(PAGE, "```sh\na\n```\n\nIt says:\n\n```text\nb\n```\n")
    (found,) = page.blocks
    assert (found.text, found.output, found.line) == ("a", "b", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\na\n```\n", "needs one of"),
        ("```bash\na\n```\n", "needs one of"),
        ("```sh\na\n", "no end"),
        ("```text\na\n```\n", "of which command"),
        ("```sh\na\n```\n\n## Next\n\n```text\nb\n```\n", "of which command"),
        ("<!-- not run: no time -->\n```sh\na\n```\n", "no reason"),
    ],
)
def test_a_page_that_would_not_be_checked_is_refused(text: str, said: str) -> None:
    (problem,) = parsed(PAGE, text).problems
    assert said in problem


def test_comments_before_a_block_are_about_it() -> None:
    text = "<!-- exit: 2 -->\n```sh\na\n```\n\n<!-- not run: needs a GPU -->\n\n```sh\nb\n```\n"
    first, second = parsed(PAGE, text).blocks
    assert (first.exit, first.not_run) == (2, "")
    assert (second.exit, second.not_run, second.runs) == (0, "needs a GPU", False)


def test_anchors_are_those_of_headings() -> None:
    page = parsed(PAGE, "# A `b`: c, d/e\n\n## Two\n\n## Two\n\n```sh\n# no heading\n```\n")
    assert page.anchors() == {"a-b-c-de", "two", "two-1"}
    assert anchor("[x](y) and Z") == "x-and-z"


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("a 0.5000", "a 0.5001"),
        ('"total_ms": 1.5', '"total_ms": 900'),
        ("req_" + "0" * 24, "req_" + "a" * 24),
        ("first\n…\nlast 3", "first\n1\n2\nlast 3"),
        ("first\n…", "first\n1\n2"),
        ("same  \n", "   \nsame\n \n"),
    ],
)
def test_outputs_that_count_as_the_same(shown: str, came: str) -> None:
    assert difference(shown, came) == ""


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("a 0.500", "a 0.502"),
        ("a 5", "b 5"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("first\n…\nlast", "first\n1"),
        ('"rows": 9', '"rows": 10'),
        ("v1.2", "v1.3"),
    ],
)
def test_outputs_that_differ(shown: str, came: str) -> None:
    assert difference(shown, came)


def test_blocks_of_a_page_share_a_shell(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path, "127.0.0.1:1")
    try:
        assert shell.run(block("x=1; cd /; echo http://127.0.0.1:8795")) == (
            0,
            "http://127.0.0.1:8795\n",
        )
        assert shell.run(block("echo $x $PWD $JEVSERVE_URL")) == (0, "1 / http://127.0.0.1:8795\n")
        assert shell.run(block("echo no; exit 3", exit=3)) == (3, "no\n")
        code, output = shell.run(block("echo before; false; echo after"))
        assert (code, output) == (1, "before\n")
    finally:
        shell.close()
