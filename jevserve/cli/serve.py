"""``jevserve serve``: a service on this machine, or the configuration a cluster would get."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from jevserve.api.paths import normal_prefix
from jevserve.checkpoints.prepare import prepare
from jevserve.cli.console import ShownProgress, ShownSteps, errors
from jevserve.client import DEFAULT_URL, choice
from jevserve.doctor.findings import Verdict
from jevserve.doctor.settings import judge_variables
from jevserve.settings import EMBEDDED_MODEL, ServiceSettings, load

#: The example that a service that is ready suggests.
STATE = "My card was charged twice for one order."
TEAMS = {"billing": "payments and refunds", "delivery": "parcels and couriers"}

What = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL|CONFIG]",
        help="An embedded model, a folder, a hub id, or a YAML file of settings.",
    ),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on (default 8795).")]
Name = Annotated[str | None, typer.Option(help="Name to serve the model under.")]
Replicas = Annotated[int | None, typer.Option(help="Engine replicas of the model.")]
Protocol = Annotated[str | None, typer.Option(help="Adapter to use where detection cannot decide.")]
Keys = Annotated[
    Path | None, typer.Option(help="YAML file of API keys; without it anybody may ask.")
]
Cache = Annotated[Path | None, typer.Option(help="Folder of prepared checkpoints.")]


def serve(
    what: What = None,
    host: Host = None,
    port: Port = None,
    name: Name = None,
    replicas: Replicas = None,
    protocol: Protocol = None,
    keys: Keys = None,
    cache: Cache = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print what a cluster would get, start nothing.")
    ] = False,
) -> None:
    """Serve decisions over HTTP.

    Every setting can come from a file, from the environment (JEVSERVE_HTTP__PORT=9000) or from a
    flag; the later one wins. Without arguments the embedded default model is served.
    """
    settings = service_settings(
        what,
        host=host,
        port=port,
        name=name,
        replicas=replicas,
        protocol=protocol,
        keys=keys,
        cache=cache,
    )
    for finding in judge_variables(os.environ):
        if finding.verdict is Verdict.WARNING:
            said = f"warning: {finding.check} {finding.seen}; {finding.remedy}"
            errors.print(said, markup=False, highlight=False, soft_wrap=True)
    if print_config:
        from jevserve.serving.application import cluster_config

        typer.echo(yaml.safe_dump(cluster_config(settings), sort_keys=False), nl=False)
        return
    run(settings)


def service_settings(
    what: str | None,
    *,
    host: str | None = None,
    port: int | None = None,
    name: str | None = None,
    replicas: int | None = None,
    protocol: str | None = None,
    keys: Path | None = None,
    cache: Path | None = None,
) -> ServiceSettings:
    """The settings that the arguments and flags of a start stand for.

    Raises:
        SettingsError: what ``settings.load`` refuses.
        typer.BadParameter: flags of one model beside a file.
    """
    is_file = what is not None and what.endswith((".yaml", ".yml"))
    http = {"host": host, "port": port, "keys_file": keys and str(keys)}
    flags: dict[str, Any] = {"http": {k: v for k, v in http.items() if v is not None}}
    if cache is not None:
        flags["cache"] = str(cache)
    about_model = {"name": name, "replicas": replicas, "protocol": protocol}
    given = {k: v for k, v in about_model.items() if v is not None}
    if is_file and given:
        raise typer.BadParameter("--name, --replicas and --protocol belong in the file's models")
    # With neither, the environment may still say which models.
    if not is_file and (what is not None or given):
        what = EMBEDDED_MODEL if what is None else what
        model = {"name": what.rstrip("/").split("/")[-1].split("@")[0], "checkpoint": what}
        flags["models"] = [model | given]
    return load(Path(what) if what and is_file else None, flags)


def run(settings: ServiceSettings) -> None:
    """Prepare, start, serve until a signal, drain, stop."""
    from jevserve.serving.local import Stopped, local_service, reachable, until_signal

    begun = time.monotonic()
    with ShownProgress() as progress:
        for model in settings.models:
            prepare(model.source, cache=settings.cache, protocol=model.protocol, progress=progress)
    http = settings.http
    url = f"http://{reachable(http.host)}:{http.port}{normal_prefix(http.root_path)}"
    steps, ready = ShownSteps(), False
    try:
        with steps, local_service(settings, steps):
            steps.pause()
            ready = True
            took = time.monotonic() - begun
            errors.print(f"[bold green]ready[/] at {url} after {took:.0f} s; Ctrl-C stops it")
            errors.print(first_steps(url, http.page), highlight=False, soft_wrap=True, markup=False)
            until_signal()
    except Stopped as stopped:
        if not ready:
            errors.print("stopped before it was ready")
        raise typer.Exit(128 + stopped.number) from None


def first_steps(url: str, page: bool) -> str:
    """What to do with a service that is ready."""
    body = {"state": STATE, "questions": {"team": choice(TEAMS)}}
    ask = [*this_command(), "decide", "Which team?", "--state", STATE]
    ask += [part for name, what in TEAMS.items() for part in ("-o", f"{name}={what}")]
    if url != DEFAULT_URL:
        ask += ["--url", url]
    lines = [f"  browser   {url}/"] if page else []
    lines += [
        f"  terminal  {shlex.join(ask)}",
        f"  HTTP      curl -s {url}/v1/systemone -H 'content-type: application/json' "
        f"-d {shlex.quote(json.dumps(body))}",
    ]
    return "\n".join(lines)


def this_command() -> list[str]:
    """The words that start this program again, from the same folder."""
    command = Path(sys.argv[0])
    if command.name == "__main__.py":
        return [sys.executable, "-m", "jevserve"]
    on_path = shutil.which(command.name) == os.path.abspath(command)
    return [command.name if on_path else sys.argv[0]]
