"""From cells to a result file, and from a result file to the table in the documentation."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from loadtests.overhead.load import STATES, body
from loadtests.overhead.measure import CONNECTIONS, TITLES, Cell, machine

BEGIN = "<!-- table: written by python -m loadtests.overhead report -->\n"
END = "<!-- end of table -->\n"

FIGURES = ("p50_ms", "p99_ms", "per_s", "cpu_ms")


def result(cells: list[Cell], seconds: float) -> dict[str, Any]:
    """Everything that was measured, with medians and ranges over the rounds."""
    packages = ("jevserve", "ray", "uvicorn", "fastapi", "httptools", "uvloop")
    return {
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "settings": {
            "seconds": seconds,
            "rounds": len({c.round for c in cells}),
            "body_bytes": {name: len(body(name)) for name in STATES},
            "generator": "wrk, one thread, on the same machine",
        },
        "rows": {
            row: dict(by_load(cells, row)) for row in TITLES if any(c.row == row for c in cells)
        },
        "cells": [c.__dict__ for c in cells],
    }


def by_load(cells: list[Cell], row: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Of each load, median, least and most over the rounds of every figure."""
    for state in STATES:
        for connections in CONNECTIONS:
            same = [
                c for c in cells if (c.row, c.state, c.connections) == (row, state, connections)
            ]
            if same:
                yield f"{state}/{connections}", {f: spread(same, f) for f in FIGURES}


def spread(cells: list[Cell], figure: str) -> list[float]:
    values = [c.requests / c.seconds if figure == "per_s" else getattr(c, figure) for c in cells]
    return [round(v, 3) for v in (median(values), min(values), max(values))]


def tables(measured: dict[str, Any]) -> str:
    """One table for each length of state; each cell is a median over the rounds."""
    text = ""
    for state, size in measured["settings"]["body_bytes"].items():
        text += f"\nRequests of {size:,} bytes:\n\n"
        heads = [f"{c} at once: p50 / p99 ms" for c in CONNECTIONS]
        head = ["Layout", *heads, "most requests/s", "CPU ms each"]
        text += "| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|\n"
        for row, loads in measured["rows"].items():
            found = [loads.get(f"{state}/{c}") for c in CONNECTIONS]
            latencies = [
                f"{f['p50_ms'][0]:.1f} / {f['p99_ms'][0]:.1f}" if f else "–" for f in found
            ]
            known = [f for f in found if f]
            if not known:
                continue
            best = max(known, key=lambda f: f["per_s"][0])
            low, high = best["per_s"][1:]
            rate = f"{best['per_s'][0]:,.0f} ({low:,.0f}–{high:,.0f})"
            line = [TITLES[row], *latencies, rate, f"{best['cpu_ms'][0]:.2f}"]
            text += "| " + " | ".join(line) + " |\n"
    return text


def described(measured: dict[str, Any]) -> str:
    m, v, s = measured["machine"], measured["versions"], measured["settings"]
    return (
        f"{m['cores']} cores of {m['cpu']}, {m['memory_gib']} GiB; Python {v['python']}, "
        f"Ray {v['ray']}, uvicorn {v['uvicorn']}; {s['rounds']} interleaved rounds of "
        f"{s['seconds']:.0f} s each; {s['generator']}. Medians; in brackets the least and the most "
        "of the rounds.\n"
    )


def write(page: Path, measured: dict[str, Any]) -> None:
    """Replace what stands between the page's two markers.

    Raises:
        SystemExit: the page has no such markers.
    """
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{page} needs one {BEGIN.strip()} and one {END.strip()}")
    before, rest = text.split(BEGIN)
    written = before + BEGIN + described(measured) + tables(measured) + END + rest.split(END)[1]
    page.write_text(written, encoding="utf-8")


def load(file: Path) -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return measured
