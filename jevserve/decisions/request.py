"""What a client asks and what it gets: the only domain types at the door.

Dialects (System One, OpenAI Decisions, JEVfire) translate to and from these; nothing behind
the door knows which dialect was spoken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

#: Text as the wire allows it: a string, or a JSON object/array that an adapter renders.
StructuredText: TypeAlias = str | dict[str, object] | list[object]


@dataclass(frozen=True)
class Noul:
    """A yes/no question. At least one of the three texts is present."""

    instructions: StructuredText | None = None
    true: StructuredText | None = None
    false: StructuredText | None = None


@dataclass(frozen=True)
class Choice:
    """One of 1–255 named options, in the client's order; a description may be absent."""

    options: tuple[tuple[str, StructuredText | None], ...]
    instructions: StructuredText | None = None


@dataclass(frozen=True)
class Score:
    """One of 1–10 ordered levels, lowest first."""

    levels: tuple[StructuredText, ...]
    instructions: StructuredText | None = None


Question: TypeAlias = Noul | Choice | Score


def candidate_count(question: Question) -> int:
    """Number of candidates whose probabilities sum to one. A noul has two: true, then false."""
    if isinstance(question, Choice):
        return len(question.options)
    if isinstance(question, Score):
        return len(question.levels)
    return 2


@dataclass(frozen=True)
class Media:
    """One image or video, referenced from state or instructions by ``placeholder``."""

    placeholder: str
    mime: str
    data: bytes


@dataclass(frozen=True)
class DecisionRequest:
    """A state and the typed questions about it.

    Attributes:
        state: what the questions are about.
        questions: (id, question) in the client's order; ids are echoed, never shown to a model.
        model: name or alias asked for; None means the service's default.
        media: attached files, referenced by placeholder.
        cache_salt: caller's own partition of the prefix cache; hashed before use.
        deadline_ms: milliseconds the caller is willing to wait; None means the model's default.
    """

    state: StructuredText
    questions: tuple[tuple[str, Question], ...]
    model: str | None = None
    media: tuple[Media, ...] = ()
    cache_salt: str | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True)
class NoulAnswer:
    noul: float


@dataclass(frozen=True)
class ChoiceAnswer:
    choice: str
    confidence: float
    probabilities: dict[str, float]


@dataclass(frozen=True)
class ScoreAnswer:
    score: float
    confidence: float
    legend: tuple[StructuredText, ...]
    probabilities: tuple[float, ...]


Answer: TypeAlias = NoulAnswer | ChoiceAnswer | ScoreAnswer


@dataclass(frozen=True)
class Usage:
    """Tokens of the decision. Shared text counts once; no text is generated, so output is 0."""

    input_tokens: int
    output_tokens: int = 0


@dataclass(frozen=True)
class Timings:
    """Where the time and the tokens of one decision went.

    Attributes:
        plan_ms: planning in the router.
        queue_ms: from arrival at the engine to its last row's first scheduling, if known.
        engine_ms: in the engine replica, arrival to last row.
        total_ms: in the router, request parsed to answers assembled.
        cached_tokens: tokens the engine took from its prefix cache, summed over rows.
        computed_tokens: tokens the engine computed, summed over rows.
        rows: number of engine rows.
    """

    plan_ms: float = 0.0
    queue_ms: float = 0.0
    engine_ms: float = 0.0
    total_ms: float = 0.0
    cached_tokens: int = 0
    computed_tokens: int = 0
    rows: int = 0


@dataclass(frozen=True)
class DecisionResponse:
    """Exactly one answer per question id, in the request's order.

    Attributes:
        model: canonical name of the model that answered, never an alias.
        replica: identifier of the engine replica, empty where no engine was needed.
    """

    model: str
    answers: tuple[tuple[str, Answer], ...]
    usage: Usage
    timings: Timings = field(default_factory=Timings)
    replica: str = ""
