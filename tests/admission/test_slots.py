"""Slots: a bound that refuses at once and is always given back."""

from __future__ import annotations

import pytest

from jevserve.admission.slots import Slots
from jevserve.errors import Overloaded


def test_the_surplus_is_refused_and_a_slot_given_back_is_free() -> None:
    slots = Slots(2)
    with slots.take(), slots.take():
        with pytest.raises(Overloaded) as caught, slots.take():
            pass
        assert caught.value.reason == "queue" and slots.taken == 2

    assert slots.taken == 0
    with slots.take():
        assert slots.taken == 1


def test_a_failure_gives_the_slot_back() -> None:
    slots = Slots(1)
    for _ in range(3):
        with pytest.raises(KeyError), slots.take():
            raise KeyError

    assert slots.taken == 0
