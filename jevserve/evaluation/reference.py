"""An embedder that owes nothing to the serving engine: transformers' BertModel in float32.

It executes plans row by row the plain way, and so is both the ruler for accuracy figures and the
independent reference that the engine's vectors are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from transformers import BertModel

from jevserve.decisions.combine import Vector
from jevserve.decisions.plan import Plan, ReadoutKind, RowResult

BATCH_TOKENS = 4_096


class ReferenceEmbedder:
    """Mean-pooled vectors of token rows, remembered by row.

    Vectors are not normalised: a plan's combine takes directions only.
    """

    def __init__(self, folder: Path) -> None:
        self._model = BertModel.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, add_pooling_layer=False
        ).eval()
        self._known: dict[tuple[int, ...], Vector] = {}

    def embed(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Compute what is not known yet, longest rows together."""
        new = sorted({row for row in rows if row not in self._known}, key=len)
        batch: list[tuple[int, ...]] = []
        for row in new:
            if batch and len(row) * (len(batch) + 1) > BATCH_TOKENS:
                self._compute(batch)
                batch = []
            batch.append(row)
        if batch:
            self._compute(batch)

    def _compute(self, batch: list[tuple[int, ...]]) -> None:
        with torch.inference_mode():
            self._store(batch)

    def _store(self, batch: list[tuple[int, ...]]) -> None:
        width = max(map(len, batch))
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        mask = torch.zeros(len(batch), width, dtype=torch.long)
        for i, row in enumerate(batch):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        means = (states * weights).sum(1) / weights.sum(1)
        for row, vector in zip(batch, means.numpy(), strict=True):
            self._known[row] = vector.astype(np.float64)

    def vector(self, row: tuple[int, ...]) -> Vector:
        self.embed([row])
        return self._known[row]

    def execute(self, plan: Plan) -> tuple[RowResult, ...]:
        """What an engine would answer to the plan's rows.

        Raises:
            ValueError: a row asks for something else than a vector.
        """
        if any(r.readout.kind is not ReadoutKind.EMBED for r in plan.rows):
            raise ValueError("the reference embedder reads vectors only")
        rows = [tuple(plan.tokens(i)) for i in range(len(plan.rows))]
        self.embed(rows)
        return tuple(
            RowResult(tuple(self._known[row].tolist()), computed_tokens=len(row)) for row in rows
        )
