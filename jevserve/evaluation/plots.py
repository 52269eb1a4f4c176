"""Pictures of an evaluation. Needs matplotlib, the extra ``eval``."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jevserve.decisions.combine import Vector
from jevserve.errors import SettingsError
from jevserve.evaluation.figures import HeldOut, SetFigures, tempered
from jevserve.evaluation.metrics import ECE_BINS

#: Told apart by people with any colour vision, and in grey (Okabe and Ito, 2008).
RAW, FITTED, QUIET = "#0072B2", "#D55E00", "#999999"

DPI = 110


def pyplot() -> Any:
    """matplotlib without a screen.

    Raises:
        SettingsError: it is not installed.
    """
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise SettingsError(
            "plots need matplotlib: pip install 'jevserve[eval]', or leave them out with --no-plots"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plots

    return plots


def reliability(
    file: Path,
    title: str,
    vectors: Sequence[Vector],
    truth: Sequence[int],
    held_out: HeldOut | None,
) -> None:
    """How often the most probable candidate is right, by its probability; counts below."""
    plots = pyplot()
    figure, (upper, lower) = plots.subplots(
        2, 1, figsize=(4.6, 5.2), sharex=True, height_ratios=(4, 1), layout="constrained"
    )
    upper.plot((0, 1), (0, 1), color=QUIET, lw=1, ls="--", label="as it should be")
    name = "as served" if held_out is None else f"as served, ECE {held_out.ece:.3f}"
    odd = slice(1, None, 2) if held_out is not None else slice(None)
    curve(upper, vectors[odd], truth[odd], RAW, "o", name)
    if held_out is not None:
        fitted = [tempered(v, held_out.temperature) for v in vectors[odd]]
        name = f"at T = {held_out.temperature:.2f}, ECE {held_out.ece_fitted:.3f}"
        curve(upper, fitted, truth[odd], FITTED, "s", name)
    upper.set(ylim=(0, 1.02), ylabel="share of right answers", title=title)
    upper.legend(loc="upper left", fontsize=8, frameon=False)
    tops = [v.max() for v in vectors[odd]]
    lower.hist(tops, bins=np.linspace(0, 1, ECE_BINS + 1), color=RAW, rwidth=0.9)
    lower.set(xlim=(0, 1), xlabel="probability of the answer", ylabel="decisions")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    save(plots, figure, file)


def curve(
    axes: Any, vectors: Sequence[Vector], truth: Sequence[int], colour: str, mark: str, name: str
) -> None:
    top = np.array([v.max() for v in vectors])
    right = np.array([v.argmax() == y for v, y in zip(vectors, truth, strict=True)])
    bins = np.minimum((top * ECE_BINS).astype(int), ECE_BINS - 1)
    used = np.unique(bins)
    means = [top[bins == b].mean() for b in used]
    shares = [right[bins == b].mean() for b in used]
    sizes = [20 + 160 * float(np.mean(bins == b)) for b in used]
    axes.plot(means, shares, color=colour, lw=1)
    axes.scatter(means, shares, s=sizes, color=colour, marker=mark, label=name, zorder=3)


def overview(file: Path, sets: Mapping[str, SetFigures]) -> None:
    """Accuracy of every set with its 95 % interval, beside always giving the commonest answer."""
    plots = pyplot()
    known = {name: s for name, s in sets.items() if s.measurement is not None}
    figure, axes = plots.subplots(figsize=(6.4, 1.2 + 0.32 * len(known)), layout="constrained")
    for row, found in enumerate(reversed(known.values())):
        assert found.measurement is not None and found.interval is not None
        m = found.measurement
        axes.plot(found.interval, (row, row), color=RAW, lw=2)
        axes.plot(m.accuracy, row, "o", color=RAW, label="" if row else "accuracy, 95 % interval")
        axes.plot(
            m.majority, row, "|", color=FITTED, ms=14, mew=2,
            label="" if row else "commonest answer, or chance",
        )  # fmt: skip
        axes.text(1.02, row, f"{m.accuracy:.2f}  n={m.n}", va="center", fontsize=8)
        axes.axhline(row, color=QUIET, lw=0.3, zorder=0)
    axes.set(xlim=(0, 1), xlabel="share of right answers", ylim=(-0.7, len(known) - 0.3))
    axes.set_yticks(range(len(known)), list(reversed(known)))
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=2, fontsize=8, frameon=False)
    save(plots, figure, file)


def save(plots: Any, figure: Any, file: Path) -> None:
    from PIL import Image  # matplotlib needs it, too

    file.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    # Without the date and version that would make equal figures differ.
    figure.savefig(drawn, dpi=DPI, metadata={"Software": None})
    plots.close(figure)
    # A palette is enough for lines and text, and a fourth of the size.
    Image.open(drawn).convert("RGB").quantize(64).save(file, optimize=True)
