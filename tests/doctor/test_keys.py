"""API keys: every way a file can be wrong, and nothing of a key is ever shown."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from jevserve.doctor.findings import Finding, Verdict
from jevserve.doctor.keys import judge

KEY = "5up3r-s3cret-k3y-0f-a-t3nant"
HASH = hashlib.sha256(KEY.encode()).hexdigest()
OTHER = hashlib.sha256(b"another").hexdigest()
GOOD = f'- {{tenant: a, sha256: "{HASH}"}}\n- {{tenant: b, sha256: "{OTHER}"}}\n'


def judged(folder: Path, text: str | bytes, mode: int = 0o600) -> list[Finding]:
    path = folder / "keys.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    findings = judge(path, {}, "127.0.0.1")
    told = " ".join(f.seen + f.remedy for f in findings)
    assert KEY not in told
    assert HASH not in told
    return findings


def test_a_file_of_hashes_is_fine(tmp_path: Path) -> None:
    (finding,) = judged(tmp_path, GOOD)

    assert finding.verdict is Verdict.OK
    assert "2 of 2 tenant" in finding.seen


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (f"- {{tenant: a, key: {KEY}}}\n", "replace the keys"),
        (f"- {{tenant: a, sha256: {KEY}}}\n", "plain key"),
        (f'- {{tenant: a, sha256: "{HASH}", colour: red}}\n', "each entry is"),
        (f'- {{tenant: a, sha256: "{HASH}"}}\n- {{tenant: b, sha256: "{HASH}"}}\n', "remove one"),
        (f"- {KEY}\n", "plain key"),
        (f"a: {KEY}\n", "YAML list"),
        ("", "YAML list"),
        (f"- [{KEY}\n- :", "indentation"),
        (b"\xff\xfe\x00", "indentation"),
        (f'- {{tenant: "no way", sha256: "{HASH}"}}\n', "docs/how-to/configure.md"),
    ],
)
def test_each_mistake_in_the_file_has_its_own_remedy(
    tmp_path: Path, text: str | bytes, remedy: str
) -> None:
    (finding,) = judged(tmp_path, text)

    assert finding.verdict is Verdict.PROBLEM
    assert remedy in finding.remedy


def test_a_file_that_is_missing_or_a_folder_is_a_problem(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        (finding,) = judge(path, {}, "127.0.0.1")

        assert finding.verdict is Verdict.PROBLEM
        assert "path" in finding.remedy


def test_a_file_that_everybody_may_read_is_warned_of(tmp_path: Path) -> None:
    found = judged(tmp_path, GOOD, 0o644)

    assert [f.verdict for f in found] == [Verdict.OK, Verdict.WARNING]
    assert "chmod o-rwx" in found[1].remedy


def test_the_documentations_key_is_warned_of(tmp_path: Path) -> None:
    published = hashlib.sha256(b"my-secret-key").hexdigest()

    found = judged(tmp_path, f'- {{tenant: a, sha256: "{published}"}}\n')

    assert [f.verdict for f in found] == [Verdict.OK, Verdict.WARNING]


def test_a_service_without_keys_is_fine_on_this_machine_alone() -> None:
    def verdicts(host: str) -> list[Verdict]:
        return [f.verdict for f in judge(None, {}, host)]

    assert verdicts("127.0.0.1") == verdicts("localhost") == [Verdict.OK]
    assert verdicts("0.0.0.0") == verdicts("10.0.0.5") == verdicts("::") == [Verdict.WARNING]


def test_keys_of_the_environment_are_judged_too() -> None:
    assert judge(None, {"JEVSERVE_API_KEYS": f"t:{KEY}"}, "0.0.0.0")[0].verdict is Verdict.OK
    (finding,) = judge(None, {"JEVSERVE_API_KEYS": f"bad tenant:{KEY}"}, "0.0.0.0")
    assert finding.verdict is Verdict.PROBLEM
    assert KEY not in finding.seen + finding.remedy
