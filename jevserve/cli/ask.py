"""``jevserve ask``: one question to a running service, from the shell."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from jevserve.cli.console import output
from jevserve.client import Client


def ask(
    question: Annotated[str, typer.Argument(help="What to ask about the state.")],
    state: Annotated[
        str, typer.Option("--state", "-s", help="The state; '-' reads standard input.")
    ] = "-",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option, NAME or NAME=DESCRIPTION; repeat it."),
    ] = None,
    level: Annotated[
        list[str] | None, typer.Option("--level", "-l", help="A level, lowest first; repeat it.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask.")] = None,
    url: Annotated[
        str, typer.Option(envvar="JEVSERVE_URL", help="Address of the service.")
    ] = "http://127.0.0.1:8795",
    key: Annotated[
        str | None, typer.Option(envvar="JEVSERVE_API_KEY", help="API key.", show_envvar=True)
    ] = None,
) -> None:
    """Ask one question: a choice with --option, a score with --level, else yes or no."""
    if option and level:
        raise typer.BadParameter("give --option for a choice or --level for a score, not both")
    body: dict[str, object] = {"type": "noul", "instructions": question}
    if option:
        pairs = [o.partition("=") for o in option]
        body = body | {"type": "choice", "criteria": {n: d or None for n, _, d in pairs}}
    elif level:
        body = body | {"type": "score", "criteria": level}
    text = sys.stdin.read() if state == "-" else state
    with Client(url, api_key=key) as client:
        answer = client.decide(text, {"answer": body}, model=model)["answers"]["answer"]
    output.print_json(json.dumps(answer))
