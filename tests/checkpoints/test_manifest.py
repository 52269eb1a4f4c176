"""The manifest: a golden file, strict reading, and a revision over what matters."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from jevserve.checkpoints.manifest import NAME, FileRecord, Manifest, read_manifest
from jevserve.errors import CheckpointError

MANIFEST = Manifest(
    protocol="minilm",
    architecture="BertModel",
    repository="organisation/name",
    repository_revision="0123",
    files=(
        FileRecord("README.md", 3, "a" * 64),
        FileRecord("config.json", 2, "b" * 64),
        FileRecord("tokenizer.json", 7, "c" * 64),
    ),
    tokenizer="c" * 64,
    settings={"scale": 20.5, "labels": ["A", "B"]},
)

GOLDEN = Path(__file__).parent / "manifest_golden.json"


def test_the_written_form_is_the_golden_one() -> None:
    assert MANIFEST.to_json() == GOLDEN.read_text()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(MANIFEST.to_json())
    assert read_manifest(tmp_path) == MANIFEST


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": "other"},
        {"architecture": "Other"},
        {"settings": {"scale": 20.6, "labels": ["A", "B"]}},
        {"files": (*MANIFEST.files[:2], FileRecord("tokenizer.json", 7, "d" * 64))},
    ],
)
def test_what_can_change_an_answer_changes_the_revision(change: dict[str, Any]) -> None:
    assert dataclasses.replace(MANIFEST, **change).revision != MANIFEST.revision


@pytest.mark.parametrize(
    "change",
    [
        {"repository": "folder", "repository_revision": ""},
        {"files": MANIFEST.files[1:]},
        {"settings": {"labels": ["A", "B"], "scale": 20.5}},
    ],
)
def test_what_cannot_change_an_answer_does_not(change: dict[str, Any]) -> None:
    assert dataclasses.replace(MANIFEST, **change).revision == MANIFEST.revision


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"revision": "0" * 32},
        {"unknown": 1},
        {"files": [{"name": "../x", "size": 1, "sha256": "a" * 64}]},
        {"files": [{"name": "/etc/x", "size": 1, "sha256": "a" * 64}]},
        {"files": [{"name": "x", "size": -1, "sha256": "a" * 64}]},
        {"files": [{"name": "x", "size": 1, "sha256": "A"}]},
        {"files": [3]},
        {"source": {"repository": 1, "revision": ""}},
        {"settings": []},
    ],
)
def test_a_changed_or_malformed_manifest_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    document = json.loads(MANIFEST.to_json()) | change
    (tmp_path / NAME).write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match="prepare the checkpoint again"):
        read_manifest(tmp_path)


def test_a_folder_without_one_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="jevserve models prepare"):
        read_manifest(tmp_path)
