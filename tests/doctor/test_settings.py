"""Settings: variables that nothing reads, TLS files, the cluster secret."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.doctor.findings import Finding, Verdict
from jevserve.doctor.settings import (
    handshake,
    judge_load,
    judge_secret,
    judge_tls,
    judge_variables,
    setting_names,
)
from jevserve.errors import SettingsError
from jevserve.settings import ServiceSettings
from jevserve.transport.secret import SECRET_FILE_VARIABLE, SECRET_VARIABLE
from tests.transport.certificates import authority


def judged(**environment: str) -> dict[str, Finding]:
    return {f.check: f for f in judge_variables(environment)}


def test_settings_that_load_are_fine_and_others_are_told() -> None:
    assert judge_load(None, Path("s.yaml")).verdict is Verdict.OK
    finding = judge_load(SettingsError("http.prot: Extra inputs\nare not permitted"), None)
    assert finding.verdict is Verdict.PROBLEM
    assert finding.seen == "http.prot: Extra inputs are not permitted"


def test_known_variables_are_fine() -> None:
    found = judged(
        JEVSERVE_HTTP__PORT="1",
        jevserve_cache="/x",
        JEVSERVE_MODELS="[]",
        JEVSERVE_API_KEYS="k",
        JEVSERVE_CLUSTER_SECRET="s",
        JEVSERVE_WORKER_LOGS="1",
        PATH="/bin",
    )

    assert [f.verdict for f in found.values()] == [Verdict.OK]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("JEVSERVE_PORT", "JEVSERVE_HTTP__PORT"),
        ("JEVSERVE_KEYS_FILE", "JEVSERVE_HTTP__KEYS_FILE"),
        ("JEVSERVE_CASHE", "JEVSERVE_CACHE"),
        ("JEVSERVE_HTTPS__PORT", "JEVSERVE_HTTP__PORT"),
        ("JEVSERVE_QWERTZ", "docs/reference/configuration.md"),
    ],
)
def test_a_variable_that_nothing_reads_is_named_with_what_may_be_meant(
    name: str, hint: str
) -> None:
    finding = judged(**{name: "very-secret-value"})[name]

    assert finding.verdict is Verdict.WARNING
    assert hint in finding.remedy
    assert "very-secret" not in finding.seen + finding.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JEVSERVE_PORT", "tcp://10.0.0.1:8795"),
        ("JEVSERVE_SERVICE_HOST", "10.0.0.1"),
        ("JEVSERVE_SERVICE_PORT", "8795"),
        ("JEVSERVE_SERVICE_PORT_HTTP", "8795"),
        ("JEVSERVE_PORT_8795_TCP", "tcp://10.0.0.1:8795"),
        ("JEVSERVE_PORT_8795_TCP_ADDR", "10.0.0.1"),
        ("JEVSERVE_PORT_8795_TCP_PROTO", "tcp"),
        ("JEVSERVE_HEAD_SVC_PORT", "tcp://10.0.0.1:8795"),
        ("JEVSERVE_HEAD_SVC_SERVICE_HOST", "10.0.0.1"),
    ],
)
def test_service_links_of_kubernetes_are_known_as_such(name: str, value: str) -> None:
    (finding,) = judge_variables({name: value})

    assert (finding.check, finding.verdict) == ("kubernetes", Verdict.OK)


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_no_variable_makes_the_check_fail_or_shows_its_value(environment: dict[str, str]) -> None:
    named = {f"JEVSERVE_{name}": value + "-s3cret-" for name, value in environment.items()}

    assert all("-s3cret-" not in f.seen + f.remedy for f in judge_variables(named))


def test_names_of_settings_have_every_level() -> None:
    names = setting_names()

    assert {"JEVSERVE_HTTP", "JEVSERVE_HTTP__PORT", "JEVSERVE_ALIASES"} <= set(names)


def test_the_cluster_secret_may_be_missing_and_may_not_be_wrong(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x" * 32)
    file.chmod(0o600)

    def verdicts(**environment: str) -> list[Verdict]:
        return [f.verdict for f in judge_secret(environment)]

    assert verdicts() == [Verdict.OK]
    assert verdicts(**{SECRET_VARIABLE: "x" * 32}) == [Verdict.OK]
    assert verdicts(**{SECRET_VARIABLE: "short"}) == [Verdict.PROBLEM]
    assert verdicts(**{SECRET_FILE_VARIABLE: str(file)}) == [Verdict.OK]
    assert verdicts(**{SECRET_FILE_VARIABLE: str(tmp_path / "no")}) == [Verdict.PROBLEM]
    both = {SECRET_VARIABLE: "x" * 32, SECRET_FILE_VARIABLE: str(file)}
    assert verdicts(**both) == [Verdict.PROBLEM]
    file.chmod(0o644)
    assert verdicts(**{SECRET_FILE_VARIABLE: str(file)}) == [Verdict.OK, Verdict.WARNING]


def tls(folder: Path, **files: Path) -> ServiceSettings:
    names = {"tls_cert": "peer.pem", "tls_key": "peer.key", "tls_ca": "ca.pem"}
    return ServiceSettings.model_validate(
        {"transport": {k: str(folder / v) for k, v in names.items()} | files}
    )


def test_tls_files_are_proved_by_a_handshake(tmp_path: Path) -> None:
    files = authority(tmp_path / "one")

    assert handshake(files) == ""
    files.key.chmod(0o600)
    assert [f.verdict for f in judge_tls(tls(tmp_path / "one"))] == [Verdict.OK]
    files.key.chmod(0o644)
    assert [f.verdict for f in judge_tls(tls(tmp_path / "one"))] == [Verdict.WARNING, Verdict.OK]
    assert [f.verdict for f in judge_tls(ServiceSettings())] == [Verdict.OK]


def test_tls_files_that_do_not_belong_together_are_a_problem(tmp_path: Path) -> None:
    one, other = authority(tmp_path / "one"), authority(tmp_path / "other")
    for key in (one.key, other.key):
        key.chmod(0o600)

    foreign = judge_tls(tls(tmp_path / "one", tls_ca=other.ca))
    wrong_key = judge_tls(tls(tmp_path / "one", tls_key=other.key))
    missing = judge_tls(tls(tmp_path / "none"))

    assert [f.verdict for f in (*foreign, *wrong_key, *missing)] == [Verdict.PROBLEM] * 3
    assert "refuse each other" in foreign[0].seen


def test_an_expired_certificate_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    authority(folder)
    command = [
        shutil.which("openssl") or "openssl", "x509", "-req", "-in", "peer.csr", "-CA", "ca.pem",
        "-CAkey", "ca.key", "-CAcreateserial", "-out", "peer.pem", "-days", "-1",
    ]  # fmt: skip
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("this openssl makes no certificate of yesterday")
    (folder / "peer.key").chmod(0o600)

    (finding,) = judge_tls(tls(folder))

    assert finding.verdict is Verdict.PROBLEM
    assert "expired" in finding.seen
