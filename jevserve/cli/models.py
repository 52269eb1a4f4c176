"""``jevserve models``: prepare, inspect and list checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from jevserve.adapters.registry import adapters
from jevserve.checkpoints.embedded import EMBEDDED
from jevserve.checkpoints.prepare import prepare as prepare_checkpoint
from jevserve.checkpoints.prepare import prepared_checkpoints
from jevserve.checkpoints.probe import inspect as inspect_folder
from jevserve.checkpoints.source import resolve
from jevserve.cli.console import ShownProgress, output
from jevserve.errors import CheckpointError

app = typer.Typer(help="Prepare, inspect and list checkpoints.", no_args_is_help=True)


@app.command()
def prepare(
    name: Annotated[
        str, typer.Argument(help="An embedded model, a folder, ORG/NAME or ORG/NAME@REVISION.")
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
def inspect(
    name: Annotated[
        str, typer.Argument(help="A folder, an embedded model, ORG/NAME or ORG/NAME@REVISION.")
    ],
    cache: Annotated[Path | None, typer.Option(help="Folder of prepared checkpoints.")] = None,
) -> None:
    """Say which family a checkpoint is of and why, or why it cannot be served; fetches nothing."""
    source = resolve(name)
    if source.folder is None:
        known = [m for m in prepared_checkpoints(cache) if m.source == source.repository]
        if not known:
            raise CheckpointError(
                f"{name} has not been fetched to this machine: jevserve models prepare {name}"
            )
        paths = [m.path for m in known]
    else:
        paths = [Path(name)]
    found = [inspect_folder(path) for path in paths]
    for inspection in found:
        verdict = f"protocol {inspection.protocol}" if inspection.protocol else "cannot be served"
        lines = [f"{inspection.path}: {verdict}", f"  {inspection.reason}"]
        lines += [f"  {m.protocol} ({m.certainty}): {m.reason}" for m in inspection.matches]
        output.print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    if not all(inspection.protocol for inspection in found):
        raise typer.Exit(1)


@app.command("list")
def list_models(
    cache: Annotated[Path | None, typer.Option(help="Folder of prepared checkpoints.")] = None,
) -> None:
    """List the checkpoints that are ready to be served from this machine."""
    table = Table("from", "protocol", "revision", "size", box=SIMPLE)
    prepared = prepared_checkpoints(cache)
    for entry in prepared:
        size = f"{entry.size / 1e6:,.0f} MB"
        table.add_row(entry.source, entry.protocol, entry.revision[:16], size)
    if prepared:
        output.print(table)
    else:
        output.print("nothing is prepared yet")
    # Shown apart from the table, because what is named here may need the network first.
    output.print(f"embedded models, fetched when first used: {', '.join(EMBEDDED)}")


@app.command("families")
def list_families() -> None:
    """List the families of checkpoints that can be served."""
    table = Table("protocol", "family", box=SIMPLE)
    for adapter in adapters():
        table.add_row(adapter.protocol, adapter.title)
    output.print(table)
