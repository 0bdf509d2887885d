"""Objects of SciPy that a function reads: compiled programs notice that they are others, or have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import interpolate as si
from scipy import stats
from scipy.spatial.transform import Rotation

from yota_py import explain, grad, jit, value_and_grad
from yota_py.errors import LostDerivativeError

X = np.linspace(0, 3, 7)
MAKE: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "CubicSpline": (lambda a: si.CubicSpline(X, a * X**2), lambda o, x: o(x)),
    "PchipInterpolator": (lambda a: si.PchipInterpolator(X, a * X**2), lambda o, x: o(x)),
    "Akima1DInterpolator": (lambda a: si.Akima1DInterpolator(X, a * X**2), lambda o, x: o(x)),
    "derivative": (lambda a: si.CubicSpline(X, a * X**2).derivative(), lambda o, x: o(x)),
    "integrate": (lambda a: si.CubicSpline(X, a * X**2), lambda o, x: o.integrate(0.1, x)),
    "BSpline": (lambda a: si.make_interp_spline(X, a * X**2), lambda o, x: o(x)),
    "frozen": (lambda a: stats.norm(a, 2.0), lambda o, x: o.logpdf(x)),
    "frozen by name": (lambda a: stats.gamma(a=1 + a, scale=2.0), lambda o, x: o.logpdf(x)),
    "multivariate": (lambda a: stats.multivariate_normal([a, 0.0], np.eye(2)), lambda o, x: o.logpdf([x, 1.0])),
    "gaussian_kde": (lambda a: stats.gaussian_kde(a * X**2), lambda o, x: o.logpdf(x)[0]),
    "Rotation": (lambda a: Rotation.from_rotvec([a, 0.2, 0.3]), lambda o, x: np.sum(o.apply([x, 1.0, 2.0])[:2])),
}


@pytest.mark.parametrize("name", MAKE)
def test_another_object_is_noticed(name: str) -> None:
    make, call = MAKE[name]
    obj = make(1.0)

    def f(x: Any) -> Any:
        return call(obj, x) * 1.0

    grad.compile(f, 0.7)
    for a in (1.0, 2.0, 0.5, 2.0):
        obj = make(a)
        for x in (0.7, 1.3):
            h = 1e-6
            value, (slope,) = grad(f, x)
            assert_allclose(value, f(x), rtol=1e-9)
            assert_allclose(slope, (f(x + h) - f(x - h)) / (2 * h), rtol=1e-5, atol=1e-7)
    assert explain(f)[0].calls > 0


def test_an_array_in_an_object_is_noticed() -> None:
    spline = si.CubicSpline(X, X**2)

    def f(x: Any) -> Any:
        return spline(x) * 1.0

    grad.compile(f, 0.7)
    before = grad(f, 0.7)
    spline.c[:] *= 2
    assert_allclose(grad(f, 0.7)[0], 2 * before[0])


def test_functions_of_one_code_over_other_objects() -> None:
    def over(spline: Any) -> Any:
        return lambda x: spline(x) * 1.0

    one, other = over(si.CubicSpline(X, X)), over(si.CubicSpline(X, X**2))
    grad.compile(one, 0.7)
    for f in (one, other, one, other):
        assert_allclose(grad(f, 0.8)[0], f(0.8))


class Exponential(stats.rv_continuous):
    """A distribution of the user's, with attributes of its own."""

    rate = 1.0

    def _cdf(self, x: Any) -> Any:
        return 1 - np.exp(-self.rate * x)

    def _pdf(self, x: Any) -> Any:
        return self.rate * np.exp(-self.rate * x)


def squared(self: Any, x: Any) -> Any:
    return x * x / 4


@pytest.mark.parametrize("method", ["cdf", "sf", "ppf", "logcdf"])
def test_what_scipy_reads_of_an_object_of_the_users(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its support, and its methods, whatever they are called where they are defined."""
    dist = Exponential(a=0.0, b=2.0)

    def f(loc: Any) -> Any:
        return getattr(dist, method)(0.35, loc) * 1.0

    def agrees() -> None:
        for loc in (0.1, 0.05):
            value, (slope,) = grad(f, loc)
            assert_allclose(value, f(loc), rtol=1e-9)
            h = 1e-6
            assert_allclose(slope, (f(loc + h) - f(loc - h)) / (2 * h), rtol=1e-5, atol=1e-8)

    agrees()
    changes: list[tuple[Any, str, Any]] = [
        (dist, "b", 0.2), (dist, "b", 2.0), (dist, "rate", 1.5), (dist, "a", 0.15), (dist, "a", 0.0),
        (dist, "xtol", 1e-13),
    ]  # fmt: skip
    if method != "ppf":  # which finds roots of what it has bound
        own = vars(Exponential)["_cdf"]
        changes += [(Exponential, "_cdf", m) for m in (squared, own, lambda self, x: x / 2, squared, own)]
    for owner, name, value in changes:
        monkeypatch.setattr(owner, name, value)
        agrees()


@pytest.mark.filterwarnings("ignore")
def test_what_stands_in_the_object_itself() -> None:
    """Methods and arrays, also those that SciPy has made."""
    dist = Exponential(a=0.0, b=2.0)
    bars = type("Bars", (stats.rv_histogram,), {})((np.array([1.0, 2.0, 3.0]), np.arange(4.0)))
    f, g = jit(lambda x: dist.pdf(x)), jit(lambda x: bars.pdf(x))
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: vars(dist).update(_pdf=lambda x: 0.3 + 0 * x), lambda: bars._hpdf.__setitem__(2, 9.0),
        lambda: vars(dist).update(_pdf=lambda x: 0.5 + 0 * x), lambda: vars(bars).update(_hpdf=bars._hpdf * 2),
        lambda: vars(dist).update(_get_support=lambda *args: (0.0, 0.5)), lambda: vars(dist).pop("_pdf"),
    ]  # fmt: skip
    for change in changes:
        change()
        for x in (0.7, 1.5, 0.3):
            assert_allclose(f(x), dist.pdf(x))
            assert_allclose(g(x), bars.pdf(x))


def test_methods_of_the_users_that_know_of_traced_values_while_scipy_does_not() -> None:
    """The message names SciPy's function, not what that writes into."""
    def f(p: Any) -> Any:
        dist = Exponential(a=0.0)
        dist.rate = p
        return dist.cdf(0.3)

    with pytest.raises(LostDerivativeError, match=r"scipy.stats.*cdf computes on plain values and has no rule yet"):
        grad(f, 2.0)


class Rated(stats.rv_continuous):
    """A distribution of the user's with a shape."""

    def _pdf(self, x: Any, rate: Any) -> Any:
        return rate * np.exp(-rate * x)


class Tossed(stats.rv_discrete):
    def _pmf(self, k: Any, p: Any) -> Any:
        return p * (1 - p) ** k


RATED, TOSSED = Rated(a=0.0, name="rated"), Tossed(name="tossed")
PLAIN: dict[str, Callable[[Any], Any]] = {
    "a shape": lambda t: RATED.pdf([0.7, 2.0], 2.0, loc=-t),
    "logarithms": lambda t: RATED.logpdf(X, 2.0, loc=-t, scale=2),
    "shapes": lambda t: RATED.pdf(0.7, [1.0, 2.0], loc=-t),
    "a point": lambda t: RATED.logpdf(0.7, t, loc=-1),
    "points": lambda t: RATED.pdf([0.7, 2.0], t),
    "frozen": lambda t: RATED(2.0, loc=-t).logpdf([0.7, 2.0]),
    "counts": lambda t: TOSSED.pmf([0, 1, 2], t),
    "a count": lambda t: TOSSED.logpmf(3, t, loc=1),
}


@pytest.mark.parametrize("f", PLAIN.values(), ids=PLAIN)
def test_their_methods_are_given_what_is_known_beside_traced_values(f: Callable[[Any], Any]) -> None:
    step = value_and_grad(lambda t: np.sum(f(t)))
    for t in (0.3, 0.4, 0.7):
        value, slope = step(t)
        assert_allclose(value, np.sum(f(t)))
        assert_allclose(slope, (np.sum(f(t + 1e-6)) - np.sum(f(t - 1e-6))) / 2e-6, rtol=1e-6)
    assert sum(entry.calls for entry in explain(step)) == 2


def test_nobody_asks_objects_for_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    table, asked = pd.DataFrame({"a": [1.0, 2.0]}), []
    monkeypatch.setattr(pd.DataFrame, "__repr__", lambda self: asked.append(1) or "a table")  # type: ignore[func-returns-value]

    def f(x: Any, tables: Any = (table,)) -> Any:
        return x * table["a"].to_numpy()[1] * tables[0]["a"].to_numpy()[1]

    for x in (1.0, 2.0, 3.0):
        assert grad(f, x) == (4.0 * x, (4.0,))
    assert not asked
    assert "DataFrame" in str(explain(f))
