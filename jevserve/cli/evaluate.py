"""``jevserve eval``: how right, how honest, how steady and how fast a running service is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from jevserve.cli.console import errors, output
from jevserve.client import DEFAULT_URL, AsyncClient, Client, ServiceError
from jevserve.client.call import shown
from jevserve.errors import SettingsError
from jevserve.evaluation.asking import Asked, Ledger, Outcome, ask_all, digest, with_shuffles
from jevserve.evaluation.figures import figures
from jevserve.evaluation.generated import Labelled
from jevserve.evaluation.own_data import read_decisions
from jevserve.evaluation.pack import named, read_pack
from jevserve.evaluation.plots import pyplot
from jevserve.evaluation.report import document, draw, notes, page, table

#: A busy service is waited for, within the time of a decision.
RETRIES = 8


def evaluate(
    data: Annotated[
        list[Path] | None,
        typer.Argument(help="JSONL files of labelled decisions; without any, the built-in pack."),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Only this set; repeat it.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Decisions of each set.")] = None,
    orders: Annotated[
        int, typer.Option(min=0, max=20, help="Other orders in which each choice is asked again.")
    ] = 1,
    options: Annotated[
        str, typer.Option(help="The pack's options: named by their text, or described.")
    ] = "named",
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.json, report.md and the plots.")
    ] = None,
    plots: Annotated[bool, typer.Option(help="Draw reliability plots into --out.")] = True,
    model: Annotated[str | None, typer.Option(help="Model to ask.")] = None,
    url: Annotated[
        str, typer.Option(envvar="JEVSERVE_URL", help="Address of the service.")
    ] = DEFAULT_URL,
    key: Annotated[str | None, typer.Option(envvar="JEVSERVE_API_KEY", help="API key.")] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, help="Decisions in flight at once.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="Of samples and orders.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for one decision.")] = 60.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a table.")
    ] = False,
) -> None:
    """Measure a running service: accuracy, calibration, order, latency.

    With --out, an interrupted evaluation goes on where it stopped.

    Exit code 0: measured; 1: no decision of some set was answered; 2: wrong usage, or a service
    that cannot be asked.
    """
    if options not in ("named", "described"):
        raise typer.BadParameter("--options is named or described")
    chosen = chosen_sets(data or [], options, sets or [], limit, seed)
    if out is not None:
        prepare_folder(out, plots)
    settings = {
        "model": model or "the service's default",
        "url": shown(url),
        "data": digest(item for items in chosen.values() for item in items),
        "limit": limit,
        "options": None if data else options,
        "orders": orders,
        "seed": seed,
        "concurrency": concurrency,
    }
    with Client(url, api_key=key, timeout_s=timeout) as client:
        served = client.models()
    known = [{k: m.get(k) for k in ("name", "x_model", "x_revision")} for m in served]
    key_of_run = settings | {"concurrency": None, "served": known}
    ledger = Ledger(out / "ledger.jsonl" if out else None, key_of_run)
    if ledger.known:
        errors.print(f"{len(ledger.known)} answers are taken from {out}/ledger.jsonl")
    asked = with_shuffles(
        [Asked(item, n) for items in chosen.values() for n, item in enumerate(items)], orders, seed
    )
    stopped = ask_with_progress(asked, ledger, url, key, timeout, model, seed, concurrency)
    outcomes = list(ledger.known.values())
    if isinstance(stopped, ServiceError) and not outcomes:
        raise stopped
    found = {
        name: figures(items, [o for o in outcomes if o.set == name], seed)
        for name, items in chosen.items()
    }
    answered = sorted({o.model for o in outcomes if o.model})
    settings["model"] = ", ".join(answered) or settings["model"]
    complete = stopped is None
    result = document(found, settings, complete)
    if out is not None:
        pictures = draw(out, found, chosen, outcomes) if plots else {}
        write(out, result, page(found, settings, complete, pictures))
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        output.print(table(found))
        for note in notes(found):
            output.print(note, highlight=False, markup=False)
    if not complete:
        errors.print("interrupted; these figures are of what was answered until then")
    if isinstance(stopped, ServiceError):
        raise stopped
    if stopped:
        raise typer.Exit(130)
    if any(f.refused for f in found.values()):
        errors.print("some decisions were refused; the figures leave them out")
    if any(f.measurement is None for f in found.values()):
        raise typer.Exit(1)


def prepare_folder(folder: Path, plots: bool) -> None:
    """Whatever could keep the report from being written, before hours of asking.

    Raises:
        SettingsError: the folder cannot be written to, or plots cannot be drawn.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--out {folder}: {error.strerror}") from error
    if plots:
        pyplot()


def chosen_sets(
    data: Sequence[Path], options: str, names: Sequence[str], limit: int | None, seed: int
) -> dict[str, list[Labelled]]:
    """The decisions to ask, by set.

    Raises:
        SettingsError: no data, or no such set.
    """
    known = read_decisions(data) if data else read_pack()
    missing = set(names) - known.keys()
    if missing:
        raise SettingsError(f"no set {', '.join(sorted(missing))}; there are {', '.join(known)}")
    chosen = {name: items for name, items in known.items() if not names or name in names}
    if not data and options == "named":
        chosen = {name: [named(item) for item in items] for name, items in chosen.items()}
    if limit is not None:
        chosen = {
            name: Random(f"{seed}/{name}").sample(items, min(limit, len(items)))
            for name, items in chosen.items()
        }
    return chosen


def ask_with_progress(
    asked: list[Asked],
    ledger: Ledger,
    url: str,
    key: str | None,
    timeout: float,
    model: str | None,
    seed: int,
    concurrency: int,
) -> KeyboardInterrupt | ServiceError | None:
    """What kept the rest from being asked, if anything did."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        known = sum((a.item.set, a.number, a.order) in ledger.known for a in asked)
        task = bar.add_task("asking", total=len(asked), completed=known)

        def told(outcome: Outcome) -> None:
            bar.advance(task)
            done = int(bar.tasks[task].completed)
            if not errors.is_terminal and len(asked) >= 100 and done % (len(asked) // 10) == 0:
                errors.print(f"asked {done} of {len(asked)}")

        async def run() -> None:
            async with AsyncClient(url, api_key=key, timeout_s=timeout, retries=RETRIES) as client:
                await ask_all(
                    client, asked, ledger, model=model, seed=seed, concurrency=concurrency,
                    told=told,
                )  # fmt: skip

        try:
            asyncio.run(run())
        except (KeyboardInterrupt, ServiceError) as stopped:
            return stopped
    return None


def write(folder: Path, result: Mapping[str, Any], text: str) -> None:
    (folder / "report.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(text, encoding="utf-8")
    errors.print(f"{folder / 'report.md'} and report.json are written", soft_wrap=True)
