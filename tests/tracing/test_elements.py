"""Arrays that are filled element by element or row by row, and everything that may look at them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import config, explain, grad, gradient, jit, trace
from yota_py.errors import LostDerivativeError, MutationError

RETURNS = np.random.default_rng(0).normal(size=30)
A = np.array([[0.9, 0.1, 0.0], [-0.2, 0.8, 0.1], [0.0, 0.3, 0.7]])
Loss = Callable[[Any], Any]


def _recursion(t: Any) -> Any:
    s = np.zeros(30)
    s[0] = 1.0
    for k in range(1, 30):
        s[k] = t[0] + t[1] * RETURNS[k - 1] ** 2 + t[2] * s[k - 1]
    return np.sum(np.log(s) + RETURNS**2 / s)


def _states(t: Any) -> Any:
    x = np.zeros((9, 3))
    x[0] = t
    for k in range(8):
        x[k + 1] = np.tanh(A @ x[k]) * t
    return np.sum(x**2)


def _matrix(t: Any) -> Any:
    m = np.zeros((3, 3))
    for i in range(3):
        for j in range(i + 1):
            m[i, j] = t[i] * t[j] + 0.1 * m[i - 1, j]
    return np.sum((m @ m.T) ** 2)


def _whole_matrix(t: Any) -> Any:
    m = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            m[i, j] = np.sin(t[i] - 2 * t[j])
    return np.linalg.det(m + np.eye(3))


def _again_and_again(t: Any) -> Any:
    s = np.ones(4)
    for k in range(8):
        s[k % 4] += t[k % 3] * s[-1 - k % 4]
    s[0] = s[1]
    s[-1] *= 2
    return np.sum(s**2)


def _looks(t: Any) -> Any:
    s = np.zeros(5)
    tail, turned = s[2:], s[::-1]
    for k in range(4):
        s[k + 1] = t[k % 3] + tail[0] + turned[1]
    return np.sum(tail**2) + np.sum(s * turned)


def _rows_are_views(t: Any) -> Any:
    x = np.zeros((3, 3))
    x[1] = t
    row = x[1]
    row[0] = t[2] ** 2
    row *= 2
    x[2] = row
    row[1] = 0.0
    x[0] = x[2] + x[1]
    return np.sum(x**3) + np.sum(row)


def _rows_stay(t: Any) -> Any:
    """What was assigned is a copy."""
    x, v = np.zeros((2, 3)), t * 2
    x[0] = v
    v *= 3
    x[1] = x[0] + v
    return np.sum(x**2)


def _elements_and_rows(t: Any) -> Any:
    x = np.zeros((3, 3))
    x[0] = t
    x[0, 1] = t[2]
    x[1, 1] = x[0, 1] * 2
    x[2] = x[1] + x[0]
    x[1:, 0] = t[1]
    return np.sum(x**2)


def _branches(t: Any) -> Any:
    s = np.zeros(4)
    for k in range(4):
        s[k] = t[k % 3] if k == 0 or s[k - 1] > 0.5 else -t[k % 3]
    return np.sum(s**2)


def _copies(t: Any) -> Any:
    s = np.zeros(4)
    s[0] = t[0]
    c = s.copy()
    s[1] = t[1]
    c[2] = t[2] * c[0]
    return np.sum(s * 2 + c**2) + len(s) + s.shape[0]


def _inner(t: Any) -> Any:
    s = np.zeros(3)
    for k in range(3):
        s[k] = gradient(lambda v, k=k: np.sum(v**3) * t[k])(t)[k]
    return np.sum(s)


def _inner_fills(t: Any) -> Any:
    def f(v: Any) -> Any:
        s = np.zeros(3)
        for k in range(3):
            s[k] = v[k] ** 2 * t[k] + (s[k - 1] if k else 0.0)
        return np.sum(s**2)

    return np.sum(gradient(f)(t) ** 2)


def _positions_that_are_computed(t: Any) -> Any:
    s = np.zeros(3)
    s[int(np.argmax(t))] = t[0]
    s[np.int64(1)] = t[1]
    s[np.argmin(t)] += t[2]
    return np.sum(s**2)


PROGRAMS: list[Loss] = [
    _recursion, _states, _matrix, _whole_matrix, _again_and_again, _looks, _rows_are_views, _rows_stay,
    _elements_and_rows, _branches, _copies, _inner, _inner_fills, _positions_that_are_computed,
]  # fmt: skip


@pytest.mark.parametrize("loss", PROGRAMS)
def test_values_and_derivatives(loss: Loss) -> None:
    value, e = jit(loss), np.array([0.3, -0.5, 0.7])
    for n in range(4):
        t = np.array([0.7, 0.2, 0.6]) + 0.03 * n
        v, (dt,) = grad(loss, t)
        assert_allclose(v, loss(t), rtol=1e-12)
        assert_allclose(value(t), v, rtol=1e-12)
        assert_allclose(dt @ e, (loss(t + 1e-6 * e) - loss(t - 1e-6 * e)) / 2e-6, rtol=1e-6)
        d2t = grad(lambda t: gradient(loss)(t) @ e, t)[1][0]
        assert_allclose(d2t @ e, (gradient(loss)(t + 1e-6 * e) - gradient(loss)(t - 1e-6 * e)) @ e / 2e-6, rtol=1e-5)
    assert explain(loss)[0].calls >= 2, explain(loss)


def test_a_write_costs_no_copy_of_the_array() -> None:
    tape = trace(_recursion, np.array([0.7, 0.2, 0.6]))
    sizes = [getattr(op.type, "size", 0) for op in tape.ops]
    assert sum(size > 1 for size in sizes) < 15, tape


def test_arrays_that_a_step_fills() -> None:
    kept = np.zeros((4, 3))

    @jit
    def step(t: Any, out: Any) -> Any:
        for k in range(4):
            kept[k] = t * k + (kept[k - 1] if k else 0.0)
            out[k] = kept[k, 0]
        out[1] = -1.0
        return out[1] + kept[2, 2]

    for n in range(4):
        t, out = np.arange(3.0) + n, np.zeros(4)
        total = np.cumsum(np.outer(np.arange(4), t), axis=0)
        assert step(t, out) == -1.0 + total[2, 2]
        assert_allclose(kept, total)
        assert_allclose(out, [total[0, 0], -1.0, total[2, 0], total[3, 0]])


@pytest.mark.parametrize("mode", ["never", "always"])
def test_errors_are_those_of_numpy(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", mode)
    for index in (3, -4, (0, 0)):
        with pytest.raises(IndexError):
            grad(lambda t, i=index: _assigned(np.zeros(3), i, t[0]), np.ones(3))
    with pytest.raises(ValueError, match="setting an array element"):
        grad(lambda t: _assigned(np.zeros(3), 0, t), np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        grad(lambda t: _assigned(_locked(np.zeros(3)), 0, t[0]), np.ones(3))
    with pytest.raises(LostDerivativeError, match="dtype int64"):
        grad(lambda t: _assigned(np.zeros(3, int), 0, t[0]), np.ones(3))
    with pytest.raises(MutationError):
        grad(lambda t: _assigned(A, (0, 0), t[0]), np.ones(3))


def _assigned(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return np.sum(x)


def _locked(x: Any) -> Any:
    return np.broadcast_to(x, x.shape)


def test_dtypes() -> None:
    def fill(t: Any, dtype: Any) -> Any:
        s = np.zeros(3, dtype)
        for k in range(3):
            s[k] = t[k]
        s[1] = 7
        return s, s[0]

    for dtype in (np.float32, np.float64, np.complex128, np.int16, bool):
        for n in range(3):
            t = (np.arange(3) + n).astype(dtype)
            have, first = jit(fill)(t, dtype)
            want, one = fill(t, dtype)
            assert_array_equal(have, want)
            assert (have.dtype, type(first), first) == (want.dtype, type(one), one)


def test_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "never")

    def loss(x: Any) -> Any:
        s = np.zeros(3000)
        for k in range(3000):
            s[k] = x * k
        return np.sum(s)

    assert grad(loss, 2.0) == (2.0 * 4498500, (4498500.0,))
