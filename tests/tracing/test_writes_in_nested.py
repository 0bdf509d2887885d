"""Second derivatives of functions that write into arrays that they make of what they read from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.spatial.distance import pdist, squareform

from yota_py import MutationError, config, grad, gradient, hessian, hvp, jacobian, jit, pullback, value_and_grad, vmap

DATA, WHOLE = np.array([1.0, 2.0, 4.0]), np.array([2, 0, 1])
P = np.array([0.3, -0.2, 0.5])


def copied(p: Any) -> Any:
    r = DATA.copy()
    r[0] = 0.0
    return np.sum(r * np.exp(p))


def used_before(p: Any) -> Any:
    """What was computed with the array stays as it was."""
    r = DATA.copy()
    first = r * np.exp(p)
    second = np.sum(r[1:] * np.sin(p[1:]))
    r[1:] = 7.0
    third = np.sum(r * p**3)
    r *= 2.0
    return np.sum(first) + second + third + np.sum(r * p**2)


def of_items(p: Any) -> Any:
    r = np.empty_like(DATA)
    for i in range(3):
        r[i] = np.exp(p[i]) * DATA[i]
    return np.sum(r**2)


def through_views(p: Any) -> Any:
    r = np.stack([DATA, DATA + 1.0])
    row, column = r[1], r.T[2]
    row[:] = p**2
    kept = column * p[:2]
    r[0] = 3.0
    column += p[0] ** 3
    return np.sum(r * row) + np.sum(kept) + np.sum(column**2)


def masked(p: Any) -> Any:
    r = DATA - 1.0
    r[r < 0.5] = 0.0
    r /= r.std()
    return np.sum(r * np.exp(p))


def indexed(p: Any) -> Any:
    order = WHOLE.copy()
    order[0], order[2] = order[2], order[0]
    return np.sum(p[order] ** 3 * DATA)


def divided(p: Any) -> Any:
    return np.sum(np.divide(1.0, DATA, out=np.zeros_like(DATA), where=DATA != 2) * np.exp(p))


def of_the_library(p: Any) -> Any:
    c = np.cov(DATA, DATA**2)[0, 1] + integrate.simpson(np.exp(p * DATA), x=DATA)
    distances = squareform(pdist(DATA[:, None]))
    np.fill_diagonal(distances, 1.0)
    return c * np.sum(p**2) + p @ distances @ p**2


def added(p: Any) -> Any:
    r = np.zeros_like(DATA)
    np.add.at(r, [0, 1, 1], np.exp(p))
    r += DATA
    return np.sum(r**2)


def sorted_in_place(p: Any) -> Any:
    r = DATA[::-1].copy()
    r.sort()
    r.fill(r[1])
    return np.sum(r * p**3)


def conditional(p: Any) -> Any:
    r = DATA.copy()
    for k in range(4):
        if k % 2:
            r = r * p
        else:
            r[k // 2] = k
    return np.sum(r**2)


FUNCTIONS = [copied, used_before, of_items, through_views, masked, indexed, divided, of_the_library, added,
             sorted_in_place, conditional]  # fmt: skip


def by_differences(f: Callable[..., Any], p: np.ndarray) -> np.ndarray:
    h = 1e-6
    return np.array([(grad(f, p + h * e)[1][0] - grad(f, p - h * e)[1][0]) / (2 * h) for e in np.eye(len(p))])


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("mode", ["never", "always"])
def test_second_derivatives(f: Callable[..., Any], mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", mode)
    data = DATA.copy()
    for p in (P, P + 0.25, -P, P):
        want = by_differences(f, p)
        v = np.array([0.5, -1.0, 2.0])
        assert_allclose(hessian(f)(p), want, rtol=1e-5, atol=1e-6)
        assert_allclose(jacobian(gradient(f))(p), want, rtol=1e-5, atol=1e-6)
        assert_allclose(hvp(f)(p, v), want @ v, rtol=1e-5, atol=1e-6)
        assert_allclose(gradient(lambda q, v=v: gradient(f)(q) @ v)(p), want @ v, rtol=1e-5, atol=1e-6)
    assert np.array_equal(DATA, data)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients_in_others(f: Callable[..., Any]) -> None:
    step = jit(lambda p: p - 0.1 * value_and_grad(f)(p)[1])
    for _ in range(4):
        assert_allclose(step(P), P - 0.1 * gradient(f)(P), rtol=1e-12)
    assert_allclose(vmap(gradient(f))(np.stack([P, -P])), np.stack([gradient(f)(P), gradient(f)(-P)]), rtol=1e-12)
    slope = gradient(lambda p: np.sum(pullback(f, p)[1](1.0)[0] ** 2))(P)
    assert_allclose(slope, 2 * hessian(f)(P) @ gradient(f)(P), rtol=1e-8)


def test_third_derivatives() -> None:
    third = jacobian(hessian(through_views))(P)
    h = 1e-5
    want = np.stack([(hessian(through_views)(P + h * e) - hessian(through_views)(P - h * e)) / (2 * h)
                     for e in np.eye(3)], -1)  # fmt: skip
    assert_allclose(third, want, rtol=1e-4, atol=1e-4)


def test_data_of_a_function_around() -> None:
    def outer(d: Any, p: Any) -> Any:
        def inner(q: Any) -> Any:
            r = d * 1.0
            r[0] = q[1]
            return np.sum(r * np.exp(q))

        return np.sum(gradient(inner)(p) * d)

    slope = gradient(outer)(DATA, P)
    h = 1e-6
    want = [(outer(DATA + h * e, P) - outer(DATA - h * e, P)) / (2 * h) for e in np.eye(3)]
    assert_allclose(slope, want, rtol=1e-6)


def test_arrays_of_a_function_around_are_its_own() -> None:
    """An inner function may not write into what others have made, as before."""
    def outer(p: Any) -> Any:
        kept = p * 2.0

        def inner(q: Any) -> Any:
            kept[0] = q[0]
            return np.sum(kept * q)

        return np.sum(gradient(inner)(p))

    with pytest.raises(MutationError, match="has not made itself"):
        gradient(outer)(P)

    def captured(p: Any) -> Any:
        view = DATA[1:]
        view += 1.0
        return np.sum(view * p[1:])

    with pytest.raises(MutationError, match="has not made itself"):
        hessian(captured)(P)


def test_what_leaves_the_inner_function() -> None:
    """An array that holds values of an inner function is refused outside of it, not silently constant."""
    left: list[Any] = []

    def outer(p: Any) -> Any:
        def inner(q: Any) -> Any:
            r = DATA.copy()
            r[0] = q[0] ** 2
            left.append(r)
            return np.sum(r * q)

        slope = gradient(inner)(p)
        return np.sum(slope) + np.sum(left[-1])

    with pytest.raises(Exception, match="after its trace had ended"):
        gradient(outer)(P)
