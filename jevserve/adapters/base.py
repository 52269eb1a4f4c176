"""What every checkpoint family provides: probe → prepare → engine_profile → limits → plan.

An adapter holds no GPU code and no state. It is chosen by ``probe`` when a checkpoint is
prepared; the router then calls ``limits`` and ``plan`` with the tokenizer alone, the engine
replica calls ``engine_profile``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from jevserve.decisions.plan import Plan
from jevserve.decisions.request import Choice, DecisionRequest, Score
from jevserve.errors import InvalidRequest, Issue, MaxTokensExceeded, UsageError


class Certainty(StrEnum):
    """How sure a probe is. A marker file is CERTAIN; resemblance is POSSIBLE."""

    CERTAIN = "certain"
    POSSIBLE = "possible"


@dataclass(frozen=True)
class Match:
    """A probe's finding, with the reason shown to the operator."""

    protocol: str
    certainty: Certainty
    reason: str


@dataclass(frozen=True)
class CheckpointFiles:
    """What a probe may look at: names and small parsed JSON files, never weights or code.

    Attributes:
        names: file names relative to the checkpoint folder.
        json: parsed ``*.json`` files of the top folder (bounded in size), by name.
    """

    names: frozenset[str]
    json: Mapping[str, Any]

    @property
    def architectures(self) -> list[str]:
        config = self.json.get("config.json")
        found = config.get("architectures") if isinstance(config, dict) else None
        return [a for a in found if isinstance(a, str)] if isinstance(found, list) else []


@dataclass(frozen=True)
class EngineProfile:
    """How vLLM is started for a prepared checkpoint.

    Attributes:
        runner: ``pooling``, or ``generate`` for models whose logits only generation gets right.
        convert: pooling: vLLM's model conversion (``embed`` or ``classify``), None for the
            model's own head.
        task: pooling: the task of every row.
        label_ids: LABELS: token ids of the label table, in table order. A pooling engine turns
            these rows of the output embedding into a classifier; a generate engine asks for
            their log-probabilities.
        hf_overrides: overrides of the checkpoint's config.
        pooling_type: vLLM's pooling type, None for the model's own.
        max_model_len: longest row in tokens.
        prefix_caching: whether rows of this model may share a prefix cache.
        dtype: vLLM's dtype name; ``auto`` lets the engine choose for device and checkpoint.
    """

    runner: str = "pooling"
    convert: str | None = None
    task: str | None = None
    label_ids: tuple[int, ...] = ()
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    pooling_type: str | None = None
    max_model_len: int | None = None
    prefix_caching: bool = True
    dtype: str = "auto"


@dataclass(frozen=True)
class Limits:
    """What a model can be asked; everything over it is refused by name.

    Attributes:
        row_tokens: longest row in tokens.
        request_tokens: all tokens of a request, shared text counted once.
        questions: most questions in a request.
        options: most options of a choice.
        levels: most levels of a score.
        media: whether images are read.
    """

    row_tokens: int
    request_tokens: int = 65_536
    questions: int = 1_024
    options: int = 255
    levels: int = 10
    media: bool = False


class Tokenizer(Protocol):
    """What an adapter needs of a tokenizer."""

    def encode_text(self, text: str) -> list[int]:
        """Ids of caller text: never a special token, whatever the text spells."""
        ...

    def encode_template(self, text: str) -> list[int]:
        """Ids of the family's own prompt text, in which special tokens are themselves."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A prepared checkpoint: a plain folder an engine can load, and its manifest.

    Attributes:
        path: folder with config, tokenizer and safetensors.
        protocol: the adapter's id.
        revision: content hash of everything that can change an answer.
        settings: the adapter's own prepared data (label table, temperatures), and for every
            family ``row_tokens``, its longest row, which an operator may lower.
    """

    path: Path
    protocol: str
    revision: str
    settings: Mapping[str, Any]


class Adapter(ABC):
    """One checkpoint family.

    Attributes:
        protocol: stable id, used in configurations and manifests.
        title: one line for operators.
    """

    protocol: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def probe(self, files: CheckpointFiles) -> Match | None:
        """Whether the folder is of this family, and why."""

    @abstractmethod
    def prepare(self, source: Path, target: Path, tokenizer: Tokenizer) -> dict[str, Any]:
        """Settings to store in the manifest.

        ``target`` already links to every file of ``source``; a family whose weights or
        configuration need rewriting replaces files there and leaves ``source`` untouched.

        Raises:
            CheckpointError: the checkpoint cannot be served, with the reason and the remedy.
        """

    @abstractmethod
    def engine_profile(self, prepared: Prepared) -> EngineProfile:
        """How an engine loads it."""

    @abstractmethod
    def limits(self, prepared: Prepared) -> Limits:
        """What it can be asked."""

    @abstractmethod
    def plan(self, request: DecisionRequest, tokenizer: Tokenizer, prepared: Prepared) -> Plan:
        """Rows, readouts and combines for a request that passed ``validate``."""


def validate(request: DecisionRequest, limits: Limits) -> None:
    """Refuse what the model cannot be asked, before anything is tokenised.

    Raises:
        InvalidRequest: over a count limit; every offending field is named.
        UsageError: media for a model without.
    """
    issues: list[Issue] = []

    def over(loc: tuple[str | int, ...], what: str, n: int, most: int) -> None:
        if n > most:
            issues.append(
                Issue(("body", "questions", *loc), f"{n} {what}, at most {most}", "too_long")
            )

    over((), "questions", len(request.questions), limits.questions)
    for id, q in request.questions:
        if isinstance(q, Choice):
            over((id, "choice", "criteria"), "options", len(q.options), limits.options)
        elif isinstance(q, Score):
            over((id, "score", "criteria"), "levels", len(q.levels), limits.levels)
    if issues:
        raise InvalidRequest(issues)
    if request.media and not limits.media:
        raise UsageError("this model reads text only: remove 'assets' or ask a vision model")


def check_budget(plan: Plan, request: DecisionRequest, limits: Limits) -> None:
    """Refuse a plan that does not fit the model; nothing is ever truncated instead.

    Raises:
        MaxTokensExceeded: with counts and limits.
    """
    for combine in plan.combines:
        for row in (*combine.rows, *combine.reference):
            n = plan.row_length(row)
            if n > limits.row_tokens:
                id = request.questions[combine.question][0]
                raise MaxTokensExceeded(
                    f"state and question {id!r} take {n} tokens; the model reads at most "
                    f"{limits.row_tokens}. Shorten the state or the question."
                )
    if plan.input_tokens > limits.request_tokens:
        raise MaxTokensExceeded(
            f"state and all questions take {plan.input_tokens} tokens; a request may have at most "
            f"{limits.request_tokens}. Send fewer questions at a time."
        )
