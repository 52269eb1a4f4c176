"""Planned decisions, results and reports as msgpack arrays.

Layouts are positional and fixed by golden tests; a change of any of them is a new protocol
version. Combines never travel: they stay in the router.

    decision  [version, id, revision, segments, rows, salt, deadline_ms, lane, trace]
    segment   [parent, tokens as uint32]
    row       [segment, kind, labels as uint32, spans as uint32 pairs, full, media as uint32]
    result    [id, rows, engine_ms, queue_ms, replica]
    row       [values as float32, cached_tokens, computed_tokens]
    report    the fields of ReplicaReport in their order
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from jevserve.decisions.plan import (
    PLAN_VERSION,
    ROOT,
    DecisionResult,
    Lane,
    Plan,
    PlannedDecision,
    Readout,
    ReadoutKind,
    Row,
    RowResult,
    Segment,
)
from jevserve.errors import TransportError
from jevserve.transport.base import ReplicaReport, ReplicaState
from jevserve.transport.fields import (
    boolean,
    integer,
    items,
    malformed,
    pack_ids,
    pack_values,
    read_ids,
    read_values,
    real,
    sequence,
    text,
)
from jevserve.transport.limits import (
    MAX_DEPTH,
    MAX_ROW_IDS,
    MAX_ROW_TOKENS,
    MAX_ROWS,
    MAX_SEGMENTS,
    MAX_TOKENS,
    MAX_TRACE,
    TOKEN_LIMIT,
)

T = TypeVar("T")

KINDS = {k.value: k for k in ReadoutKind}
LANES = {k.value: k for k in Lane}
STATES = {k.value: k for k in ReplicaState}


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose indices lead nowhere or whose size is out of bounds.

    Both ends call it, so nothing leaves that the other end would refuse.

    Raises:
        TransportError: with what is wrong.
    """
    if len(plan.segments) > MAX_SEGMENTS or len(plan.rows) > MAX_ROWS:
        raise TransportError("malformed plan: too many segments or rows")
    lengths: list[int] = []
    depths: list[int] = []
    total = 0
    for index, segment in enumerate(plan.segments):
        parent, tokens = segment.parent, segment.tokens
        if not ROOT <= parent < index:
            raise TransportError(f"malformed plan: segment {index} is not after its parent")
        if tokens and not (min(tokens) >= 0 and max(tokens) < TOKEN_LIMIT):
            raise TransportError(f"malformed plan: segment {index} holds no token ids")
        total += len(tokens)
        lengths.append(len(tokens) + (lengths[parent] if parent != ROOT else 0))
        depths.append(1 + (depths[parent] if parent != ROOT else 0))
    if total > MAX_TOKENS or (depths and max(depths) > MAX_DEPTH):
        raise TransportError("malformed plan: too many tokens, or too deep")
    expanded = 0
    for index, row in enumerate(plan.rows):
        if not 0 <= row.segment < len(lengths):
            raise TransportError(f"malformed plan: row {index} has no segment")
        length, readout = lengths[row.segment], row.readout
        expanded += length
        if any(not 0 <= start < end <= length for start, end in readout.spans):
            raise TransportError(f"malformed plan: row {index} has a span outside its tokens")
        if max(len(readout.labels), 2 * len(readout.spans), len(row.media)) > MAX_ROW_IDS:
            raise TransportError(f"malformed plan: row {index} reads too much")
    if expanded > MAX_ROW_TOKENS:
        raise TransportError("malformed plan: its rows hold too many tokens")


def pack_decision(decision: PlannedDecision) -> list[object]:
    """Raises TransportError for a decision that the other end would refuse."""
    plan = decision.plan
    check_plan(plan)
    return [
        decision.version,
        text(decision.id, "decision.id"),
        text(decision.revision, "decision.revision"),
        [[s.parent, pack_ids(s.tokens, "tokens")] for s in plan.segments],
        [
            [
                row.segment,
                row.readout.kind.value,
                pack_ids(row.readout.labels, "labels"),
                pack_ids(tuple(n for span in row.readout.spans for n in span), "spans"),
                row.readout.full,
                pack_ids(row.media, "media"),
            ]
            for row in plan.rows
        ],
        text(decision.salt, "decision.salt"),
        decision.deadline_ms,
        decision.lane.value,
        text(decision.trace, "decision.trace", MAX_TRACE),
    ]


def read_decision(value: object) -> PlannedDecision:
    version, id, revision, segments, rows, salt, deadline, lane, trace = items(value, "decision", 9)
    if version != PLAN_VERSION:
        raise TransportError(f"a decision of version {PLAN_VERSION} was expected")
    plan = Plan(
        segments=tuple(map(read_segment, sequence(segments, "segments", MAX_SEGMENTS))),
        rows=tuple(map(read_row, sequence(rows, "rows", MAX_ROWS))),
    )
    check_plan(plan)
    return PlannedDecision(
        id=text(id, "decision.id"),
        revision=text(revision, "decision.revision"),
        plan=plan,
        salt=text(salt, "decision.salt"),
        deadline_ms=integer(deadline, "decision.deadline_ms", -(2**31), 2**31),
        lane=member(LANES, lane, "decision.lane"),
        trace=text(trace, "decision.trace", MAX_TRACE),
    )


def read_segment(value: object) -> Segment:
    parent, tokens = items(value, "segment", 2)
    return Segment(
        integer(parent, "segment.parent", ROOT), read_ids(tokens, "segment.tokens", MAX_TOKENS)
    )


def read_row(value: object) -> Row:
    segment, kind, labels, spans, full, media = items(value, "row", 6)
    flat = read_ids(spans, "row.spans", MAX_ROW_IDS)
    if len(flat) % 2:
        raise malformed("row.spans", spans)
    return Row(
        segment=integer(segment, "row.segment"),
        readout=Readout(
            kind=member(KINDS, kind, "row.kind"),
            labels=read_ids(labels, "row.labels", MAX_ROW_IDS),
            spans=tuple(zip(flat[::2], flat[1::2], strict=True)),
            full=boolean(full, "row.full"),
        ),
        media=read_ids(media, "row.media", MAX_ROW_IDS),
    )


def pack_result(result: DecisionResult) -> list[object]:
    return [
        text(result.id, "result.id"),
        [[pack_values(r.values), r.cached_tokens, r.computed_tokens] for r in result.rows],
        real(float(result.engine_ms), "result.engine_ms"),
        real(float(result.queue_ms), "result.queue_ms"),
        text(result.replica, "result.replica"),
    ]


def read_result(value: object) -> DecisionResult:
    id, rows, engine_ms, queue_ms, replica = items(value, "result", 5)
    return DecisionResult(
        id=text(id, "result.id"),
        rows=tuple(map(read_row_result, sequence(rows, "result.rows", MAX_ROWS))),
        engine_ms=real(engine_ms, "result.engine_ms"),
        queue_ms=real(queue_ms, "result.queue_ms"),
        replica=text(replica, "result.replica"),
    )


def read_row_result(value: object) -> RowResult:
    values, cached, computed = items(value, "result row", 3)
    return RowResult(
        values=read_values(values, "values"),
        cached_tokens=integer(cached, "cached_tokens"),
        computed_tokens=integer(computed, "computed_tokens"),
    )


def pack_report(report: ReplicaReport) -> list[object]:
    return [
        text(report.replica, "report.replica"),
        text(report.model, "report.model"),
        text(report.revision, "report.revision"),
        report.state.value,
        report.reuse_quantum,
        float(report.tokens_per_second),
        float(report.round_ms),
        report.backlog_tokens,
        report.backlog_rows,
        report.steps,
        float(report.started_at),
        report.decisions,
        report.rows,
        report.computed_tokens,
        report.cached_tokens,
    ]


def read_report(value: object) -> ReplicaReport:
    (
        replica,
        model,
        revision,
        state,
        reuse_quantum,
        tokens_per_second,
        round_ms,
        backlog_tokens,
        backlog_rows,
        steps,
        started_at,
        decisions,
        rows,
        computed_tokens,
        cached_tokens,
    ) = items(value, "report", 15)
    return ReplicaReport(
        replica=text(replica, "report.replica"),
        model=text(model, "report.model"),
        revision=text(revision, "report.revision"),
        state=member(STATES, state, "report.state"),
        reuse_quantum=integer(reuse_quantum, "report.reuse_quantum"),
        tokens_per_second=real(tokens_per_second, "report.tokens_per_second"),
        round_ms=real(round_ms, "report.round_ms"),
        backlog_tokens=integer(backlog_tokens, "report.backlog_tokens"),
        backlog_rows=integer(backlog_rows, "report.backlog_rows"),
        steps=integer(steps, "report.steps"),
        started_at=real(started_at, "report.started_at"),
        decisions=integer(decisions, "report.decisions"),
        rows=integer(rows, "report.rows"),
        computed_tokens=integer(computed_tokens, "report.computed_tokens"),
        cached_tokens=integer(cached_tokens, "report.cached_tokens"),
    )


def member(table: Mapping[str, T], value: object, what: str) -> T:
    """The enum member for a wire word."""
    found = table.get(value) if type(value) is str else None
    if found is None:
        raise malformed(what, value)
    return found
