"""What the HTTP layer needs from the rest of jevserve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from jevserve.decisions.plan import Lane
from jevserve.decisions.request import DecisionRequest, DecisionResponse


@dataclass(frozen=True)
class Caller:
    """Who asks. A service without keys is one tenant with an empty name.

    Attributes:
        tenant: name from the keys file; never sent to an engine.
        lane: scheduling lane from the keys file.
        request_id: id of the HTTP request, returned in ``x-typesafe-request-id``.
        trace: W3C ``traceparent`` header, empty for none.
    """

    tenant: str = ""
    lane: Lane = Lane.INTERACTIVE
    request_id: str = ""
    trace: str = ""


@dataclass(frozen=True)
class ModelCard:
    """What ``GET /v1/models`` says of a model.

    Attributes:
        name: canonical name.
        description: one sentence for people.
        release_date: RFC 3339 timestamp.
        aliases: names that resolve to it.
        ready: whether an engine answers now.
        revision: of the checkpoint and how it was prepared; the same answers for the same one.
        limits: advertised limits (options, levels, questions, row_tokens, request_tokens, media).
    """

    name: str
    description: str
    release_date: str
    aliases: tuple[str, ...] = ()
    ready: bool = False
    revision: str = ""
    limits: dict[str, int | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Readiness:
    """Whether the default model answers, with a sentence per model for people."""

    ready: bool
    details: dict[str, str] = field(default_factory=dict)


class DecisionService(Protocol):
    """Everything behind the door.

    ``decide`` raises only members of the ``JevserveError`` family; cancelling the awaiting task
    cancels the decision's work in the engines.
    """

    def models(self) -> list[ModelCard]: ...

    def readiness(self) -> Readiness: ...

    async def decide(self, request: DecisionRequest, caller: Caller) -> DecisionResponse: ...
