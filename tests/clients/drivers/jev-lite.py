"""jev-lite, a client in the manner of OpenAI's."""

from typing import Any

import jev_lite
from dialogue import Case, converse, typed, understood

KINDS = {"noul": jev_lite.Noul, "choice": jev_lite.Choice, "score": jev_lite.Score}


def options(case: Case) -> dict[str, Any]:
    return {
        "api_key": case["key"],
        "base_url": case["url"],
        "model": case["model"],
        "max_retries": case["retries"],
    }


def ask(case: Case) -> Any:
    with jev_lite.Client(**options(case)) as client:
        asked = typed(KINDS, case)
        return understood(client.system_one.create(state=case["state"], questions=asked))


async def ask_async(case: Case) -> Any:
    async with jev_lite.AsyncClient(**options(case)) as client:
        asked = typed(KINDS, case)
        return understood(await client.system_one.create(state=case["state"], questions=asked))


def models(case: Case) -> list[str]:
    with jev_lite.Client(**options(case)) as client:
        return [model.name for model in client.models.list()]


converse("jev-lite", {"ask": ask, "ask_async": ask_async, "models": models})
