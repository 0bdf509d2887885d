"""Arrays that a function makes while it is differentiated within another one that is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from performing import assert_same, sharing

from yota_py import explain, gradient, jit, value_and_grad

CALLS = 5


def makes_zeros(p: Any) -> Any:
    z = np.zeros(3)
    for k in range(3):
        z[k] = p[k] * k
    return np.sum(z * z * p)


def makes_ones_and_an_identity(p: Any) -> Any:
    return np.sum((np.eye(3) + np.ones((3, 3))) @ (p * p))


def decomposes(p: Any) -> Any:
    return np.sum(np.log(np.diag(np.linalg.cholesky(np.outer(p, p) + np.eye(3)))))


def writes_in_place(p: Any) -> Any:
    q = np.arange(3.0)
    q *= p
    q[1:] += np.linspace(0.0, 1.0, 2) * p[0]
    return np.sum(q * q)


def is_linear(p: Any) -> Any:
    """Its gradient is an array that nothing traced goes into."""
    return np.sum(np.diag(np.diag(p)))


def is_constant(p: Any) -> Any:
    return 2.0


FUNCTIONS = [makes_zeros, makes_ones_and_an_identity, decomposes, writes_in_place, is_linear, is_constant]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_step_with_a_gradient(f: Callable[[Any], Any]) -> None:
    def step(w: Any, scale: Any) -> Any:
        value, g = value_and_grad(lambda p: f(p) * scale)(w)
        w -= 0.01 * g
        return value, g

    compiled, own, plain = jit(step), np.arange(1.0, 4.0), np.arange(1.0, 4.0)
    for i in range(CALLS):
        have, want = compiled(own, 1.0 + i), step(plain, 1.0 + i)
        assert_same((have, own), (want, plain))
        assert sharing((have, own)) == sharing((want, plain))
        have[1].fill(7.0)  # it is the caller's
    (told,) = explain(compiled)
    assert not told.problems and told.calls >= CALLS - 2


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_second_derivative(f: Callable[[Any], Any]) -> None:
    def outer(p: Any) -> Any:
        return np.sum(gradient(f)(p) * np.sin(p))

    for i in range(CALLS):
        p = np.arange(1.0, 4.0) + 0.1 * i
        e = 1e-6
        want = [(outer(p + e * d) - outer(p - e * d)) / (2 * e) for d in np.eye(3)]
        assert_allclose(gradient(outer)(p), want, rtol=1e-6, atol=1e-8)
    (told,) = (s for s in explain(outer) if s.calls)
    assert not told.problems and told.calls >= CALLS - 2


def test_a_stored_gradient_without_influence() -> None:
    """The program makes it anew at each call."""

    class Model:
        def __init__(self) -> None:
            self.w, self.g = np.ones(2), np.zeros(2)

    def step(m: Any) -> Any:
        m.g = gradient(np.sum)(m.w)
        m.w = m.w - 0.5 * m.g
        return m.g

    compiled, own, plain = jit(step), Model(), Model()
    kept = []
    for _ in range(CALLS):
        have = compiled(own)
        assert_same((have, vars(own)), (step(plain), vars(plain)))
        assert have is own.g and not any(have is g for g in kept)
        kept.append(have)
        have[0] += 1.0
        plain.g[0] += 1.0
    assert explain(compiled)[0].calls >= CALLS - 2


def test_a_primitive_that_differentiates_inside() -> None:
    """What it computes is its own affair: it gets plain arrays."""
    from yota_py import primitive, rrule

    @primitive
    def slope(x: Any) -> Any:
        g = gradient(lambda t: np.sum(np.ones(2) * t**3))(x)
        assert type(g) is np.ndarray
        return g

    @rrule(slope)
    def _(x: Any) -> Any:
        return slope(x), lambda dy: (dy * 6 * x,)

    for i in range(CALLS):
        x = np.array([1.0, 2.0]) + i
        assert_allclose(gradient(lambda x: np.sum(slope(x)))(x), 6 * x, rtol=1e-12)
