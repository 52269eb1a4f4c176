"""A private certificate authority for tests, made by the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from jevserve.transport.secret import TlsFiles


def authority(folder: Path) -> TlsFiles:
    """A new authority in ``folder`` and one certificate of it."""
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority",
        "-days", "2",
    )  # fmt: skip
    openssl("req", *curve, "-keyout", "peer.key", "-out", "peer.csr", "-subj", "/CN=jevserve")
    openssl(
        "x509", "-req", "-in", "peer.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-out", "peer.pem", "-days", "2",
    )  # fmt: skip
    return TlsFiles(folder / "peer.pem", folder / "peer.key", folder / "ca.pem")
