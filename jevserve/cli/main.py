"""``jevserve``: entry point and error handling."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape

from jevserve import __version__
from jevserve.cli import decide, doctor, evaluate, models, serve
from jevserve.cli.console import errors
from jevserve.errors import JevserveError

app = typer.Typer(
    name="jevserve",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve")(serve.serve)
app.command("decide", epilog=decide.EXAMPLE)(decide.decide)
app.command("doctor")(doctor.doctor)
app.command("eval")(evaluate.evaluate)
app.add_typer(models.app, name="models")


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Typed questions about a text, answered with a probability for every candidate."""


def main() -> None:
    """Run the command line; an error a user can cause is one line and exit code 2."""
    try:
        app()
    except JevserveError as error:
        # Messages quote paths and files: never markup, and one line whatever they hold.
        message = escape(" ".join(error.message.split()))
        errors.print(f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True)
        sys.exit(2)
