"""The service as a user starts it: ``jevserve serve`` in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from jevserve.serving.environment import free_ports

ROOT = Path(__file__).resolve().parents[2]

#: Seconds for a cold start of three engines on two busy cores.
START_S = 240


@dataclass
class Service:
    """A running service and its processes."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/systemone", json=body, headers=headers, timeout=60)

    def replicas(self, deployment: str) -> list[psutil.Process]:
        """Processes of a deployment's replicas, by the name Ray gives them."""
        name = f"ray::ServeReplica:jevserve:{deployment}"
        family = [psutil.Process(self.process.pid), *children(self.process.pid)]
        return [p for p in family if title(p).startswith(name)]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@contextlib.contextmanager
def running(folder: Path, settings: dict[str, Any], **environment: str) -> Iterator[Service]:
    """Start a service from a settings file; whatever is left of it afterwards is killed."""
    (port,) = free_ports(1)
    file, log = folder / "settings.yaml", folder / "log"
    file.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "jevserve", "serve", str(file), "--port", str(port)]
    env = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    # The engines of other tests in this process set these for themselves.
    for name in ("OMP_NUM_THREADS", "VLLM_WORKER_MULTIPROCESSING_METHOD"):
        env.pop(name, None)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, cwd=folder)
    service = Service(f"http://127.0.0.1:{port}", process, log)
    family: list[psutil.Process] = []
    try:
        wait_until_ready(service)
        family = children(process.pid)
        yield service
    finally:
        if process.poll() is None:
            family += children(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.stop()
        process.kill()
        for child in family:
            with contextlib.suppress(psutil.Error):
                child.kill()


def wait_until_ready(service: Service) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if b"ready" in service.log.read_bytes():
            return
        assert service.process.poll() is None, service.log.read_text()[-4000:]
        time.sleep(0.1)
    raise AssertionError(f"not ready within {START_S} s:\n{service.log.read_text()[-4000:]}")
