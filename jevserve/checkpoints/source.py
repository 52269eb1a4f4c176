"""What a model's name stands for: an embedded model, a folder, or a repository on the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jevserve.checkpoints.embedded import EMBEDDED, EmbeddedModel
from jevserve.checkpoints.files import WANTED
from jevserve.checkpoints.progress import Progress
from jevserve.errors import CheckpointError

HUB_ID = re.compile(
    r"(?P<id>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@(?P<revision>[\w./-]{1,200}))?"
)


@dataclass(frozen=True)
class Source:
    """Where a checkpoint comes from.

    Attributes:
        name: short name for people and for folder names.
        identity: string that is equal exactly for equal sources.
        repository: hub id, ``package==version``, or ``folder``.
        revision: asked-for revision at the hub; empty elsewhere.
        folder: the checkpoint, where it is a folder already.
        embedded: the checkpoint, where it is an embedded model.
    """

    name: str
    identity: str
    repository: str
    revision: str = ""
    folder: Path | None = None
    embedded: EmbeddedModel | None = None


def resolve(model: str) -> Source:
    """What ``model`` means. An embedded name wins over a folder, a folder over a hub id.

    Raises:
        CheckpointError: it is none of the three.
    """
    if model in EMBEDDED:
        pinned = EMBEDDED[model]
        return Source(
            model,
            f"embedded:{model}:{pinned.sha256}",
            f"{pinned.package}=={pinned.version}",
            embedded=pinned,
        )
    folder = Path(model).expanduser()
    try:
        exists = model != "" and folder.is_dir()
    except (OSError, ValueError):
        exists = False
    if exists:
        real = folder.resolve()
        return Source(real.name or "root", f"folder:{real}", "folder", folder=real)
    hub = HUB_ID.fullmatch(model)
    if hub is None or model.startswith((".", "/", "~")):
        raise CheckpointError(
            f"{model[:200]!r} is no embedded model ({', '.join(EMBEDDED)}), no existing folder, "
            "and no hub id of the form 'organisation/name' or 'organisation/name@revision'"
        )
    revision = hub["revision"] or ""
    return Source(hub["id"].replace("/", "--"), f"hub:{hub['id']}@{revision}", hub["id"], revision)


def fetch_from_hub(source: Source, progress: Progress) -> tuple[Path, str]:
    """(snapshot folder, commit) of a hub repository.

    The hub's own cache, token, endpoint and offline mode apply, through its usual environment
    variables. Only files of the kinds in ``WANTED`` are fetched.

    Raises:
        CheckpointError: it does not exist, is gated, or cannot be reached.
    """
    # Imported here: everything but a hub id works without the hub's client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    asked = f"{source.repository}@{source.revision}" if source.revision else source.repository
    progress.step(f"downloading {asked} from the hub")
    try:
        folder = Path(
            snapshot_download(
                source.repository, revision=source.revision or None, allow_patterns=list(WANTED)
            )
        )
    except GatedRepoError as error:
        raise CheckpointError(
            f"{asked} is gated: accept its terms on the hub and set HF_TOKEN to a token of that "
            "account"
        ) from error
    except RepositoryNotFoundError as error:
        raise CheckpointError(
            f"{asked} is not on the hub, or is private: check the name, and set HF_TOKEN if it is "
            "private"
        ) from error
    except RevisionNotFoundError as error:
        raise CheckpointError(f"{asked}: the hub has no such revision") from error
    except LocalEntryNotFoundError as error:
        raise CheckpointError(
            f"{asked} is not in the hub cache and the hub cannot be reached (or HF_HUB_OFFLINE is "
            "set); download it on a connected machine and give its folder instead"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise CheckpointError(f"{asked} could not be downloaded: {type(error).__name__}") from error
    return folder, folder.name
