"""Numbers of NumPy's on the left of a comparison, of which NumPy makes arrays before it asks the other operand."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, gradient, value_and_grad

COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
LEFT = [
    np.float64(1.5), np.float32(0.25), np.float16(2.0), np.int64(1), np.uint8(3), np.bool_(True), np.longdouble(1.5),
]  # fmt: skip
GIVEN = [np.array([1.5, 2.0]), np.array([1.0, -3.0]), np.array([3.0, 0.5]), np.array([2.0, 0.25])]
EPS = np.finfo(float).eps


@pytest.mark.parametrize("left", LEFT, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("every_policy")
def test_numbers_on_the_left(compare: Callable[..., Any], left: Any) -> None:
    def decided(x: Any) -> Any:
        return x[0] ** 2 if compare(left, x[0]) else 3.0 * x[0] * x[1]

    def of_arrays(x: Any) -> Any:
        return np.sum(np.where(compare(left, x), x * x, -x))

    for f in (decided, of_arrays):
        df, plain = value_and_grad(f), f
        for x in GIVEN * 2:
            y, dx = df(x)
            assert y == pytest.approx(plain(x))
            e = 1e-7 * np.eye(2)
            near = [[plain(x + d), plain(x - d)] for d in e]
            if all(abs(a - 2 * y + b) < 1e-9 for a, b in near):  # no jump beside it
                assert_allclose(dx, [(a - b) / 2e-7 for a, b in near], rtol=1e-5, atol=1e-5)
        if config.compile == "always" and config.audit == "off":
            assert sum(known.calls for known in explain(df)) > 0, explain(df)


def time_warping(x: Any, y: Any) -> Any:
    """The distance of two series along the cheapest path, as in textbooks."""
    d = np.full((len(x) + 1, len(y) + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            d[i + 1, j + 1] = (x[i] - y[j]) ** 2 + min(d[i, j + 1], d[i + 1, j], d[i, j])
    return d[-1, -1]


def own_elements(x: Any) -> Any:
    d = np.full(4, np.inf)
    d[0] = 0.0
    k = 0
    while d[k] < d[k + 1] and k < 2:
        k += 1
        d[k] = float(k)
    a, b = d[0], d[1]
    return x[0] * min(d[3], d[0] + 1.0) + (x[1] if a < b else x[0]) + max(d[1], d[2]) * x[1]


def parents(x: Any) -> Any:
    par = np.arange(3)
    par[1] = 0
    return x[0] if par[1] != par[2] else x[1]


def small(x: Any) -> Any:
    return np.sum(x) / np.sqrt(np.sum(x * x)) if EPS < np.sum(x * x) else np.sum(x)  # noqa: SIM300 - on the left


@pytest.mark.parametrize("f", [own_elements, parents, small])
def test_programs(f: Callable[..., Any]) -> None:
    config.compile = "always"
    df = value_and_grad(f)
    for x in GIVEN:
        y, dx = df(x)
        assert y == f(x)
        assert_allclose(dx, [(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(2)], atol=1e-6)
    assert sum(known.calls for known in explain(df)) > 1, explain(df)


def test_time_warping() -> None:
    config.compile = "always"
    df, rng = gradient(time_warping), np.random.default_rng(0)
    x, y = np.sin(np.arange(6.0)), np.cos(np.arange(5.0))
    for _ in range(4):
        have = df(x, y)
        want = [(time_warping(x + d, y) - time_warping(x - d, y)) / 2e-6 for d in 1e-6 * np.eye(6)]
        assert_allclose(have, want, atol=1e-6)
        x = x + 1e-4 * rng.normal(size=6)
    assert sum(known.calls for known in explain(df)) > 0, explain(df)


def test_arrays_that_somebody_has_are_followed() -> None:
    """Also those without axes, that change where nobody sees it."""
    config.compile = "always"
    hidden = np.empty(1, object)
    hidden[0] = limit = np.array(0.5)
    df = value_and_grad(lambda x: x[0] if hidden[0] < x[1] else 2.0 * x[1])
    for value in (0.5, 3.0, 0.25, 5.0):
        limit[...] = value
        assert df(np.array([1.0, 2.0]))[0] == (1.0 if value < 2.0 else 4.0)
