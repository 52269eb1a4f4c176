"""Metrics on cases whose values are known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from jevserve.evaluation.metrics import (
    accuracy,
    brier,
    expected_calibration_error,
    measure,
    negative_log_likelihood,
)

SURE = np.array([1.0, 0.0])
EVEN = np.array([0.5, 0.5])
THREE = np.array([0.2, 0.7, 0.1])


def test_accuracy_counts_right_tops() -> None:
    assert accuracy([SURE, SURE, THREE], [0, 1, 1]) == pytest.approx(2 / 3)


def test_certain_and_right_has_no_calibration_error_and_certain_and_wrong_has_all() -> None:
    assert expected_calibration_error([SURE] * 3, [0, 0, 0]) == 0.0
    assert expected_calibration_error([SURE] * 3, [1, 1, 1]) == 1.0


def test_calibration_error_weighs_bins_by_size() -> None:
    p = [SURE, SURE, SURE, np.array([0.6, 0.4])]
    assert expected_calibration_error(p, [0, 0, 1, 0]) == pytest.approx(0.75 / 3 + 0.25 * 0.4)


def test_brier_and_likelihood_of_known_vectors() -> None:
    assert brier([EVEN], [0]) == pytest.approx(0.5)
    assert brier([SURE], [1]) == pytest.approx(2.0)
    assert negative_log_likelihood([EVEN], [1]) == pytest.approx(np.log(2))
    assert np.isfinite(negative_log_likelihood([SURE], [1]))


def test_the_majority_is_the_better_of_two_ways_to_guess() -> None:
    assert measure([EVEN] * 4, [0, 0, 0, 1], ["a", "a", "a", "b"]).majority == 0.75
    assert measure([EVEN] * 4, [0, 1, 0, 1], ["a", "b", "c", "d"]).majority == 0.5


def test_nothing_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="nothing"):
        measure([], [], [])
