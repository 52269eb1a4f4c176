"""Trying out what preparing a folder would give, beside it and in a process of its own.

Adapters may need transformers to prepare, which may need torch, which may be what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jevserve.adapters.registry import find
from jevserve.checkpoints.files import probe_files, wanted
from jevserve.checkpoints.prepare import place
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.doctor.imports import Probe, explain, explain_signal
from jevserve.errors import CheckpointError


@dataclass(frozen=True)
class Rehearsal:
    """A checkpoint's folder, and the folder (not there yet) in which its preparation is tried."""

    name: str
    folder: str
    work: str
    protocol: str


@dataclass(frozen=True)
class Rehearsed:
    """The adapter's prepared settings, or why there are none.

    Attributes:
        refused: what preparing will say, where it refuses the folder.
        broken: what is wrong with the machine, and the remedy, where it cannot even be tried.
    """

    settings: dict[str, Any] | None = None
    refused: str = ""
    broken: tuple[str, str] | None = None


Rehearse = Callable[[Sequence[Rehearsal]], dict[str, Rehearsed]]


def rehearse(rehearsals: Sequence[Rehearsal]) -> dict[str, Rehearsed]:
    """What preparing each folder gives, but for hashes; large files are only linked."""
    found = {}
    for r in rehearsals:
        folder, work = Path(r.folder), Path(r.work)
        try:
            for name in probe_files(folder).names:
                if wanted(name):
                    place(folder / name, work / name)
            settings = find(r.protocol).prepare(folder, work, FileTokenizer(folder))
            found[r.name] = Rehearsed(settings)
        except CheckpointError as error:
            found[r.name] = Rehearsed(refused=error.message)
        except (ImportError, OSError) as error:
            found[r.name] = Rehearsed(broken=explain("transformers", f"{error}"))
        except Exception as error:  # a folder may hold anything
            told = f"{folder} cannot be prepared ({type(error).__name__})"
            found[r.name] = Rehearsed(refused=told)
    return found


def rehearse_apart(rehearsals: Sequence[Rehearsal]) -> dict[str, Rehearsed]:
    """The same in a process of its own, whose end in any other way is told too."""
    if not rehearsals:
        return {}
    with Probe(["rehearsal"], [asdict(r) for r in rehearsals]) as probe:
        outcome = probe.wait()
    facts = outcome.facts("rehearsal")
    if facts is not None:
        return {r.name: Rehearsed(**facts["found"][r.name]) for r in rehearsals}
    error = outcome.failure("rehearsal")
    if error is not None:
        broken = explain("transformers", error)
    elif outcome.code is None:
        broken = (
            f"preparing it had not ended after {outcome.seconds:.0f} s",
            "look for a slow disk, or for swapping",
        )
    else:
        what, remedy = explain_signal(max(0, -outcome.code))
        broken = f"preparing it {what}", remedy
    return {r.name: Rehearsed(broken=broken) for r in rehearsals}
