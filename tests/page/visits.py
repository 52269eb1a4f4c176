"""Visits of the pages with a real browser."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

#: Chromium's own lines about refused requests, which the page shows in its own words.
EXPECTED = "Failed to load resource"


class Visit:
    """One page in a profile of its own.

    Attributes:
        page: the page.
        requests: addresses of everything it asked for.
        complaints: what the console and the page's own errors said.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text))
        page.on("dialog", lambda dialog: self.complaints.append("a dialog"))

    def open(self, path: str = "/") -> Visit:
        self.page.goto(self.address + path)
        expect(self.page.locator("#model option").first).to_be_attached()
        return self

    def write(self, body: dict[str, Any]) -> None:
        """Fill the form through the JSON of the request."""
        self.page.get_by_role("tab", name="JSON").click()
        self.page.get_by_label("Request as JSON").fill(json.dumps(body, ensure_ascii=False))

    def code(self, tab: str) -> str:
        """The request as one of the tabs shows it."""
        self.page.get_by_role("tab", name=tab, exact=True).click()
        shown = self.page.locator("[role=tabpanel]:not([hidden]) [data-code]")
        return shown.input_value() if tab == "JSON" else shown.text_content() or ""

    def request(self) -> Any:
        return json.loads(self.code("JSON"))

    def ask(self) -> dict[str, Any]:
        """Ask, and return the answers' body as it came."""
        with self.page.expect_response("**/v1/systemone") as response:
            self.page.get_by_role("button", name="Ask", exact=True).click()
        expect(self.page.locator("#status")).to_contain_text("Answered")
        return response.value.json()

    def answer(self, id: str) -> Locator:
        return self.page.locator(".answer").filter(has=self.page.get_by_role("heading", name=id))


@contextlib.contextmanager
def visiting(browser: Browser, address: str, **context: Any) -> Iterator[Visit]:
    """A visit that ends well: nothing was complained of, and nothing left for another origin."""
    profile = browser.new_context(reduced_motion="reduce", **context)
    profile.set_default_timeout(10_000)
    visit = Visit(profile.new_page(), address)
    try:
        yield visit
    finally:
        profile.close()
    assert [line for line in visit.complaints if EXPECTED not in line] == []
    assert [url for url in visit.requests if not url.startswith((address, "data:"))] == []
