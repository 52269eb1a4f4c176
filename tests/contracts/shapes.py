"""The shape of each frozen contract as plain data, and the files that hold it.

    python -m tests.contracts.shapes

writes the files anew after a contract was changed on purpose; the difference is for review.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from jevserve.adapters import base as adapters
from jevserve.admission import deadline
from jevserve.api import auth
from jevserve.decisions import plan, request
from jevserve.routing import policy
from jevserve.transport import base as transport
from jevserve.transport import messages

GOLDEN = Path(__file__).parent / "golden"


def record(cls: type[Any]) -> dict[str, Any]:
    """Fields of a dataclass in order, written as its source writes them."""
    fields: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        fields[f.name] = str(f.type)
        if f.default is not dataclasses.MISSING:
            fields[f.name] += f" = {f.default!r}"
        elif f.default_factory is not dataclasses.MISSING:
            fields[f.name] += f" = {f.default_factory.__name__}()"
    return {"frozen": cls.__dataclass_params__.frozen, "fields": fields}


def words(cls: type[Enum]) -> dict[str, str]:
    return {member.name: member.value for member in cls}


def interface(cls: type[Any]) -> dict[str, str]:
    """Public methods and properties that an implementation must have, with their signatures."""
    found = {}
    for name, member in vars(cls).items():
        if name.startswith("_") or isinstance(member, str | staticmethod):
            continue
        if isinstance(member, property):
            found[name] = f"property -> {inspect.signature(member.fget).return_annotation}"
        elif inspect.isfunction(member):
            start = "async " if inspect.iscoroutinefunction(member) else ""
            found[name] = start + str(inspect.signature(member))
    return found


def of(*classes: type[Any]) -> dict[str, Any]:
    return {c.__name__: words(c) if issubclass(c, Enum) else record(c) for c in classes}


#: File name and what it holds, a file for each contract.
SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "decision_request": lambda: of(
        request.DecisionRequest,
        request.Noul,
        request.Choice,
        request.Score,
        request.Media,
    ),
    "decision_response": lambda: of(
        request.DecisionResponse,
        request.NoulAnswer,
        request.ChoiceAnswer,
        request.ScoreAnswer,
        request.Usage,
        request.Timings,
    ),
    "plan": lambda: of(
        plan.Plan,
        plan.Segment,
        plan.Row,
        plan.Readout,
        plan.ReadoutKind,
        plan.Combine,
        plan.CombineRule,
    ),
    "planned_decision": lambda: (
        {"PLAN_VERSION": plan.PLAN_VERSION}
        | of(plan.PlannedDecision, plan.Lane, plan.DecisionResult, plan.RowResult)
    ),
    "group_record": lambda: (
        of(plan.GroupRecord) | {"wire": plan.GroupRecord("decision", 3, 2, (5, 9), 8_000).to_wire()}
    ),
    "replica_report": lambda: (
        of(transport.ReplicaReport, transport.ReplicaState)
        | {
            "REPORT_EVERY_S": transport.REPORT_EVERY_S,
            "STALE_AFTER_S": transport.STALE_AFTER_S,
            "DEAD_AFTER_S": transport.DEAD_AFTER_S,
        }
    ),
    "transport": lambda: {
        "PROTOCOL_VERSION": messages.PROTOCOL_VERSION,
        "EngineLink": interface(transport.EngineLink),
        "KeptLink": interface(transport.KeptLink),
        "DecisionExecutor": interface(transport.DecisionExecutor),
        "errors": sorted(messages.RETRYABLE | messages.PLAIN),
    },
    "adapter": lambda: {
        "Adapter": interface(adapters.Adapter),
        "Tokenizer": interface(adapters.Tokenizer),
        **of(
            adapters.Certainty,
            adapters.Match,
            adapters.CheckpointFiles,
            adapters.EngineProfile,
            adapters.Limits,
            adapters.Prepared,
        ),
    },
    "policies": lambda: {
        "RoutingPolicy": interface(policy.RoutingPolicy),
        **of(policy.Choice, policy.Reason, policy.ReplicaView),
        "admit": str(inspect.signature(deadline.admit)),
        **of(deadline.Admission, deadline.Verdict),
    },
    "keys_file": lambda: {"fields": sorted(auth._FIELDS), **of(auth.Key)},
}


def golden(name: str) -> Path:
    return GOLDEN / f"{name}.json"


def text_of(name: str) -> str:
    return json.dumps(SHAPES[name](), indent=2) + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in SHAPES:
        golden(name).write_text(text_of(name))


if __name__ == "__main__":
    main()
