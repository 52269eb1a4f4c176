"""Models: every way a source can be missing or broken, and what will be loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from jevserve.adapters.base import Prepared
from jevserve.checkpoints.embedded import WHEEL_ENVIRONMENT
from jevserve.checkpoints.prepare import prepare
from jevserve.doctor.findings import Verdict
from jevserve.doctor.models import Checked, checked_models, judge_dtype, room_needed
from jevserve.doctor.rehearsal import Rehearsal, rehearse, rehearse_apart
from jevserve.doctor.sources import judge_hub_status
from jevserve.settings import ModelSettings, ServiceSettings
from tests.checkpoints.folders import bert_folder
from tests.tiny_chat import copy_of_tiny_chat, tiny_chat


def checked(
    source: str | Path, work: Path, *, offline: bool = True, env: Any = None, **model: Any
) -> Checked:
    models = (ModelSettings(name="m", checkpoint=str(source), **model),)
    settings = ServiceSettings(models=models, cache=work / "cache")
    with checked_models(settings, env or {}, offline, rehearse) as (found,):
        found.weights()  # reads the folder that goes now
        return found


def test_a_good_folder_is_recognised_and_rehearsed_without_touching_the_cache(
    tmp_path: Path,
) -> None:
    found = checked(tiny_chat(), tmp_path)

    (finding,) = found.findings
    assert finding.verdict is Verdict.OK
    assert "chat-label" in finding.seen
    assert "will be prepared" in finding.seen
    assert found.prepared is not None
    assert found.parameters > 1e6
    assert not (tmp_path / "cache").exists()


def test_a_prepared_folder_is_told_and_nothing_is_rehearsed(tmp_path: Path) -> None:
    prepare(str(tiny_chat()), cache=tmp_path / "cache")

    found = checked(tiny_chat(), tmp_path)

    assert "prepared already" in found.findings[0].seen
    assert found.prepared is not None
    assert found.prepared.path.is_relative_to(tmp_path / "cache")
    assert found.rehearsal is None


def test_the_longest_row_is_the_operators_where_that_is_shorter(tmp_path: Path) -> None:
    found = checked(tiny_chat(), tmp_path, max_model_len=100)

    assert found.prepared is not None
    assert found.prepared.settings["row_tokens"] == 100


def broken(folder: Path, how: str) -> Path:
    if how == "not a model":
        folder.mkdir()
        return folder
    copy_of_tiny_chat(folder)
    weights = folder / "model.safetensors"
    match how:
        case "no tokenizer":
            (folder / "tokenizer.json").unlink()
        case "half downloaded":
            weights.write_bytes(weights.read_bytes()[:100_000])
        case "pickle":
            weights.rename(folder / "pytorch_model.bin")
        case "no weights":
            weights.unlink()
        case "missing shard":
            index = {"weight_map": {"a": "model-00002-of-00002.safetensors"}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        case "no template":
            (folder / "chat_template.jinja").unlink(missing_ok=True)
            config = json.loads((folder / "tokenizer_config.json").read_text())
            config.pop("chat_template", None)
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        case "hostile":
            config = json.loads((folder / "config.json").read_text())
            config["max_position_embeddings"] = {"a": [1]}
            (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("how", "seen", "remedy"),
    [
        ("not a model", "config.json", "docs/how-to/models.md"),
        ("no tokenizer", "tokenizer.json", "fast tokenizer"),
        ("half downloaded", "bytes of tensors", "fetch the checkpoint again"),
        ("pickle", "pickle", "safetensors"),
        ("no weights", "no weights", "fetch the checkpoint again"),
        ("missing shard", "lacks", "fetch the checkpoint again"),
        ("no template", "no adapter recognises", "--protocol"),
        ("hostile", "cannot be prepared", "JSON"),
    ],
)
def test_each_way_of_being_broken_is_told_with_its_remedy(
    tmp_path: Path, how: str, seen: str, remedy: str
) -> None:
    found = checked(broken(tmp_path / "model", how), tmp_path)

    (finding,) = found.findings
    assert finding.verdict is Verdict.PROBLEM
    assert seen in finding.seen
    assert remedy in finding.remedy
    assert found.prepared is None


def test_a_name_that_means_nothing_is_a_problem(tmp_path: Path) -> None:
    (finding,) = checked("/no/such/folder", tmp_path).findings

    assert finding.verdict is Verdict.PROBLEM
    assert "/no/such/folder" in finding.seen


def test_an_embedded_model_that_is_not_fetched_needs_its_index_or_its_wheel(tmp_path: Path) -> None:
    online = checked("jev-embed", tmp_path, offline=False)
    offline = checked("jev-embed", tmp_path)
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(b"")
    by_hand = checked("jev-embed", tmp_path, env={WHEEL_ENVIRONMENT: str(wheel)})
    gone = checked("jev-embed", tmp_path, env={WHEEL_ENVIRONMENT: "/no/such.whl"})

    verdicts = [c.findings[0].verdict for c in (online, offline, by_hand, gone)]
    assert verdicts == [Verdict.OK, Verdict.PROBLEM, Verdict.OK, Verdict.PROBLEM]
    assert WHEEL_ENVIRONMENT in offline.findings[0].remedy
    assert room_needed([online]) > 180e6


class Hub(BaseHTTPRequestHandler):
    """A hub that knows the one model that is asked for, or answers a status by name."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.send_response(int(name) if name.isdigit() else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_hub_id_is_asked_for_at_the_hub(tmp_path: Path, hub: str) -> None:
    def finding(name: str, **env: str) -> Any:
        env = {"HF_ENDPOINT": hub} | env
        return checked(f"org/{name}", tmp_path, offline=False, env=env).findings[0]

    assert finding("model").verdict is Verdict.OK
    assert finding("model@404").verdict is Verdict.PROBLEM
    missing = finding("404", HF_TOKEN="t0ken")
    assert missing.verdict is Verdict.PROBLEM
    assert "t0ken" not in missing.seen + missing.remedy
    assert "HF_HUB_OFFLINE" in finding("model", HF_HUB_OFFLINE="1").seen
    nobody = finding("model", HF_ENDPOINT="http://user:pa55@127.0.0.1:9")
    assert nobody.verdict is Verdict.PROBLEM
    assert "127.0.0.1:9 cannot be reached" in nobody.seen
    assert "pa55" not in nobody.seen + nobody.remedy


def test_without_network_a_hub_id_is_not_asked_for(tmp_path: Path) -> None:
    (finding,) = checked("org/model", tmp_path).findings

    assert finding.verdict is Verdict.PROBLEM
    assert "give its folder" in finding.remedy


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, Verdict.OK), (401, Verdict.PROBLEM), (404, Verdict.PROBLEM), (503, Verdict.WARNING)],
)
def test_what_the_hubs_answers_mean(status: int, expected: Verdict) -> None:
    assert judge_hub_status("m", "org/m", status, token=False).verdict is expected


def test_arguments_that_the_service_owns_may_not_be_set(tmp_path: Path) -> None:
    found = checked(tiny_chat(), tmp_path, engine_args={"dtype": "x", "block_size": 32})

    assert [f.verdict for f in found.findings] == [Verdict.OK, Verdict.PROBLEM]
    assert "dtype" in found.findings[1].seen
    assert "block_size" not in found.findings[1].seen


def prepared_as(folder: Path, config: dict[str, Any]) -> Prepared:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"label_ids": [1], "runner": "pooling", "row_tokens": 64}
    return Prepared(folder, "chat-label", "r", settings)


NEW, OLD = frozenset({"avx512_bf16", "avx512_fp16"}), frozenset({"avx2"})
GDN, MAMBA = {"linear_conv_kernel_dim": 4}, {"mamba_d_conv": 4}


@pytest.mark.parametrize(
    ("config", "kind", "flags", "expected"),
    [
        ({}, "float32", OLD, Verdict.OK),
        ({}, "bfloat16", OLD, Verdict.WARNING),
        ({}, "bfloat16", NEW, Verdict.OK),
        ({}, "float16", OLD, Verdict.WARNING),
        (GDN, "float32", OLD, Verdict.PROBLEM),
        (GDN, "bfloat16", OLD, Verdict.OK),
        (MAMBA, "float32", NEW, Verdict.PROBLEM),
        (MAMBA, "float32", OLD, Verdict.OK),
    ],
)
def test_the_type_of_numbers_fits_processor_and_model(
    tmp_path: Path, config: dict[str, Any], kind: str, flags: frozenset[str], expected: Verdict
) -> None:
    model = ModelSettings.model_validate({"name": "m", "dtype": kind})
    found = Checked(model, prepared=prepared_as(tmp_path / "p", config))

    (finding,) = judge_dtype(found, flags, on_cpu=True)

    assert finding.verdict is expected
    assert list(judge_dtype(found, flags, on_cpu=False)) == []


def test_shards_are_counted_together(tmp_path: Path) -> None:
    folder = copy_of_tiny_chat(tmp_path / "model")
    before = checked(folder, tmp_path).parameters
    save_file({"x": np.zeros((10, 10), np.float32)}, folder / "more.safetensors")

    assert checked(folder, tmp_path).parameters == before + 100


def test_one_broken_model_leaves_the_others_to_be_checked(tmp_path: Path) -> None:
    names = {"a": broken(tmp_path / "a", "hostile"), "b": bert_folder(tmp_path / "b")}
    models = tuple(ModelSettings(name=n, checkpoint=str(p)) for n, p in names.items())
    settings = ServiceSettings(models=models, cache=tmp_path / "cache")

    with checked_models(settings, {}, True, rehearse) as found:
        assert [c.findings[0].verdict for c in found] == [Verdict.PROBLEM, Verdict.OK]
        rehearsed = found[1].prepared
        assert rehearsed is not None
        assert rehearsed.path.exists()
    assert not rehearsed.path.exists()


def test_without_a_rehearsal_a_folder_is_only_recognised(tmp_path: Path) -> None:
    models = (ModelSettings(name="m", checkpoint=str(tiny_chat())),)
    settings = ServiceSettings(models=models, cache=tmp_path)

    with checked_models(settings, {}, True, None) as (found,):
        assert found.findings[0].verdict is Verdict.OK
        assert found.prepared is None


def test_weights_are_counted_in_the_type_that_an_engine_holds_them_in(tmp_path: Path) -> None:
    kinds = {"float32": 4, "bfloat16": 2}
    models = tuple(
        ModelSettings.model_validate({"name": k, "checkpoint": str(tiny_chat()), "dtype": k})
        for k in kinds
    )

    with checked_models(
        ServiceSettings(models=models, cache=tmp_path), {}, True, rehearse
    ) as found:
        assert [c.weights() // c.parameters for c in found] == list(kinds.values())


def test_a_rehearsal_in_a_process_of_its_own_gives_the_same(tmp_path: Path) -> None:
    here, apart = (
        Rehearsal("m", str(bert_folder(tmp_path / "bert")), str(tmp_path / where), "minilm")
        for where in ("here", "apart")
    )
    none = Rehearsal("n", str(tmp_path / "none"), str(tmp_path / "x"), "minilm")

    assert rehearse_apart([apart])["m"] == rehearse([here])["m"]
    assert "not a folder" in rehearse_apart([none])["n"].refused
    assert rehearse_apart([]) == {}


def test_a_rehearsal_that_crashes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    (fakes / "transformers.py").write_text("import os; os.kill(os.getpid(), 4)")
    monkeypatch.setenv("PYTHONPATH", str(fakes))
    models = (ModelSettings(name="m", checkpoint=str(tiny_chat())),)

    with checked_models(ServiceSettings(models=models, cache=tmp_path), {}, True) as (found,):
        (finding,) = found.findings

    assert finding.verdict is Verdict.PROBLEM
    assert "illegal instruction" in finding.seen
