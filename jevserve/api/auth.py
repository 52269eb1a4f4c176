"""API keys: who may ask, and as which tenant. Only hashes of keys are ever held.

A keys file is a YAML list::

    - tenant: checkout
      sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
      quota: 50            # requests per second, optional
      lane: batch          # interactive (default) or batch

``JEVSERVE_API_KEYS`` holds raw keys, comma separated: ``KEY`` (tenants ``key-1``, ``key-2``, …)
or ``TENANT:KEY``. Both may be used at once; a tenant may have several keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from starlette.datastructures import Headers

from jevserve.decisions.plan import Lane
from jevserve.errors import AuthenticationError, SettingsError

ENV_KEYS = "JEVSERVE_API_KEYS"

#: Bytes of a keys file; a hundred thousand keys fit.
MAX_FILE_BYTES = 16 * 2**20

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_FIELDS = frozenset({"tenant", "sha256", "quota", "lane"})


@dataclass(frozen=True)
class Key:
    """One key. Its hash is kept out of every representation.

    Attributes:
        tenant: whose key it is.
        digest: SHA-256 of the key.
        quota: requests per second, None for no limit.
        lane: scheduling lane of the tenant's decisions.
    """

    tenant: str
    digest: bytes = field(repr=False)
    quota: int | None = None
    lane: Lane = Lane.INTERACTIVE


@dataclass(frozen=True)
class Keys:
    """Every key of a service."""

    entries: tuple[Key, ...]

    def authenticate(self, headers: Headers) -> Key:
        """The key that the headers present.

        ``Authorization: Bearer KEY``, ``Authorization: Basic`` with the user ``token`` and
        ``X-API-Key: KEY`` are read; some clients send two of them.

        Raises:
            AuthenticationError: none of them, or none that is known.
        """
        presented = _presented(headers)
        if not presented:
            raise AuthenticationError("no API key: send 'Authorization: Bearer <key>'")
        for key in presented:
            found = self._find(key)
            if found is not None:
                return found
        raise AuthenticationError("this API key is not known here")

    def _find(self, key: bytes) -> Key | None:
        """Compares with every entry, so that time tells nothing of where a match is."""
        digest = hashlib.sha256(key).digest()
        found = None
        for entry in self.entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry
        return found


def _presented(headers: Headers) -> list[bytes]:
    keys = []
    scheme, _, value = headers.get("authorization", "").partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer":
            keys.append(value.encode("latin-1"))
        case "basic":
            keys.append(_basic(value))
    keys.append(headers.get("x-api-key", "").strip().encode("latin-1"))
    return [k for k in keys if k]


def _basic(value: str) -> bytes:
    try:
        user, _, password = base64.b64decode(value, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return b""
    return password if user == b"token" else b""


def load_keys(path: Path | None, env: Mapping[str, str]) -> Keys | None:
    """Keys from a file and from the environment; None where neither is configured.

    Raises:
        SettingsError: unreadable, malformed or empty; the message names the entry and the remedy
            and never holds a key.
    """
    entries: list[Key] = []
    if path is not None:
        entries += _from_file(path)
    if ENV_KEYS in env:
        entries += _from_env(env[ENV_KEYS])
    if path is None and ENV_KEYS not in env:
        return None
    seen: dict[bytes, str] = {}
    for key in entries:
        if key.digest in seen:
            raise SettingsError(
                f"tenants {seen[key.digest]!r} and {key.tenant!r} have the same key; "
                "give each its own"
            )
        seen[key.digest] = key.tenant
    return Keys(tuple(entries))


def _from_env(value: str) -> list[Key]:
    keys = []
    for i, item in enumerate(filter(None, (part.strip() for part in value.split(","))), start=1):
        tenant, colon, key = item.partition(":")
        if not colon:
            tenant, key = f"key-{i}", item
        if not _TENANT.fullmatch(tenant) or not key.strip():
            # The entry itself may be a key, so only its position is told.
            raise SettingsError(
                f"{ENV_KEYS}: entry {i} is neither KEY nor TENANT:KEY, with letters, digits and "
                "'._-' in TENANT"
            )
        keys.append(
            Key(tenant, hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest())
        )
    if not keys:
        raise SettingsError(f"{ENV_KEYS} is set but holds no key; unset it to serve without keys")
    return keys


def _from_file(path: Path) -> list[Key]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"keys file {path}: {error.strerror}; check http.keys_file") from None
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(f"keys file {path}: over {MAX_FILE_BYTES} bytes")
    try:
        entries = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" near line {mark.line + 1}" if mark is not None else ""
        # The parser's own message may quote the file.
        raise SettingsError(f"keys file {path}: not valid YAML{where}") from None
    if not isinstance(entries, list) or not entries:
        raise SettingsError(
            f"keys file {path}: expected a list of {{tenant, sha256, quota, lane}}, at least one"
        )
    return [_entry(f"keys file {path}: entry {i}", e) for i, e in enumerate(entries, start=1)]


def _entry(where: str, entry: Any) -> Key:
    if not isinstance(entry, dict):
        raise SettingsError(f"{where} is not a mapping with 'tenant' and 'sha256'")
    if unknown := [k for k in entry if k not in _FIELDS]:
        count = len(unknown)
        raise SettingsError(f"{where} has {count} unknown field(s); known are {sorted(_FIELDS)}")
    tenant, digest = entry.get("tenant"), entry.get("sha256")
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise SettingsError(f"{where}: 'tenant' must be 1 to 64 letters, digits and '._-'")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise SettingsError(
            f"{where} (tenant {tenant!r}): 'sha256' must be the 64 hexadecimal digits of the key's "
            "hash (printf %s KEY | sha256sum), in quotes"
        )
    quota = entry.get("quota")
    if quota is not None and (isinstance(quota, bool) or not isinstance(quota, int) or quota < 1):
        raise SettingsError(
            f"{where} (tenant {tenant!r}): 'quota' must be a whole number of requests per second"
        )
    lane = entry.get("lane", Lane.INTERACTIVE)
    if lane not in tuple(Lane):
        raise SettingsError(f"{where} (tenant {tenant!r}): 'lane' must be 'interactive' or 'batch'")
    return Key(tenant, bytes.fromhex(digest), quota, Lane(lane))
