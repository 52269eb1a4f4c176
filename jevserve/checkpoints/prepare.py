"""Prepare a checkpoint once; load it as often as wanted.

Layout of the cache::

    prepared/<name>-<revision>/   a plain model folder with its manifest, never changed again
    sources/<key>.json            which prepared folder a source led to, and how the source looked
    embedded/<name>/              unpacked files of an embedded model
    locks/                        one lock per source

A prepared folder is built beside its place and renamed, so whoever sees it sees all of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache as cache_once
from importlib.resources import files
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jevserve.adapters.base import Prepared
from jevserve.checkpoints import manifest as manifests
from jevserve.checkpoints.cache import cache_root, storage_errors
from jevserve.checkpoints.embedded import fetch
from jevserve.checkpoints.files import (
    check_weights,
    list_names,
    probe_files,
    read_json,
    sha256_of,
    wanted,
)
from jevserve.checkpoints.manifest import FileRecord, Manifest, read_manifest
from jevserve.checkpoints.probe import choose
from jevserve.checkpoints.progress import Progress, Silent
from jevserve.checkpoints.source import Source, fetch_from_hub, resolve
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.errors import CheckpointError

#: Files up to this size are copied, larger ones linked: an adapter may then rewrite a
#: configuration in place without reaching through a link into the source.
COPY_UP_TO = 1 << 20

#: Another process may be downloading and hashing a large checkpoint meanwhile.
LOCK_TIMEOUT_S = 3_600


def prepare(
    model: str,
    *,
    cache: str | Path | None = None,
    protocol: str | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> Prepared:
    """The prepared form of ``model``: an embedded name, a folder, or a hub id.

    Returns at once where the source was prepared before and looks the same by size and time of
    change; ``verify`` hashes every prepared file instead of trusting that. Safe to call from
    several processes at once, and after one was interrupted.

    Raises:
        CheckpointError: it cannot be found, read, recognised, verified or stored.
    """
    progress = progress or Silent()
    root = cache_root(cache)
    source = resolve(model)
    key = hashlib.sha256(f"{source.identity}\0{protocol or ''}".encode()).hexdigest()[:24]
    with storage_errors(root):
        for part in ("prepared", "sources", "embedded", "locks"):
            (root / part).mkdir(parents=True, exist_ok=True)
        record = root / "sources" / f"{key}.json"
        try:
            with FileLock(root / "locks" / f"{source_lock(source)}.lock", timeout=LOCK_TIMEOUT_S):
                folder, commit = locate(source, root, progress)
                looks = appearance(folder)
                known = remembered(record, looks, root, verify=verify, progress=progress)
                if known is not None:
                    return known
                target = build(source, folder, commit, root, protocol, progress)
                if appearance(folder) != looks:
                    raise CheckpointError(
                        f"{folder} changed while it was being prepared; try again when it is whole"
                    )
                write_atomically(
                    record,
                    {"prepared": target.name, "source": looks, "adapters": fingerprint()},
                )
                return load(target)
        except Timeout as error:
            raise CheckpointError(
                f"another process has been preparing {model!r} for over {LOCK_TIMEOUT_S} s"
            ) from error


def load(path: str | Path, *, verify: bool = False) -> Prepared:
    """A folder that ``prepare`` made. Sizes are checked, and with ``verify`` every hash.

    Raises:
        CheckpointError: it is not one, or a file is missing or changed.
    """
    folder = Path(path).expanduser().absolute()
    with storage_errors(folder):
        manifest = read_manifest(folder)
        for file in manifest.files:
            found = folder / file.name
            if not found.is_file() or found.stat().st_size != file.size:
                raise CheckpointError(f"{found} is missing or incomplete; prepare it again")
            if verify and sha256_of(found) != file.sha256:
                raise CheckpointError(
                    f"{found} does not have the SHA-256 of its manifest; prepare it again"
                )
    return Prepared(folder, manifest.protocol, manifest.revision, manifest.settings)


@dataclass(frozen=True)
class Listed:
    """A prepared checkpoint: what it came from, and its size in bytes."""

    path: Path
    source: str
    protocol: str
    revision: str
    size: int


def prepared_checkpoints(cache: str | Path | None = None) -> list[Listed]:
    """What the cache holds, by folder name; a damaged folder is left out.

    Raises:
        CheckpointError: the cache cannot be read.
    """
    root = cache_root(cache) / "prepared"
    found = []
    with storage_errors(root):
        folders = sorted(root.iterdir()) if root.is_dir() else []
    for folder in folders:
        try:
            m = read_manifest(folder)
        except CheckpointError:
            continue
        size = sum(file.size for file in m.files)
        found.append(Listed(folder, m.repository, m.protocol, m.revision, size))
    return found


def source_lock(source: Source) -> str:
    return hashlib.sha256(source.identity.encode()).hexdigest()[:24]


def locate(source: Source, root: Path, progress: Progress) -> tuple[Path, str]:
    """(folder, commit) of the checkpoint as published, fetched where it is not there yet."""
    if source.folder is not None:
        return source.folder, ""
    if source.embedded is None:
        return fetch_from_hub(source, progress)
    folder = root / "embedded" / f"{source.name}-{source.embedded.sha256[:12]}"
    if not folder.is_dir():
        work = Path(tempfile.mkdtemp(prefix=f".{source.name}.", dir=root / "embedded"))
        try:
            fetch(source.embedded, work, progress)
            work.chmod(0o755)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder, source.embedded.sha256


def appearance(folder: Path) -> dict[str, list[int]]:
    """Size and time of change (ns) of every file that would be used."""
    looks = {}
    for name in list_names(folder):
        if wanted(name):
            status = (folder / name).stat()
            looks[name] = [status.st_size, status.st_mtime_ns]
    return looks


def remembered(
    record: Path, looks: dict[str, list[int]], root: Path, *, verify: bool, progress: Progress
) -> Prepared | None:
    """What this source led to before, None where that is unknown, gone, damaged or outdated."""
    try:
        known = read_json(record, manifests.MAX_BYTES)
        if known["source"] != looks or known["adapters"] != fingerprint():
            return None
        folder = root / "prepared" / Path(known["prepared"]).name
        if verify:
            progress.step(f"verifying {folder.name}")
        return load(folder, verify=verify)
    except (CheckpointError, KeyError, TypeError):
        return None


@cache_once
def fingerprint() -> str:
    """Hash of the adapters' code and data: another calibration or prompt form prepares anew."""
    digest = hashlib.sha256()
    for file in sorted(files("jevserve.adapters").iterdir(), key=lambda f: f.name):
        if file.name.endswith((".py", ".json")):
            data = file.read_bytes()
            digest.update(f"{file.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def build(
    source: Source, folder: Path, commit: str, root: Path, protocol: str | None, progress: Progress
) -> Path:
    """A new prepared folder, or the equal one that is already there."""
    progress.step(f"checking {source.name}")
    found = probe_files(folder)
    if "config.json" not in found.names:
        raise CheckpointError(f"{folder} has no config.json, so it is not a model's folder")
    names = sorted(n for n in found.names if wanted(n))
    check_weights(folder, sorted(found.names))
    adapter, _ = choose(found, protocol)
    tokenizer = FileTokenizer(folder)
    work = Path(tempfile.mkdtemp(prefix=f".{source.name}.", dir=root / "prepared"))
    try:
        progress.step(f"preparing {source.name} for {adapter.protocol}")
        for name in names:
            place(folder / name, work / name)
        settings = json_only(adapter.prepare(folder, work, tokenizer))
        records = hash_files(work, progress)
        architectures = found.architectures
        manifest = Manifest(
            protocol=adapter.protocol,
            architecture=architectures[0] if architectures else "",
            repository=source.repository,
            repository_revision=commit,
            files=records,
            tokenizer=next(f.sha256 for f in records if f.name == "tokenizer.json"),
            settings=settings,
        )
        (work / manifests.NAME).write_text(manifest.to_json())
        work.chmod(0o755)
        return settle(work, root / "prepared" / f"{short(source.name)}-{manifest.revision[:16]}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def settle(work: Path, target: Path) -> Path:
    """Rename ``work`` to its content's name; a whole folder of that name stays as it is."""
    if target.exists():
        try:
            load(target, verify=True)
            return target
        except CheckpointError:
            # Damaged: moved aside in one step, so that a reader finds it whole or not at all.
            aside = Path(tempfile.mkdtemp(prefix=".damaged.", dir=target.parent))
            target.rename(aside / target.name)
            shutil.rmtree(aside, ignore_errors=True)
    work.rename(target)
    return target


def place(source: Path, target: Path) -> None:
    """A copy of a small file; a hard link, else a symbolic link, else a copy of a large one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    real = source.resolve()
    if real.stat().st_size <= COPY_UP_TO:
        shutil.copyfile(real, target)
        return
    for link in (os.link, os.symlink):
        try:
            link(real, target)
            return
        except OSError:
            continue
    shutil.copyfile(real, target)


def hash_files(folder: Path, progress: Progress) -> tuple[FileRecord, ...]:
    progress.step("hashing")
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != manifests.NAME)
    sizes = {path: path.stat().st_size for path in paths}
    records, done = [], 0
    for path in paths:
        name = path.relative_to(folder).as_posix()
        records.append(FileRecord(name, sizes[path], sha256_of(path)))
        done += sizes[path]
        progress.advance(done, sum(sizes.values()))
    return tuple(records)


def json_only(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they will be read back; an adapter that stores more than JSON is at fault."""
    round_trip: dict[str, Any] = json.loads(json.dumps(settings, allow_nan=False))
    return round_trip


def write_atomically(path: Path, content: object) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as out:
        json.dump(content, out)
    os.replace(out.name, path)


def short(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:80].lstrip(".") or "model"
