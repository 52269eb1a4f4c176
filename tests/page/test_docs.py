"""The reference at `/docs`."""

from __future__ import annotations

import html
import re

from playwright.sync_api import expect

from jevserve.api import page
from jevserve.api.app import ApiOptions, build_app
from jevserve.api.openapi import openapi
from jevserve.api.page.reference import docs_page
from tests.api.live import serve
from tests.fakes import FakeService
from tests.page.visits import visiting

DOCUMENT = openapi("", keys=False)
PAGE = docs_page("", False).html.decode()


def test_every_operation_status_field_limit_and_example_is_told():
    plain = html.unescape(re.sub(r"<[^>]+>", "", PAGE))
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in plain
            assert operation["summary"] in plain
            for status, response in operation["responses"].items():
                assert f"{status} {response['description']}" in plain
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f'id="{name}"' in PAGE
        for field in schema.get("properties", {}):
            assert f"<code>{field}</code>" in PAGE
    for limit in ("at most 255 entries", "at most 10 items", "names: at most 1024 characters"):
        assert limit in plain
    assert "Hi, I was charged twice" in plain
    assert "this API key is not known here" in plain


def test_every_link_inside_the_page_leads_somewhere():
    ids = set(re.findall(r' id="([^"]+)"', PAGE))
    assert len(ids) == len(re.findall(r' id="', PAGE))
    links = set(re.findall(r'href="#([^"]+)"', PAGE))
    assert links and links <= ids


def test_with_keys_the_operations_that_need_one_are_marked():
    keyed = docs_page("", True).html.decode()
    marked = re.findall(r'<b>(\w+)</b> <code>([^<]+)</code></a> <span class="tag">key', keyed)
    assert marked == [("POST", "/v1/systemone"), ("POST", "/v1/decisions"), ("GET", "/v1/models")]
    assert ">key</span>" not in PAGE


def test_what_the_document_says_is_text():
    body = page.build(
        page.docs_frame().replace("<!-- about -->", html.escape('<script src="ask.js"></script>'))
    )
    assert b"loadModels" not in body.html


def test_given_words_then_only_what_has_them_is_shown(browser):
    app = build_app(FakeService(), ApiOptions(root_path="/jev"))
    with serve(app) as address, visiting(browser, address) as visit:
        page = visit.page
        page.set_viewport_size({"width": 360, "height": 700})
        page.goto(f"{address}/jev/docs/")
        page.get_by_label("Filter").fill("retry-after 429")
        expect(page.locator(".entry:visible")).to_have_count(2)
        expect(page.locator(".contents li:visible")).to_have_count(2)
        expect(page.locator("#found")).to_contain_text("2 of")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        with page.expect_response("**/openapi.json") as response:
            page.get_by_role("link", name="openapi.json").click()
        assert response.value.json()["info"]["title"] == "jevserve"
