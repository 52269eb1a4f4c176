"""``jevserve``: entry point and error handling."""

from __future__ import annotations

import sys

import typer
from rich.markup import escape

from jevserve import __version__
from jevserve.cli import ask, models, serve
from jevserve.cli.console import errors
from jevserve.errors import JevserveError

app = typer.Typer(
    name="jevserve",
    help="Typed decisions with calibrated probabilities, served at POST /v1/systemone.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve")(serve.serve)
app.command("ask")(ask.ask)
app.add_typer(models.app, name="models")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line; an error a user can cause is one line and exit code 2."""
    try:
        app()
    except JevserveError as error:
        # Messages quote paths and files: never markup, and one line whatever they hold.
        message = escape(" ".join(error.message.split()))
        errors.print(f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True)
        sys.exit(2)
