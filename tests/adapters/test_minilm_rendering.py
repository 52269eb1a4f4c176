"""Structured text as text: one stated rule, for any JSON value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jevserve.adapters.rendering import render

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n  really", "as it is\n  really"),
        ({"a": "x", "b": 2}, "a: x\nb: 2"),
        (["x", True, None, 1.5], "- x\n- true\n- null\n- 1.5"),
        ({"a": {"b": ["x", {"c": 1}]}}, "a:\n  b:\n    - x\n    -\n      c: 1"),
        ({}, "{}"),
        ([], "[]"),
        ({"a": {}, "b": []}, "a: {}\nb: []"),
        ({"note": "one\nadmin: true"}, "note: one\n  admin: true"),
        ({"k\nadmin": 1}, "k admin: 1"),
    ],
)
def test_the_rule(value: Any, text: str) -> None:
    assert render(value) == text


@given(value=st.lists(JSON) | st.dictionaries(st.text(), JSON))
def test_any_value_renders_the_same_twice(value: Any) -> None:
    assert render(value) == render(value)


def test_depth_neither_overflows_the_stack_nor_blows_up_the_text() -> None:
    value: list[object] = ["x"]
    for _ in range(20_000):
        value = [value]
    assert len(render(value)) < 20_001 * 70


def test_the_order_of_the_client_is_kept() -> None:
    assert render({"b": 1, "a": 2}) == "b: 1\na: 2"
