"""Models: where each comes from, whether it can be served, what it weighs. Loads no weights."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jevserve.adapters.base import EngineProfile, Prepared
from jevserve.adapters.registry import find
from jevserve.checkpoints.cache import cache_root
from jevserve.checkpoints.files import check_weights, probe_files, read_json
from jevserve.checkpoints.prepare import appearance, remembered
from jevserve.checkpoints.probe import choose
from jevserve.checkpoints.progress import Silent
from jevserve.checkpoints.source import Source, resolve
from jevserve.doctor.findings import MIB, Finding, ok, problem, warning
from jevserve.doctor.rehearsal import Rehearsal, Rehearse, Rehearsed, rehearse_apart
from jevserve.doctor.sources import download_size, judge_absent, there_already
from jevserve.engine.arguments import OWNED, RECURRENT, dtype, kv_cache_gib
from jevserve.errors import CheckpointError
from jevserve.serving.models import limited
from jevserve.settings import ModelSettings, ServiceSettings

#: Bytes of one number in memory, by vLLM's names.
WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Checked:
    """One model as far as it can be known without starting it.

    Attributes:
        prepared: as it is or will be prepared, None where that is not known yet.
        parameters: numbers in its weights, 0 where unknown.
        download: bytes that a start has to write into the cache.
        rehearsal: how to find out what preparing it gives, where it is not prepared.
    """

    settings: ModelSettings
    findings: tuple[Finding, ...] = ()
    prepared: Prepared | None = None
    parameters: int = 0
    download: int = 0
    rehearsal: Rehearsal | None = None

    @property
    def profile(self) -> EngineProfile | None:
        return find(self.prepared.protocol).engine_profile(self.prepared) if self.prepared else None

    @property
    def caches(self) -> bool:
        """Whether engines keep prefixes of it, as far as is known."""
        return self.profile is None or self.profile.prefix_caching

    def cache_gib(self) -> int:
        """GiB that a CPU engine keeps for prefixes, 0 for none."""
        if not self.caches:
            return 0
        if self.prepared is None or self.profile is None:
            return self.settings.kv_cache_gib or 1
        return kv_cache_gib(self.prepared, self.profile, self.settings)

    def weights(self) -> int:
        """Bytes of the weights as an engine will hold them, 0 where unknown."""
        if self.prepared is None or self.profile is None:
            return 0
        kind = dtype(self.prepared, self.profile, self.settings)
        return self.parameters * WIDTH.get(kind, 2)


@contextmanager
def checked_models(
    settings: ServiceSettings,
    environment: Mapping[str, str],
    offline: bool,
    rehearse: Rehearse | None = rehearse_apart,
) -> Iterator[list[Checked]]:
    """Every model; with None for ``rehearse``, those not prepared yet are only recognised.

    What was rehearsed lives in a folder that goes at the end.
    """
    cache = cache_root(settings.cache)
    with tempfile.TemporaryDirectory(prefix="jevserve-doctor-", ignore_cleanup_errors=True) as work:
        found = [
            check(m, cache, Path(work) / str(i), environment, offline)
            for i, m in enumerate(settings.models)
        ]
        if rehearse is not None:
            waiting = [c.rehearsal for c in found if c.rehearsal is not None]
            done = rehearse(waiting)
            found = [finish(c, done) for c in found]
        yield found


def check(
    model: ModelSettings, cache: Path, work: Path, environment: Mapping[str, str], offline: bool
) -> Checked:
    """Where ``model`` comes from, and whether its files are whole and of a known family."""
    try:
        source = resolve(model.source)
    except CheckpointError as error:
        remedy = "correct the name; 'jevserve models list' shows what is here"
        return Checked(model, (problem(model.name, error.message, remedy),))
    folder = there_already(source, cache)
    if folder is None:
        missing = judge_absent(model.name, source, environment, offline)
        return Checked(model, (missing,), download=download_size(source))
    try:
        return examine_folder(model, source, folder, cache, work)
    except CheckpointError as error:
        return Checked(model, (refusal(model.name, error.message),))
    except OSError as error:
        seen = f"{error.filename or folder}: {error.strerror}"
        return Checked(model, (problem(model.name, seen, "fix the permissions of the folder"),))
    except Exception as error:  # a folder may hold anything
        seen = f"{folder} cannot be read ({type(error).__name__})"
        return Checked(model, (refusal(model.name, seen),))


def examine_folder(
    model: ModelSettings, source: Source, folder: Path, cache: Path, work: Path
) -> Checked:
    """Raises CheckpointError for what preparing would refuse in the folder."""
    prepared = known(model, source, folder, cache)
    files = probe_files(folder)
    adapter, reason = choose(files, model.protocol)
    check_weights(folder, sorted(files.names))
    when = "will be prepared at the start" if prepared is None else "prepared already"
    where = "embedded" if source.embedded else "folder" if source.folder else "from the hub"
    found = ok(model.name, f"{where}, {adapter.protocol} ({reason}), {when}")
    checked = Checked(
        model,
        (found, *judge_owned(model)),
        parameters=count_parameters(folder, files.names),
    )
    if prepared is not None:
        return replace(checked, prepared=limited(prepared, model))
    rehearsal = Rehearsal(model.name, str(folder), str(work), adapter.protocol)
    return replace(checked, rehearsal=rehearsal)


def finish(checked: Checked, done: Mapping[str, Rehearsed]) -> Checked:
    """``checked`` with what its rehearsal gave."""
    rehearsal = checked.rehearsal
    if rehearsal is None:
        return checked
    result = done[rehearsal.name]
    if result.settings is not None:
        prepared = Prepared(Path(rehearsal.work), rehearsal.protocol, "", result.settings)
        return replace(checked, prepared=limited(prepared, checked.settings))
    if result.broken is not None:
        finding = problem(rehearsal.name, *result.broken)
    else:
        finding = refusal(rehearsal.name, result.refused)
    return Checked(checked.settings, (finding,))


def known(model: ModelSettings, source: Source, folder: Path, cache: Path) -> Prepared | None:
    """What ``checkpoints.prepare`` would return at once; None where it would prepare."""
    key = hashlib.sha256(f"{source.identity}\0{model.protocol or ''}".encode()).hexdigest()[:24]
    record = cache / "sources" / f"{key}.json"
    return remembered(record, appearance(folder), cache, verify=False, progress=Silent())


def refusal(name: str, message: str) -> Finding:
    return problem(name, message, folder_remedy(message))


def folder_remedy(message: str) -> str:
    """What to do about an error of a checkpoint's folder."""
    if "tokenizer.json" in message and "has no" in message:
        return "save its fast tokenizer there, as the message says, or choose another revision"
    if "pickle" in message:
        return "convert the weights to safetensors, or take a revision that has model.safetensors"
    if "download it again" in message or "lacks" in message or "no weights" in message:
        return "the download is not complete: fetch the checkpoint again, all files of it"
    if "no adapter recognises" in message or "more than one adapter" in message:
        return "name the adapter with --protocol where one fits; docs/how-to/models.md lists them"
    if "cannot be prepared" in message or "cannot be read" in message:
        return "check its JSON files: are they a model's?"
    return "choose a checkpoint of a family in docs/how-to/models.md, or correct what it names"


def judge_owned(model: ModelSettings) -> Iterator[Finding]:
    owned = sorted(OWNED & model.engine_args.keys())
    if owned:
        yield problem(
            f"{model.name} arguments",
            f"engine_args may not set {', '.join(owned)}: the service does",
            "remove them; max_model_len and dtype are settings of the model itself",
        )


def judge_dtype(checked: Checked, cpu_flags: frozenset[str], on_cpu: bool) -> Iterator[Finding]:
    """Whether this processor computes the model in the type that it will get."""
    if not on_cpu or checked.prepared is None or checked.profile is None:
        return
    name, kind = (
        f"{checked.settings.name} dtype",
        dtype(checked.prepared, checked.profile, checked.settings),
    )
    config = read_json(checked.prepared.path / "config.json")
    text = config.get("text_config") or config
    recurrent = any(key in text for key in RECURRENT)
    remedy = f"remove dtype from models.{checked.settings.name}, so that what fits is chosen"
    if kind == "float32" and "linear_conv_kernel_dim" in text:
        yield problem(name, "float32, for which its recurrent layers have no CPU kernel", remedy)
    elif kind == "float32" and recurrent and "avx512_bf16" in cpu_flags:
        yield problem(
            name, "float32, which vLLM 0.29 cannot load for this model on this processor", remedy
        )
    elif kind == "float16" and not {"avx512_fp16", "asimdhp"} & cpu_flags:
        yield warning(name, "float16, which this processor has no instructions for: slow", remedy)
    elif kind == "bfloat16" and not {"avx512_bf16", "bf16"} & cpu_flags and not recurrent:
        yield warning(
            name,
            "bfloat16, which this processor has no instructions for: slower than float32",
            remedy,
        )
    else:
        yield ok(name, kind)


def count_parameters(folder: Path, names: frozenset[str]) -> int:
    """Numbers in all safetensors files, from their headers, which have been checked."""
    total = 0
    for name in names:
        if name.endswith(".safetensors"):
            with (folder / name).open("rb") as stream:
                header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
            total += sum(
                math.prod(tensor["shape"])
                for key, tensor in header.items()
                if key != "__metadata__"
            )
    return total


def room_needed(models: list[Checked]) -> int:
    """Bytes that a start may write into the cache folder."""
    return 16 * MIB + sum(m.download for m in models)
