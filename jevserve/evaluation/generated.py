"""Generated decisions with exact labels: what scales are fitted on, free of anyone's rights.

Everything is a function of the seed. ``half`` 0 is for fitting, 1 is held out: the two share no
sentence template, and wrap their sentences differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from jevserve.decisions.request import Choice, Noul, Question, Score, StructuredText
from jevserve.evaluation.themes import FAMILIES, FILLERS, SCALES, Theme

SEED = 7_041

#: Text around a sentence, by half. Empty ones keep the bare sentence in play.
WRAPPERS = (
    ("{}", "{}", "Hello, {} Thanks.", "{} I wrote to you before about something else."),
    ("{}", "{}", "Good day. {} Regards, {name}", "Hi team! {} Let me know."),
)


@dataclass(frozen=True)
class Labelled:
    """One decision with its truth.

    Attributes:
        set: name of the set it is reported under.
        state: what the question is about.
        question: the question.
        truth: index of the right candidate in canonical order (noul: 0 is true).
    """

    set: str
    state: StructuredText
    question: Question
    truth: int

    @property
    def label(self) -> str:
        """Text of the right candidate."""
        if isinstance(self.question, Noul):
            return "no" if self.truth else "yes"
        if isinstance(self.question, Score):
            return str(self.truth)
        assert isinstance(self.question, Choice)
        name, description = self.question.options[self.truth]
        return str(description if description is not None else name)


def generate(half: int, seed: int = SEED) -> list[Labelled]:
    """About 3,800 decisions of one half, in a shuffled order."""
    rng = Random(f"{seed}/{half}")
    items = [*choices(half, rng), *nouls(half, rng), *scores(half, rng)]
    rng.shuffle(items)
    return items


def fill(template: str, rng: Random) -> str:
    return template.format(**{slot: rng.choice(words) for slot, words in FILLERS.items()})


def message(theme: Theme, half: int, rng: Random) -> str:
    sentence = fill(rng.choice(theme.sentences[3 * half : 3 * half + 3]), rng)
    return wrap(sentence, half, rng)


def wrap(sentence: str, half: int, rng: Random) -> str:
    return rng.choice(WRAPPERS[half]).format(sentence, name=rng.choice(FILLERS["name"]))


def choices(half: int, rng: Random) -> Iterator[Labelled]:
    """Themes of one family as options; described, with bare names, and with names that mean
    nothing beside their descriptions."""
    instructions = {
        "support": "Which queue should this go to?",
        "assistant": "What does the user want?",
        "news": "What is the topic of the text?",
    }
    for family, themes in FAMILIES.items():
        for _ in range(450):
            options = rng.sample(themes, rng.randint(2, len(themes)))
            truth = rng.randrange(len(options))
            state = message(options[truth], half, rng)
            style = rng.choice(("described", "described", "coded", "bare", "bare"))
            pairs = tuple(
                (
                    f"option_{i + 1}" if style == "coded" else theme.key,
                    None if style == "bare" else theme.description,
                )
                for i, theme in enumerate(options)
            )
            asked = instructions[family] if rng.random() < 0.7 else None
            yield Labelled(f"{family}.{style}", state, Choice(pairs, asked), truth)


def nouls(half: int, rng: Random) -> Iterator[Labelled]:
    """Whether a text has a theme, names a place, or says that something happened."""
    for themes in FAMILIES.values():
        for _ in range(450):
            asked, other = rng.sample(themes, 2)
            true = rng.random() < 0.5
            state = message(asked if true else other, half, rng)
            style = rng.choice(("contrast", "criterion", "instructions"))
            if style == "contrast":
                question = Noul(asked.question, asked.description, other.description)
            elif style == "criterion":
                question = Noul(asked.question, true=asked.description)
            else:
                question = Noul(asked.question)
            yield Labelled(f"theme.{style}", state, question, 0 if true else 1)
    for _ in range(250):
        yield presence(half, rng)
    for _ in range(250):
        yield negation(half, rng)


def presence(half: int, rng: Random) -> Labelled:
    """Whether a city is named: the answer is a matter of the words themselves."""
    there, absent = rng.sample(FILLERS["city"], 2)
    family = rng.choice(list(FAMILIES.values()))
    place = ("I write from {}. ", "Our office is in {}. ")[half].format(there)
    state = place + message(rng.choice(family), half, rng).replace(absent, there)
    true = rng.random() < 0.5
    city = there if true else absent
    if rng.random() < 0.5:
        question = Noul(f"Is {city} mentioned?")
    else:
        question = Noul(f"Is {city} mentioned?", true=f"the text names {city}")
    style = "instructions" if question.true is None else "criterion"
    return Labelled(f"presence.{style}", state, question, 0 if true else 1)


#: (question, says yes, says no) by half: the two states differ by a negation alone.
NEGATIONS = (
    (
        ("Has the {thing} arrived?", "The {thing} has arrived.", "The {thing} has not arrived."),
        ("Did {name} sign?", "{name} signed the contract.", "{name} did not sign the contract."),
        ("Is the shop open?", "The shop is open on {day}.", "The shop is not open on {day}."),
    ),
    (
        ("Is the {thing} in stock?", "We have the {thing} here.", "We do not have the {thing}."),
        ("Will {name} come?", "{name} will come to {city}.", "{name} will not come to {city}."),
        ("Was {sum} paid?", "They paid {sum} on {day}.", "They never paid {sum}."),
    ),
)


def negation(half: int, rng: Random) -> Labelled:
    """What similarity cannot answer; it is here so that fitted scales know it."""
    slots = {slot: rng.choice(words) for slot, words in FILLERS.items()}
    asked, yes, no = (text.format(**slots) for text in rng.choice(NEGATIONS[half]))
    true = rng.random() < 0.5
    state = wrap(yes if true else no, half, rng)
    style = rng.choice(("contrast", "instructions"))
    question = Noul(asked, yes, no) if style == "contrast" else Noul(asked)
    return Labelled(f"negation.{style}", state, question, 0 if true else 1)


def scores(half: int, rng: Random) -> Iterator[Labelled]:
    for name, (levels, instructions, sentences) in SCALES.items():
        for _ in range(200):
            truth = rng.randrange(len(levels))
            sentence = rng.choice(sentences[truth][2 * half : 2 * half + 2])
            state = wrap(fill(sentence, rng), half, rng)
            yield Labelled(f"{name}.levels", state, Score(levels, instructions), truth)
