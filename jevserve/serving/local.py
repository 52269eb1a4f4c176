"""A whole service on this machine: start Ray and Serve, wait until ready, drain on a signal."""

from __future__ import annotations

import logging
import math
import os
import re
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jevserve.engine.environment import on_cpu
from jevserve.errors import SettingsError
from jevserve.serving import guard
from jevserve.serving.environment import free_ports, local_environment, try_bind
from jevserve.settings import ModelSettings, ServiceSettings
from jevserve.transport.secret import SECRET_FILE_VARIABLE, SECRET_VARIABLE

log = logging.getLogger("jevserve.serving")

#: Seconds in which every accepted decision must have been answered after a signal.
DRAIN_S = 30.0

#: Seconds that HAProxy gets to end by itself; idle client connections may hold it up.
PROXY_STOP_S = 3.0

#: Seconds from "deployed" to an answer at the public port.
ANSWERING_S = 30.0

#: Longest row of a CPU engine that was not told otherwise: a longer one takes minutes there, and
#: would have to fit into its cache.
CPU_ROW_TOKENS = 8_192

#: The container's share of the cores ("max" is no number), where there is one (cgroup v2).
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")

#: The calling process has no loop for Serve's routers to run on; workers do.
WORKERS_ONLY = ("RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP",)


@contextmanager
def local_service(settings: ServiceSettings, say: Callable[[str], None]) -> Iterator[None]:
    """Run the service for the duration of the ``with`` block; leaving it drains and stops.

    Raises:
        SettingsError: the port is taken, or Serve could not deploy; the reason is told.
        Stopped: a signal came first; what had been started has been stopped.
    """
    check_port(settings)
    settings = with_local_resources(settings)
    run_dir = Path(tempfile.mkdtemp(prefix="jevserve-"))
    end_of_run = guard.start(run_dir)
    heed_signals()
    environment = local_environment(run_dir)
    for name, value in environment.items():
        if name not in WORKERS_ONLY:
            os.environ.setdefault(name, value)
    if not os.environ.get(SECRET_VARIABLE) and not os.environ.get(SECRET_FILE_VARIABLE):
        # Every process of this service is a child of this one and inherits it.
        os.environ[SECRET_VARIABLE] = secrets.token_hex(32)
    # Ray reads the environment when it is imported.
    import ray
    from ray import serve

    from jevserve.serving.application import APPLICATION, build

    # Its progress is told in our own words.
    logging.getLogger("ray.serve").setLevel(logging.WARNING)

    for name in WORKERS_ONLY:
        os.environ.setdefault(name, environment[name])
    try:
        say("starting Ray")
        start_ray(settings)
        say("starting Ray Serve")
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": settings.http.host, "port": settings.http.port},
            logging_config={"log_level": "WARNING", "enable_access_log": False},
        )
        names = ", ".join(m.name for m in settings.models)
        say(f"loading {names}")
        try:
            serve.run(build(settings.model_dump(mode="json")), name=APPLICATION, route_prefix="/")
        except RuntimeError as error:
            raise SettingsError(f"the service could not start: {why()}") from error
        wait_until_answering(settings)
        with suppress(Stopped):
            yield
        say("answering what is in flight")
        drain(APPLICATION)
    finally:
        # Stopping is not interrupted: a second signal would leave half of it behind.
        heed_signals(ignore=True)
        say("stopping")
        if ray.is_initialized():
            stop_serve()
            ray.shutdown()
        end_of_run.communicate()


def start_ray(settings: ServiceSettings) -> None:
    """A Ray of this service alone, on this machine."""
    import ray

    try:
        ray.init(
            # Never a cluster that happens to run here: this service has its own settings of Ray.
            address="local",
            num_cpus=max(usable_cores(), wanted_cpus(settings)),
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=bool(os.environ.get("JEVSERVE_WORKER_LOGS")),
            object_store_memory=100 * 2**20,
            _metrics_export_port=free_ports(1)[0],
        )
    except SystemExit as stopped:  # its own handler of SIGTERM
        raise Stopped(signal.SIGTERM) from stopped
    finally:
        heed_signals()


def drain(application: str) -> None:
    """Have every router refuse new decisions and answer the accepted ones."""
    from ray import serve

    try:
        serve.get_app_handle(application).broadcast("drain").results(timeout_s=DRAIN_S)
    except Exception:
        log.exception("draining failed; stopping all the same")


def stop_serve() -> None:
    """Stop Serve, HAProxy first: it finishes what it relays, and Serve might leave it behind."""
    import psutil
    from ray import serve

    config = os.environ["RAY_SERVE_HAPROXY_CONFIG_FILE_LOC"]
    ours = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "haproxy" and config in (process.info["cmdline"] or [])
    ]
    for process in ours:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGUSR1)  # HAProxy's soft stop
    _, left = psutil.wait_procs(ours, timeout=PROXY_STOP_S)
    serve.shutdown()
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()


def wait_until_answering(settings: ServiceSettings) -> None:
    """Return once every model is ready at the public port, where HAProxy comes last."""
    import httpx

    url = f"http://{reachable(settings.http.host)}:{settings.http.port}/readyz"
    until = time.monotonic() + ANSWERING_S
    said = "no answer"
    while time.monotonic() < until:
        try:
            # This machine is asked, whatever proxy the environment names.
            response = httpx.get(url, timeout=2.0, trust_env=False)
            said = response.text[:500]
            if response.status_code == 200 and all_ready(response.json()["details"]):
                return
        except httpx.HTTPError as error:
            said = str(error)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # something else answers there; it is told below
        time.sleep(0.1)
    raise SettingsError(f"the service started but {url} is not ready: {said}")


def all_ready(details: dict[str, str]) -> bool:
    """Whether every model of a readiness page has a replica that answers."""
    return not any(detail.startswith("0 of ") for detail in details.values())


def reachable(host: str) -> str:
    """An address at which a listener on ``host`` answers this machine, as a URL has it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


class Stopped(BaseException):
    """SIGINT or SIGTERM; no ``Exception``, so that nothing on the way takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def heed_signals(ignore: bool = False) -> None:
    """Have SIGINT and SIGTERM raise ``Stopped`` in the main thread, or do nothing."""

    def stop(number: int, _: object) -> None:
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if ignore else stop)


def until_signal() -> None:
    """Block until ``Stopped`` is raised."""
    while True:
        time.sleep(1.0)


def with_local_resources(settings: ServiceSettings) -> ServiceSettings:
    """Engines reachable from here alone that share the cores equally, unless told otherwise."""
    if "host" not in settings.metrics.model_fields_set:
        metrics = settings.metrics.model_copy(update={"host": "127.0.0.1"})
        settings = settings.model_copy(update={"metrics": metrics})
    if not settings.transport.host:
        transport = settings.transport.model_copy(update={"host": "127.0.0.1"})
        settings = settings.model_copy(update={"transport": transport})
    if not on_cpu():
        return settings
    replicas = sum(m.replicas for m in settings.models)
    share = float(max(1, usable_cores() // replicas))
    models = tuple(with_cpu_defaults(m, share) for m in settings.models)
    return settings.model_copy(update={"models": models})


def with_cpu_defaults(model: ModelSettings, share: float) -> ModelSettings:
    """The model with what a CPU can do, where nothing is set: a share of the cores, short rows."""
    update: dict[str, object] = {}
    if model.resources.num_cpus is None:
        update["resources"] = model.resources.model_copy(update={"num_cpus": share})
    if "max_model_len" not in model.model_fields_set:
        update["max_model_len"] = CPU_ROW_TOKENS
    return model.model_copy(update=update)


def usable_cores() -> int:
    """Cores that this process may run on, within the container's quota where one is set."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = CPU_QUOTA.read_text().split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return cores


def wanted_cpus(settings: ServiceSettings) -> int:
    engines = sum(m.replicas * (m.resources.num_cpus or 1.0) for m in settings.models)
    return int(engines + settings.router.replicas * settings.router.num_cpus) + 1


def check_port(settings: ServiceSettings) -> None:
    """Raises SettingsError where the HTTP address cannot be listened on."""
    http = settings.http
    error = try_bind(http.host, http.port)
    if error is not None:
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
            errors = [
                line for line in lines if re.match(r"[\w.]*(Error|Exception|Exceeded)\b", line)
            ]
            if errors or deployment.status == "DEPLOY_FAILED":
                reasons.append(f"{name}: {(errors or lines or ['no reason given'])[-1]}")
    return "; ".join(reasons) or "see the logs under /tmp/ray/session_latest/logs/serve"
