"""jev-pandas, whose module is ``jevpandas``: rows of a table, answers checked before use."""

import json
from typing import Any

import jevpandas
import pandas as pd
from dialogue import Case, converse


def client(case: Case) -> jevpandas.JevClient:
    return jevpandas.JevClient(case["url"], case["key"], case["model"], retries=case["retries"])


def ask(case: Case) -> Any:
    with client(case) as asking:
        response, cached = asking.decide_many(case["state"], case["questions"])
    assert not cached
    usage = response["usage"]
    return response | {"usage": [usage["input_tokens"], usage["output_tokens"]]}


def table(case: Case) -> list[dict[str, Any]]:
    """Every question about every row, two rows at a time; the rows with what was added."""
    with client(case) as asking:
        rows = jevpandas.JevFrame(pd.DataFrame({"text": case["state"]}), asking).ask(
            case["questions"], columns=["text"], workers=2
        )
    return json.loads(rows.to_json(orient="records", double_precision=15))


def words(error: jevpandas.JevError) -> object:
    """Its own message has the status alone; what was said is in the cause, if that is kept."""
    return error.__cause__.response.text if error.__cause__ else error


converse("jev-pandas", {"ask": ask, "table": table}, words)
