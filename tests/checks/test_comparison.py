"""Comparison: one tolerance, relative to the right size, and nothing special slips through."""

from __future__ import annotations

import numpy as np
import pytest

from cs_transformers.checks.comparison import FLOOR, TOLERANCE, compare_kinds, compare_values, differing, size_of


def test_equal_arrays_do_not_differ() -> None:
    array = np.linspace(-1, 1, 12).reshape(3, 4)
    assert compare_values(array, array.copy()) is None


def test_the_tolerance_is_relative_to_the_largest_entry() -> None:
    expected = np.array([1e-9, 1000.0])
    assert compare_values(expected, expected + 0.5 * TOLERANCE * 1000) is None
    assert compare_values(expected, expected + 2 * TOLERANCE * 1000).index == (0,)


def test_a_scale_given_from_outside_replaces_the_largest_entry() -> None:
    expected, got = np.zeros(3), np.array([0.0, 1e-4, 0.0])
    assert compare_values(expected, got).index == (1,)
    assert compare_values(expected, got, scale=100.0) is None


def test_noise_around_zero_is_no_difference() -> None:
    assert compare_values(np.zeros(3), np.full(3, 1e-12)) is None
    assert size_of(np.zeros(3)) == FLOOR


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_stand_in_the_same_places(special: float) -> None:
    expected = np.array([1.0, special, 2.0])
    assert compare_values(expected, expected.copy()) is None
    assert compare_values(expected, np.array([1.0, 3.0, 2.0])).index == (1,)
    assert compare_values(np.array([1.0, 3.0, 2.0]), expected).index == (1,)


def test_infinities_of_opposite_sign_differ() -> None:
    assert compare_values(np.array([np.inf]), np.array([-np.inf])).got == "-inf"


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64])
def test_whole_numbers_and_bools_must_be_equal(dtype: type) -> None:
    expected = np.array([1, 0, 1]).astype(dtype)
    assert compare_values(expected, expected.copy()) is None
    assert compare_values(expected, np.array([1, 1, 1]).astype(dtype)).index == (1,)


def test_the_first_entry_in_reading_order_is_shown_in_four_digits() -> None:
    expected = np.zeros((2, 3, 4))
    got = expected.copy()
    got[1, 0, 2], got[1, 2, 0] = 1.23456789, 5.0
    difference = compare_values(expected, got)
    assert (difference.index, difference.expected, difference.got) == ((1, 0, 2), "0", "1.235")


def test_scalars_have_no_index() -> None:
    assert compare_values(np.array(1.0), np.array(2.0)).index == ()


def test_shape_comes_before_dtype() -> None:
    both = compare_kinds(np.zeros((2, 3)), np.zeros((3, 2), np.float32), "float64 tensor", "float32 tensor")
    assert (both.aspect, both.expected, both.got) == ("shape", "(2, 3)", "(3, 2)")
    one = compare_kinds(np.zeros(2), np.zeros(2, np.float32), "float64 tensor", "float32 tensor")
    assert (one.aspect, one.expected, one.got) == ("dtype", "float64 tensor", "float32 tensor")


def test_numbers_of_python_are_one_kind_and_a_tensor_is_another() -> None:
    assert compare_kinds(np.array(1), np.array(1.0), "int", "float") is None
    assert compare_kinds(np.array(1), np.array(1.0), "int", "float64 tensor").aspect == "dtype"


def test_other_shapes_are_refused_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"expected an array of shape \(2,\), got \(1,\); compare the shapes first"):
        compare_values(np.zeros(2), np.zeros(1))


def test_complex_numbers_are_compared_whole() -> None:
    assert differing(np.array([1 + 1j]), np.array([1 + 2j])).all()
    assert not differing(np.array([1 + 1j]), np.array([1 + 1j])).any()
