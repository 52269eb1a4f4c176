"""Answering labelled decisions the way the service does: plan, rows, combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jevserve.adapters.base import Adapter, Prepared, Tokenizer, check_budget, validate
from jevserve.decisions.combine import Vector, cosines, probabilities
from jevserve.decisions.plan import Plan, RowResult
from jevserve.decisions.request import DecisionRequest, candidate_count
from jevserve.evaluation.generated import Labelled
from jevserve.evaluation.reference import ReferenceEmbedder


@dataclass(frozen=True)
class Answered:
    """One answered decision.

    Attributes:
        probabilities: in canonical candidate order.
        cosines: of the candidate rows, in the model's candidate order.
        order: canonical candidate of each model candidate.
        label: text of the right candidate.
    """

    item: Labelled
    probabilities: Vector
    cosines: Vector
    order: tuple[int, ...]
    label: str


class Decider:
    """A prepared model, answered for by the reference embedder."""

    def __init__(
        self,
        adapter: Adapter,
        tokenizer: Tokenizer,
        prepared: Prepared,
        embedder: ReferenceEmbedder,
    ) -> None:
        self.adapter, self.tokenizer, self.prepared = adapter, tokenizer, prepared
        self.embedder = embedder

    def plan(self, item: Labelled) -> Plan:
        request = DecisionRequest(item.state, (("q", item.question),))
        limits = self.adapter.limits(self.prepared)
        validate(request, limits)
        plan = self.adapter.plan(request, self.tokenizer, self.prepared)
        check_budget(plan, request, limits)
        return plan

    def answer(self, items: Iterable[Labelled]) -> list[Answered]:
        planned = [(item, self.plan(item)) for item in items]
        # All rows at once, so that batches are of even length.
        self.embedder.embed(
            tuple(plan.tokens(r)) for _, plan in planned for r in range(len(plan.rows))
        )
        return [self._combine(item, plan) for item, plan in planned]

    def _combine(self, item: Labelled, plan: Plan) -> Answered:
        results: tuple[RowResult, ...] = self.embedder.execute(plan)
        combine = plan.combines[0]
        values = [np.asarray(results[r].values) for r in combine.rows]
        return Answered(
            item,
            probabilities(combine, plan, results, candidate_count(item.question)),
            cosines(combine, plan, results, values),
            combine.order,
            item.label,
        )
