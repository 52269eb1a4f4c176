"""Decisions by similarity: a sentence encoder, one vector per text, cosines as evidence.

The state is one reference direction, every option or level one vector beside it. What an answer
rests on is therefore how alike two texts are, not whether one follows from the other; the fitted
scales in ``minilm_calibration.json`` say how much that is worth for each form of question.

Rows are ``[CLS] text [SEP]``, pooled as the mean over all tokens. A state that is longer than one
row is read in windows whose vectors are averaged, weighted by length.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from jevserve.adapters.base import (
    Adapter,
    Certainty,
    CheckpointFiles,
    EngineProfile,
    Limits,
    Match,
    Prepared,
    Tokenizer,
)
from jevserve.adapters.rendering import render
from jevserve.decisions.plan import Combine, CombineRule, Plan, PlanBuilder, Readout, ReadoutKind
from jevserve.decisions.request import (
    Choice,
    DecisionRequest,
    Noul,
    Question,
    StructuredText,
    candidate_count,
)
from jevserve.errors import CheckpointError, MaxTokensExceeded

#: Version of the text forms below; a change of them changes answers and so the revision.
FORM = 1

#: [CLS] and [SEP] around every text.
SPECIALS = 2

#: Tokens of the longest state, without the windows' own special tokens.
STATE_TOKENS = 8_192

EMBED = Readout(ReadoutKind.EMBED)


class MiniLM(Adapter):
    """Cosine readout on a BERT sentence encoder with mean pooling."""

    protocol = "minilm"
    title = "similarity of state and candidates, by a sentence encoder"

    def probe(self, files: CheckpointFiles) -> Match | None:
        if "BertModel" not in files.architectures:
            return None
        modules = files.json.get("modules.json")
        kinds = [
            str(m.get("type", "")).rpartition(".")[2]
            for m in (modules if isinstance(modules, list) else [])
            if isinstance(m, dict)
        ]
        if kinds[:2] == ["Transformer", "Pooling"] and kinds[2:] in ([], ["Normalize"]):
            return Match(
                self.protocol, Certainty.CERTAIN, "BertModel with a sentence encoder's modules.json"
            )
        return Match(self.protocol, Certainty.POSSIBLE, "BertModel without a head")

    def prepare(self, source: Path, target: Path, tokenizer: Tokenizer) -> dict[str, Any]:
        check_pooling(target)
        start, end = (tokenizer.encode_template(t) for t in ("[CLS]", "[SEP]"))
        if len(start) != 1 or len(end) != 1 or start == end:
            raise CheckpointError("the tokenizer has no [CLS] and [SEP], so rows cannot be framed")
        weights = target / "model.safetensors"
        known = weights.is_file() and sha256(weights) == calibration()["weights"]
        return {
            "form": FORM,
            "row_tokens": row_tokens(target),
            "state_tokens": STATE_TOKENS,
            "start": start[0],
            "end": end[0],
            "calibrated": known,
            "forms": calibration()["forms"],
        }

    def engine_profile(self, prepared: Prepared) -> EngineProfile:
        return EngineProfile(
            runner="pooling",
            convert="embed",
            task="embed",
            pooling_type="MEAN",
            max_model_len=int(prepared.settings["row_tokens"]),
            prefix_caching=False,
            dtype="float32",
        )

    def limits(self, prepared: Prepared) -> Limits:
        return Limits(row_tokens=int(prepared.settings["row_tokens"]))

    def plan(self, request: DecisionRequest, tokenizer: Tokenizer, prepared: Prepared) -> Plan:
        settings = prepared.settings
        start, end = [int(settings["start"])], [int(settings["end"])]
        build = PlanBuilder()

        def row(tokens: list[int]) -> int:
            return build.row(build.segment(start + tokens + end), EMBED)

        state = tokenizer.encode_text(render(request.state))
        if len(state) > settings["state_tokens"]:
            raise MaxTokensExceeded(
                f"the state takes {len(state)} tokens; this model reads at most "
                f"{settings['state_tokens']}. Shorten the state."
            )
        reference: tuple[int, ...] = ()
        for i, (_, question) in enumerate(request.questions):
            if candidate_count(question) == 1:
                build.combine(Combine(i, CombineRule.CERTAIN))
                continue
            reference = reference or tuple(
                row(window) for window in windows(state, settings["row_tokens"] - SPECIALS)
            )
            form, texts, order = candidates(question)
            fitted = settings["forms"][form]
            bias = (fitted["bias"],) + (0.0,) * (len(texts) - 1) if fitted["bias"] else ()
            build.combine(
                Combine(
                    i,
                    CombineRule.COSINE,
                    rows=tuple(row(tokenizer.encode_text(text)) for text in texts),
                    order=order,
                    scale=fitted["scale"],
                    bias=bias,
                    reference=reference,
                )
            )
        return build.build()


def candidates(question: Question) -> tuple[str, list[str], tuple[int, ...]]:
    """(calibration form, candidate texts, canonical candidate of each model candidate)."""
    if isinstance(question, Choice):
        described = all(text is not None for _, text in question.options)
        return (
            "choice.described" if described else "choice.bare",
            [option_text(name, text) for name, text in question.options],
            tuple(range(len(question.options))),
        )
    if isinstance(question, Noul):
        if question.true is not None and question.false is not None:
            return "noul.contrast", [render(question.true), render(question.false)], (0, 1)
        if question.true is not None:
            return "noul.criterion", [render(question.true)], (0, 1)
        if question.false is not None:
            return "noul.criterion", [render(question.false)], (1, 0)
        return "noul.instructions", [render(question.instructions or "")], (0, 1)
    return "score.levels", [render(t) for t in question.levels], tuple(range(len(question.levels)))


def option_text(name: str, description: StructuredText | None) -> str:
    return name if description is None else f"{name}: {render(description)}"


def windows(tokens: list[int], size: int) -> list[list[int]]:
    """``tokens`` in the fewest windows of at most ``size``, as even in length as can be."""
    n = max(1, -(-len(tokens) // size))
    cuts = [len(tokens) * i // n for i in range(n + 1)]
    return [tokens[a:b] for a, b in pairwise(cuts)]


@cache
def calibration() -> dict[str, Any]:
    """The fitted scale and bias of every form, with the hash of the weights they were fitted on."""
    text = files("jevserve.adapters").joinpath("minilm_calibration.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of the target folder, whose files were bounded when they were probed.

    Raises:
        CheckpointError: it is something else.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is not a JSON object")
    return value


def check_pooling(folder: Path) -> None:
    """Refuse an encoder that says it pools otherwise than by the mean over tokens."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return
    config = read_object(path)
    modes = {k for k, v in config.items() if k.startswith("pooling_mode_") and v is True}
    if modes != {"pooling_mode_mean_tokens"}:
        raise CheckpointError(
            f"{path} asks for {', '.join(sorted(modes)) or 'no pooling'}; only mean pooling over "
            "tokens is served"
        )


def row_tokens(folder: Path) -> int:
    """Longest row with its special tokens: what the encoder was made for, else its positions."""
    positions = read_object(folder / "config.json").get("max_position_embeddings", 512)
    encoder = folder / "sentence_bert_config.json"
    asked = read_object(encoder).get("max_seq_length") if encoder.is_file() else None
    longest = min(positions, asked or positions)
    if not isinstance(longest, int) or longest <= SPECIALS:
        raise CheckpointError(f"{folder}: {longest!r} is no length of a row in tokens")
    return longest
