"""Distributions at complex numbers, as for derivatives by a complex step: SciPy computes their densities there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from yota_py import grad, jit
from yota_py.errors import MissingRuleError

X = np.array([0.3, 0.9, 0.5])
DISTRIBUTIONS: dict[str, tuple[Any, ...]] = {
    "norm": (), "expon": (), "gamma": (2.0,), "beta": (2.0, 3.0), "t": (4.0,), "lognorm": (0.5,), "laplace": (),
    "logistic": (), "cauchy": (), "weibull_min": (1.5,), "gumbel_r": (),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_densities(name: str) -> None:
    dist, args = getattr(stats, name), DISTRIBUTIONS[name]

    def f(x: Any) -> Any:
        return dist.logpdf(x + 0.1j, *args)

    def loss(x: Any) -> Any:
        y = f(x)
        return np.sum(np.real(y) * 1.3 + np.imag(y))

    step = jit(f)
    for x in (X, X + 0.05, X[::-1]):
        have, want = step(x), f(x)
        assert have.dtype == want.dtype
        assert_allclose(have, want, rtol=1e-12)
        value, (dx,) = grad(loss, x)
        slopes = [(loss(x + e) - loss(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        assert_allclose(value, loss(x), rtol=1e-12)
        assert_allclose(dx, slopes, rtol=1e-5, atol=1e-6)


def test_a_complex_step() -> None:
    def slope(x: Any) -> Any:
        return stats.norm(0.0, 1.0).logpdf(x + 1e-20j).imag / 1e-20

    value, (dx,) = grad(slope, 0.5)
    assert_allclose((value, dx), (-0.5, -1.0), rtol=1e-12)


def test_where_scipy_drops_the_imaginary_part() -> None:
    with pytest.raises(MissingRuleError, match="density at complex numbers"):
        grad(lambda x: stats.multivariate_normal.logpdf(x + 1j, np.zeros(2), np.eye(2)).imag, np.ones(2))
