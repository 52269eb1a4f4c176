"""The router's way of a decision: plan, route, send, combine, answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from jevserve.adapters.base import check_budget, validate
from jevserve.admission.salt import PURPOSE, cache_salt
from jevserve.admission.slots import Slots
from jevserve.api.service import Caller, ModelCard, Readiness
from jevserve.decisions.answers import assemble
from jevserve.decisions.plan import DecisionResult, Plan, PlannedDecision
from jevserve.decisions.request import (
    DecisionRequest,
    DecisionResponse,
    StructuredText,
    Timings,
    Usage,
)
from jevserve.errors import Overloaded, UsageError
from jevserve.serving.fleet import Fleet
from jevserve.serving.models import ServedModel
from jevserve.settings import ServiceSettings
from jevserve.transport.secret import ClusterSecret

#: Characters of text from which planning leaves the event loop: about 5 ms of tokenising.
PLAN_OFF_LOOP = 20_000

#: What clients are told while the router leaves: the next one takes the retry.
DRAIN_RETRY_MS = 500


class RouterService:
    """Everything behind the HTTP door of one router process (``api.service.DecisionService``).

    Args:
        settings: the service's settings.
        models: what is served, by canonical name.
        fleets: the engine replicas of each model, by canonical name.
        secret: the cluster secret, from which cache salts are derived.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        models: Mapping[str, ServedModel],
        fleets: Mapping[str, Fleet],
        secret: ClusterSecret,
    ) -> None:
        self._settings, self._models, self._fleets = settings, models, fleets
        self._names = settings.names()
        self._salt_key = secret.derive(PURPOSE)
        self._slots = Slots(settings.router.max_in_flight)
        self._started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    def models(self) -> list[ModelCard]:
        return [self._card(name) for name in self._models]

    def readiness(self) -> Readiness:
        details = {}
        for name, model in self._models.items():
            ready = self._fleets[name].ready(model.prepared.revision)
            details[name] = f"{ready} of {model.settings.replicas} replicas ready"
        default = self._settings.default
        revision = self._models[default].prepared.revision
        ready = not self._draining and self._fleets[default].ready(revision) > 0
        if self._draining:
            details["router"] = "draining"
        return Readiness(ready, details)

    async def decide(self, request: DecisionRequest, caller: Caller) -> DecisionResponse:
        """Answer one request.

        Raises:
            UsageError: unknown model.
            InvalidRequest, MaxTokensExceeded: what this model cannot be asked.
            Overloaded: no capacity in time.
            EngineFailed: an engine broke on it.
        """
        began = time.monotonic()
        model = self._model(request.model)
        if self._draining:
            raise Overloaded(
                "the router is shutting down; retry",
                retry_after_ms=DRAIN_RETRY_MS,
                reason="draining",
            )
        with self._slots.take():
            self._idle.clear()
            try:
                return await self._decide(request, caller, model, began)
            finally:
                if self._slots.taken == 1:
                    self._idle.set()

    async def _decide(
        self, request: DecisionRequest, caller: Caller, model: ServedModel, began: float
    ) -> DecisionResponse:
        validate(request, model.limits)
        if text_size(request) > PLAN_OFF_LOOP:
            plan = await asyncio.to_thread(make_plan, request, model)
        else:
            plan = make_plan(request, model)
        planned = time.monotonic()
        result = DecisionResult(id="", rows=())
        if plan.rows:
            result = await self._run(request, caller, model, plan, began)
        answers = assemble(request, plan, result.rows)
        return DecisionResponse(
            model=model.settings.name,
            answers=answers,
            usage=Usage(plan.input_tokens),
            timings=Timings(
                plan_ms=1e3 * (planned - began),
                queue_ms=result.queue_ms,
                engine_ms=result.engine_ms,
                total_ms=1e3 * (time.monotonic() - began),
                cached_tokens=sum(r.cached_tokens for r in result.rows),
                computed_tokens=sum(r.computed_tokens for r in result.rows),
                rows=len(result.rows),
            ),
            replica=result.replica,
        )

    async def _run(
        self,
        request: DecisionRequest,
        caller: Caller,
        model: ServedModel,
        plan: Plan,
        began: float,
    ) -> DecisionResult:
        revision = model.prepared.revision
        salt = cache_salt(
            self._salt_key, caller.tenant, request.cache_salt, self._settings.cache_scope
        )

        def attempt(milliseconds_left: int) -> PlannedDecision:
            return PlannedDecision(
                id=uuid.uuid4().hex,
                revision=revision,
                plan=plan,
                salt=salt,
                deadline_ms=milliseconds_left,
                lane=caller.lane,
                trace=caller.trace,
            )

        budget_ms = request.deadline_ms or model.settings.deadline_ms
        return await self._fleets[model.settings.name].decide(
            attempt,
            plan.affinity_keys(f"{revision}/{salt}".encode()),
            plan.input_tokens,
            revision,
            began + budget_ms / 1e3,
        )

    async def drain(self) -> None:
        """Refuse what comes from now on; returns when everything accepted is answered."""
        self._draining = True
        await self._idle.wait()

    def _model(self, asked: str | None) -> ServedModel:
        name = self._settings.default if asked is None else self._names.get(asked)
        if name is None:
            known = ", ".join(sorted(self._names))
            raise UsageError(f"Unknown model: {asked[:200] if asked else asked}. Known: {known}")
        return self._models[name]

    def _card(self, name: str) -> ModelCard:
        model = self._models[name]
        aliases = tuple(a for a, n in self._names.items() if n == name and a != name)
        return ModelCard(
            name=name,
            description=model.settings.description or model.adapter.title,
            release_date=self._started,
            aliases=aliases,
            ready=self._fleets[name].ready(model.prepared.revision) > 0,
            revision=model.prepared.revision,
            limits=asdict(model.limits),
        )


def make_plan(request: DecisionRequest, model: ServedModel) -> Plan:
    """The plan of a request that fits the model."""
    plan = model.adapter.plan(request, model.tokenizer, model.prepared)
    check_budget(plan, request, model.limits)
    return plan


def text_size(request: DecisionRequest) -> int:
    """Characters of all caller text, roughly: what decides whether planning may block the loop."""
    total = 0
    waiting: list[StructuredText | object | None] = [request.state]
    for _, question in request.questions:
        waiting.extend(vars(question).values())
    while waiting and total <= PLAN_OFF_LOOP:
        value = waiting.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
            waiting.extend(value)
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        else:
            total += 4
    return total
