"""However a service ends, nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jevserve.serving.environment import free_ports
from jevserve.serving.guard import RUN_VARIABLE

#: A parent with a guard, and a child that would outlive it.
PARENT = """
import subprocess, sys
from pathlib import Path
from jevserve.serving import guard
guard.start(Path(sys.argv[1]))
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_when_a_service_is_killed_then_its_guard_ends_what_it_left(tmp_path: Path) -> None:
    run, others = tmp_path / "run", tmp_path / "others"
    run.mkdir()
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleep, env=os.environ | {RUN_VARIABLE: str(others)}) as stranger:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        guards = [p for p in psutil.Process(parent.pid).children() if p != child]

        parent.kill()
        gone, _ = psutil.wait_procs([child], timeout=30)

        assert gone == [child]
        assert stranger.poll() is None
        stranger.kill()
    parent.communicate()
    psutil.wait_procs(guards, timeout=30)  # the folder goes last
    assert not run.exists()


@pytest.mark.ray
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_is_stopped_ends_clean(tmp_path: Path, number: signal.Signals) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "jevserve", "serve", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    while "starting Ray Serve" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    family = psutil.Process(process.pid).children(recursive=True)

    process.send_signal(number)
    said += process.communicate(timeout=60)[1]

    assert process.returncode == 128 + number
    assert "stopped before it was ready" in said
    assert "Traceback" not in said
    _, left = psutil.wait_procs(family, timeout=20)
    assert [p for p in left if p.status() != psutil.STATUS_ZOMBIE] == []
