"""``jevserve doctor`` as a person runs it: exit codes, a readable page, nothing that crashes it."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jevserve.cli.doctor import printable, shown, summary
from jevserve.cli.doctor import say as quiet_say
from jevserve.doctor import disks, examine, gpu, keys, machine, models, packages, ports, processes
from jevserve.doctor import settings as settings_checks
from jevserve.doctor.examine import Report, Wish
from jevserve.doctor.findings import Finding, Verdict, ok, problem, warning
from jevserve.errors import SettingsError
from jevserve.settings import ServiceSettings, load
from tests.tiny_chat import tiny_chat

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 80


def plain_environment(home: Path) -> dict[str, str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("JEVSERVE_", "HF_"))}
    return ours | {"PYTHONPATH": str(ROOT), "HOME": str(home), "COLUMNS": str(WIDTH)}


def doctor(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "jevserve", "doctor", *arguments],
        cwd=home,
        env=plain_environment(home) | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "failed itself" not in done.stdout
    return done


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_a_start_that_would_work_is_exit_code_zero_and_a_page_of_eighty_columns(
    tmp_path: Path,
) -> None:
    done = doctor(tmp_path, str(tiny_chat()), "--quick", "--port", str(free_port()))

    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    # A path stays whole, so that it can be copied.
    assert all(len(line) <= WIDTH for line in lines if str(tmp_path) not in line)
    assert all(line == line.rstrip() for line in lines)
    assert lines[0] == "settings"
    assert "no problems" in lines[-1]
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_an_occupied_port_and_a_wrong_key_file_are_exit_code_one_with_their_remedies(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("- {tenant: a, sha256: my-plain-k3y}\n")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = doctor(
            tmp_path, str(tiny_chat()), "--quick", "--port", str(port), "--keys", str(file)
        )

    assert done.returncode == 1
    end = " ".join(done.stdout.split("\n\n")[-1].split())
    assert f"ports, http: 127.0.0.1:{port} is in use by" in end
    assert f"(pid {os.getpid()})" in end
    assert "plain key" in end
    assert "2 problems" in end
    assert "my-plain-k3y" not in done.stdout + done.stderr


def test_broken_settings_are_a_finding_and_the_machine_is_judged_all_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("http: {prot: 80}\n")

    done = doctor(tmp_path, str(file), "--quick", "--json", JEVSERVE_PORT="tcp://10.0.0.1:1")

    assert done.returncode == 1
    page = json.loads(done.stdout)
    found = {(f["subject"], f["check"]): f for f in page["findings"]}
    assert page["healthy"] is False
    assert page["counts"]["problem"] == 1
    assert found["settings", "settings"]["verdict"] == "problem"
    assert "http.prot" in found["settings", "settings"]["seen"]
    assert found["settings", "kubernetes"]["verdict"] == "ok"
    assert found["models", "models"]["verdict"] == "skipped"
    assert found["machine", "system"]["verdict"] == "ok"
    assert found["packages", "versions"]["verdict"] == "ok"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-such-flag",),
        ("--url", "http://127.0.0.1:1", "--port", "2"),
        ("a.yaml", "--name", "b"),
    ],
)
def test_a_usage_error_is_exit_code_two(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = doctor(tmp_path, *arguments)

    assert done.returncode == 2
    assert done.stdout == ""


def test_a_service_that_is_not_there_is_exit_code_one(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--url", f"http://127.0.0.1:{free_port()}")

    assert done.returncode == 1
    assert "nothing listens on" in done.stdout


def test_on_a_terminal_verdicts_have_colours(tmp_path: Path) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-m", "jevserve", "doctor", str(tiny_chat()), "--quick"]
    environment = plain_environment(tmp_path) | {"TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=side, stderr=side) as run:
        os.close(side)
        written = b""
        while True:
            try:
                part = os.read(main, 65_536)
            except OSError:  # the other side has closed
                break
            if not part:
                break
            written += part
        run.wait()
    os.close(main)

    assert b"\x1b[32m" in written
    assert b"Traceback" not in written


@pytest.mark.engine
@pytest.mark.long
def test_everything_that_is_imported_works_here_and_is_told_on_the_way(tmp_path: Path) -> None:
    done = doctor(tmp_path, str(tiny_chat()), "--json", "--port", str(free_port()))

    assert done.returncode == 0, done.stdout
    found = {(f["subject"], f["check"]): f for f in json.loads(done.stdout)["findings"]}
    for step in ("ray", "torch", "vllm", "kernels"):
        assert found["imports", step]["verdict"] == "ok"
    (reuse,) = [f for (s, c), f in found.items() if s == "cache reuse" and not c.endswith("room")]
    assert "whole blocks of" in reuse["seen"]
    assert "importing" in done.stderr


def test_a_missing_gpu_library_is_told_by_the_whole_command(tmp_path: Path) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name in ("torch", "ray"):
        (fakes / f"{name}.py").write_text(
            "raise ImportError('libcudart.so.12: cannot open shared object file: No such file')\n"
        )
    path = f"{fakes}:{ROOT}"

    done = doctor(tmp_path, str(tiny_chat()), "--port", str(free_port()), PYTHONPATH=path)

    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "imports, torch: libcudart.so.12 is missing: a CUDA library" in said
    assert "make setup DEVICE=cpu" in said


PROBES = {
    machine: "read_machine",
    disks: "read_disk",
    gpu: "read_gpus",
    packages: "read_wanted",
    ports: "read_door",
    processes: "read_processes",
    keys: "load_keys",
    models: "resolve",
    settings_checks: "setting_names",
}


@pytest.mark.parametrize("module", PROBES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(module, PROBES[module], broken)
    settings = load(None, {"cache": str(tmp_path)})

    findings = list(examine.examine(Wish(settings, offline=True, quick=True), quiet_say))

    (failed,) = [f for _, f in findings if "failed itself" in f.seen]
    assert failed.verdict is Verdict.WARNING
    assert "RuntimeError in test_command.py" in failed.seen
    assert "s3cret" not in " ".join(f.seen + f.remedy for _, f in findings)
    assert len(findings) > 12


def test_without_settings_everything_else_is_judged(tmp_path: Path) -> None:
    wish = Wish(SettingsError("no"), offline=True, quick=True)

    found = {(s, f.check): f for s, f in examine.examine(wish, quiet_say)}

    assert found["settings", "settings"].verdict is Verdict.PROBLEM
    assert found["ports", "ports"].verdict is Verdict.SKIPPED
    assert found["machine", "system"].verdict is Verdict.OK


def test_a_finding_that_is_bad_needs_a_remedy() -> None:
    with pytest.raises(ValueError, match="remedy"):
        Finding("x", Verdict.PROBLEM, "seen")
    with pytest.raises(ValueError, match="remedy"):
        Finding("x", Verdict.WARNING, "seen")


def test_what_a_check_found_before_it_broke_is_kept() -> None:
    report = Report()

    def check() -> Any:
        yield ok("a", "fine")
        raise KeyError("b")

    report.add("subject", check)

    assert [f.verdict for _, f in report] == [Verdict.OK, Verdict.WARNING]


def test_the_page_ends_with_warnings_then_problems_and_their_remedies() -> None:
    findings = [
        ("one", problem("p", "broken", "mend it")),
        ("one", ok("o", "fine")),
        ("two", warning("w", "odd", "look at it")),
    ]

    lines = shown(findings, WIDTH).plain.splitlines()

    assert lines[-5:] == [
        "  warning  two, w: odd",
        "           → look at it",
        "  problem  one, p: broken",
        "           → mend it",
        "1 problem, 1 warning: the remedies are above",
    ]
    assert summary(findings[1:2]) == "no problems, no warnings: nothing is in the way"


def test_names_cannot_write_to_the_terminal() -> None:
    assert printable("a\x1b[31mb\n\u202ec") == "a\ufffd[31mb\ufffd\ufffdc"
    page = shown([("s", ok("[red]c\x07", "\x1b]0;t\x07 [bold]"))], WIDTH)
    assert "\x1b" not in page.plain
    assert "[bold]" in page.plain


def test_the_same_arguments_make_the_same_settings_as_serve(tmp_path: Path) -> None:
    from jevserve.cli.serve import service_settings

    assert service_settings(None) == load() == ServiceSettings()
