"""Arrays made of numbers that are indexed by an argument or by what the function reads: one-hot rows, tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import explain, grad, gradient, jit

ROWS, GRID = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]), np.arange(12.0).reshape(3, 4)

Loss = Callable[[Any, Any], Any]
LOSSES: list[Loss] = [  # c w**2, with constants c
    lambda w, k: np.sum(np.eye(3)[k] * w**2),
    lambda w, k: np.sum(np.eye(4)[:3][k, 1] * w[:, 0] ** 2),
    lambda w, k: np.sum(np.arange(12.0).reshape(4, 3)[:, k] * w[:, 0] ** 2),
    lambda w, k: np.sum(np.array([1.0, 2.0, 3.0])[k][:, None] * w**2),
    lambda w, k: np.sum(np.take(np.eye(3), k, axis=0) * w**2),
    lambda w, k: np.sum(np.take(np.arange(3.0), k) * w[:, 1] ** 2),
    lambda w, k: np.sum(np.eye(3)[k, k] * w[:, 1] ** 2),
    lambda w, k: np.sum(np.eye(3)[k[0]] * w**2),
    lambda w, k: np.sum(np.eye(3)[np.argmax(w, axis=1)] * w**2),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_positions_are_read_at_each_call(loss: Loss) -> None:
    value = jit(loss)
    for n in range(4):
        rng = np.random.default_rng(n)
        w, k = rng.normal(size=(7, 3)), rng.integers(0, 3, 7)
        v, (dw, _) = grad(loss, w, k)
        assert_allclose(v, loss(w, k))
        assert_allclose(value(w, k), v)
        e = rng.normal(size=w.shape)
        assert_allclose(np.sum(dw * e), (loss(w + 1e-6 * e, k) - loss(w - 1e-6 * e, k)) / 2e-6, rtol=1e-6, atol=1e-8)
        # dL/dw = c w, so that the derivative of |dL/dw|^2 / 2 is c dL/dw
        assert_allclose(grad(lambda w, k: np.sum(gradient(loss)(w, k) ** 2), w, k)[1][0] * w, 2 * dw**2)
    assert (explain(loss)[0].calls, explain(loss)[0].problems) == (3, ())


@pytest.mark.parametrize("k", [np.array([3, 0]), np.array([0, -4])])
def test_positions_out_of_bounds(k: Any) -> None:
    w = np.ones((2, 3))
    for _ in range(3):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
            grad(lambda w, k: np.sum(np.eye(3)[k] * w), w, k)


def test_labels_that_a_function_reads() -> None:
    labels = np.array([0, 2])

    def loss(w: Any) -> Any:
        return np.sum(np.eye(3)[labels] * w * ROWS)

    for new in ([0, 2], [1, 1], [2, 0]):
        labels[:] = new
        assert_allclose(grad(loss, np.ones((2, 3)))[1][0], np.eye(3)[new] * ROWS)
    assert explain(loss)[0].calls == 2
