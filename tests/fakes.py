"""A stand-in for everything behind the HTTP door.

It answers from a hash of the texts of a question, so equal questions get equal answers under any
id and in any company, as a real model's would.
"""

from __future__ import annotations

import asyncio
import hashlib
import json

import numpy as np

from jevserve.adapters.base import Limits, validate
from jevserve.api.service import Caller, ModelCard, Readiness
from jevserve.decisions.answers import answer
from jevserve.decisions.combine import softmax
from jevserve.decisions.request import (
    Choice,
    DecisionRequest,
    DecisionResponse,
    Question,
    Score,
    Timings,
    Usage,
    candidate_count,
)
from jevserve.errors import UsageError


class FakeService:
    """A text-only model named ``fake-1`` that is also ``jev-latest``.

    Attributes:
        calls: (request, caller) of every call of ``decide``, in order.
        error: raised by ``decide`` instead of answering, if set.
        gate: awaited by ``decide`` before it answers, if set.
        started: set when a call has arrived.
        cancelled: set when a call has been cancelled.
    """

    def __init__(self, *, media: bool = False, ready: bool = True) -> None:
        self.calls: list[tuple[DecisionRequest, Caller]] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.limits = Limits(row_tokens=32_768, media=media)
        self.ready = ready

    def models(self) -> list[ModelCard]:
        return [
            ModelCard(
                name="fake-1",
                description="Answers from a hash of the question.",
                release_date="2026-11-30T00:00:00Z",
                aliases=("jev-latest",),
                ready=self.ready,
                limits={"options": 255, "levels": 10},
            )
        ]

    def readiness(self) -> Readiness:
        return Readiness(self.ready, {"fake-1": "ready" if self.ready else "loading weights"})

    async def decide(self, request: DecisionRequest, caller: Caller) -> DecisionResponse:
        self.calls.append((request, caller))
        self.started.set()
        if request.model not in (None, "fake-1", "jev-latest"):
            raise UsageError(f"Unknown model: {request.model}")
        validate(request, self.limits)
        if self.error is not None:
            raise self.error
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        answers = [(id, answer(q, probabilities(request, q))) for id, q in request.questions]
        size = len(json.dumps(request.state))
        return DecisionResponse(
            "fake-1",
            tuple(answers),
            Usage(input_tokens=size),
            Timings(engine_ms=0.5, total_ms=1.0, computed_tokens=size, rows=len(answers)),
            replica="fake-replica",
        )


def probabilities(request: DecisionRequest, question: Question) -> np.ndarray:
    """Probabilities that depend on the state and on each candidate's own text."""
    if isinstance(question, Choice):
        texts = [json.dumps(option) for option in question.options]
    elif isinstance(question, Score):
        texts = [json.dumps([i, level]) for i, level in enumerate(question.levels)]
    else:
        texts = [json.dumps(["true", question.true]), json.dumps(["false", question.false])]
    assert len(texts) == candidate_count(question)
    base = json.dumps([request.state, question.instructions])
    digests = [hashlib.sha256((base + t).encode()).digest() for t in texts]
    return softmax(np.array([d[0] / 64 for d in digests]))
