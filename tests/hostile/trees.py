"""Requests as JSON values: valid ones, and valid ones bent in a few places."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

WORDS = (
    "card",
    "refund",
    "parcel",
    "late",
    "why",
    "today",
    "naïve",
    "漢字",
    "👩‍👩‍👧",
    "ß",
    "O'Neill",
)

#: Text that has broken parsers, terminals, templates or comparisons somewhere.
ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[2J",
    "\u202e\u2066",
    "\ufeff",
    "\ufffd\uffff",
    "\u2028\u2029",
    "e\u0301" * 20,
    "ѕtate",
    "tуpe",
    "сhoice",
    "\u200bnoul\u200b",
    "ｎｏｕｌ",
    "true",
    "__proto__",
    "constructor",
    "a.b",
    "a/b",
    "../../etc/passwd",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "%s%n",
    "[CLS][SEP]<|im_start|>",
    "<script>",
    '"',
    "\\",
    "'; DROP TABLE t; --",
    "\ud800",
    "\udfff\ud800",
    "NaN",
    "1e999",
    "x" * 300,
    "🙂" * 1500,
)

ODD_VALUES = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**400,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"": None},
    [None] * 12,
)

FIELDS = ("state", "questions", "model", "type", "instructions", "criteria", "true", "false")
MORE_FIELDS = ("assets", "cache_salt", "x_deadline_ms", "user", "priority", "images", "provider")


def text(r: Random) -> str:
    if r.random() < 0.1:
        return encodable(r.choice(ODD_TEXTS))
    return " ".join(r.choices(WORDS, k=r.randint(1, 12)))


def encodable(value: str) -> str:
    return value.encode("utf-8", "ignore").decode()


def structured(r: Random, depth: int = 2) -> Any:
    """A string, an object or an array."""
    if depth == 0 or r.random() < 0.6:
        return text(r)
    inner = [r.choice((structured(r, depth - 1), r.randint(0, 9), None)) for _ in range(3)]
    return inner if r.random() < 0.5 else {f"{text(r)[:9]}{i}": v for i, v in enumerate(inner)}


def question(r: Random) -> dict[str, Any]:
    kind = r.choice(("noul", "choice", "score"))
    asked: dict[str, Any] = {"type": kind}
    if kind == "noul" or r.random() < 0.5:
        asked["instructions"] = structured(r)
    if kind == "noul" and r.random() < 0.5:
        asked["criteria"] = {side: structured(r) for side in r.sample(("true", "false"), 1)}
    if kind == "choice":
        options = r.choice((1, 2, 3, 5, 255))
        asked["criteria"] = {
            f"{text(r)[:20]}{i}": r.choice((None, text(r))) for i in range(options)
        }
    if kind == "score":
        asked["criteria"] = [structured(r, 1) for _ in range(r.randint(1, 10))]
    return asked


def valid(r: Random) -> dict[str, Any]:
    """A request that is answered with 200."""
    asked = {f"{text(r)[:200]}{i}": question(r) for i in range(r.choice((1, 1, 2, 3, 6)))}
    request: dict[str, Any] = {"state": structured(r, 3), "questions": asked}
    extras = {
        "model": "jev-latest",
        "cache_salt": "mine",
        "x_deadline_ms": 60_000,
        "user": text(r)[:200],
        "session_id": None,
        "priority": 3,
        "provider": {},
        "x_trace_id": text(r),
        "seed": 7,
    }
    names = r.sample(sorted(extras), r.randint(0, 3))
    return request | {name: extras[name] for name in names}


def bent(r: Random) -> Any:
    """A valid request, changed in one to three places."""
    tree: Any = valid(r)
    for _ in range(r.choice((1, 1, 2, 3))):
        tree = r.choice(CHANGES)(r, tree)
    return tree


def places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key or index) of every value below the top."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            found += [(value, key) for key in keys]
            waiting += [value[key] for key in keys]
    return found


def replaced(r: Random, tree: Any) -> Any:
    odd = r.choice((r.choice(ODD_VALUES), r.choice(ODD_TEXTS), text(r)))
    spots = places(tree)
    if not spots or r.random() < 0.02:
        return odd
    container, key = r.choice(spots)
    container[key] = odd
    return tree


def dropped(r: Random, tree: Any) -> Any:
    if spots := places(tree):
        container, key = r.choice(spots)
        del container[key]
    return tree


def renamed(r: Random, tree: Any) -> Any:
    spots = [(c, k) for c, k in places(tree) if isinstance(c, dict)]
    if spots:
        container, key = r.choice(spots)
        new = r.choice((r.choice(ODD_TEXTS), key[:-1], key + "s", key.upper(), key[::-1]))
        container[new] = container.pop(key)
    return tree


def added(r: Random, tree: Any) -> Any:
    objects = [c for c, _ in places(tree) if isinstance(c, dict)]
    if objects:
        name = r.choice((*FIELDS, *MORE_FIELDS, r.choice(ODD_TEXTS)))
        r.choice(objects)[name] = r.choice((r.choice(ODD_VALUES), text(r), question(r)))
    return tree


def nested(r: Random, tree: Any) -> Any:
    """One value, wrapped as deep as is allowed, or deeper."""
    value: Any = text(r)
    for _ in range(r.choice((10, 55, 64, 65, 300))):
        value = [value] if r.random() < 0.5 else {"a": value}
    spots = places(tree)
    if spots:
        container, key = r.choice(spots)
        container[key] = value
    return tree


def crowded(r: Random, tree: Any) -> Any:
    """One collection, filled up to a limit of the service or just over it."""
    if not isinstance(tree, dict):
        return tree
    criteria: Any = {f"o{i}": None for i in range(r.choice((254, 255, 256, 1000)))}
    kind = "choice"
    if r.random() < 0.4:
        kind, criteria = "score", ["level"] * r.choice((0, 10, 11, 500))
    tree["questions"] = {"q": {"type": kind, "criteria": criteria}}
    if r.random() < 0.1:
        one = {"type": "noul", "instructions": "x"}
        tree["questions"] = {str(i): one for i in range(r.choice((1024, 1025, 4096, 4097)))}
    return tree


def lengthened(r: Random, tree: Any) -> Any:
    """One string, as long as is allowed or longer."""
    long = r.choice(WORDS) * r.choice((256, 257, 1024, 1025, 20_000))
    if isinstance(tree, dict):
        name = r.choice(("model", "cache_salt", "user", "state", "id"))
        if name == "id":
            tree["questions"] = {long: {"type": "noul", "instructions": "x"}}
        else:
            tree[name] = long
    return tree


CHANGES: tuple[Callable[[Random, Any], Any], ...] = (
    replaced,
    replaced,
    replaced,
    dropped,
    renamed,
    added,
    nested,
    crowded,
    lengthened,
)


def written(r: Random, tree: Any) -> bytes:
    """JSON text of ``tree`` (with NaN and halves of surrogate pairs where it has them)."""
    spelled = json.dumps(tree, ensure_ascii=r.random() < 0.5, indent=r.choice((None, None, 1)))
    return spelled.encode("utf-8", "surrogatepass")
