"""Plans: forests of segments that share work, and the keys and cuts read off them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.decisions.plan import (
    ROOT,
    Combine,
    CombineRule,
    GroupRecord,
    Plan,
    PlanBuilder,
    Readout,
    ReadoutKind,
    Row,
    Segment,
)

LABELS = Readout(ReadoutKind.LABELS, labels=(0, 1))
SCALAR = Readout(ReadoutKind.SCALAR)


def forked_plan() -> Plan:
    """A state of three tokens, then of two; two questions behind it, and a label row on one."""
    build = PlanBuilder()
    head = build.segment([10, 11, 12])
    state = build.segment([20, 21], head)
    first = build.segment([30], state)
    second = build.segment([40, 41], state)
    build.row(first, LABELS)
    build.row(second, SCALAR)
    build.combine(Combine(0, CombineRule.SOFTMAX_ROW, (0,)))
    return build.build()


def test_a_built_plan_lists_segments_parents_first_and_rows_in_the_order_asked_for() -> None:
    assert forked_plan() == Plan(
        segments=(
            Segment(ROOT, (10, 11, 12)),
            Segment(0, (20, 21)),
            Segment(1, (30,)),
            Segment(1, (40, 41)),
        ),
        rows=(Row(2, LABELS), Row(3, SCALAR)),
        combines=(Combine(0, CombineRule.SOFTMAX_ROW, (0,)),),
    )


def test_rows_are_paths_from_the_root() -> None:
    plan = forked_plan()

    assert plan.path(3) == [0, 1, 3]
    assert plan.tokens(0) == [10, 11, 12, 20, 21, 30]
    assert plan.tokens(1) == [10, 11, 12, 20, 21, 40, 41]
    assert [plan.row_length(0), plan.row_length(1)] == [6, 7]


def test_cuts_are_the_token_counts_before_each_further_segment() -> None:
    plan = forked_plan()

    assert plan.cuts(0) == [3, 5]
    assert plan.cuts(1) == [3, 5]


def test_a_row_of_one_segment_has_no_cuts() -> None:
    build = PlanBuilder()
    build.row(build.segment([1, 2]), SCALAR)

    assert build.build().cuts(0) == []


def test_shared_text_counts_once() -> None:
    assert forked_plan().input_tokens == 8


def test_the_shared_path_ends_where_the_first_row_leaves() -> None:
    assert forked_plan().shared_path() == [0, 1]


def test_a_row_that_ends_inside_the_path_of_another_shortens_the_shared_path() -> None:
    build = PlanBuilder()
    trunk = build.segment([1])
    build.row(trunk, SCALAR)
    build.row(build.segment([2], trunk), SCALAR)

    assert build.build().shared_path() == [trunk]


def test_rows_without_a_common_root_share_nothing() -> None:
    build = PlanBuilder()
    build.row(build.segment([1]), SCALAR)
    build.row(build.segment([2]), SCALAR)
    plan = build.build()

    assert plan.shared_path() == []
    assert plan.affinity_keys(b"n") == ()


def test_a_plan_without_rows_shares_nothing_and_costs_nothing() -> None:
    plan = Plan()

    assert (plan.shared_path(), plan.affinity_keys(b"n"), plan.input_tokens) == ([], (), 0)


def test_affinity_keys_are_the_golden_ones() -> None:
    keys = forked_plan().affinity_keys(b"revision/salt")

    assert [k.hex() for k in keys] == [
        "ff23be1a5bbd2727607f930669a22793",
        "cb6655573f48c5a948bd4b3deb47fee2",
    ]


def test_an_affinity_key_hashes_namespace_lengths_and_tokens_up_to_its_level() -> None:
    written = b"revision/salt"
    for tokens in ((10, 11, 12), (20, 21)):
        written += len(tokens).to_bytes(4, "little")
        written += b"".join(t.to_bytes(4, "little") for t in tokens)
    last = hashlib.blake2b(written, digest_size=16).digest()

    assert forked_plan().affinity_keys(b"revision/salt")[-1] == last


def test_another_namespace_gives_other_keys_at_every_level() -> None:
    plan = forked_plan()

    assert not set(plan.affinity_keys(b"a")) & set(plan.affinity_keys(b"b"))


def test_what_follows_the_shared_path_does_not_change_affinity() -> None:
    build = PlanBuilder()
    state = build.segment([20, 21], build.segment([10, 11, 12]))
    build.row(build.segment([77], state), LABELS)
    build.row(build.segment([78], state), LABELS)

    assert build.build().affinity_keys(b"n") == forked_plan().affinity_keys(b"n")


def test_the_same_tokens_cut_elsewhere_are_another_key() -> None:
    def keys(*segments: list[int]) -> tuple[bytes, ...]:
        build = PlanBuilder()
        last = ROOT
        for tokens in segments:
            last = build.segment(tokens, last)
        build.row(last, SCALAR)
        return build.build().affinity_keys(b"n")

    assert keys([1, 2], [3])[-1] != keys([1], [2, 3])[-1]


def test_equal_segments_and_equal_rows_become_one() -> None:
    build = PlanBuilder()
    trunk = build.segment([1, 2])

    assert build.segment((1, 2)) == trunk
    assert build.segment([3], trunk) == build.segment([3], trunk)
    assert build.segment([3], trunk) != build.segment([3])
    assert build.row(trunk, LABELS) == build.row(trunk, LABELS)
    assert build.row(trunk, SCALAR) != build.row(trunk, LABELS)
    assert build.row(trunk, LABELS, media=(0,)) != build.row(trunk, LABELS)


def test_a_segment_without_tokens_is_its_parent() -> None:
    build = PlanBuilder()
    trunk = build.segment([1])

    assert build.segment([], trunk) == trunk
    assert build.segment([]) == ROOT


def test_a_row_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        PlanBuilder().row(ROOT, SCALAR)


TokenRow = tuple[int, ...]
ROWS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=10).map(tuple), min_size=1, max_size=8
)


def trie_nodes(rows: Sequence[TokenRow]) -> int:
    """Nodes of the trie of ``rows`` without its root: distinct non-empty prefixes."""
    return len({row[:end] for row in rows for end in range(1, len(row) + 1)})


def branches(rows: Sequence[TokenRow]) -> set[TokenRow]:
    """Prefixes at which rows part or at which one of them ends."""
    children: dict[TokenRow, set[int]] = {}
    for row in rows:
        for end in range(len(row)):
            children.setdefault(row[:end], set()).add(row[end])
    return {p for p, next_tokens in children.items() if p and len(next_tokens) > 1} | set(rows)


def build_plan(rows: Sequence[TokenRow], cut_after: set[TokenRow]) -> tuple[Plan, list[int]]:
    """A plan of ``rows``, each cut after every prefix of ``cut_after``; and the row indices."""
    build, indices = PlanBuilder(), []
    for row in rows:
        last, start = ROOT, 0
        for end in range(1, len(row) + 1):
            if end == len(row) or row[:end] in cut_after:
                last, start = build.segment(row[start:end], last), end
        indices.append(build.row(last, SCALAR))
    return build.build(), indices


@given(ROWS)
def test_rows_cut_where_they_part_cost_exactly_the_nodes_of_their_trie(
    rows: list[TokenRow],
) -> None:
    plan, indices = build_plan(rows, branches(rows))

    assert plan.input_tokens == trie_nodes(rows)
    assert [tuple(plan.tokens(i)) for i in indices] == rows
    assert len(plan.rows) == len(set(rows))


@given(ROWS, st.data())
def test_rows_cut_anywhere_cost_no_less_than_their_trie_and_no_more_than_themselves(
    rows: list[TokenRow], data: st.DataObject
) -> None:
    prefixes = sorted({row[:end] for row in rows for end in range(1, len(row))})
    cut_after = set(data.draw(st.lists(st.sampled_from(prefixes)))) if prefixes else set()
    plan, indices = build_plan(rows, cut_after)

    assert trie_nodes(rows) <= plan.input_tokens <= sum(map(len, set(rows)))
    assert [tuple(plan.tokens(i)) for i in indices] == rows


@given(ROWS)
def test_cuts_lie_inside_the_row_and_mark_prefixes_that_are_segments(
    rows: list[TokenRow],
) -> None:
    plan, indices = build_plan(rows, branches(rows))

    for index, row in zip(indices, rows, strict=True):
        cuts = plan.cuts(index)
        assert cuts == [end for end in range(1, len(row)) if row[:end] in branches(rows)]
        assert plan.row_length(index) == len(row)


@given(ROWS)
def test_the_shared_path_is_a_prefix_of_every_row(rows: list[TokenRow]) -> None:
    plan, _ = build_plan(rows, branches(rows))

    shared = [t for s in plan.shared_path() for t in plan.segments[s].tokens]
    common = 0
    while all(len(r) > common and r[common] == rows[0][common] for r in rows):
        common += 1
    assert tuple(shared) == rows[0][:common]


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": None},
        {"g": 1},
        {"n": "2"},
        {"i": 2},
        {"i": -1},
        {"cuts": 3},
        {"cuts": ["3"]},
        {"dl": None},
    ],
)
def test_a_group_record_of_another_version_or_shape_is_refused(change: dict[str, object]) -> None:
    wire = GroupRecord("d", 2, 1, (3,), 8_000).to_wire()

    with pytest.raises(ValueError, match="group record"):
        GroupRecord.from_wire(wire | change)
