"""A headless Chromium for the tests of the pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from jevserve.api.app import build_app
from tests.api.live import serve
from tests.fakes import FakeService
from tests.page.visits import Visit, visiting

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a module, which has no async tests: playwright's loop is in their way."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = "no Chromium on PATH; scripts/setup-browser installs one"
        if os.environ.get("JEVSERVE_TEST_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FakeService, str]]:
    service = FakeService()
    with serve(build_app(service)) as address:
        yield service, address


@pytest.fixture
def service(running: tuple[FakeService, str]) -> Iterator[FakeService]:
    service = running[0]
    service.calls.clear()
    yield service
    service.error = service.gate = None


@pytest.fixture
def address(running: tuple[FakeService, str]) -> str:
    return running[1]


@pytest.fixture
def visit(browser: Browser, service: FakeService, address: str) -> Iterator[Visit]:
    """The page, opened."""
    with visiting(browser, address) as visit:
        yield visit.open()
