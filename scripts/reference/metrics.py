"""The table of metrics, as a scraper sees their names."""

from __future__ import annotations

from jevserve.telemetry.metrics import ALL_METRICS, Kind
from scripts.reference.regions import code, table


def regions() -> dict[str, str]:
    rows = [
        (
            code(f"{spec.name}_total" if spec.kind is Kind.COUNTER else spec.name),
            spec.kind.value,
            spec.unit,
            ", ".join(map(code, spec.labels)),
            spec.meaning,
        )
        for spec in ALL_METRICS
    ]
    return {"metrics": table(("Metric", "Kind", "Unit", "Labels", "Meaning"), rows)}
