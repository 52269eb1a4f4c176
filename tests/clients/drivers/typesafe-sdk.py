"""typesafe-sdk, the official client, in its version of today and in 0.5."""

from typing import Any

import typesafe_sdk as sdk
from dialogue import Case, converse, typed, understood

KINDS = {"noul": sdk.Noul, "choice": sdk.Choice, "score": sdk.Score}


def options(case: Case) -> dict[str, Any]:
    return {
        "api_key": case["key"],
        "base_url": case["url"],
        "model": case["model"],
        "retry": sdk.RetryPolicy(max_retries=case["retries"]),
    }


def ask(case: Case) -> Any:
    with sdk.TypeSafeClient(**options(case)) as client:
        return understood(client.system_one(case["state"], typed(KINDS, case)))


async def ask_async(case: Case) -> Any:
    async with sdk.AsyncTypeSafeClient(**options(case)) as client:
        return understood(await client.system_one(case["state"], typed(KINDS, case)))


def models(case: Case) -> list[str]:
    with sdk.TypeSafeClient(**options(case)) as client:
        return [model.name for model in client.models.list().models]


converse("typesafe-sdk", {"ask": ask, "ask_async": ask_async, "models": models})
