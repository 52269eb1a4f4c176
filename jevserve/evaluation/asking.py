"""Labelled decisions put to a running service, over HTTP, with a ledger of what was answered."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from jevserve.client import Answer, AsyncClient, ChoiceAnswer, NoulAnswer, ServiceError
from jevserve.client import choice as ask_choice
from jevserve.client import noul as ask_noul
from jevserve.client import score as ask_score
from jevserve.decisions.request import Choice, Noul, Question
from jevserve.errors import SettingsError
from jevserve.evaluation.generated import Labelled

#: Status codes that say nothing of the decision: unreachable, not let in, or not ready.
UNANSWERABLE = frozenset({0, 401, 403, 404, 408, 429, 502, 503})


@dataclass(frozen=True)
class Asked:
    """A decision to be asked.

    Attributes:
        item: the decision.
        number: its place in its set, from 0.
        order: 0 for the candidates as they are, k for their k-th shuffle.
    """

    item: Labelled
    number: int
    order: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        probabilities: of the candidates in the item's own order; None where it was refused.
        refusal: what the service said instead.
        client_ms: as the client saw it, retries included.
        total_ms: what the service says it took; 0 where it does not say.
        cached_tokens, tokens: of the decision, as the service counts.
        model: name of the model that answered.
    """

    set: str
    number: int
    order: int
    probabilities: tuple[float, ...] | None = None
    refusal: str = ""
    client_ms: float = 0.0
    total_ms: float = 0.0
    cached_tokens: int = 0
    tokens: int = 0
    model: str = ""


def with_shuffles(items: Iterable[Asked], shuffles: int, seed: int) -> list[Asked]:
    """The decisions, and each choice again with its options in ``shuffles`` other orders."""
    asked = []
    for one in items:
        asked.append(one)
        if isinstance(one.item.question, Choice) and len(one.item.question.options) > 1:
            asked += [replace(one, order=k) for k in range(1, shuffles + 1)]
    # Equal states stand apart, so that times are not those of the prefix cache alone.
    Random(seed).shuffle(asked)
    return asked


def arrangement(asked: Asked, seed: int) -> list[int]:
    """Which candidate stands at each place; never the given order where it is a shuffle."""
    count = len(asked.item.question.options) if isinstance(asked.item.question, Choice) else 0
    places = list(range(count))
    if asked.order:
        rng = Random(f"{seed}/{asked.item.set}/{asked.number}/{asked.order}")
        while places == sorted(places):
            rng.shuffle(places)
    return places


def on_the_wire(question: Question, places: list[int]) -> dict[str, Any]:
    """The question as the service takes it, its options arranged."""
    if isinstance(question, Choice):
        options = {question.options[p][0]: question.options[p][1] for p in places}
        return ask_choice(options, question.instructions)
    if isinstance(question, Noul):
        return ask_noul(question.instructions, true=question.true, false=question.false)
    return ask_score(question.levels, question.instructions)


def in_own_order(question: Question, answer: Answer) -> tuple[float, ...]:
    """Probabilities of the candidates as the item has them, normalised."""
    if isinstance(answer, ChoiceAnswer):
        assert isinstance(question, Choice)
        values = [answer.probabilities[name] for name, _ in question.options]
    elif isinstance(answer, NoulAnswer):
        values = [answer.noul, 1 - answer.noul]
    else:
        values = answer.probabilities
    whole = sum(values) or 1.0
    return tuple(v / whole for v in values)


class Ledger:
    """Outcomes in a file of JSON lines, so that an interrupted evaluation goes on.

    ``key`` names what is measured (service, models, data, seed); a ledger of something else is
    put aside, with ``.old`` behind its name.

    Raises:
        SettingsError: the file cannot be read or written.
    """

    def __init__(self, file: Path | None, key: dict[str, Any]) -> None:
        self._file = file
        self.known: dict[tuple[str, int, int], Outcome] = {}
        first = json.dumps({"ledger": key}, sort_keys=True)
        if file is None:
            return
        try:
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            if lines[:1] != [first]:
                if lines:
                    file.rename(f"{file}.old")
                file.write_text(first + "\n", encoding="utf-8")
                return
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot keep a ledger in {file}: {error}") from error
        for line in lines[1:]:
            try:
                found = json.loads(line)
                if found["probabilities"] is None:
                    continue  # refused then; it may be answered now
                found["probabilities"] = tuple(found["probabilities"])
                self.note(Outcome(**found), write=False)
            except (ValueError, TypeError, KeyError):
                continue  # cut short when it was interrupted: asked again

    def note(self, outcome: Outcome, *, write: bool = True) -> None:
        self.known[outcome.set, outcome.number, outcome.order] = outcome
        if write and self._file is not None:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(outcome), ensure_ascii=False) + "\n")


def digest(items: Iterable[Labelled]) -> str:
    """What the data were, in 16 hex digits."""
    text = json.dumps([asdict(item) for item in items], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def ask_all(
    client: AsyncClient,
    asked: list[Asked],
    ledger: Ledger,
    *,
    model: str | None,
    seed: int,
    concurrency: int,
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> None:
    """Ask what the ledger does not know yet, ``concurrency`` at a time.

    Raises:
        ServiceError: the service cannot be reached, lets nobody in, or is not ready.
    """
    left = iter([a for a in asked if (a.item.set, a.number, a.order) not in ledger.known])

    async def worker() -> None:
        for one in left:
            outcome = await ask(client, one, model, seed)
            ledger.note(outcome)
            told(outcome)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def ask(client: AsyncClient, asked: Asked, model: str | None, seed: int) -> Outcome:
    item = asked.item
    question = on_the_wire(item.question, arrangement(asked, seed))
    place = (item.set, asked.number, asked.order)
    began = time.perf_counter()
    try:
        decision = await client.decide(item.state, {"answer": question}, model=model)
    except ServiceError as error:
        if error.http_status in UNANSWERABLE:
            raise
        return Outcome(*place, refusal=error.message[:300])
    timings = decision.timings
    return Outcome(
        *place,
        probabilities=in_own_order(item.question, decision["answer"]),
        client_ms=1000 * (time.perf_counter() - began),
        total_ms=float(timings.get("total_ms", 0.0)),
        cached_tokens=int(timings.get("cached_tokens", 0)),
        tokens=int(decision.usage.get("input_tokens") or 0),
        model=decision.model,
    )
