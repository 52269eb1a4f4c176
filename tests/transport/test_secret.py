"""The cluster secret: where it comes from, and that it is shown nowhere."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from jevserve.errors import SettingsError
from jevserve.transport.secret import ClusterSecret, Role, TlsFiles

KEY = "0123456789abcdef0123456789abcdef"


def test_it_is_read_from_a_variable_or_a_file_without_the_newline(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(KEY + "\n")
    direct = ClusterSecret.from_environment({"JEVSERVE_CLUSTER_SECRET": KEY})
    from_file = ClusterSecret.from_environment({"JEVSERVE_CLUSTER_SECRET_FILE": str(file)})

    assert direct.derive("x") == from_file.derive("x")


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "neither is set"),
        (
            {"JEVSERVE_CLUSTER_SECRET": KEY, "JEVSERVE_CLUSTER_SECRET_FILE": "/x"},
            "both are set",
        ),
        ({"JEVSERVE_CLUSTER_SECRET": "hunter2"}, "7 bytes"),
        ({"JEVSERVE_CLUSTER_SECRET": "x" * 5_000}, "5000 bytes"),
        ({"JEVSERVE_CLUSTER_SECRET_FILE": "/no/such/file"}, "No such file"),
    ],
)
def test_a_missing_or_weak_secret_is_refused_and_not_shown(
    environment: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        ClusterSecret.from_environment(environment)

    assert KEY not in str(caught.value) and "hunter2" not in str(caught.value)


def test_it_is_shown_by_no_representation_and_does_not_travel() -> None:
    secret = ClusterSecret(KEY.encode())

    assert KEY not in f"{secret} {secret!r} {[secret]}"
    for leave in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="does not travel"):
            leave(secret)


def test_a_proof_holds_for_its_role_version_and_nonces_only() -> None:
    secret, a, b = ClusterSecret(KEY.encode()), bytes(32), bytes([1]) * 32
    mac = secret.proof(Role.CLIENT, 1, a, b)

    assert secret.proves(mac, Role.CLIENT, 1, a, b)
    assert not secret.proves(mac, Role.SERVER, 1, a, b)
    assert not secret.proves(mac, Role.CLIENT, 2, a, b)
    assert not secret.proves(mac, Role.CLIENT, 1, b, a)
    assert not ClusterSecret(KEY.upper().encode()).proves(mac, Role.CLIENT, 1, a, b)


def test_keys_of_different_purposes_differ() -> None:
    secret = ClusterSecret(KEY.encode())

    assert secret.derive("cache salt") != secret.derive("transport proof")
    assert secret.derive("x") != ClusterSecret(KEY.upper().encode()).derive("x")


def test_tls_files_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "cert.pem"

    with pytest.raises(SettingsError, match=r"cert\.pem"):
        TlsFiles(missing, missing, missing).server()
