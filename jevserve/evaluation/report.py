"""Accuracy and calibration of the default model on the evaluation pack.

    python -m jevserve.evaluation.report --pack tests/data/evalpack/evalpack.json.xz

Every set of choices is asked twice: with the candidates as descriptions of options whose names
say nothing (``described``), and as bare option names (``bare``).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from jevserve.adapters.registry import find
from jevserve.checkpoints import FileTokenizer, prepare
from jevserve.decisions.request import Choice
from jevserve.evaluation.decide import Answered, Decider
from jevserve.evaluation.generated import Labelled
from jevserve.evaluation.metrics import Measurement, measure
from jevserve.evaluation.pack import SHUFFLE_SEED, read_pack
from jevserve.evaluation.reference import ReferenceEmbedder


def bare(item: Labelled) -> Labelled:
    """The same choice with its descriptions as names."""
    assert isinstance(item.question, Choice)
    options = tuple((str(text), None) for _, text in item.question.options)
    return dataclasses.replace(item, question=Choice(options, item.question.instructions))


def measure_all(answers: list[Answered]) -> Measurement:
    return measure(
        [a.probabilities for a in answers],
        [a.item.truth for a in answers],
        [a.label for a in answers],
    )


def versions(name: str, items: list[Labelled]) -> Iterable[tuple[str, list[Labelled]]]:
    if isinstance(items[0].question, Choice):
        yield f"{name}.described", items
        yield f"{name}.bare", [bare(item) for item in items]
    else:
        yield name, items


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", help="names of sets; default all")
    parser.add_argument("--model", default="jev-embed")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    prepared = prepare(arguments.model, cache=arguments.cache)
    decider = Decider(
        find(prepared.protocol),
        FileTokenizer(prepared.path),
        prepared,
        ReferenceEmbedder(prepared.path),
    )
    figures: dict[str, dict[str, object]] = {}
    print(f"{'set':24}{'n':>5}{'accuracy':>10}{'majority':>10}{'mean top':>10}{'ECE':>8}")
    for name, items in read_pack(arguments.pack).items():
        if arguments.sets and name not in arguments.sets:
            continue
        for version, asked in versions(name, items):
            m = measure_all(decider.answer(asked))
            figures[version] = dataclasses.asdict(m) | {"kind": kind(asked[0])}
            print(
                f"{version:24}{m.n:5}{m.accuracy:10.3f}{m.majority:10.3f}{m.mean_top:10.3f}"
                f"{m.ece:8.3f}",
                flush=True,
            )
    if arguments.out:
        results = {
            "model": arguments.model,
            "revision": prepared.revision,
            "shuffle seed": SHUFFLE_SEED,
            "sets": figures,
        }
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def kind(item: Labelled) -> str:
    return type(item.question).__name__.lower()


if __name__ == "__main__":
    main()
