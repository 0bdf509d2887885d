"""Derivatives up to the third order at ties, zeros and equal elements, where a formula divides zero by zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from yota_py import config, gradient
from yota_py.errors import MissingRuleError

LN2, PI = math.log(2.0), math.pi


def derivatives(f: Callable[[float], Any], x: float, orders: int = 3) -> list[float]:
    """The derivatives of a function of a number, by nested gradients."""
    found = []
    for _ in range(orders):
        f = gradient(f)
        with np.errstate(all="ignore"):
            found.append(float(f(x)))
    return found


def pair(x: Any, y: Any) -> Any:
    return np.stack([x, y])


# A function that is smooth at the point, the point, and its derivatives: numbers, or what mpmath is to differentiate.
SMOOTH: dict[str, tuple[Callable[[Any], Any], float, Any]] = {
    "logaddexp": (lambda x: np.logaddexp(0.0, x), 0.0, [0.5, 0.25, 0]),
    "logaddexp of both": (lambda x: np.logaddexp(x, -x), 0.0, [0, 1, 0]),
    "logaddexp2": (lambda x: np.logaddexp2(x, 0.0), 0.0, [0.5, 0.25 * LN2, 0]),
    "logsumexp": (lambda x: special.logsumexp(pair(x, 0 * x)), 0.0, [0.5, 0.25, 0]),
    "logsumexp, weighted": (lambda x: special.logsumexp(pair(x, 0 * x), 0, pair(1 + x, 1 + 0 * x)), 0.0,
                            lambda x: mpmath.log((1 + x) * mpmath.exp(x) + 1)),
    "logsumexp, weight of zero": (lambda x: special.logsumexp(pair(x + 1, 2 + 0 * x), 0, pair(x, 1 + 0 * x)), 0.0,
                                  lambda x: mpmath.log(x * mpmath.exp(x + 1) + mpmath.exp(2))),
    "logsumexp, signed": (lambda x: special.logsumexp(pair(x, 0 * x), 0, np.array([1.0, -3.0]), False, True)[0], 0.0,
                          lambda x: mpmath.log(3 - mpmath.exp(x))),
    "softmax": (lambda x: special.softmax(pair(x, 0 * x))[0], 0.0, [0.25, 0, -0.125]),
    "log_softmax": (lambda x: special.log_softmax(pair(x, 0 * x))[0], 0.0, [0.5, -0.25, 0]),
    "sinc": (lambda x: np.sinc(x), 0.0, [0, -(PI**2) / 3, 0]),
    "x sinc": (lambda x: x * np.sinc(x), 0.0, [1, 0, -(PI**2)]),
    "j0": (lambda x: special.j0(x), 0.0, [0, -0.5, 0]),
    "j1": (lambda x: special.j1(x), 0.0, [0.5, 0, -0.375]),
    "jv": (lambda x: special.jv(2, x), 0.0, [0, 0.25, 0]),
    "i0": (lambda x: special.i0(x), 0.0, [0, 0.5, 0]),
    "i1": (lambda x: special.i1(x), 0.0, [0.5, 0, 0.375]),
    "iv": (lambda x: special.iv(2, x), -0.7, lambda x: mpmath.besseli(2, x)),
    "np.i0": (lambda x: np.i0(x), 0.0, [0, 0.5, 0]),
    "hypot on an axis": (lambda x: np.hypot(x, 1.0), 0.0, [0, 1, 0]),
    "hypot on the other": (lambda x: np.hypot(0.0, x), 2.0, [1, 0, 0]),
    "math.hypot": (lambda x: math.hypot(x, 1.0, 0.0), 0.0, [0, 1, 0]),
    "arctan2 on an axis": (lambda x: np.arctan2(x, 1.0), 0.0, [1, 0, -2]),
    "arctan2 on the other": (lambda x: np.arctan2(1.0, x), 0.0, [-1, 0, 2]),
    "angle": (lambda x: np.angle(1 + 1j * x), 0.0, [1, 0, -2]),
    "norm": (lambda x: np.linalg.norm(pair(x, 1 + 0 * x)), 0.0, [0, 1, 0]),
    "norm of order 2.0": (lambda x: np.linalg.norm(pair(x, 1 + 0 * x), 2.0), 0.0, [0, 1, 0]),
    "norm of order 4": (lambda x: np.linalg.norm(pair(x, 1 + 0 * x), 4), 0.0, [0, 0, 0]),
    "norm of order 4.0": (lambda x: np.linalg.norm(pair(x, 1 + x), 4.0), 0.0,
                          lambda x: mpmath.root(x**4 + (1 + x) ** 4, 4)),
    "complex norm of order 2.0": (lambda x: np.linalg.norm(pair(1j * x, 1 + x), 2.0), 0.0,
                                  lambda x: mpmath.sqrt(x**2 + (1 + x) ** 2)),
    "complex norm of order 4.0": (lambda x: np.linalg.norm(pair(x + 1j * x, 1 + x), 4.0), 0.0,
                                  lambda x: mpmath.root(4 * x**4 + (1 + x) ** 4, 4)),
    "xlogy": (lambda x: special.xlogy(x, x + 2.0), 0.0, [LN2, 1, -0.75]),
    "xlog1py": (lambda x: special.xlog1py(x, x + 1.0), 0.0, [LN2, 1, -0.75]),
    "xlogy, mixed": (lambda x: gradient(special.xlogy, 1)(x, 2.0), 0.0, [0.5, 0, 0]),
    "kl_div": (lambda x: special.kl_div(2.0 + x, 2.0), 0.0, [0, 0.5, -0.25]),
    "x**2": (lambda x: x**2, 0.0, [0, 2, 0]),
    "x**3": (lambda x: x**3, 0.0, [0, 0, 6]),
    "x**3.0": (lambda x: x**3.0, 0.0, [0, 0, 6]),
    "power by arrays": (lambda x: np.sum(np.power(x, np.array([0.0, 1.0, 2.0, 3.0]))), 0.0, [1, 2, 6]),
    "float_power": (lambda x: np.float_power(x, 3), 0.0, [0, 0, 6]),
    "math.pow": (lambda x: math.pow(x, 3), 0.0, [0, 0, 6]),
    "power, mixed": (lambda p: gradient(lambda x, q: x**q)(2.0, p), 0.0, lambda p: p * mpmath.mpf(2) ** (p - 1)),
    "prod with zeros": (lambda x: np.prod(np.stack([x, 2 + x, x])), 0.0, [0, 4, 6]),
    "cumprod with zeros": (lambda x: np.cumprod(np.stack([x, 2 + x, x]))[2], 0.0, [0, 4, 6]),
    "var of equal numbers": (lambda x: np.var(pair(x, -x)), 0.0, [0, 2, 0]),
    "maximum and minimum": (lambda x: np.maximum(x**3, x**2) + np.minimum(x**3, x**2), 0.0, [0, 2, 6]),
    "max and min": (lambda x: np.max(pair(x**3, x**2)) + np.min(pair(x**3, x**2)), 0.0, [0, 2, 6]),
    "clip": (lambda x: np.clip(x**3, 0, 1) + np.clip(x**3, -1, 0), 0.0, [0, 0, 6]),
    "sort": (lambda x: np.sum(np.sort(np.stack([x**3, x, x**2]))), 0.0, [1, 2, 6]),
    "median": (lambda x: np.median(np.stack([x**3, x**3])), 0.0, [0, 0, 6]),
    "percentile": (lambda x: np.percentile(np.stack([x**3, x**3, x**3]), 40), 0.0, [0, 0, 6]),
    "interp": (lambda x: np.interp(x**3, np.array([-1.0, 0, 1]), np.array([-2.0, 0, 2])), 0.0, [0, 0, 12]),
    "nan_to_num": (lambda x: np.nan_to_num(x**3), 0.0, [0, 0, 6]),
    "remainder": (lambda x: np.remainder(x**3, 1.0), 0.0, [0, 0, 6]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_points(name: str) -> None:
    f, x, want = SMOOTH[name]
    config.compile = "never"
    if callable(want):
        with mpmath.workdps(40):
            want = [float(mpmath.diff(want, x, n)) for n in (1, 2, 3)]
    assert_allclose(derivatives(f, x), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["logaddexp", "logsumexp", "log_softmax", "norm of order 2.0", "xlogy", "j1"])
def test_smooth_points_compiled(name: str) -> None:
    f, x, want = SMOOTH[name]
    second = gradient(gradient(f))
    for point in (x, x, x + 0.25, x):
        config.compile = "never"
        expected = second(point)
        config.compile = "always"
        assert_allclose(second(point), expected, rtol=1e-9)
    assert_allclose(second(x), want[1], rtol=1e-9)


def test_hessian_of_a_logistic_regression_at_zero() -> None:
    X, w = np.array([[1.0, 2.0], [0.5, -1.0], [-1.5, 0.3]]), np.zeros(2)
    want = X.T @ X / 4
    losses = [
        lambda w: np.sum(np.logaddexp(0, X @ w)),
        lambda w: np.sum(special.logsumexp(np.stack([X @ w, 0 * (X @ w)]), axis=0)),
        lambda w: -np.sum(special.log_softmax(np.stack([X @ w, 0 * (X @ w)]), axis=0)[1]),
    ]
    for loss in losses:
        row = gradient(lambda w, k, loss=loss: gradient(loss)(w)[k])
        assert_allclose([row(w, k) for k in range(2)], want)


def test_equal_infinities_share() -> None:
    config.compile = "never"
    for infinity in (np.inf, -np.inf):
        with np.errstate(invalid="ignore"):
            assert gradient(np.logaddexp)(infinity, infinity) == 0.5
    assert_allclose(gradient(lambda x: special.logsumexp(x))(np.array([-np.inf, -np.inf])), [0.5, 0.5])


# Functions with a corner there: all derivatives are zero, as of the zero function (docs/conventions.md).
CORNERS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "complex abs": lambda x: np.abs(x * 1j),
    "hypot": lambda x: np.hypot(x, 0.0),
    "math.hypot": lambda x: math.hypot(x, 0.0, 0.0),
    "arctan2": lambda x: np.arctan2(x, 0.0),
    "angle": lambda x: np.angle(x * 1j),
    "norm": lambda x: np.linalg.norm(pair(x, x)),
    "norm of order 2.0": lambda x: np.linalg.norm(pair(x, x), 2.0),
    "norm of order 3": lambda x: np.linalg.norm(pair(x, x), 3),
    "norm of order 1": lambda x: np.linalg.norm(pair(x, x), 1),
    "std": lambda x: np.std(pair(x, -x)),
    "sign": np.sign,
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    config.compile = "never"
    assert derivatives(CORNERS[name], 0.0) == [0, 0, 0]


@pytest.mark.parametrize("f", [
    lambda v: special.hyp0f1(v, 2.0), lambda v: special.jv(v, 2.0), lambda v: special.iv(v, 2.0),
    lambda v: special.polygamma(v, 2.0), lambda v: np.var(np.ones(9), ddof=v), lambda v: np.std(np.ones(9), ddof=v),
])  # fmt: skip
def test_arguments_without_formula_are_refused(f: Any) -> None:
    with pytest.raises(MissingRuleError, match="has no derivative in its argument"):
        gradient(f)(3.0)
