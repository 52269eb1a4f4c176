"""The plan of a decision: token rows that share prefixes, what to read, how to combine.

A plan is plain data. An adapter makes it in the router, an engine executes its rows without
ever seeing text, and ``jevserve.decisions.combine`` turns what came back into probabilities.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

ROOT = -1

#: Version of the planned decision and of the group record; both ends must agree on it.
PLAN_VERSION = 1


class ReadoutKind(StrEnum):
    """What an engine returns for one row.

    LABELS: float32 logits of entries of the model's label table, at the last position.
    SCALAR: one float32 at the last position.
    STATES: what the in-engine head gives for listed spans (or hidden states where it has none).
    EMBED: one pooled float32 vector.
    """

    LABELS = "labels"
    SCALAR = "scalar"
    STATES = "states"
    EMBED = "embed"


@dataclass(frozen=True)
class Readout:
    """What to read from one row.

    Attributes:
        kind: the engine request kind.
        labels: LABELS only: indices into the prepared model's label table, in answer order.
        spans: STATES only: [start, end) token spans, in answer order.
        full: STATES only: the head needs every state, so nothing may come from the cache.
    """

    kind: ReadoutKind
    labels: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Segment:
    """A run of token ids that follows ``parent`` (an earlier segment's index, or ROOT)."""

    parent: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One engine row: the path from the root to ``segment``, and what to read at its end.

    ``media`` holds indices into the request's media, in the order of their placeholders.
    """

    segment: int
    readout: Readout
    media: tuple[int, ...] = ()


class CombineRule(StrEnum):
    """How row values become one probability per candidate (formulas in ``combine``)."""

    CERTAIN = "certain"
    SOFTMAX_ROW = "softmax_row"
    SOFTMAX_ROWS = "softmax_rows"
    POSITIVE_MASS = "positive_mass"
    SIGMOID = "sigmoid"
    JOINT = "joint"
    COSINE = "cosine"


@dataclass(frozen=True)
class Combine:
    """How one question's candidates get their probabilities.

    Attributes:
        question: position of the question in the request (results are keyed by position).
        rule: see ``CombineRule``.
        rows: row indices whose values are read, in the model's candidate order.
        order: canonical candidate of each model candidate (choice: option position; score: level;
            noul: 0 is true, 1 is false). A permutation of range(n).
        scale: multiplies logits (1 / temperature), or cosines (COSINE).
        bias: added after scaling: one per model candidate, or empty.
        offset: JOINT only: first value of this question in the row's values.
        reference: COSINE only: rows whose token-weighted mean direction stands for the state.
    """

    question: int
    rule: CombineRule
    rows: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    scale: float = 1.0
    bias: tuple[float, ...] = ()
    offset: int = 0
    reference: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Segments form a forest, rows are paths in it, combines read rows.

    Segments are listed parents first. Two rows share work exactly where they share segments.
    """

    segments: tuple[Segment, ...] = ()
    rows: tuple[Row, ...] = ()
    combines: tuple[Combine, ...] = ()

    @property
    def input_tokens(self) -> int:
        """Tokens of the decision with shared text counted once."""
        return sum(len(s.tokens) for s in self.segments)

    def path(self, segment: int) -> list[int]:
        """Segment indices from the root to ``segment``."""
        path = []
        while segment != ROOT:
            path.append(segment)
            segment = self.segments[segment].parent
        return path[::-1]

    def tokens(self, row: int) -> list[int]:
        """Token ids of a row."""
        return [t for s in self.path(self.rows[row].segment) for t in self.segments[s].tokens]

    def cuts(self, row: int) -> list[int]:
        """Token counts at which the row's path passes from one segment to the next."""
        cuts, end = [], 0
        for s in self.path(self.rows[row].segment)[:-1]:
            end += len(self.segments[s].tokens)
            cuts.append(end)
        return cuts

    def row_length(self, row: int) -> int:
        return sum(len(self.segments[s].tokens) for s in self.path(self.rows[row].segment))

    def shared_path(self) -> list[int]:
        """The longest segment path that every row starts with (what affinity is keyed by)."""
        paths = [self.path(r.segment) for r in self.rows]
        shared: list[int] = []
        for level in zip(*paths, strict=False):
            if any(s != level[0] for s in level):
                break
            shared.append(level[0])
        return shared

    def affinity_keys(self, namespace: bytes) -> tuple[bytes, ...]:
        """One 16-byte key per level of the shared path, each covering all levels before it.

        ``namespace`` separates what may never share a cache: model revision and tenant salt.
        """
        digest = hashlib.blake2b(namespace, digest_size=16)
        keys = []
        for s in self.shared_path():
            tokens = self.segments[s].tokens
            digest.update(len(tokens).to_bytes(4, "little"))
            digest.update(b"".join(t.to_bytes(4, "little") for t in tokens))
            keys.append(digest.digest())
        return tuple(keys)


class PlanBuilder:
    """Builds a plan; equal segments under the same parent become one, so sharing is automatic."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._index: dict[Segment, int] = {}
        self._rows: list[Row] = []
        self._row_index: dict[Row, int] = {}
        self._combines: list[Combine] = []

    def segment(self, tokens: list[int] | tuple[int, ...], parent: int = ROOT) -> int:
        if not tokens:
            return parent
        segment = Segment(parent, tuple(tokens))
        if segment not in self._index:
            self._index[segment] = len(self._segments)
            self._segments.append(segment)
        return self._index[segment]

    def row(self, segment: int, readout: Readout, media: tuple[int, ...] = ()) -> int:
        """Index of the row; asking for an equal row again gives the same index."""
        if segment == ROOT:
            raise ValueError("a row needs at least one token")
        row = Row(segment, readout, media)
        if row not in self._row_index:
            self._row_index[row] = len(self._rows)
            self._rows.append(row)
        return self._row_index[row]

    def combine(self, combine: Combine) -> None:
        self._combines.append(combine)

    def build(self) -> Plan:
        return Plan(tuple(self._segments), tuple(self._rows), tuple(self._combines))


class Lane(StrEnum):
    """Whose turn it is under load; a key's lane is set in the keys file."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


@dataclass(frozen=True)
class PlannedDecision:
    """What travels from a router to an engine: no text, no tenant name, no caller's salt.

    Attributes:
        id: decision id, unique per attempt.
        revision: content hash of the prepared model; an engine of another revision refuses it.
        plan: segments and rows; combines stay in the router.
        salt: derived cache salt, empty for none.
        deadline_ms: milliseconds left when it was sent (clocks are never compared).
        lane: scheduling lane of the tenant.
        trace: W3C ``traceparent`` of the caller, empty for none.
    """

    id: str
    revision: str
    plan: Plan
    salt: str = ""
    deadline_ms: int = 0
    lane: Lane = Lane.INTERACTIVE
    trace: str = ""
    version: int = PLAN_VERSION


@dataclass(frozen=True)
class RowResult:
    """What an engine read from one row.

    Attributes:
        values: float32 values: logits in readout order, one scalar, or one vector.
        cached_tokens: tokens of the row that came from the prefix cache.
        computed_tokens: tokens of the row that were computed.
    """

    values: tuple[float, ...]
    cached_tokens: int = 0
    computed_tokens: int = 0


@dataclass(frozen=True)
class DecisionResult:
    """An engine's answer to a planned decision: one result per row, in row order.

    Attributes:
        engine_ms: arrival of the decision to its last row, milliseconds.
        queue_ms: arrival to first scheduling, milliseconds; 0 where the engine does not tell.
    """

    id: str
    rows: tuple[RowResult, ...]
    engine_ms: float = 0.0
    queue_ms: float = 0.0
    replica: str = field(default="")


@dataclass(frozen=True)
class GroupRecord:
    """What every vLLM row carries so that a scheduler can see rows of one decision together.

    Attributes:
        group: decision id.
        rows: number of rows in the group.
        index: this row's position in it.
        cuts: token counts at which this row leaves prefixes that it may share.
        deadline_ms: milliseconds left when the engine accepted the decision.
    """

    group: str
    rows: int
    index: int
    cuts: tuple[int, ...]
    deadline_ms: int

    def to_wire(self) -> dict[str, object]:
        """The dictionary under ``extra_args["jev"]`` or ``extra_kwargs["jev"]``."""
        return {
            "v": PLAN_VERSION,
            "g": self.group,
            "n": self.rows,
            "i": self.index,
            "cuts": list(self.cuts),
            "dl": self.deadline_ms,
        }

    @classmethod
    def from_wire(cls, wire: dict[str, object]) -> GroupRecord:
        """Inverse of ``to_wire``. Raises ValueError for another version or a wrong shape."""
        if wire.get("v") != PLAN_VERSION:
            raise ValueError(f"group record version {wire.get('v')!r}, expected {PLAN_VERSION}")
        group, rows, index = wire.get("g"), wire.get("n"), wire.get("i")
        cuts, deadline = wire.get("cuts"), wire.get("dl")
        if not (
            isinstance(group, str)
            and isinstance(rows, int)
            and isinstance(index, int)
            and isinstance(cuts, list)
            and all(isinstance(c, int) for c in cuts)
            and isinstance(deadline, int)
            and 0 <= index < rows
        ):
            raise ValueError(f"malformed group record {wire!r}")
        return cls(group, rows, index, tuple(cuts), deadline)
