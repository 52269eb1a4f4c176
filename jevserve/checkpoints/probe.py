"""Which adapter a checkpoint folder is for: every probe is asked, one answer is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jevserve.adapters.base import Adapter, Certainty, CheckpointFiles, Match
from jevserve.adapters.registry import adapters, find
from jevserve.checkpoints.files import probe_files
from jevserve.errors import CheckpointError


@dataclass(frozen=True)
class Inspection:
    """What can be said of a folder without loading it.

    Attributes:
        path: the folder.
        protocol: the adapter that would serve it, None where it is refused.
        reason: why it was recognised, or why it was not.
        matches: what every adapter found.
    """

    path: Path
    protocol: str | None
    reason: str
    matches: tuple[Match, ...] = ()


def find_matches(files: CheckpointFiles) -> tuple[Match, ...]:
    found = (adapter.probe(files) for adapter in adapters())
    return tuple(match for match in found if match is not None)


def choose(files: CheckpointFiles, protocol: str | None = None) -> tuple[Adapter, str]:
    """The adapter for a folder, and the reason for it.

    A named protocol is taken at its word. Otherwise exactly one certain match decides, or, where
    nothing is certain, a single possible one.

    Raises:
        CheckpointError: nothing matches, or several do; candidates and reasons are named.
    """
    if protocol is not None:
        return find(protocol), "named by the operator"
    matches = find_matches(files)
    certain = [m for m in matches if m.certainty is Certainty.CERTAIN]
    candidates = certain or list(matches)
    if len(candidates) == 1:
        return find(candidates[0].protocol), candidates[0].reason
    known = ", ".join(a.protocol for a in adapters())
    if not candidates:
        architectures = ", ".join(files.architectures) or "no architecture in its config.json"
        raise CheckpointError(
            f"no adapter recognises this checkpoint ({architectures}); if one fits, name it with "
            f"'protocol': {known}"
        )
    reasons = "; ".join(f"{m.protocol} ({m.reason})" for m in candidates)
    raise CheckpointError(
        f"more than one adapter fits this checkpoint: {reasons}. Name one with 'protocol'"
    )


def inspect(path: str | Path) -> Inspection:
    """What family a folder is of, or why it is refused. Never raises for the folder's content."""
    folder = Path(path).expanduser()
    matches: tuple[Match, ...] = ()
    try:
        files = probe_files(folder)
        matches = find_matches(files)
        adapter, reason = choose(files)
    except CheckpointError as error:
        return Inspection(folder, None, error.message, matches)
    except OSError as error:
        return Inspection(folder, None, f"{folder} cannot be read: {error.strerror}", matches)
    return Inspection(folder, adapter.protocol, reason, matches)
