"""Decisions for a terminal: the answer in words, and a bar for every probability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from jevserve.client import Answer, ChoiceAnswer, Decision, NoulAnswer

#: Of a choice between many options, so many are shown unless all are asked for.
SHOWN = 20

LONGEST_BAR, LONGEST_NAME = 40, 40

_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Canvas:
    """What can be drawn on.

    Attributes:
        width: columns.
        blocks: whether block characters can be written; else bars are of ``#``.
    """

    width: int
    blocks: bool = True


def drawn(
    decision: Decision, asked: Mapping[str, str], canvas: Canvas, everything: bool = False
) -> Iterator[Text]:
    """Lines that show a decision.

    Args:
        asked: what to call a question, by id.
        everything: all options of a choice, and not the most probable ones alone.
    """
    for id, answer in decision.answers.items():
        yield Text.assemble((line(asked[id]), "bold"), "  ", (headline(answer), "bold green"))
        yield from _bars(answer, canvas, everything)
        yield Text()
    yield Text(footer(decision), style="dim")


def headline(answer: Answer) -> str:
    """The answer in words."""
    if isinstance(answer, ChoiceAnswer):
        return f"{line(answer.choice)}  (confidence {answer.confidence:.2f})"
    if isinstance(answer, NoulAnswer):
        return "yes" if answer.noul >= 0.5 else "no"
    top = len(answer.probabilities) - 1
    return f"{answer.score:.2f} on 0 to {top}  (confidence {answer.confidence:.2f})"


def footer(decision: Decision) -> str:
    """Which model answered, and what it took."""
    said = [decision.model]
    if tokens := decision.usage.get("input_tokens"):
        said.append(f"{tokens} tokens")
    if cached := decision.timings.get("cached_tokens"):
        said[-1] += f", {cached} of them cached"
    if isinstance(took := decision.timings.get("total_ms"), int | float):
        said.append(f"{took:.0f} ms in the service")
    return " · ".join(said)


def _bars(answer: Answer, canvas: Canvas, everything: bool) -> Iterator[Text]:
    rows = list(_candidates(answer))
    top = max(rows, key=lambda row: row[1])
    hidden: list[float] = []
    if isinstance(answer, ChoiceAnswer) and len(rows) > SHOWN and not everything:
        # The most probable of very many, still in the order in which they were asked.
        least = sorted((p for _, p in rows), reverse=True)[SHOWN - 1]
        shown = [row for row in rows if row[1] >= least][:SHOWN]
        hidden = [p for _, p in rows]
        for _, p in shown:
            hidden.remove(p)
        rows = shown
    names = min(max(cell_len(name) for name, _ in rows), LONGEST_NAME, canvas.width // 2)
    length = max(min(canvas.width - names - 14, LONGEST_BAR), 1)
    for name, probability in rows:
        chosen = (name, probability) == top
        yield Text.assemble(
            "  ",
            (fitted(name, names), "bold" if chosen else ""),
            "  ",
            (bar(probability, length, canvas.blocks), "green" if chosen else "cyan"),
            f" {percent(probability):>7}",
        )
    if hidden:
        yield Text(f"  and {len(hidden)} more, {percent(sum(hidden))} together (--all)", "dim")


def _candidates(answer: Answer) -> Iterable[tuple[str, float]]:
    if isinstance(answer, ChoiceAnswer):
        return [(line(name), p) for name, p in answer.probabilities.items()]
    if isinstance(answer, NoulAnswer):
        return [("yes", answer.noul), ("no", 1 - answer.noul)]
    return [
        (f"{i}  {line(level)}", p)
        for i, (level, p) in enumerate(zip(answer.legend, answer.probabilities, strict=True))
    ]


def line(value: Any) -> str:
    """Text from outside as one line without control characters."""
    text = value if isinstance(value, str) else repr(value)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()) or repr(text)


def fitted(text: str, width: int) -> str:
    """``text`` in exactly ``width`` columns."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def percent(share: float) -> str:
    """One decimal; what is neither certain nor impossible never looks like it."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{share * 100:.1f} %"


def bar(share: float, length: int, blocks: bool) -> str:
    """A bar of ``share`` of ``length`` columns, padded to all of them."""
    share = min(max(share, 0.0), 1.0)
    if not blocks:
        return ("#" * round(share * length)).ljust(length)
    eighths = round(share * length * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(length)
