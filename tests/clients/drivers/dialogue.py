"""Cases in, one JSON line each; out, what a client of the field made of them.

A driver runs with the python of its client's environment, so only the standard library is
imported here. The other end is ``tests.clients.field``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

Case = dict[str, Any]

FIELDS = {
    "noul": ("noul",),
    "choice": ("choice", "confidence", "probabilities"),
    "score": ("score", "confidence", "legend", "probabilities"),
}


def converse(
    distribution: str,
    verbs: Mapping[str, Callable[[Case], Any]],
    words: Callable[[Any], object] = str,
) -> None:
    """Answer cases until there are no more.

    Args:
        distribution: whose version is told first.
        verbs: what a case may ask for, plain or as a coroutine.
        words: where a user of the client finds what the service said about an error.
    """
    replies, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps({"version": version(distribution)}), file=replies, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            said = verbs[case["verb"]](case)
            reply = {"understood": asyncio.run(said) if inspect.iscoroutine(said) else said}
        except Exception as error:
            reply = {
                "raised": {
                    "classes": [cls.__name__ for cls in type(error).__mro__],
                    "words": str(words(error)),
                    "request_id": getattr(error, "request_id", None),
                }
            }
        print(json.dumps(reply), file=replies, flush=True)


def understood(response: Any) -> dict[str, Any]:
    """A response whose answers the client sorts by kind, as nearly all clients do."""
    kinds = {"noul": response.nouls, "choice": response.choices, "score": response.scores}
    return {
        "model": response.model,
        "usage": [response.usage.input_tokens, response.usage.output_tokens],
        "answers": {
            id: {"type": kind, **{field: getattr(answer, field) for field in FIELDS[kind]}}
            for kind, answers in kinds.items()
            for id, answer in answers.items()
        },
    }


def typed(kinds: Mapping[str, Callable[..., Any]], case: Case) -> dict[str, Any]:
    """The case's questions as objects of the client."""
    return {
        id: kinds[question["type"]](**{k: v for k, v in question.items() if k != "type"})
        for id, question in case["questions"].items()
    }
