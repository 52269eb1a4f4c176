"""Every block of every page: run, compared, loaded, or left out for a reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from jevserve.api.auth import load_keys
from jevserve.settings import load
from tests.docs.comparing import difference
from tests.docs.pages import REASONS, ROOT, Block, Page, paths, read
from tests.docs.shell import DOCUMENTED, Shell, linked_cache
from tests.serving.service import Service

#: Commands that ask the running service without naming its address.
ASKING = ("jevserve decide", "jevserve eval")


def asks(page: Page) -> bool:
    return any(
        not block.not_run and any(text in block.text for text in (DOCUMENTED, *ASKING))
        for block in page.blocks
    )


PAGES = [read(path) for path in paths()]
RUNNABLE = [page for page in PAGES if any(block.runs for block in page.blocks)]
ASKED = [page for page in RUNNABLE if asks(page)]
ALONE = [page for page in RUNNABLE if not asks(page)]


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked_cache(tmp_path_factory.mktemp("docs-cache"))


def names(pages: list[Page]) -> list[str]:
    return [page.name for page in pages]


@pytest.fixture(scope="module")
def readers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    model_cache: Path,
    service: Service,
) -> Iterator[dict[str, Future[None]]]:
    """Two readers at a time, each of a page that asks the service."""
    asking = [i for i in request.session.items if isinstance(i, pytest.Function)]
    asked: list[Any] = [i.callspec.params["page"] for i in asking if "readers" in i.fixturenames]
    address = service.url.removeprefix("http://")
    with ThreadPoolExecutor(2) as pool:
        yield {
            page.name: pool.submit(
                follow, page, tmp_path_factory.mktemp("page"), model_cache, address
            )
            for page in asked
        }


def follow(page: Page, folder: Path, cache: Path, service: str) -> None:
    """Do what a reader of the page does."""
    with closing(Shell(folder, cache, service)) as shell:
        for block in page.blocks:
            if block.not_run:
                continue
            if block.file:
                shell.save(block)
            elif block.runs:
                code, output = shell.run(block)
                assert code == block.exit, f"{block.place}: exit code {code}\n{output}"
                if block.output is not None:
                    wrong = difference(block.output, output)
                    assert not wrong, f"{block.place}: {wrong}\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_block_says_what_it_is(page: Page) -> None:
    assert page.problems == ()


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_a_file_is_named_where_it_begins(page: Page) -> None:
    seen: set[str] = set()
    for block in page.blocks:
        if block.file and block.file not in seen:
            assert f"`{block.file}`" in block.before, block.place
        seen.add(block.file)


@pytest.mark.parametrize("page", ALONE, ids=names(ALONE))
def test_the_commands_of_a_page_do_what_it_says(
    page: Page, tmp_path: Path, model_cache: Path
) -> None:
    follow(page, tmp_path, model_cache, "")


@pytest.mark.ray
@pytest.mark.parametrize("page", ASKED, ids=names(ASKED))
def test_the_commands_of_a_page_are_answered_as_it_says(
    page: Page, readers: dict[str, Future[None]]
) -> None:
    readers[page.name].result()


def test_what_is_not_run_has_a_reason_and_every_reason_is_used() -> None:
    left = [block for page in PAGES for block in page.blocks if block.not_run]
    for block in left:
        print(f"{block.place}: not run: {block.not_run}")
    used = Counter(block.not_run for block in left)
    assert used.keys() == REASONS.keys()


SETTINGS = [b for page in PAGES for b in page.blocks if b.language == "yaml" and not b.not_run]


@pytest.mark.parametrize("block", SETTINGS, ids=[b.place for b in SETTINGS])
def test_yaml_is_read_by_the_code_that_it_is_meant_for(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in os.environ if n.startswith("JEVSERVE_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "file.yaml"
    file.write_text(block.text, encoding="utf-8")
    content = yaml.safe_load(block.text)
    if isinstance(content, list):
        assert load_keys(file, {}) is not None
    elif "groups" in content:
        assert [rule["alert"] for group in content["groups"] for rule in group["rules"]]
    else:
        load(file)


def test_no_page_is_without_a_reader() -> None:
    linked = {
        (page.path.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for _, target in page.links()
        if "://" not in target
    }
    assert [p for p in paths() if p != ROOT / "README.md" and p not in linked] == []
