"""Functions that are their bodies, and cotangents that are computed only where they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import case, grad, gradient, gradtape, primitive
from yota_py.errors import MissingRuleError
from yota_py.registry.composites import composite
from yota_py.registry.registry import vjps
from yota_py.registry.tangents import MISSING
from yota_py.testing import check_cases

A, X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]), np.array([0.3, 0.4, 0.5])


@primitive
def spread(xs: Any, weights: Any, scale: float = 1.0) -> Any:
    return _spread(xs, weights, scale)


@composite(spread, cases=lambda s: [
    case([s(3), s(3)], s(2)), case([s(2, 3), s(3)], s(2), 2.0), case([s(3), s.integers(3, high=4)], s(2), scale=3.0),
])  # fmt: skip
def _spread(xs: Any, weights: Any, scale: float = 1.0) -> Any:
    first, second = (np.multiply(w, x) for w, x in zip(weights, xs, strict=True))
    joined = np.concatenate((np.ravel(first), np.ravel(second)))
    return (joined[::2] * scale, np.sum(joined[1:] ** 2))


def test_a_body_is_the_rule() -> None:
    assert check_cases(spread) == 3


def test_a_composite_is_one_operation() -> None:
    tape = str(gradtape(lambda x: spread([x, x], X[:2])[1], X))
    assert tape.count("= rrule(spread, ") == 1 and "ravel" not in tape


def unwanted(f: Callable[..., Any], *args: Any) -> list[str]:
    """The types of what pullbacks give, where that is nothing for some arguments."""
    return [str(op.type) for _, op in gradtape(f, *args) if "NoneType" in str(op.type)]


@pytest.mark.parametrize("f", [
    lambda x: A @ x, lambda x: np.dot(A, x), lambda x: np.matmul(A, x), lambda x: np.multiply(A, x),
    lambda x: np.inner(A, x), lambda x: np.maximum(A, x), lambda x: np.power(A**2, x), lambda x: np.divide(A, x),
])  # fmt: skip
def test_what_is_not_wanted_is_not_computed(f: Callable[[Any], Any]) -> None:
    assert unwanted(lambda x: np.sum(f(x)), X) == ["(NoneType, float64[3])"]


def test_einsum_computes_what_is_wanted() -> None:
    assert unwanted(lambda x: np.sum(np.einsum("ij,j->i", A, x)), X) == ["(NoneType, NoneType, float64[3])"]


def test_a_derivative_without_formula_is_missing_in_a_composite_too() -> None:
    @primitive
    def bessel(v: Any, x: Any) -> Any:
        return v + 2 * x

    vjps(bessel, MISSING, lambda dy, y, v, x: 2 * dy)

    @primitive
    def twice(v: Any, x: Any) -> Any:
        return 2 * bessel(v, x)

    composite(twice)(lambda v, x: np.multiply(2, bessel(v, x)))
    assert_allclose(grad(lambda x: twice(1.0, x), 2.0)[1], (4.0,))
    with pytest.raises(MissingRuleError, match="the rule of twice has no derivative in its argument 0"):
        grad(lambda v: twice(v, 2.0), 1.0)


def test_second_derivatives_of_composites() -> None:
    second = gradient(lambda x: np.sum(gradient(lambda x: np.sum(np.kron(x, x) ** 2))(x)))
    for _ in range(3):
        assert_allclose(second(X), [_hessian_row(X, i) for i in range(3)], rtol=1e-12)


def _hessian_row(x: np.ndarray, i: int) -> float:
    """The sums of the rows of the Hessian of ``sum(x**2)**2``."""
    return float(4 * np.sum(x * x) + 8 * x[i] * np.sum(x))
