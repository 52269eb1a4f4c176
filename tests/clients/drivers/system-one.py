"""system-one, whose module is ``system_one``: sends no key unless it is given one."""

from typing import Any

import system_one
from dialogue import Case, converse, typed, understood

KINDS = {"noul": system_one.Noul, "choice": system_one.Choice, "score": system_one.Score}


def config(case: Case) -> system_one.HTTPConfig:
    return system_one.HTTPConfig(
        base_url=case["url"],
        path=case.get("path", "/v1/systemone"),
        api_key=case["key"],
        model=case["model"],
        max_retries=case["retries"],
    )


def ask(case: Case) -> Any:
    client = system_one.SystemOne(config(case))
    return understood(client.ask(case["state"], typed(KINDS, case)))


async def ask_async(case: Case) -> Any:
    client = system_one.AsyncSystemOne(config(case))
    return understood(await client.ask(case["state"], typed(KINDS, case)))


converse("system-one", {"ask": ask, "ask_async": ask_async}, lambda error: error.body)
