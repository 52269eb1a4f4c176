"""pydecide, whose module is ``decide``: chains of backends, here of one."""

from typing import Any

import decide
from decide.backends.typesafe import TypeSafeBackend
from dialogue import Case, converse, typed

KINDS = {"noul": decide.Noul, "choice": decide.Choice, "score": decide.Score}


def backend(case: Case) -> TypeSafeBackend:
    return TypeSafeBackend(case["key"], base_url=case["url"], model=case["model"])


def ask(case: Case) -> Any:
    with decide.Client([backend(case)]) as client:
        try:
            return understood(client.decide(case["state"], typed(KINDS, case)))
        except decide.AllBackendsFailed as failed:
            raise failed.errors[0] from None


async def ask_async(case: Case) -> Any:
    async with decide.AsyncClient([backend(case)]) as client:
        try:
            return understood(await client.decide(case["state"], typed(KINDS, case)))
        except decide.AllBackendsFailed as failed:
            raise failed.errors[0] from None


def understood(response: decide.Response) -> dict[str, Any]:
    """It renders levels itself, so there is no legend of the service to report."""
    usage = response.meta.raw["usage"]
    answers: dict[str, dict[str, Any]] = {
        id: {"type": "noul", "noul": a.noul} for id, a in response.nouls.items()
    }
    for id, a in response.choices.items():
        answers[id] = {
            "type": "choice",
            "choice": a.choice,
            "confidence": a.confidence,
            "probabilities": a.probabilities,
        }
    for id, s in response.scores.items():
        answers[id] = {
            "type": "score",
            "score": s.score,
            "confidence": s.confidence,
            "probabilities": {str(i): p for i, p in enumerate(s.probabilities)},
        }
    return {
        "model": response.meta.model,
        "usage": [usage["input_tokens"], usage["output_tokens"]],
        "answers": answers,
    }


converse("pydecide", {"ask": ask, "ask_async": ask_async}, lambda error: error.body)
