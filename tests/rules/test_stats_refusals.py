"""What is said of distributions in whose parameters there is no derivative; and what looked like it, but has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special._ufuncs as compiled
from numpy.testing import assert_allclose
from scipy import special, stats

from yota_py import MissingRuleError, grad, gradient, pullback

REFUSED: dict[str, Callable[[Any], Any]] = {
    "gompertz.mean has no derivative in its argument c": lambda p: stats.gompertz(p).mean(),
    "gompertz.var has no derivative in its argument c": lambda p: stats.gompertz.var(p, loc=1.0),
    "gompertz.std has no derivative in its argument c": lambda p: stats.gompertz(c=p).std(),
    "gompertz.stats has no derivative in its argument c": lambda p: stats.gompertz.stats(p)[1],
    "gompertz.moment has no derivative in its argument c": lambda p: stats.gompertz(p).moment(3),
    "exponweib.mean has no derivative in its argument a": lambda p: stats.exponweib.mean(p, 1.5),
    "exponweib.mean has no derivative in its argument c": lambda p: stats.exponweib(1.5, p).mean(),
    "exponweib.entropy has no derivative in its argument c": lambda p: stats.exponweib(1.5, p).entropy(),
    "levy_stable.pdf has no derivative in its argument x": lambda p: stats.levy_stable(1.5, 0.5).pdf(p),
    "levy_stable.logpdf has no derivative in its argument alpha": lambda p: stats.levy_stable.logpdf(0.3, p, 0.5),
    "nct.cdf has no derivative in its argument df": lambda p: stats.nct.cdf(0.3, p, 0.5),
    "nct.logsf has no derivative in its argument nc": lambda p: stats.nct(2.0, p).logsf(0.3),
    "nct.ppf has no derivative in its argument nc": lambda p: stats.nct(2.0, p).ppf(0.3),
    "nct.median has no derivative in its argument nc": lambda p: stats.nct(2.0, p).median(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_messages_name_the_method_and_the_argument(what: str) -> None:
    with pytest.raises(MissingRuleError, match=rf"^test_stats_refusals.py:\d+: scipy.stats.{what}: ") as error:
        grad(REFUSED[what], 0.7)
    assert "without_formula" not in str(error.value)
    assert "stop_gradient" in str(error.value)


def test_what_is_refused_is_no_more_than_that() -> None:
    f = stats.exponweib
    dloc, dscale = grad(lambda loc, scale: f(1.2, 1.5, loc, scale).mean(), 0.3, 2.0)[1]
    assert (dloc, dscale) == pytest.approx((1.0, f(1.2, 1.5).mean()))
    assert pullback(lambda p: f(p, 1.5).mean(), 1.2)[0] == pytest.approx(f(1.2, 1.5).mean())
    assert_allclose(gradient(lambda x: stats.nct.cdf(x, 2.0, 0.5))(0.3), stats.nct.pdf(0.3, 2.0, 0.5))


@pytest.mark.parametrize("x", [1e-8, 0.01, 0.7, 1.0, 3.0, 60.0, 99.0, 101.0, 1e4, 1e9, np.float32(2.0)])
def test_the_scaled_exponential_integral(x: Any) -> None:
    """x exp(x) E1(x), whose derivative is taken by quadrature: the integral of s exp(-s) / (s + x)**2."""
    y, (slope,) = grad(compiled._scaled_exp1, x)
    assert y == pytest.approx(compiled._scaled_exp1(x))
    points, weights = special.roots_laguerre(150)
    if x >= 1:
        want = np.sum(weights * points / (points + x) ** 2)
        assert slope == pytest.approx(want, rel=1e-6 if isinstance(x, np.float32) else 1e-11)
        curvature = gradient(gradient(compiled._scaled_exp1))(float(x))
        assert curvature == pytest.approx(-2 * np.sum(weights * points / (points + x) ** 3), rel=1e-7)
    else:
        assert slope == pytest.approx(np.exp(x) * special.exp1(x) * (1 + x) - 1)


def test_entropies_by_the_scaled_exponential_integral() -> None:
    for f in (lambda c: stats.gompertz(c).entropy(), lambda c: stats.invgauss.entropy(c, scale=2.0)):
        for at in (0.5, 3.0, 40.0):
            step = 1e-5 * at
            y, (slope,) = grad(f, at)
            assert y == pytest.approx(f(at))
            assert slope == pytest.approx((f(at + step) - f(at - step)) / (2 * step), rel=1e-6)
