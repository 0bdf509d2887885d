"""Distributions that SciPy writes with the absolute value, at their centres, where they are smooth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from yota_py import grad, gradient, hessian

ROOT_PI = np.sqrt(np.pi)
Cases = dict[str, tuple[Callable[[float], float], float, float]]
FIRST: Cases = {  # a function, where, and its slope there
    "gennorm.cdf": (lambda x: stats.gennorm.cdf(x, 2.0), 0.0, 1 / ROOT_PI),
    "gennorm.sf": (lambda x: stats.gennorm.sf(x, 2.0), 0.0, -1 / ROOT_PI),
    "gennorm.logcdf": (lambda x: stats.gennorm.logcdf(x, 2.0), 0.0, 2 / ROOT_PI),
    "gennorm.cdf at loc": (lambda loc: stats.gennorm.cdf(1.0, 2.0, loc=loc), 1.0, -1 / ROOT_PI),
    "gennorm.cdf, heavy": (lambda x: stats.gennorm.cdf(x, 0.5), 0.0, 0.25),
    "gennorm.ppf": (lambda q: stats.gennorm.ppf(q, 2.0), 0.5, ROOT_PI),
    "gennorm.isf": (lambda q: stats.gennorm.isf(q, 2.0), 0.5, -ROOT_PI),
    "gennorm.logpdf, a kink": (lambda x: stats.gennorm.logpdf(x, 1.0), 0.0, 0.0),
    "genlogistic.logpdf": (lambda x: stats.genlogistic.logpdf(x, 0.5), 0.0, -0.25),
    "genlogistic.pdf": (lambda x: stats.genlogistic.pdf(x, 0.5), 0.0, -0.25 * 0.5 * 0.5**1.5),
    "dweibull.cdf": (lambda x: stats.dweibull.cdf(x, 1.0), 0.0, 0.5),
    "dweibull.sf": (lambda x: stats.dweibull.sf(x, 1.0), 0.0, -0.5),
    "dweibull.pdf": (lambda x: stats.dweibull.pdf(x, 3.0), 0.0, 0.0),
}
SECOND: Cases = {
    "logistic.logpdf": (lambda x: stats.logistic.logpdf(x), 0.0, -0.5),
    "logistic.pdf": (lambda x: stats.logistic.pdf(x), 0.0, -0.125),
    "logistic.pdf at loc": (lambda loc: stats.logistic.pdf(2.0, loc, 2.0), 2.0, -0.125 / 8),
    "cauchy.logpdf": (lambda x: stats.cauchy.logpdf(x), 0.0, -2.0),
    "gennorm.logpdf": (lambda x: stats.gennorm.logpdf(x, 2.0), 0.0, -2.0),
    "gennorm.pdf": (lambda x: stats.gennorm.pdf(x, 2.0), 0.0, -2 / ROOT_PI),
    "gennorm.cdf": (lambda x: stats.gennorm.cdf(x, 2.0), 0.0, 0.0),
    "genlogistic.logpdf": (lambda x: stats.genlogistic.logpdf(x, 0.5), 0.0, -0.375),
    "dgamma.pdf": (lambda x: stats.dgamma.pdf(x, 3.0), 0.0, 0.5),
    "dweibull.pdf": (lambda x: stats.dweibull.pdf(x, 3.0), 0.0, 3.0),
}


@pytest.mark.parametrize("name", FIRST)
def test_slopes(name: str) -> None:
    f, x, want = FIRST[name]
    for _ in range(3):
        y, (dx,) = grad(f, x)
        assert y == pytest.approx(f(x), rel=1e-14)
        assert dx == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("name", SECOND)
def test_curvatures(name: str) -> None:
    f, x, want = SECOND[name]
    for _ in range(3):
        assert hessian(f)(x) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("dist", [
    stats.logistic(), stats.genlogistic(0.7), stats.cauchy(), stats.gennorm(1.7), stats.dweibull(2.3),
    stats.dgamma(2.5),
], ids=lambda dist: dist.dist.name)  # fmt: skip
@pytest.mark.parametrize("name", ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
def test_elsewhere(name: str, dist: stats.rv_frozen) -> None:  # type: ignore[type-arg]
    """All of SciPy's values, and slopes as differences have them."""
    for x in (0.2, 0.6, 0.9) if name in ("ppf", "isf") else (-1.3, -0.2, 0.4, 2.0, -6.0):
        f = getattr(dist, name)
        y, (dx,) = grad(f, x)
        assert y == pytest.approx(f(x), rel=1e-12)
        assert dx == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-4, abs=1e-8)


LAMBDAS = [0.0, 0.7, 1.0, 2.0, 2.5]


@pytest.mark.parametrize("lmbda", LAMBDAS)
def test_yeo_and_johnson_at_zero(lmbda: float) -> None:
    x = np.array([0.0, 1.0, -2.0])
    for f in (lambda x: np.sum(stats.yeojohnson(x, lmbda)), lambda x: stats.yeojohnson_llf(lmbda, x)):
        want = [(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
        for _ in range(3):
            np.testing.assert_allclose(gradient(f)(x), want, atol=1e-5)
