"""Ends what a killed ``jevserve serve`` leaves behind.

Ray ends its own workers when their driver dies, but neither HAProxy nor vLLM's engine processes. A
guard outlives the service: when the pipe between them closes, for whatever reason, every process
of that run is ended. Processes of a run are known by a variable that they inherit.

    python -m jevserve.serving.guard RUN_DIR   (the pipe is its standard input)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

#: Holds the run's folder in the environment of each of its processes.
RUN_VARIABLE = "JEVSERVE_RUN_DIR"


def start(run_dir: Path) -> subprocess.Popen[bytes]:
    """A guard of the calling process; closing its ``stdin`` sets it to work."""
    os.environ[RUN_VARIABLE] = str(run_dir)
    return subprocess.Popen(
        [sys.executable, "-m", "jevserve.serving.guard", str(run_dir)],
        stdin=subprocess.PIPE,
        # Of a session of its own: a terminal's Ctrl-C is for the service.
        start_new_session=True,
    )


def end_run(run_dir: str) -> None:
    """Kill every process of a run but the calling one, and remove the run's folder."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(RUN_VARIABLE) == run_dir:
                process.kill()
    shutil.rmtree(run_dir, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_run(sys.argv[1])
