"""Reading the evaluation pack. Its sets are for reporting: nothing that ships is fitted on them."""

from __future__ import annotations

import dataclasses
import json
import lzma
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from jevserve.decisions.request import Choice, Noul, Question, Score
from jevserve.evaluation.generated import Labelled

#: The pack that comes with this package.
PACK = Path(str(files("jevserve.evaluation"))) / "data" / "evalpack.json.xz"

SHUFFLE_SEED = 1_789
MAX_BYTES = 64 << 20

#: Our own words for the two sides of the pack's yes/no sets that have a side to describe. Contrasts
#: like them had been tried on these sets before, so figures of these two are not blind.
CRITERIA = {
    "spam2": (
        "spam: unsolicited advertising, an offer or a scam",
        "a normal personal, work or mailing list message",
    ),
    "moviepos2": ("praise: the film is good", "criticism: the film is bad"),
}


def read_pack(path: Path = PACK) -> dict[str, list[Labelled]]:
    """The pack's sets in its order, with candidates shuffled by a fixed seed (scores and nouls
    have an order of their own).

    Raises:
        ValueError: it is not a pack.
    """
    with lzma.open(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} unpacks to over {MAX_BYTES} bytes")
    pack = json.loads(data)
    if "canary" not in pack:
        raise ValueError(f"{path} has lost its canary; it must be kept")
    rng = Random(SHUFFLE_SEED)
    return {
        name: [labelled(name, item, rng) for item in items] for name, items in pack["sets"].items()
    }


def labelled(name: str, item: dict[str, Any], rng: Random) -> Labelled:
    question, truth = question_of(name, item, rng)
    return Labelled(name, item["state"], question, truth)


def question_of(name: str, item: dict[str, Any], rng: Random) -> tuple[Question, int]:
    candidates, truth = item["crit"], int(item["y"])
    if item["typ"] == "score":
        return Score(tuple(candidates), item["q"]), truth
    if item["typ"] == "noul":
        true, false = CRITERIA.get(name, (None, None))
        return Noul(item["q"], true, false), truth
    order = list(range(len(candidates)))
    rng.shuffle(order)
    options = tuple((f"option_{i + 1}", candidates[c]) for i, c in enumerate(order))
    return Choice(options, item["q"]), order.index(truth)


def named(item: Labelled) -> Labelled:
    """The same choice with its descriptions as names, where these differ; others stay."""
    if not isinstance(item.question, Choice):
        return item
    options = tuple((str(text), None) for _, text in item.question.options)
    if len({name for name, _ in options}) < len(options):
        return item
    return dataclasses.replace(item, question=Choice(options, item.question.instructions))
