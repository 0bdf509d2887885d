"""Derivatives of determinants of singular matrices: cofactors, which are polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, gradient

RANK_2 = np.arange(1.0, 10.0).reshape(3, 3)
RANK_1 = np.outer([1.0, 2.0, -1.0], [3.0, 0.5, 1.0])
REGULAR = np.array([[2.0, 1.0, 0.0], [0.5, -1.0, 3.0], [1.0, 0.0, 1.0]])
ZERO_ROW = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 4.0, 1.0]])


def cofactors(a: Any) -> Any:
    """The signed determinants of what remains without a row and a column."""
    n = len(a)
    c = np.empty_like(a)
    for i in range(n):
        for k in range(n):
            rest = np.delete(np.delete(a, i, 0), k, 1)
            c[i, k] = (-1) ** (i + k) * (np.linalg.det(rest) if n > 1 else 1.0)
    return c


@pytest.mark.parametrize("a", [
    np.ones((2, 2)), np.zeros((2, 2)), np.zeros((3, 3)), RANK_2, RANK_1, REGULAR, ZERO_ROW, np.zeros((1, 1)),
    ZERO_ROW * (1 + 2j), np.array([[1.0, 1j], [1j, -1.0]]),
])  # fmt: skip
def test_cofactors(a: Any) -> None:
    f = lambda x: np.real(np.linalg.det(x))  # noqa: E731
    for k in range(3):
        x = a * (1 + k)
        assert_allclose(grad(f, x)[1][0], np.conj(cofactors(x)), rtol=1e-9, atol=1e-12)


def test_stacks() -> None:
    a = np.stack([ZERO_ROW, REGULAR, np.zeros((3, 3)), RANK_1])
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    for x in (a, a[::-1], a[1:2], a):
        w = weights[: len(x)]
        want = w[:, None, None] * np.stack([cofactors(m) for m in x])
        assert_allclose(gradient(lambda x, w=w: np.sum(w * np.linalg.det(x)))(x), want, rtol=1e-9, atol=1e-12)


def test_single_precision() -> None:
    for _ in range(3):
        dx = gradient(np.linalg.det)(np.ones((2, 2), np.float32))
        assert dx.dtype == np.float32
        assert_allclose(dx, [[1, -1], [-1, 1]], rtol=1e-6)


def test_second_derivatives_are_right_or_raise() -> None:
    weights = np.array([[1.0, -2.0], [0.5, 3.0]])
    second = gradient(lambda x: np.sum(weights * gradient(np.linalg.det)(x)))
    for a in (REGULAR[:2, :2], REGULAR[1:, 1:], REGULAR[:2, :2]):
        assert_allclose(second(a), [[3.0, -0.5], [2.0, 1.0]], atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        second(np.ones((2, 2)))
