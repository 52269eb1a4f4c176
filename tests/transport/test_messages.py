"""Messages: bytes that stay, round trips, and refusal of everything malformed."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jevserve.decisions.plan import (
    Combine,
    CombineRule,
    DecisionResult,
    GroupRecord,
    Lane,
    Plan,
    PlannedDecision,
    Readout,
    ReadoutKind,
    Row,
    RowResult,
    Segment,
)
from jevserve.errors import (
    CheckpointError,
    EngineFailed,
    InvalidRequest,
    JevserveError,
    MaxTokensExceeded,
    Overloaded,
    TransportError,
)
from jevserve.transport.base import ReplicaReport, ReplicaState
from jevserve.transport.limits import MAX_DEPTH, MAX_ERROR_TEXT
from jevserve.transport.messages import (
    Answer,
    Cancel,
    Challenge,
    Decide,
    Drain,
    Drained,
    Failed,
    Hello,
    Message,
    Proof,
    Report,
    decode,
    decode_handshake,
    encode,
)

GOLDEN = Path(__file__).parent / "golden"

DECISION = PlannedDecision(
    id="decision-1",
    revision="sha256:abc",
    plan=Plan(
        segments=(Segment(-1, (1, 2, 300)), Segment(0, (70_000,)), Segment(0, (5, 2**31 - 1))),
        rows=(
            Row(1, Readout(ReadoutKind.LABELS, labels=(0, 254))),
            Row(2, Readout(ReadoutKind.STATES, spans=((0, 2), (3, 5)), full=True), media=(0,)),
        ),
    ),
    salt="0f" * 8,
    deadline_ms=8_000,
    lane=Lane.BATCH,
    trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)
RESULT = DecisionResult(
    id="decision-1",
    rows=(RowResult((1.5, -0.25), 16, 4), RowResult((0.20000000298023224,), 0, 5)),
    engine_ms=12.5,
    queue_ms=0.75,
    replica="engine-0",
)
REPORT = ReplicaReport(
    "engine-0", "minilm", "sha256:abc", ReplicaState.READY, 16, 12_345.5, 4.25, 900, 3, 77, 1.75e9,
    1_000, 4_000, 2_000_000, 500_000,
)  # fmt: skip

GOLDEN_MESSAGES: dict[str, Message] = {
    "decide": Decide(7, DECISION),
    "answer": Answer(7, RESULT),
    "report": Report(REPORT),
    "failed": Failed(7, "overloaded_error", "the replica is full", 200, "queue"),
    "hello": Hello(1, bytes(range(32))),
    "challenge": Challenge(1, bytes(range(32))),
    "proof": Proof(bytes(range(32))),
    "cancel": Cancel(7),
    "drain": Drain(8),
    "drained": Drained(8),
}


@pytest.mark.parametrize("name", GOLDEN_MESSAGES)
def test_bytes_of_a_message_are_those_of_the_committed_file(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())

    assert encode(GOLDEN_MESSAGES[name]) == golden
    assert decode(golden) == GOLDEN_MESSAGES[name]


def test_group_record_is_that_of_the_committed_file() -> None:
    golden = json.loads((GOLDEN / "group_record.json").read_text())
    record = GroupRecord("decision-1", 2, 1, (3,), 8_000)

    assert record.to_wire() == golden
    assert GroupRecord.from_wire(golden) == record


def test_combines_stay_in_the_router() -> None:
    with_combine = replace(DECISION.plan, combines=(Combine(0, CombineRule.SOFTMAX_ROW, (0,)),))

    assert encode(Decide(7, replace(DECISION, plan=with_combine))) == encode(Decide(7, DECISION))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    segments: list[Segment] = []
    lengths: list[int] = []
    for i in range(draw(st.integers(1, 8))):
        parent = draw(st.integers(-1, i - 1))
        tokens = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12))
        segments.append(Segment(parent, tuple(tokens)))
        lengths.append(len(tokens) + (lengths[parent] if parent >= 0 else 0))
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        segment = draw(st.integers(0, len(segments) - 1))
        starts = draw(st.lists(st.integers(0, lengths[segment] - 1), max_size=3))
        readout = Readout(
            draw(st.sampled_from(ReadoutKind)),
            tuple(draw(st.lists(st.integers(0, 2**32 - 1), max_size=5))),
            tuple((s, draw(st.integers(s + 1, lengths[segment]))) for s in starts),
            draw(st.booleans()),
        )
        rows.append(Row(segment, readout, tuple(draw(st.lists(st.integers(0, 9), max_size=2)))))
    return Plan(tuple(segments), tuple(rows))


names = st.text(max_size=40).filter(lambda s: s.isprintable())
counts = st.integers(0, 2**53)
times = st.floats(0, 1e12)
decisions = st.builds(
    PlannedDecision,
    names, names, plans(), names, st.integers(-1_000, 600_000), st.sampled_from(Lane), names,
)  # fmt: skip
results = st.builds(
    DecisionResult,
    names,
    st.lists(
        st.builds(
            RowResult,
            st.lists(st.floats(width=32, allow_nan=False), max_size=5).map(tuple),
            counts,
            counts,
        ),
        max_size=5,
    ).map(tuple),
    times,
    times,
    names,
)
reports = st.builds(
    ReplicaReport,
    names, names, names, st.sampled_from(ReplicaState), counts, times, times, counts, counts,
    counts, times, counts, counts, counts, counts,
)  # fmt: skip
messages = st.one_of(
    st.builds(Decide, counts, decisions),
    st.builds(Answer, counts, results),
    st.builds(Report, reports),
    st.builds(Failed, counts, names, names, st.integers(0, 3_600_000), names),
    st.builds(Cancel, counts),
)


@given(messages)
def test_whatever_is_encoded_is_decoded_the_same(message: Message) -> None:
    assert decode(encode(message)) == message


@settings(max_examples=300)
@given(messages, st.data())
def test_changed_bytes_are_refused_or_are_another_valid_message(
    message: Message, data: st.DataObject
) -> None:
    payload = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(payload))
    except TransportError:
        return
    encode(decoded)  # what was accepted could have been sent


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_transport_errors(payload: bytes) -> None:
    for read in (decode, decode_handshake):
        with contextlib.suppress(TransportError):
            read(payload)


def test_truncated_messages_are_refused_at_every_length() -> None:
    payload = encode(Decide(7, DECISION))
    for end in range(len(payload)):
        with pytest.raises(TransportError):
            decode(payload[:end])
    with pytest.raises(TransportError):
        decode(payload + b"\x00")


def test_structurally_mutated_decisions_raise_only_transport_errors() -> None:
    """Valid msgpack of the wrong shape: each field of each level replaced by hostile values."""
    rng = random.Random(5)
    hostile: list[object] = [
        None, True, -1, 2**31, 2**63, -(2**63), 1.5, float("nan"), "", "x" * 5_000, b"", b"abc",
        b"\xff" * 8, [], [[]], [None] * 20,
    ]  # fmt: skip

    def paths(value: object, at: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
        if not isinstance(value, list):
            return [at]
        return [at, *(p for i, v in enumerate(value) for p in paths(v, (*at, i)))]

    refused = 0
    for message in (Decide(7, DECISION), Answer(7, RESULT), Report(REPORT)):
        payload = encode(message)
        for path in paths(msgpack.unpackb(payload)):
            for value in rng.sample(hostile, 8):
                fields = msgpack.unpackb(payload)
                if not path:
                    fields = value
                else:
                    inner = fields
                    for step in path[:-1]:
                        inner = inner[step]
                    inner[path[-1]] = value
                try:
                    decode(msgpack.packb(fields))
                except TransportError:
                    refused += 1
    assert refused > 300


BAD_PLANS = {
    "a segment before its parent": Plan((Segment(1, (1,)), Segment(-1, (1,)))),
    "a segment that is its own parent": Plan((Segment(0, (1,)),)),
    "a parent below the root": Plan((Segment(-2, (1,)),)),
    "a row of no segment": Plan((Segment(-1, (1,)),), (Row(1, Readout(ReadoutKind.EMBED)),)),
    "a row of a negative segment": Plan(
        (Segment(-1, (1,)),), (Row(-1, Readout(ReadoutKind.EMBED)),)
    ),
    "a token id of 2**31": Plan((Segment(-1, (2**31,)),)),
    "a negative token id": Plan((Segment(-1, (-1,)),)),
    "a span past its row": Plan(
        (Segment(-1, (1, 2)),), (Row(0, Readout(ReadoutKind.STATES, spans=((1, 3),))),)
    ),
    "an empty span": Plan(
        (Segment(-1, (1, 2)),), (Row(0, Readout(ReadoutKind.STATES, spans=((1, 1),))),)
    ),
    "a chain of segments that is too deep": Plan(
        tuple(Segment(i - 1, (1,)) for i in range(MAX_DEPTH + 1))
    ),
}


@pytest.mark.parametrize("what", BAD_PLANS)
def test_a_plan_with_a_fault_is_refused_by_the_sender(what: str) -> None:
    with pytest.raises(TransportError, match="plan"):
        encode(Decide(1, replace(DECISION, plan=BAD_PLANS[what])))


def wire(**changes: object) -> bytes:
    """DECISION on the wire with fields replaced by position."""
    fields = msgpack.unpackb(encode(Decide(7, DECISION)))
    for key, value in changes.items():
        fields[2][int(key[1:])] = value
    return bytes(msgpack.packb(fields))


BAD_WIRE = {
    "another plan version": wire(_0=2),
    "a parent after its child": wire(_3=[[0, b"\1\0\0\0"]]),
    "tokens of 2**31": wire(_3=[[-1, b"\0\0\0\x80"]], _4=[]),
    "tokens that are not whole": wire(_3=[[-1, b"\1\0\0"]], _4=[]),
    "a row without segment": wire(_4=[[9, "labels", b"", b"", False, b""]]),
    "an unknown readout": wire(_4=[[0, "text", b"", b"", False, b""]]),
    "an odd number of span ends": wire(_4=[[0, "states", b"", b"\0\0\0\0", False, b""]]),
    "a number for a flag": wire(_4=[[0, "labels", b"", b"", 1, b""]]),
    "an unknown lane": wire(_7="express"),
    "a flag for a deadline": wire(_6=True),
    "a name that is too long": wire(_1="x" * 300),
}


@pytest.mark.parametrize("what", BAD_WIRE)
def test_a_decision_with_a_fault_is_refused_by_the_receiver(what: str) -> None:
    with pytest.raises(TransportError):
        decode(BAD_WIRE[what])


def test_many_small_rows_cannot_stand_for_endless_work() -> None:
    """Given 100 kB that name one long segment 4,000 times, then the expanded size refuses it."""
    plan = Plan((Segment(-1, (1,) * 20_000),), (Row(0, Readout(ReadoutKind.SCALAR)),) * 4_000)

    with pytest.raises(TransportError, match="too many tokens"):
        encode(Decide(1, replace(DECISION, plan=plan)))


def test_nested_lists_that_claim_much_memory_are_refused() -> None:
    """Given list headers that each claim 2**32 - 1 items, then nothing of that size is made."""
    with pytest.raises(TransportError):
        decode(b"\xdd\xff\xff\xff\xff" * 2_000)
    with pytest.raises(TransportError):
        decode(b"\x91" * 100_000)
    tracemalloc.start()
    with pytest.raises(TransportError):
        decode(b"\xdd\x00\x02\x00\x00" * 500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_before_proof_only_handshake_messages_are_read() -> None:
    for message in (Cancel(1), Drain(1), Decide(7, DECISION), Report(REPORT)):
        with pytest.raises(TransportError):
            decode_handshake(encode(message))
    assert decode_handshake(encode(Hello(9, bytes(32)))) == Hello(9, bytes(32))


@pytest.mark.parametrize(
    "error",
    [
        Overloaded("full", retry_after_ms=120, reason="queue"),
        EngineFailed("broke"),
        MaxTokensExceeded("too long"),
        TransportError("lost"),
    ],
)
def test_an_error_crosses_with_its_type_and_safe_fields(error: JevserveError) -> None:
    message = decode(encode(Failed.of(3, error)))
    assert isinstance(message, Failed)
    rebuilt = message.error()

    assert type(rebuilt) is type(error)
    assert vars(rebuilt) == vars(error)


@pytest.mark.parametrize(
    "error", [InvalidRequest.at(("body", "x"), "bad"), CheckpointError("no such folder")]
)
def test_an_error_that_a_replica_may_not_raise_becomes_engine_failed(error: JevserveError) -> None:
    assert type(Failed.of(3, error).error()) is EngineFailed
    assert type(Failed(3, "no_such_type", "x").error()) is EngineFailed


def test_a_long_error_message_is_cut_visibly() -> None:
    message = decode(encode(Failed.of(3, EngineFailed("é" * 5_000))))
    assert isinstance(message, Failed)

    assert len(message.message) == MAX_ERROR_TEXT
    assert message.message.endswith("…")


def test_values_beyond_float32_become_infinite_not_an_error() -> None:
    message = decode(encode(Answer(1, replace(RESULT, rows=(RowResult((1e300,)),)))))

    assert isinstance(message, Answer)
    assert message.result.rows[0].values == (float("inf"),)


def test_a_half_surrogate_is_refused_by_the_sender() -> None:
    with pytest.raises(TransportError):
        encode(Decide(1, replace(DECISION, trace="\ud800")))
