"""A whole service on this machine: start Ray and Serve, wait until ready, drain on a signal."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jevserve.engine.environment import on_cpu
from jevserve.errors import SettingsError
from jevserve.serving.environment import free_ports, local_environment
from jevserve.settings import ServiceSettings
from jevserve.transport.secret import SECRET_FILE_VARIABLE, SECRET_VARIABLE

log = logging.getLogger("jevserve.serving")

#: Seconds in which every accepted decision must have been answered after a signal.
DRAIN_S = 30.0


@contextmanager
def local_service(settings: ServiceSettings, say: Callable[[str], None]) -> Iterator[None]:
    """Run the service for the duration of the ``with`` block; leaving it drains and stops.

    Raises:
        SettingsError: the port is taken, or Serve could not deploy; the reason is told.
    """
    check_port(settings)
    settings = with_local_resources(settings)
    run_dir = Path(tempfile.mkdtemp(prefix="jevserve-"))
    for name, value in local_environment(run_dir).items():
        os.environ.setdefault(name, value)
    if not os.environ.get(SECRET_VARIABLE) and not os.environ.get(SECRET_FILE_VARIABLE):
        # Every process of this service is a child of this one and inherits it.
        os.environ[SECRET_VARIABLE] = secrets.token_hex(32)
    # Ray reads the environment when it is imported.
    import ray
    from ray import serve

    from jevserve.serving.application import APPLICATION, build

    try:
        say("starting Ray")
        ray.init(
            num_cpus=max(os.cpu_count() or 1, wanted_cpus(settings)),
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=bool(os.environ.get("JEVSERVE_WORKER_LOGS")),
            object_store_memory=100 * 2**20,
            _metrics_export_port=free_ports(1)[0],
        )
        say("starting Ray Serve")
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": settings.http.host, "port": settings.http.port},
            logging_config={"log_level": "WARNING", "enable_access_log": False},
        )
        names = ", ".join(m.name for m in settings.models)
        say(f"loading {names}")
        try:
            serve.run(
                build(settings.model_dump(mode="json")), name=APPLICATION, route_prefix="/"
            )
        except RuntimeError as error:
            raise SettingsError(f"the service could not start: {why()}") from error
        yield
        say("answering what is in flight")
        drain(APPLICATION)
    finally:
        say("stopping")
        stop_serve()
        ray.shutdown()
        shutil.rmtree(run_dir, ignore_errors=True)


def drain(application: str) -> None:
    """Have every router refuse new decisions and answer the accepted ones."""
    from ray import serve

    try:
        handle = serve.get_app_handle(application)
        handle.broadcast("drain").results(timeout_s=DRAIN_S)
    except Exception:
        log.exception("draining failed; stopping all the same")


def stop_serve() -> None:
    """Stop Serve, and the HAProxy that it may leave behind on the port."""
    import psutil
    from ray import serve

    me = os.getuid()
    before = {
        p.pid: p
        for p in psutil.process_iter(["name", "uids", "cmdline"])
        if p.info["name"] == "haproxy" and p.info["uids"] and p.info["uids"].real == me
    }
    ours = [
        p
        for p in before.values()
        if os.environ.get("RAY_SERVE_HAPROXY_CONFIG_FILE_LOC", "-") in (p.info["cmdline"] or [])
    ]
    serve.shutdown()
    for process in ours:
        if process.is_running():
            process.terminate()


def until_signal() -> None:
    """Block until SIGINT or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(1.0):
        pass


def with_local_resources(settings: ServiceSettings) -> ServiceSettings:
    """Engines reachable from this machine alone, sharing its cores equally unless told otherwise."""
    if not settings.transport.host:
        transport = settings.transport.model_copy(update={"host": "127.0.0.1"})
        settings = settings.model_copy(update={"transport": transport})
    if not on_cpu():
        return settings
    replicas = sum(m.replicas for m in settings.models)
    share = float(max(1, (os.cpu_count() or 1) // replicas))
    models = tuple(
        m
        if m.resources.num_cpus is not None
        else m.model_copy(
            update={"resources": m.resources.model_copy(update={"num_cpus": share})}
        )
        for m in settings.models
    )
    return settings.model_copy(update={"models": models})


def wanted_cpus(settings: ServiceSettings) -> int:
    engines = sum(m.replicas * (m.resources.num_cpus or 1.0) for m in settings.models)
    return int(engines + settings.router.replicas * settings.router.num_cpus) + 1


def check_port(settings: ServiceSettings) -> None:
    import socket

    http = settings.http
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((http.host, http.port))
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {http.host}:{http.port} ({error.strerror}): stop what runs "
                "there or choose another with --port"
            ) from error


def why() -> str:
    """What Serve says went wrong, in the one line of each traceback that tells it."""
    from ray import serve

    reasons = []
    for application in serve.status().applications.values():
        for name, deployment in application.deployments.items():
            lines = [line.strip() for line in deployment.message.splitlines() if line.strip()]
            errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exceeded)\b", line)]
            if errors or deployment.status == "DEPLOY_FAILED":
                reasons.append(f"{name}: {(errors or lines or ['no reason given'])[-1]}")
    return "; ".join(reasons) or "see the logs under /tmp/ray/session_latest/logs/serve"
