"""One row of a plan as one vLLM request."""

from __future__ import annotations

from typing import Any

from vllm import PoolingParams, SamplingParams

from jevserve.adapters.base import EngineProfile
from jevserve.decisions.plan import GroupRecord, Readout, ReadoutKind
from jevserve.errors import EngineFailed

#: Key of the group record in a request's extra arguments; a scheduler reads it there.
RECORD_KEY = "jev"


def parameters(
    readout: Readout, profile: EngineProfile, record: GroupRecord
) -> PoolingParams | SamplingParams:
    """vLLM parameters that make the engine return what ``readout`` asks for."""
    extra = {RECORD_KEY: record.to_wire()}
    if profile.runner == "generate":
        return SamplingParams(
            max_tokens=1,
            temperature=0.0,
            detokenize=False,
            logprob_token_ids=[profile.label_ids[i] for i in readout.labels],
            extra_args=extra,
        )
    # Raw logits and vectors: every activation and temperature is the service's own.
    return PoolingParams(task=profile.task, use_activation=False, extra_kwargs=extra)


def values(readout: Readout, profile: EngineProfile, output: Any) -> tuple[float, ...]:
    """The numbers a finished row gives, in the readout's order.

    Raises:
        EngineFailed: the engine returned something of another shape.
    """
    if profile.runner == "generate":
        logprobs = output.outputs[0].logprobs[0]
        return tuple(float(logprobs[profile.label_ids[i]].logprob) for i in readout.labels)
    data = [float(v) for v in output.outputs.data.float().flatten().tolist()]
    if readout.kind is ReadoutKind.LABELS:
        if len(data) != len(profile.label_ids):
            raise EngineFailed(f"{len(data)} logits for {len(profile.label_ids)} labels")
        return tuple(data[i] for i in readout.labels)
    if readout.kind is ReadoutKind.SCALAR and len(data) != 1:
        raise EngineFailed(f"{len(data)} values where one was expected")
    return tuple(data)
