"""What both ends of a connection must know, and how they show it without telling it."""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from jevserve.errors import SettingsError

SECRET_VARIABLE = "JEVSERVE_CLUSTER_SECRET"
SECRET_FILE_VARIABLE = "JEVSERVE_CLUSTER_SECRET_FILE"

MIN_SECRET_BYTES = 16
MAX_SECRET_BYTES = 4_096


class Role(StrEnum):
    """Whose proof it is. Bound into the MAC, so a proof sent back proves nothing."""

    CLIENT = "client"
    SERVER = "server"


class ClusterSecret:
    """The secret that routers and engine replicas of one service share.

    It is shown by no representation and does not travel: a process takes it from its own
    environment. Keys for other purposes are derived from it, each under its own name.

    Raises:
        SettingsError: shorter than 16 or longer than 4,096 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
            raise SettingsError(
                f"the cluster secret has {len(key)} bytes; give {MIN_SECRET_BYTES} to "
                f"{MAX_SECRET_BYTES} random ones, for instance from 'openssl rand -hex 32'"
            )
        self._key = key

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ClusterSecret:
        """From JEVSERVE_CLUSTER_SECRET, or the file that JEVSERVE_CLUSTER_SECRET_FILE names.

        White space around it is dropped: files end in a newline.

        Raises:
            SettingsError: neither or both are set, or the file cannot be read.
        """
        env = os.environ if environment is None else environment
        value, file = env.get(SECRET_VARIABLE, ""), env.get(SECRET_FILE_VARIABLE, "")
        if bool(value) == bool(file):
            found = "both are" if value else "neither is"
            raise SettingsError(
                f"set one of {SECRET_VARIABLE} and {SECRET_FILE_VARIABLE}; {found} set"
            )
        if value:
            return cls(value.strip().encode())
        try:
            with Path(file).open("rb") as stream:
                return cls(stream.read(MAX_SECRET_BYTES + 2).strip())
        except OSError as error:
            raise SettingsError(f"{SECRET_FILE_VARIABLE}: {error}") from error

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one named purpose; says nothing about the secret or other keys."""
        return hmac.digest(self._key, b"jevserve key: " + purpose.encode(), hashlib.sha256)

    def proof(self, role: Role, version: int, client_nonce: bytes, server_nonce: bytes) -> bytes:
        """HMAC-SHA256 over role, version and both nonces, each with its length."""
        fields = (role.value.encode(), version.to_bytes(2, "big"), client_nonce, server_nonce)
        message = b"".join(len(f).to_bytes(2, "big") + f for f in fields)
        return hmac.digest(self.derive("transport proof"), message, hashlib.sha256)

    def proves(
        self, mac: bytes, role: Role, version: int, client_nonce: bytes, server_nonce: bytes
    ) -> bool:
        """Whether ``mac`` is that proof; takes the same time whatever it is."""
        return hmac.compare_digest(mac, self.proof(role, version, client_nonce, server_nonce))

    def __repr__(self) -> str:
        return "ClusterSecret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cluster secret does not travel; read it from the environment")


@dataclass(frozen=True)
class TlsFiles:
    """Mutual TLS between router and engine: both ends show a certificate of one private CA.

    Attributes:
        cert: PEM certificate chain of this process.
        key: PEM private key of it.
        ca: PEM certificates of the authority that signs every peer.
    """

    cert: Path
    key: Path
    ca: Path

    def server(self) -> ssl.SSLContext:
        """Raises SettingsError for files that cannot be loaded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        return self._load(context)

    def client(self) -> ssl.SSLContext:
        """Raises SettingsError for files that cannot be loaded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Replicas are reached by pod address, which no certificate names. The authority is
        # private to the service, and the peer proves the cluster secret besides.
        context.check_hostname = False
        return self._load(context)

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            # An encrypted key would make OpenSSL ask on the terminal; it fails instead.
            context.load_cert_chain(self.cert, self.key, password=lambda: b"")
            context.load_verify_locations(self.ca)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"cannot load the TLS files {self.cert}, {self.key}, {self.ca}: {error}"
            ) from error
        return context
