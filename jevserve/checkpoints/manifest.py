"""The record a prepared folder carries: what it is, where it came from, what every file hashes to.

``revision`` is a hash of everything that can change an answer, and of nothing else: two machines
that prepared the same checkpoint have the same revision wherever they got it from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from jevserve.checkpoints.files import read_json
from jevserve.errors import CheckpointError

NAME = "jevserve.json"
VERSION = 1
MAX_BYTES = 4 << 20

#: File names that documentation lives under; they cannot change an answer.
SILENT_SUFFIXES = (".md",)
SILENT_PREFIXES = ("LICENSE", "NOTICE")


@dataclass(frozen=True)
class FileRecord:
    """One file of the folder: name relative to it, size in bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a prepared folder says of itself.

    Attributes:
        protocol: the adapter's id.
        architecture: the model class in ``config.json``.
        repository: where the checkpoint came from: hub id, package, or ``folder``.
        repository_revision: commit or version there, empty for a folder.
        files: every file of the folder but the manifest itself, by name.
        tokenizer: SHA-256 of ``tokenizer.json``.
        settings: what the adapter stored.
    """

    protocol: str
    architecture: str
    repository: str
    repository_revision: str
    files: tuple[FileRecord, ...]
    tokenizer: str
    settings: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """32 hex digits over protocol, architecture, settings and the files that matter."""
        matter = {
            "version": VERSION,
            "protocol": self.protocol,
            "architecture": self.architecture,
            "settings": self.settings,
            "files": {f.name: f.sha256 for f in self.files if not silent(f.name)},
        }
        return hashlib.sha256(canonical(matter)).hexdigest()[:32]

    def to_json(self) -> str:
        document = {
            "version": VERSION,
            "revision": self.revision,
            "protocol": self.protocol,
            "architecture": self.architecture,
            "source": {"repository": self.repository, "revision": self.repository_revision},
            "tokenizer": self.tokenizer,
            "files": [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in self.files],
            "settings": self.settings,
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def silent(name: str) -> bool:
    base = PurePosixPath(name).name
    return base.endswith(SILENT_SUFFIXES) or base.startswith(SILENT_PREFIXES)


def canonical(value: object) -> bytes:
    """One byte string per JSON value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared folder.

    Raises:
        CheckpointError: missing, of another version, malformed, or changed by hand.
    """
    path = folder / NAME
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a prepared checkpoint ({NAME} is missing); "
            "run 'jevserve models prepare'"
        )
    document = read_json(path, MAX_BYTES)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise CheckpointError(
            f"{path} is not a manifest of version {VERSION}; prepare the checkpoint again"
        )
    manifest = parse(document, path)
    if document["revision"] != manifest.revision:
        raise CheckpointError(
            f"{path} says revision {document['revision']!r}, its content is {manifest.revision}; "
            "it was changed after preparation: prepare the checkpoint again"
        )
    return manifest


def parse(document: dict[str, Any], path: Path) -> Manifest:
    def malformed(what: str) -> CheckpointError:
        return CheckpointError(f"{path}: {what}; prepare the checkpoint again")

    expected = {
        "version": int,
        "revision": str,
        "protocol": str,
        "architecture": str,
        "source": dict,
        "tokenizer": str,
        "files": list,
        "settings": dict,
    }
    if set(document) != set(expected):
        odd = sorted(set(document) ^ set(expected))
        raise malformed(f"missing or unknown entries {', '.join(odd)}")
    for key, kind in expected.items():
        if not isinstance(document[key], kind):
            raise malformed(f"{key!r} has the wrong type")
    source = document["source"]
    if set(source) != {"repository", "revision"} or not all(
        isinstance(v, str) for v in source.values()
    ):
        raise malformed("'source' must have a repository and a revision")
    return Manifest(
        protocol=document["protocol"],
        architecture=document["architecture"],
        repository=source["repository"],
        repository_revision=source["revision"],
        files=tuple(parse_file(f, malformed) for f in document["files"]),
        tokenizer=document["tokenizer"],
        settings=document["settings"],
    )


def parse_file(entry: Any, malformed: Any) -> FileRecord:
    match entry:
        case {"name": str(name), "size": int(size), "sha256": str(digest)} if len(entry) == 3:
            plain = PurePosixPath(name)
            if plain.is_absolute() or ".." in plain.parts or not name:
                raise malformed(f"file name {name!r} leaves the folder")
            if size < 0 or not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise malformed(f"size or hash of {name!r} is not one")
            return FileRecord(name, size, digest)
    raise malformed("an entry of 'files' is not a name, a size and a sha256")
