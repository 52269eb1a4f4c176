"""Preparing a folder: once, completely, and never by half."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest
from folders import bert_folder

from jevserve.checkpoints import inspect, load, prepare
from jevserve.errors import CheckpointError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return bert_folder(tmp_path / "source")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_prepared_folder_loads_as_what_prepare_returned(source: Path, cache: Path) -> None:
    prepared = prepare(str(source), cache=cache)
    assert prepared.protocol == "minilm"
    assert load(prepared.path) == prepared
    assert load(prepared.path, verify=True) == prepared


def test_the_second_call_writes_nothing(source: Path, cache: Path) -> None:
    first = prepare(str(source), cache=cache)
    before = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if "locks" not in p.parts}
    assert prepare(str(source), cache=cache) == first
    assert before == {p: p.stat().st_mtime_ns for p in cache.rglob("*") if "locks" not in p.parts}


def test_the_revision_is_the_same_wherever_the_files_come_from(tmp_path: Path) -> None:
    here = prepare(str(bert_folder(tmp_path / "here")), cache=tmp_path / "one")
    there = prepare(str(bert_folder(tmp_path / "there")), cache=tmp_path / "two")
    assert here.revision == there.revision


def test_changed_weights_give_another_revision_and_leave_the_old_folder(
    source: Path, cache: Path
) -> None:
    first = prepare(str(source), cache=cache)
    weights = source / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.unlink()
    weights.write_bytes(data)
    second = prepare(str(source), cache=cache)
    assert second.revision != first.revision
    assert load(first.path, verify=True) == first


def test_other_adapters_prepare_anew_from_an_unchanged_source(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(str(source), cache=cache)
    calibration = {"weights": "", "forms": {"other": {"scale": 1.0, "bias": 0.0}}}
    monkeypatch.setattr(
        import_module("jevserve.adapters.minilm"), "calibration", lambda: calibration
    )
    monkeypatch.setattr(import_module("jevserve.checkpoints.prepare"), "fingerprint", lambda: "new")
    second = prepare(str(source), cache=cache)
    assert second.settings["forms"] == calibration["forms"]
    assert second.revision != first.revision


def test_documentation_does_not_change_the_revision(source: Path, cache: Path) -> None:
    first = prepare(str(source), cache=cache)
    (source / "README.md").write_text("words")
    assert prepare(str(source), cache=cache).revision == first.revision


def test_code_and_pickles_beside_safetensors_are_left_behind(source: Path, cache: Path) -> None:
    (source / "modeling_evil.py").write_text("raise SystemExit")
    (source / "pytorch_model.bin").write_bytes(pickle.dumps(1))
    names = {p.name for p in prepare(str(source), cache=cache).path.iterdir()}
    assert names == {"config.json", "tokenizer.json", "model.safetensors", "jevserve.json"}


def test_a_damaged_prepared_folder_is_made_again_when_verified(source: Path, cache: Path) -> None:
    first = prepare(str(source), cache=cache)
    copy = first.path / "tokenizer.json"
    copy.write_bytes(copy.read_bytes().replace(b"state", b"stale"))
    with pytest.raises(CheckpointError, match=r"SHA-256"):
        load(first.path, verify=True)
    assert prepare(str(source), cache=cache, verify=True) == first
    assert load(first.path, verify=True) == first


def test_a_missing_prepared_file_is_noticed_without_hashing(source: Path, cache: Path) -> None:
    first = prepare(str(source), cache=cache)
    (first.path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"missing or incomplete"):
        load(first.path)
    assert prepare(str(source), cache=cache) == first


def test_leftovers_of_an_interrupted_run_do_not_matter(source: Path, cache: Path) -> None:
    half = cache / "prepared" / ".source.abc"
    half.mkdir(parents=True)
    (half / "config.json").write_text("{")
    assert load(prepare(str(source), cache=cache).path, verify=True)


def prepare_revision(source: str, cache: str) -> str:
    return prepare(source, cache=cache).revision


def test_several_processes_at_once_end_with_one_folder(source: Path, cache: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(prepare_revision, str(source), str(cache)) for _ in range(3)]
        revisions = {job.result(timeout=120) for job in jobs}
    assert len(revisions) == 1
    assert len(list((cache / "prepared").iterdir())) == 1


def refusal(source: Path, cache: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        prepare(str(source), cache=cache)
    assert not list((cache / "prepared").glob("*")), "a refused checkpoint leaves nothing"
    return caught.value.message


@pytest.mark.parametrize("keep", [0, 4, 12, -1])
def test_truncated_weights_are_refused(source: Path, cache: Path, keep: int) -> None:
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    assert "model.safetensors" in refusal(source, cache)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[" * 5_000,
        b'{"w": {"data_offsets": [0, 1e9]}}',
        b'{"w": {"data_offsets": [8, 0]}}',
        b'{"w": 3}',
        b"{}",
    ],
)
def test_a_hostile_header_is_refused(source: Path, cache: Path, header: bytes) -> None:
    (source / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert "download it again" in refusal(source, cache)


def test_a_header_that_claims_to_be_huge_is_refused_unread(source: Path, cache: Path) -> None:
    (source / "model.safetensors").write_bytes(b"\xff" * 64)
    assert "cut short" in refusal(source, cache)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth"])
def test_pickles_alone_are_refused_with_the_remedy(source: Path, cache: Path, name: str) -> None:
    (source / "model.safetensors").rename(source / name)
    message = refusal(source, cache)
    assert name in message
    assert "safetensors" in message


def test_a_missing_shard_is_refused_by_name(source: Path, cache: Path) -> None:
    index = {"weight_map": {"w": "model-00002-of-00002.safetensors"}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00002-of-00002.safetensors" in refusal(source, cache)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_each_necessary_file_is_asked_for_by_name(source: Path, cache: Path, name: str) -> None:
    (source / name).unlink()
    assert name in refusal(source, cache)


@pytest.mark.parametrize(
    "content", ["{", "[" * 100_000, "\x00", '{"a": "' + "x" * (2 << 20) + '"}']
)
def test_a_hostile_config_is_refused(source: Path, cache: Path, content: str) -> None:
    (source / "config.json").write_text(content)
    assert "config.json" in refusal(source, cache)
    assert inspect(source).protocol is None


def test_a_link_out_of_the_folder_is_refused(source: Path, cache: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"token": "s3cret"}')
    (source / "extra.json").symlink_to(secret)
    message = refusal(source, cache)
    assert "link out of the checkpoint" in message
    assert "s3cret" not in message


def test_links_of_a_hub_cache_are_followed(tmp_path: Path, cache: Path) -> None:
    repository = tmp_path / "models--org--name"
    blobs = bert_folder(repository / "blobs")
    snapshot = repository / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(Path("../../blobs") / path.name)
    prepared = prepare(str(snapshot), cache=cache)
    assert not any(p.is_symlink() for p in prepared.path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_names_the_setting(source: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(CheckpointError, match=r"JEVSERVE_CACHE"):
        prepare(str(source), cache=locked / "cache")


def test_a_full_disk_names_the_setting(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(import_module("jevserve.checkpoints.prepare"), "place", full)
    with pytest.raises(CheckpointError, match=r"full.*JEVSERVE_CACHE"):
        prepare(str(source), cache=cache)


@pytest.mark.parametrize(
    "model", ["", "no such", "../x", "a/b/c", "x@y", "/nowhere/at/all", "a\0b"]
)
def test_what_is_no_model_is_refused_with_the_three_forms(model: str, cache: Path) -> None:
    with pytest.raises(CheckpointError, match=r"embedded model.*folder.*hub id"):
        prepare(model, cache=cache)


def test_an_unknown_hub_model_offline_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(CheckpointError, match=r"not in the hub cache"):
        prepare("organisation/missing", cache=cache)
