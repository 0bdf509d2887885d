"""Moments of ``scipy.stats`` where their formulas change: at a location of zero, at a shape of zero."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from yota_py import grad, jit, value_and_grad
from yota_py.testing.checks import check_grads


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("name", "shapes"), [("norm", ()), ("gamma", (2.0,)), ("t", (9.0,)), ("poisson", (1.5,))])
def test_moments_about_a_location_of_zero(name: str, shapes: Any, order: int) -> None:
    dist = getattr(stats, name)
    more = {} if name == "poisson" else {"scale": 0.4}

    def f(loc: Any) -> Any:
        return dist.moment(order, *shapes, loc=loc, **more)

    for loc in (0.0, 1e-9, 0.5, 0.0):
        value, (slope,) = grad(f, loc)
        assert_allclose(value, f(loc), rtol=1e-12)
        below = 1.0 if order == 1 else dist.moment(order - 1, *shapes, loc=loc, **more)
        assert_allclose(slope, order * below, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_infinite_moments_of_lower_orders() -> None:
    """They do not count at a location of zero, as in SciPy."""
    for loc in (0.0, 0.5):
        value, _ = grad(lambda loc: stats.pareto.moment(4, 2.5, loc=loc), loc)
        assert_allclose(value, stats.pareto.moment(4, 2.5, loc=loc))


def extreme(c: Any, which: str) -> Any:
    """Of ``(1 - E**c) / c``, in the arithmetic of mpmath."""
    g1, g2, g3, g4 = (mpmath.gamma(1 + n * c) for n in (1, 2, 3, 4))
    variance = (g2 - g1**2) / c**2
    if which == "m":
        return (1 - g1) / c
    if which == "v":
        return variance
    if which == "s":
        return -(g3 - 3 * g2 * g1 + 2 * g1**3) / c**3 / variance**1.5
    return (g4 - 4 * g3 * g1 - 3 * g2**2 + 12 * g2 * g1**2 - 6 * g1**4) / c**4 / variance**2


@pytest.mark.parametrize("which", "mvsk")
def test_extreme_values_of_small_shapes(which: str) -> None:
    value_and_slope = value_and_grad(lambda c: stats.genextreme.stats(c, moments=which) + 0.0)
    with mpmath.workdps(120):
        for c in (0.0, 1e-9, -1e-5, 0.003, -0.0199, 0.0201, -0.2, 0.3):
            at, h = mpmath.mpf(c) or mpmath.mpf(10) ** -20, mpmath.mpf(10) ** -30
            have, slope = value_and_slope(c)
            assert_allclose(have, float(extreme(at, which)), rtol=1e-8)
            wanted = (extreme(at + h, which) - extreme(at - h, which)) / (2 * h)
            assert_allclose(slope, float(wanted), rtol=1e-7)
    check_grads(lambda c: stats.genextreme.mean(c) * stats.genextreme.var(c), 0.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_ranges_of_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for axis in (None, *range(len(shape))):
        f = jit(lambda x, axis=axis: stats.iqr(x, axis=axis) * 1.0)
        np.testing.assert_array_equal(f(x), stats.iqr(x, axis=axis) * 1.0)
