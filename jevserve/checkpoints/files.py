"""Reading a checkpoint folder that somebody else made: bounded, and never outside of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from jevserve.adapters.base import CheckpointFiles
from jevserve.errors import CheckpointError

#: What a checkpoint may consist of. No pickles and no code: neither is fetched or linked.
WANTED = (
    "*.json",
    "*.jinja",
    "*.md",
    "*.model",
    "*.safetensors",
    "*.txt",
    "LICENSE*",
    "NOTICE*",
)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

MAX_FILES = 4_096
MAX_DEPTH = 4
MAX_PROBED_JSON = 1 << 20
MAX_PROBED_FILES = 64

#: The format's own bound on the header of a safetensors file.
MAX_SAFETENSORS_HEADER = 100_000_000


def wanted(name: str) -> bool:
    return any(fnmatch(Path(name).name, pattern) for pattern in WANTED)


def allowed_root(folder: Path) -> Path:
    """The folder that links in ``folder`` may point into.

    That is the folder itself, except for a snapshot in a hub cache, whose files are links into
    ``blobs`` beside ``snapshots``.
    """
    real = folder.resolve()
    if real.parent.name == "snapshots" and (real.parent.parent / "blobs").is_dir():
        return real.parent.parent
    return real


def list_names(folder: Path) -> list[str]:
    """Names of all files, relative to ``folder`` with ``/``, sorted; folder links not followed.

    Raises:
        CheckpointError: too many files, nested too deep, or a link that leaves the checkpoint.
    """
    root = allowed_root(folder)
    names: list[str] = []
    for path in walk(folder, MAX_DEPTH):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise CheckpointError(
                f"{path} is a link out of the checkpoint's folder; put the file itself there"
            )
        names.append(path.relative_to(folder).as_posix())
        if len(names) > MAX_FILES:
            raise CheckpointError(
                f"{folder} holds more than {MAX_FILES} files; a checkpoint has a folder of its own"
            )
    return sorted(names)


def walk(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            # Version control and download records are no part of a checkpoint.
            if entry.name in (".git", ".cache"):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth > 1:
                    yield from walk(Path(entry.path), depth - 1)
            elif entry.is_file() or entry.is_symlink():
                yield Path(entry.path)


def read_json(path: Path, limit: int = MAX_PROBED_JSON) -> Any:
    """Parsed content of a small JSON file.

    Raises:
        CheckpointError: over ``limit`` bytes, not JSON, or nested too deep to parse.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise CheckpointError(f"{path} is over {limit} bytes, which no such file needs")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error


def probe_files(folder: Path) -> CheckpointFiles:
    """What adapters may look at. Loads no weights and runs nothing.

    Raises:
        CheckpointError: not a folder, no readable ``config.json``, or a hostile layout.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder")
    names = list_names(folder)
    parsed: dict[str, Any] = {}
    for name in [n for n in names if "/" not in n and n.endswith(".json")][:MAX_PROBED_FILES]:
        if (folder / name).stat().st_size > MAX_PROBED_JSON and name != "config.json":
            continue  # a tokenizer or an index: nothing that tells a family
        parsed[name] = read_json(folder / name)
    return CheckpointFiles(frozenset(names), parsed)


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_weights(folder: Path, names: list[str]) -> None:
    """Refuse weights that are missing, incomplete or only there as a pickle.

    Raises:
        CheckpointError: with the file and the remedy.
    """
    tensors = [n for n in names if n.endswith(".safetensors")]
    if not tensors:
        pickles = [n for n in names if any(fnmatch(n, p) for p in PICKLES)]
        if pickles:
            raise CheckpointError(
                f"{folder} has its weights only as a pickle ({pickles[0]}), which can run code "
                "when loaded and is never opened; convert it to safetensors, or use a revision "
                "that has model.safetensors"
            )
        raise CheckpointError(f"{folder} has no weights: model.safetensors is missing")
    for name in tensors:
        check_safetensors(folder / name)
    if "model.safetensors.index.json" in names:
        index = read_json(folder / "model.safetensors.index.json", 64 << 20)
        shards = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(shards, dict):
            raise CheckpointError(f"{folder}/model.safetensors.index.json has no weight_map")
        missing = sorted({str(s) for s in shards.values()} - set(tensors))
        if missing:
            raise CheckpointError(
                f"{folder} lacks {missing[0]}, which its index names; download it again"
            )


def check_safetensors(path: Path) -> None:
    """Refuse a safetensors file whose header is broken or does not describe all of the file.

    Raises:
        CheckpointError: with what is wrong.
    """

    def broken(why: str) -> CheckpointError:
        return CheckpointError(f"{path} {why}; download it again")

    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_SAFETENSORS_HEADER):
                raise broken("is cut short: its header does not fit in the file")
            header = json.loads(stream.read(length))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise broken("has a header that is not JSON") from error
    end = 0
    for name, tensor in header.items() if isinstance(header, dict) else ():
        if name == "__metadata__":
            continue
        offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
        if not (
            isinstance(offsets, list)
            and len(offsets) == 2
            and all(isinstance(o, int) and not isinstance(o, bool) for o in offsets)
            and 0 <= offsets[0] <= offsets[1]
        ):
            raise broken(f"has a header with no valid offsets for {name!r}")
        end = max(end, offsets[1])
    if not end:
        raise broken("holds no tensors")
    if end != size - 8 - length:
        raise broken(f"has {size - 8 - length} bytes of tensors where its header says {end}")
