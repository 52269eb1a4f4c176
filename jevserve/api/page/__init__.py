"""The pages that people see: one to try decisions in, and the reference of the API.

A page is one response. Its styles and scripts are files beside this one that are put into it here,
so that it works under any prefix, with or without a trailing slash, and asks for nothing else. The
policy sent with it names them by their hashes: nothing else is applied or run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.responses import Response

_FOLDER = Path(__file__).parent

_ASSET = re.compile(
    r'<link rel="stylesheet" href="(?P<style>\w+\.css)">'
    r'|<script src="(?P<script>\w+\.js)"></script>'
)


@dataclass(frozen=True)
class Page:
    """A page as it is sent."""

    html: bytes
    headers: dict[str, str]

    def response(self, asked: Mapping[str, str]) -> Response:
        """The page, or a 304 for a browser that has this very one.

        Args:
            asked: headers of the request.
        """
        known = asked.get("if-none-match", "").split(",")
        if self.headers["etag"] in (tag.strip().removeprefix("W/") for tag in known):
            return Response(status_code=304, headers=self.headers)
        return Response(self.html, headers=self.headers, media_type="text/html")


@cache
def ask_page() -> Page:
    """The page that asks questions."""
    return build((_FOLDER / "ask.html").read_text("utf-8"))


def docs_frame() -> str:
    """The reference without its content."""
    return (_FOLDER / "docs.html").read_text("utf-8")


def build(html: str) -> Page:
    """``html`` with the styles and scripts that it names in it, and the headers that go with it."""
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def inline(match: re.Match[str]) -> str:
        kind = str(match.lastgroup)
        text = (_FOLDER / match[kind]).read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
        return f"<{kind}>{text}</{kind}>"

    body = _ASSET.sub(inline, html).encode()
    policy = (
        "default-src 'none'",
        f"style-src {' '.join(hashes['style'])}",
        f"script-src {' '.join(hashes['script'])}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return Page(
        body,
        {
            "content-security-policy": "; ".join(policy),
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-cache",
            "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        },
    )
