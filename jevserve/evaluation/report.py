"""An evaluation as a table, as JSON, and as a page with pictures."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from jevserve.evaluation import plots
from jevserve.evaluation.asking import Outcome
from jevserve.evaluation.figures import SetFigures
from jevserve.evaluation.generated import Labelled

COLUMNS = ("set", "n", "accuracy", "chance", "ECE", "ECE at T", "T", "Brier", "flips")


def rows(sets: Mapping[str, SetFigures]) -> Iterator[tuple[str, ...]]:
    """The cells of ``COLUMNS``; a set that was refused whole says so."""
    for name, found in sets.items():
        m, held = found.measurement, found.held_out
        if m is None or found.interval is None:
            yield (name, "0", "refused", *["–"] * 6)
            continue
        low, high = found.interval
        yield (
            name,
            str(m.n),
            f"{m.accuracy:.3f} ({low:.2f}–{high:.2f})",
            f"{m.majority:.2f}",
            f"{(held or m).ece:.3f}",
            f"{held.ece_fitted:.3f}" if held else "–",
            f"{held.temperature:.2f}" if held else "–",
            f"{m.brier:.3f}",
            f"{found.steadiness.flipped:.3f}" if found.steadiness else "–",
        )


def table(sets: Mapping[str, SetFigures]) -> Table:
    """For a terminal of 80 columns."""
    made = Table(*COLUMNS, box=SIMPLE, padding=(0, 0), pad_edge=False, collapse_padding=True)
    for row in rows(sets):
        made.add_row(*row)
    return made


def notes(sets: Mapping[str, SetFigures]) -> Iterator[str]:
    """What the table has no room for."""
    for name, found in sets.items():
        for said, count in found.refused.items():
            yield f"{name}: {count} refused: {said}"
        if found.ordinal:
            yield (
                f"{name}: expected level {found.ordinal.mean_error:.2f} off on average, "
                f"{found.ordinal.within_one:.0%} within one level"
            )
    speeds = [found.speed for found in sets.values() if found.speed]
    if speeds:
        inside = np.median([s.service_p50_ms for s in speeds])
        yield (
            f"median {np.median([s.p50_ms for s in speeds]):.0f} ms a decision as the client saw it"
            + (f", {inside:.0f} ms in the service" if inside else "")
        )
        yield f"99 % of the slowest set's within {max(s.p99_ms for s in speeds):.0f} ms"


def document(
    sets: Mapping[str, SetFigures], settings: Mapping[str, Any], complete: bool
) -> dict[str, Any]:
    """Everything, for machines."""
    return {
        "complete": complete,
        "settings": dict(settings),
        "versions": {"jevserve": version("jevserve"), "python": platform.python_version()},
        "sets": {name: asdict(found) for name, found in sets.items()},
    }


def page(
    sets: Mapping[str, SetFigures],
    settings: Mapping[str, Any],
    complete: bool,
    pictures: Mapping[str, str],
) -> str:
    """The same as Markdown; ``pictures`` are file names by set, and "" for the overview."""
    text = f"# Evaluation of {settings['model']}\n\n"
    if not complete:
        text += "**Interrupted**: what was answered until then. Run it again to go on.\n\n"
    said = [f"{k} {v}" for k, v in settings.items() if k not in ("model", "url") and v is not None]
    text += ", ".join(said) + ".\n\n"
    text += "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n"
    text += "".join("| " + " | ".join(row) + " |\n" for row in rows(sets)) + "\n"
    text += "".join(f"- {note}\n" for note in notes(sets)) + "\n"
    text += (
        "ECE is of the odd items, as served and at the temperature T that was fitted on the even "
        "ones; with too few to fit one, of all items. Flips: share of choices whose answer "
        "changed when their options came in another order.\n"
    )
    for name, file in pictures.items():
        text += f"\n![{name or 'accuracy of every set'}]({file})\n"
    return text


def draw(
    folder: Path,
    sets: Mapping[str, SetFigures],
    data: Mapping[str, Sequence[Labelled]],
    outcomes: Sequence[Outcome],
) -> dict[str, str]:
    """Write all pictures into ``folder``; their names by set.

    Raises:
        SettingsError: matplotlib is not installed.
    """
    pictures = {}
    if any(found.measurement for found in sets.values()):
        pictures[""] = "overview.png"
        plots.overview(folder / "overview.png", sets)
    for name, found in sets.items():
        answered = sorted(
            (o for o in outcomes if o.set == name and not o.order and o.probabilities is not None),
            key=lambda o: o.number,
        )
        if not answered:
            continue
        file = re.sub(r"[^\w.-]", "-", name)[:80] + ".png"
        pictures[name] = file
        vectors = [np.asarray(o.probabilities) for o in answered]
        truth = [data[name][o.number].truth for o in answered]
        shown = len(vectors) // 2 if found.held_out else len(vectors)
        title = f"{name}: {shown} of {len(vectors)} decisions"
        plots.reliability(folder / file, title, vectors, truth, found.held_out)
    return pictures
