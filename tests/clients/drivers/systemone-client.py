"""systemone-client, whose module is ``systemone``: names no model unless told to, never retries."""

from typing import Any

import systemone
from dialogue import Case, converse, typed, understood

KINDS = {"noul": systemone.Noul, "choice": systemone.Choice, "score": systemone.Score}


def ask(case: Case) -> Any:
    with systemone.Client(case["url"], case["key"], model=case["model"]) as client:
        return understood(client.system_one(case["state"], questions(case)))


async def ask_async(case: Case) -> Any:
    async with systemone.AsyncClient(case["url"], case["key"], model=case["model"]) as client:
        return understood(await client.system_one(case["state"], questions(case)))


def questions(case: Case) -> dict[str, Any]:
    """Its own objects want an instruction and up to 255 options; beyond those it takes JSON."""
    return case["questions"] if case.get("raw") else typed(KINDS, case)


converse("systemone-client", {"ask": ask, "ask_async": ask_async})
