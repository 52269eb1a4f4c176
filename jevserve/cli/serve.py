"""``jevserve serve``: a service on this machine, or the configuration a cluster would get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from jevserve.checkpoints.prepare import prepare
from jevserve.cli.console import ShownProgress, errors
from jevserve.settings import EMBEDDED_MODEL, ServiceSettings, load

EXAMPLE = {
    "state": "My card was charged twice for one order. Please fix this today!",
    "questions": {
        "team": {
            "type": "choice",
            "criteria": {"billing": "payments, refunds", "delivery": "parcels", "login": None},
        }
    },
}


def serve(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|CONFIG]",
            help="An embedded model, a folder, a hub id, or a YAML file of settings.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default 8795).")] = None,
    name: Annotated[str | None, typer.Option(help="Name to serve the model under.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Engine replicas of the model.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Adapter to use where detection cannot decide.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="YAML file of API keys; without it anybody may ask.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of prepared checkpoints.")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print what a cluster would get, start nothing.")
    ] = False,
) -> None:
    """Serve decisions over HTTP.

    Every setting can come from a file, from the environment (JEVSERVE_HTTP__PORT=9000) or from a
    flag; the later one wins. Without arguments the embedded default model is served.
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
    settings = load(Path(what) if what and is_file else None, flags)
    if print_config:
        from jevserve.serving.application import cluster_config

        typer.echo(yaml.safe_dump(cluster_config(settings), sort_keys=False), nl=False)
        return
    run(settings)


def run(settings: ServiceSettings) -> None:
    """Prepare, start, serve until a signal, drain, stop."""
    from jevserve.serving.local import local_service, reachable, until_signal

    with ShownProgress() as progress:
        for model in settings.models:
            prepare(model.source, cache=settings.cache, protocol=model.protocol, progress=progress)

    def say(what: str) -> None:
        errors.print(f"[dim]jevserve:[/] {what} …", highlight=False)

    with local_service(settings, say):
        url = (
            f"http://{reachable(settings.http.host)}:{settings.http.port}{settings.http.root_path}"
        )
        errors.print(
            f"[bold green]ready[/] at {url}  (documentation: {url}/docs, stop: Ctrl-C)\n"
            f"  curl -s {url}/v1/systemone -H 'content-type: application/json' \\\n"
            f"    -d '{json.dumps(EXAMPLE)}'",
            highlight=False,
            soft_wrap=True,
        )
        until_signal()
