"""API keys: the file, the variable, and who may read them. Keys and hashes are never shown."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping
from pathlib import Path

from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.doctor.findings import Finding, ok, problem, warning
from jevserve.doctor.settings import judge_permissions
from jevserve.errors import SettingsError

#: Keys that documentation shows.
PUBLISHED = frozenset(hashlib.sha256(k).digest() for k in (b"my-secret-key", b"foo"))

ENTRY = 'each entry is {tenant: NAME, sha256: "HASH"}, with printf %s KEY | sha256sum for the hash'


def judge(path: Path | None, environment: Mapping[str, str], host: str) -> list[Finding]:
    """What a router would make of the keys; ``host`` is where it will listen."""
    try:
        keys = load_keys(path, environment)
    except SettingsError as error:
        return [problem("keys", error.message, remedy(error.message))]
    if keys is None:
        if is_local(host):
            return [ok("keys", "none: anybody on this machine may ask")]
        return [
            warning(
                "keys",
                f"none, and the service listens on {host}: whoever reaches it may ask",
                "give a keys file with --keys (docs/how-to/configure.md#api-keys), or listen on "
                "127.0.0.1",
            )
        ]
    tenants = {entry.tenant for entry in keys.entries}
    findings = [ok("keys", f"{len(keys.entries)} of {len(tenants)} tenant(s)")]
    public = sorted({e.tenant for e in keys.entries if e.digest in PUBLISHED})
    if public:
        findings.append(
            warning(
                "known key",
                f"tenant {public[0]} has a key from the documentation, which everybody knows",
                "make another: openssl rand -hex 24",
            )
        )
    if path is not None:
        findings += judge_permissions("keys file", path)
    if any(entry.quota for entry in keys.entries):
        findings.append(
            warning("quota", "is set, but quotas are not enforced yet", "limit at the ingress")
        )
    return findings


def remedy(message: str) -> str:
    """What to do about an error of ``load_keys``."""
    if message.startswith(ENV_KEYS):
        return f"write {ENV_KEYS} as KEY or TENANT:KEY, separated by commas, or unset it"
    if "unknown field" in message:
        return (
            f"{ENTRY}. If the file holds plain keys, replace the keys: whoever read it knows them"
        )
    if "'sha256'" in message:
        return (
            f"{ENTRY}. A plain key in its place does not work, and should be replaced as it has "
            "been in a file"
        )
    if "same key" in message:
        return "remove one of the two entries, or make another key: openssl rand -hex 24"
    if "not valid YAML" in message:
        return "look for tabs, missing quotes and wrong indentation at that line"
    if "expected a list" in message:
        return f"the file is a YAML list; {ENTRY}"
    if "check http.keys_file" in message:
        return "correct the path in --keys or http.keys_file, and let the service's user read it"
    return "correct the entry that it names; docs/how-to/configure.md#api-keys shows a file"


def is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
