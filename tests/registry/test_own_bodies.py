"""Primitives whose derivative is that of their body; rules that leave some calls to it; rules that are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from registered import own_rules

from yota_py import MissingRuleError, grad, gradient, gradtape, jit, nondiff, primitive, rrule, trace, value_and_grad
from yota_py.errors import RuleError
from yota_py.testing import check_grads

X = np.array([0.3, -1.2, 2.0])


@primitive
def scaled(x: Any, k: Any = 2.0, *, power: int = 1) -> Any:
    return (np.sin(x) ** power * k).sum()


@primitive
def stacked(a: Any, b: Any) -> Any:
    y = np.array([a, b])  # of traced values, as in any function of the user's
    y[0] *= 2.0
    return y @ y if a > 0 else np.sum(y)


@primitive
def halfway(x: Any, y: Any) -> Any:
    return np.sum(x**3) * y


@rrule(halfway)
def _halfway_rule(x: Any, y: Any) -> Any:
    if np.ndim(x) == 0:
        return NotImplemented
    return halfway(x, y), lambda dy: (dy * 3 * x**2 * y, dy * np.sum(x**3))


@pytest.mark.usefixtures("every_policy")
def test_the_derivative_of_a_body() -> None:
    for x in (X, 2 * X, -X):
        np.testing.assert_allclose(gradient(scaled)(x), 2 * np.cos(x))
        np.testing.assert_allclose(grad(lambda x: scaled(x, 3.0, power=2), x)[1][0], 6 * np.sin(x) * np.cos(x))
        dx, dk = grad(scaled, x, 1.5)[1]
        np.testing.assert_allclose(dx, 1.5 * np.cos(x))
        assert dk == pytest.approx(np.sum(np.sin(x)))
        assert gradient(lambda a: stacked(a, 3.0))(x[0]) == pytest.approx(8 * x[0] if x[0] > 0 else 2.0)
        assert jit(scaled)(x) == pytest.approx(scaled(x))
        np.testing.assert_allclose(gradient(lambda x: np.sum(gradient(scaled)(x)))(x), -2 * np.sin(x))
    check_grads(scaled, X)
    check_grads(stacked, 2.0, 0.5)


@pytest.mark.usefixtures("every_policy")
def test_rules_that_leave_calls_to_the_body() -> None:
    for k in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(gradient(halfway)(k * X, 1.0), 3 * (k * X) ** 2)
        assert gradient(halfway)(k, 1.0) == pytest.approx(3 * k**2)
        assert grad(halfway, k, 2.0)[1] == pytest.approx((6 * k**2, k**3))
        assert gradient(gradient(halfway))(k, 1.0) == pytest.approx(6 * k)
        value, slope = value_and_grad(lambda t: halfway(t * X, t) + halfway(t, 1.0))(k)
        assert value == pytest.approx(k**4 * np.sum(X**3) + k**3)
        assert slope == pytest.approx(4 * k**3 * np.sum(X**3) + 3 * k**2)


def test_where_they_stand_on_tapes() -> None:
    assert "scaled(%1)" in str(trace(scaled, X)) and "rrule(sin" in str(gradtape(scaled, X))
    assert "rrule(halfway" in str(gradtape(halfway, 2.0, 1.0))


def test_without_a_body() -> None:
    with own_rules():
        rrule(scipy.special.mathieu_a)(lambda m, q: NotImplemented)
        with pytest.raises(RuleError, match=r"mathieu_a must return \(y, pullback\)"):
            rrule.of(scipy.special.mathieu_a)(2.0, 0.5)


def test_declared_ones_keep_what_is_declared() -> None:
    @nondiff
    @primitive
    def counted(x: Any) -> Any:
        return np.sum(x)

    for x in (X, 2 * X, -X):
        np.testing.assert_allclose(gradient(lambda x: np.sum(x) * counted(x))(x), np.full(3, np.sum(x)))


def test_rules_are_called() -> None:
    y, back = rrule.of(np.multiply)(X, 3.0)
    np.testing.assert_array_equal(y, 3 * X)
    dx, dk = back(np.ones(3))
    np.testing.assert_array_equal(dx, [3.0, 3.0, 3.0])
    assert dk == np.sum(X)
    functions: list[Callable[..., Any]] = [np.sin, scaled]
    for f in functions:
        y, back = rrule.of(f)(X)
        np.testing.assert_allclose(y, f(X))
        np.testing.assert_allclose(back(np.ones_like(y))[0], gradient(lambda x, f=f: np.sum(f(x)))(X))
    for x in (X, 2.0):
        assert rrule.of(halfway)(x, 2.0)[1](1.0)[1] == pytest.approx(np.sum(np.power(x, 3)))
    y, back = rrule.of(scaled)(X, power=2)
    np.testing.assert_allclose(back(1.0)[0], 4 * np.sin(X) * np.cos(X))
    assert rrule.of(np.sin).__name__ == "sin"
    with pytest.raises(MissingRuleError, match=r"no rule for numpy\.bitwise_and"):
        rrule.of(np.bitwise_and)(1, 2)
    with pytest.raises(TypeError, match="no function"):
        rrule.of(3.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(gradient(lambda x: np.sum(rrule.of(np.sin)(x)[1](np.ones(3))[0]))(X), -np.sin(X))
