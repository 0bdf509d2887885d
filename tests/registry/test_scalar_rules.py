"""Elementwise rules made of partial derivatives: any number is a factor, wrong ones are refused where they are made."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, gradient, primitive, scalar_rule
from yota_py.errors import RuleError
from yota_py.registry.tangents import strong_multiply
from yota_py.testing.checks import check_rrule


def times(factor: Any) -> Any:
    """A primitive that multiplies with a number, and says so by that number."""

    @primitive
    def scaled(x: Any) -> Any:
        return x * factor

    scalar_rule(scaled, factor)
    return scaled


@pytest.mark.parametrize("factor", [1, -1, 0, 2, 2.0, -0.5, np.float64(3.0), np.float32(0.5), np.int64(-3)])
def test_numbers_are_factors(factor: Any) -> None:
    scaled = times(factor)
    for x in (1.5, np.array([1.0, 2.0]), np.float32(2.0)):
        check_rrule(scaled, x)
    slope = gradient(lambda x: scaled(x) * x)
    for x in (1.0, 3.0, -2.0):
        assert_allclose(slope(x), 2 * factor * x)
    assert_allclose(gradient(slope)(1.0), 2 * factor)


def test_complex_factors_are_conjugated() -> None:
    scaled = times(1 + 2j)
    check_rrule(scaled, np.array([1 - 1j, 2j]))
    check_rrule(scaled, 3.0)


def test_a_float32_argument_keeps_its_dtype() -> None:
    assert gradient(lambda x: np.sum(times(np.float64(2))(x)))(np.ones(2, np.float32)).dtype == np.float32


@pytest.mark.parametrize("partial", ["1", Fraction(1, 2), True, np.ones(2), [1.0]])
def test_what_is_no_partial_derivative_is_refused(partial: Any) -> None:
    with pytest.raises(TypeError, match=r"partial derivative of scaled in argument 0 is .*; give a function"):
        times(partial)


def test_counts_of_partial_derivatives() -> None:
    def two(a: Any, b: Any) -> Any:
        return a + b

    for fn, partials in [(two, (1,)), (two, (1, 1, 1)), (np.hypot, (1,)), (np.exp, (1, 2))]:
        with pytest.raises(RuleError, match=r"scalar_rule has \d partial derivatives? for \w+, which takes \d"):
            scalar_rule(primitive(fn) if fn is two else fn, *partials)
    assert_allclose(gradient(np.exp)(0.0), 1.0)  # a refused rule has left the old one alone


def test_counts_that_a_signature_does_not_tell() -> None:
    @primitive
    def total(*xs: Any) -> Any:
        return sum(xs)

    @primitive
    def shifted(x: Any, by: Any = 1.0) -> Any:
        return x + by

    scalar_rule(total, 1, 1)
    scalar_rule(shifted, 1)
    assert gradient(lambda x: total(x, x))(1.0) == 2
    assert gradient(lambda x: shifted(x))(1.0) == 1
    for f in (lambda x: total(x, x, x), lambda x: shifted(x, x)):
        with pytest.raises(RuleError, match=r"partial derivatives? for \w+, which is called with [23]"):
            gradient(f)(1.0)


@pytest.mark.parametrize("slope", [None, "2", np.ones(3)])
def test_partial_derivatives_that_give_no_slope(slope: Any) -> None:
    @primitive
    def same(x: Any) -> Any:
        return x

    scalar_rule(same, lambda y, x: slope)
    config.compile = "never"
    with pytest.raises(RuleError, match="a partial derivative of same gave"):
        gradient(lambda x: same(x) * 1.0)(2.0)


def test_products_of_numbers_are_those_of_arrays() -> None:
    values = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e308, 5e-324]
    for dy, partial in itertools.product(values, values):
        for number in (partial, np.float64(partial)):
            have = strong_multiply(np.float64(dy), number)
            want = strong_multiply(np.array([dy]), np.array([partial]))[0]
            assert type(have) is np.float64
            assert have.tobytes() == want.tobytes() or (np.isnan(have) and np.isnan(want)), (dy, partial)


def test_a_cotangent_of_zero_gives_zero() -> None:
    rng = np.random.default_rng(0)
    values = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e308, 5e-324])
    shapes = [(3,), (300,), (1, 300), (2, 1), (0,), (2, 3), ()]
    for dtype, other in itertools.product("fdDi", "fdDi"):
        for shape, partner in itertools.product(shapes, shapes):
            if shape and partner and shape[-1] != partner[-1] and 1 not in (shape[-1], partner[-1]):
                continue
            with np.errstate(all="ignore"):
                dy = rng.choice(values[:: rng.integers(1, 3)], shape).astype(dtype)
                partial = rng.choice(values, partner).astype(other)
                want = np.where(dy == 0, 0, dy * partial)[()]
            have = strong_multiply(dy, partial)
            assert type(have) is type(want) and have.dtype == want.dtype
            np.testing.assert_array_equal(have, want)
