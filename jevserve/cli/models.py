"""``jevserve models``: prepare, inspect and list checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jevserve.adapters.registry import adapters
from jevserve.checkpoints.prepare import prepare as prepare_checkpoint
from jevserve.checkpoints.probe import inspect as inspect_folder
from jevserve.cli.console import ShownProgress, output

app = typer.Typer(help="Prepare, inspect and list checkpoints.", no_args_is_help=True)


@app.command()
def prepare(
    name: Annotated[
        str, typer.Argument(help="An embedded model, a folder, or ORG/NAME[@REVISION].")
    ],
    cache: Annotated[Path | None, typer.Option(help="Folder of prepared checkpoints.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Adapter to use.")] = None,
    verify: Annotated[bool, typer.Option(help="Hash every prepared file again.")] = False,
) -> None:
    """Fetch, check and prepare a checkpoint; doing it again costs nothing."""
    with ShownProgress() as progress:
        prepared = prepare_checkpoint(
            name, cache=cache, protocol=protocol, progress=progress, verify=verify
        )
    output.print(f"{name}: protocol {prepared.protocol}, revision {prepared.revision}")
    output.print(str(prepared.path), soft_wrap=True)


@app.command()
def inspect(path: Annotated[Path, typer.Argument(help="A checkpoint folder.")]) -> None:
    """Say which family a folder is of and why, or why it cannot be served."""
    found = inspect_folder(path)
    verdict = f"protocol {found.protocol}" if found.protocol else "cannot be served"
    lines = [f"{found.path}: {verdict}", f"  {found.reason}"]
    lines += [f"  {m.protocol} ({m.certainty}): {m.reason}" for m in found.matches]
    output.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    if not found.protocol:
        raise typer.Exit(1)


@app.command("list")
def list_protocols() -> None:
    """List the checkpoint families that can be served."""
    table = Table("protocol", "family")
    for adapter in adapters():
        table.add_row(adapter.protocol, adapter.title)
    output.print(table)
