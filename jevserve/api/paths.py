"""Which endpoint a path means, under whatever prefix an ingress leaves in front of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """One endpoint.

    Attributes:
        path: canonical path.
        methods: methods it answers, as ``Allow`` lists them.
        aliases: further paths of the same endpoint.
        any_prefix: whether it also answers under an unknown prefix. True for the API itself, so
            that a client's base address may carry one; false for what operators call.
    """

    path: str
    methods: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    any_prefix: bool = False

    @property
    def allow(self) -> str:
        return ", ".join((*self.methods, "OPTIONS"))


_GET = ("GET", "HEAD")

SYSTEM_ONE = Endpoint(
    "/v1/systemone",
    ("POST",),
    aliases=("/systemone", "/api/v1/systemone", "/api/alpha/decisions"),
    any_prefix=True,
)
DECISIONS = Endpoint("/v1/decisions", ("POST",), any_prefix=True)
MODELS = Endpoint("/v1/models", _GET, aliases=("/api/v1/models",), any_prefix=True)
HEALTHZ = Endpoint("/healthz", _GET)
READYZ = Endpoint("/readyz", _GET)
METRICS = Endpoint("/metrics", _GET)
OPENAPI = Endpoint("/openapi.json", _GET)
DOCS = Endpoint("/docs", _GET)
PAGE = Endpoint("/", _GET)

ENDPOINTS = (SYSTEM_ONE, DECISIONS, MODELS, HEALTHZ, READYZ, METRICS, OPENAPI, DOCS, PAGE)

_EXACT = {path: e for e in ENDPOINTS for path in (e.path, *e.aliases)}
_SUFFIXES = tuple((path, e) for path, e in _EXACT.items() if e.any_prefix)


def normal_prefix(prefix: str) -> str:
    """``/prefix`` without a trailing slash; empty for none."""
    stripped = prefix.strip("/")
    return f"/{stripped}" if stripped else ""


def resolve(path: str, prefixes: tuple[str, ...]) -> Endpoint | None:
    """The endpoint that ``path`` means, None for none.

    Each configured prefix is removed where the path starts with it (an ingress may have done so
    already), trailing slashes are ignored, and the API's endpoints also answer where the path
    merely ends with them. Nothing is ever redirected: a redirected POST loses its body.
    """
    path = path.rstrip("/") or "/"
    for prefix in prefixes:
        if prefix and (path == prefix or path.startswith(prefix + "/")):
            path = path[len(prefix) :] or "/"
    exact = _EXACT.get(path)
    if exact is not None:
        return exact
    return next((e for suffix, e in _SUFFIXES if path.endswith(suffix)), None)
