"""``jevserve decide``: ask a running service from the shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from jevserve.cli.bars import Canvas, drawn
from jevserve.cli.console import output
from jevserve.client import DEFAULT_URL, Client, choice, noul, score
from jevserve.errors import SettingsError

#: As much as a service reads.
MAX_BYTES = 32 << 20

EXAMPLE = (
    'Example: jevserve decide "Which team?" --state "My parcel is late." '
    "-o billing=payments -o delivery=parcels"
)

#: The id of the question that is given by arguments.
ID = "answer"


def decide(
    question: Annotated[
        str | None, typer.Argument(help="What to ask about the state, in words.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", "-s", help="The state; '-', or a pipe, reads standard input."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option, NAME or NAME=DESCRIPTION; repeat it."),
    ] = None,
    level: Annotated[
        list[str] | None, typer.Option("--level", "-l", help="A level, lowest first; repeat it.")
    ] = None,
    yes: Annotated[str | None, typer.Option(help="What yes means.")] = None,
    no: Annotated[str | None, typer.Option(help="What no means.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", help="JSON file of a request or of one question; '-' for stdin."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask.")] = None,
    url: Annotated[
        str, typer.Option(envvar="JEVSERVE_URL", help="Address of the service.")
    ] = DEFAULT_URL,
    key: Annotated[str | None, typer.Option(envvar="JEVSERVE_API_KEY", help="API key.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer's JSON.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every option, of however many.")
    ] = False,
) -> None:
    """Ask a running service; shows a bar for every probability.

    One question by arguments: a choice with --option, a score with --level, else yes or no. Or a
    whole request from a file, as the API has it; the file may leave the state to --state.
    """
    by_arguments = bool(question or option or level or yes or no)
    if by_arguments == (file is not None):
        raise typer.BadParameter(
            "ask by arguments or by --file, one of them: "
            'jevserve decide "Is it late?" --state "My parcel has not arrived."'
        )
    body = read_request(file) if file is not None else {}
    questions = body.pop("questions") if file else {ID: asked(question, option, level, yes, no)}
    if state is not None or "state" not in body:
        body["state"] = read_state(state, stdin_taken=file == "-")
    if model is not None:
        body["model"] = model
    with Client(url, api_key=key, timeout_s=timeout) as client:
        decision = client.decide(questions=questions, **body)
    if as_json:
        typer.echo(json.dumps(decision.raw, ensure_ascii=False, indent=2))
        return
    names = {id: (question or id) if by_arguments else id for id in questions}
    canvas = Canvas(output.width, output.encoding.startswith("utf"))
    for text in drawn(decision, names, canvas, everything):
        output.print(text, no_wrap=True, highlight=False, overflow="ignore", crop=False)


def asked(
    question: str | None,
    options: list[str] | None,
    levels: list[str] | None,
    yes: str | None,
    no: str | None,
) -> dict[str, Any]:
    """The question of the command's arguments."""
    kinds = [
        name
        for name, given in (("--option", options), ("--level", levels), ("--yes/--no", yes or no))
        if given
    ]
    if len(kinds) > 1:
        raise typer.BadParameter(f"{' and '.join(kinds)} are of different kinds of question")
    if options:
        pairs = [o.partition("=") for o in options]
        names = [name for name, _, _ in pairs]
        if len(set(names)) != len(names):
            raise typer.BadParameter("an --option is named twice; names must differ")
        return choice({name: text or None for name, _, text in pairs}, question)
    if levels:
        return score(levels, question)
    return noul(question, true=yes, false=no)


def read_request(file: str) -> dict[str, Any]:
    """The request in a JSON file; a question alone becomes the only one.

    Raises:
        SettingsError: it cannot be read, or is neither.
    """
    name = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read(MAX_BYTES + 1) if file == "-" else read_text(Path(file))
        body = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"cannot read {name}: {error}") from error
    if isinstance(body, dict) and isinstance(body.get("questions"), dict):
        return body
    if isinstance(body, dict) and "type" in body:
        return {"questions": {ID: body}}
    raise SettingsError(
        f'{name} is neither a request (an object with "questions", an object too) '
        'nor a question (an object with "type")'
    )


def read_state(given: str | None, stdin_taken: bool) -> str:
    """The state of ``--state``, else of a pipe.

    Raises:
        SettingsError: what comes through the pipe is no text.
    """
    text = given
    if given in (None, "-"):
        if stdin_taken or (given is None and sys.stdin.isatty()):
            raise typer.BadParameter('give the state: --state "…", or through a pipe')
        try:
            text = sys.stdin.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read the state from standard input: {error}") from error
    if not text or not text.strip():
        raise typer.BadParameter("the state is empty; there is nothing to ask about")
    return text


def read_text(path: Path) -> str:
    with path.open(encoding="utf-8") as stream:
        return stream.read(MAX_BYTES + 1)
