"""Where an adapter puts the state, as its plans show it: what requests share, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from jevserve.adapters.base import Adapter, Prepared, Tokenizer
from jevserve.decisions.plan import Plan
from jevserve.decisions.request import Choice, DecisionRequest, Noul

#: A support ticket, as long as most states are short.
SAMPLE = (
    "Hello, I ordered a pair of walking boots on the second of March and paid for express "
    "delivery. The parcel came nine days later, the box was open, and one of the boots has a "
    "scratch along the sole. Your chat told me to send a picture, which I did, but nobody has "
    "answered since. Meanwhile my card was charged twice. I would like one of the two payments "
    "back and a new pair, or the whole order cancelled. I am leaving for a trip on Friday, so "
    "please tell me today what you can do. My order number is 58213 and I am a customer of yours "
    "since 2015."
)

QUESTIONS = (
    Choice((("billing", "payments and refunds"), ("delivery", None)), "Which team should answer?"),
    Noul("Does the writer want money back?"),
    Choice((("calm", None), ("annoyed", None), ("furious", None)), "How does the writer feel?"),
)


@dataclass(frozen=True)
class Layout:
    """What rows of a family share, counted from their beginning.

    Attributes:
        sample: tokens that other questions on the sample state share with each other.
        state: how many of those are the sample state's own.
        state_chars: characters of the sample state.
        same_question: tokens that one question on other states shares with itself.
        longest: tokens that could be shared at most, by the state that still fits.
    """

    sample: int
    state: int
    state_chars: int
    same_question: int
    longest: int

    @property
    def state_first(self) -> bool:
        """Whether other questions on a longer state share more."""
        return self.state > 0


def state_of(words: int) -> str:
    """The sample, or as many words of it as asked for, over and over."""
    sample = SAMPLE.split()
    if not words:
        return SAMPLE
    return " ".join((sample * (words // len(sample) + 1))[:words])


def plan_of(
    adapter: Adapter, tokenizer: Tokenizer, prepared: Prepared, words: int, question: int
) -> Plan:
    """One question of the three on a state of so many words (0 for the sample)."""
    request = DecisionRequest(state_of(words), (("q", QUESTIONS[question]),))
    return adapter.plan(request, tokenizer, prepared)


def shared_tokens(plans: list[Plan]) -> int:
    """Tokens that all rows of all plans begin with."""
    rows = [plan.tokens(i) for plan in plans for i in range(len(plan.rows))]
    return sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*rows, strict=False)))


def read_layout(adapter: Adapter, tokenizer: Tokenizer, prepared: Prepared) -> Layout:
    def shared(words: int) -> int:
        plans = [plan_of(adapter, tokenizer, prepared, words, q) for q in range(len(QUESTIONS))]
        return shared_tokens(plans)

    words = len(SAMPLE.split())
    sample, twice = shared(0), shared(2 * words)
    leaf = max(
        plan.row_length(i) - sample
        for plan in (plan_of(adapter, tokenizer, prepared, 0, q) for q in range(len(QUESTIONS)))
        for i in range(len(plan.rows))
    )
    other = "A different text altogether, about the weather."
    same_question = shared_tokens(
        [
            plan_of(adapter, tokenizer, prepared, 0, 0),
            adapter.plan(DecisionRequest(other, (("q", QUESTIONS[0]),)), tokenizer, prepared),
        ]
    )
    grows = twice - sample
    room = adapter.limits(prepared).row_tokens - leaf
    return Layout(
        sample=sample,
        state=grows,
        state_chars=len(SAMPLE),
        same_question=same_question,
        longest=max(0, room) if grows else min(sample, max(0, room)),
    )
