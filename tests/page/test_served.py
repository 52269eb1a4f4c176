"""How the pages are served: headers, caching, and the switch."""

from __future__ import annotations

import base64
import hashlib
import re
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.serving.router import Router
from jevserve.settings import HttpSettings, ServiceSettings
from tests.fakes import FakeService

PATHS = ["/", "/docs"]


def client(**options: Any) -> TestClient:
    return TestClient(build_app(FakeService(), ApiOptions(**options)))


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_whole_and_only_its_own_styles_and_scripts_may_run(path):
    keys = load_keys(None, {ENV_KEYS: "good"})
    with client(keys=keys) as http:
        response = http.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    policy = dict(d.split(" ", 1) for d in response.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in response.headers["content-security-policy"]
    for kind in ("style", "script"):
        inside = re.findall(rf"<{kind}>(.*?)</{kind}>", response.text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in inside]
        assert hashes
        assert policy[f"{kind}-src"].split() == [f"'sha256-{h}'" for h in hashes]
    assert not re.search(r'(src|href)="(?!#|data:|[a-z.]*")', response.text)
    assert "style=" not in response.text


@pytest.mark.parametrize("path", PATHS)
def test_a_browser_that_has_the_page_is_told_so(path):
    with client() as http:
        first = http.get(path)
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}'):
            again = http.get(path, headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
            assert again.headers["cache-control"] == "no-cache"
        assert (http.get(path, headers={"if-none-match": '"other"'})).status_code == 200


def test_turned_off_there_is_no_page_and_the_way_on_is_named():
    with client(page=False) as http:
        response = http.get("/")
        assert response.status_code == 404
        assert "/docs" in response.json()["detail"]["message"]
        assert (http.get("/docs")).status_code == 200


def test_what_is_sent_to_the_page_is_refused_with_the_right_path():
    with client() as http:
        response = http.post("/", json={})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"


def test_the_setting_reaches_the_door():
    for setting, status in ((True, 200), (False, 404)):
        settings = ServiceSettings(http=HttpSettings(page=setting))
        router = SimpleNamespace(_settings=settings, _service=FakeService())
        app = Router.__serve_build_asgi_app__(router)
        assert TestClient(app).get("/").status_code == status
