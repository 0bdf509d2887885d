"""Derivatives of determinants of singular matrices: cofactors, which are polynomials."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, gradient
from yota_py.errors import MissingRuleError
from yota_py.testing.checks import check_grads

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


def exact_det(rows: list[Any]) -> Any:
    """By the elements of the first row; of fractions, exactly."""
    if not rows:
        return 1
    rests = ([np.delete(row, k) for row in rows[1:]] for k in range(len(rows)))
    return sum((-1) ** k * x * exact_det(rest) for k, (x, rest) in enumerate(zip(rows[0], rests, strict=True)) if x)


def exact_mixed(a: Any, *xs: Any) -> Any:
    """The derivatives of a determinant in these directions and by each element. It is linear in each row: so many
    different rows are those of the directions."""
    exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])
    n, out = len(a), np.zeros(a.shape)
    a, *xs = map(exact, (a, *xs))  # type: ignore[assignment]
    for i, k in product(range(n), repeat=2):
        element = [Fraction(int(j == k)) for j in range(n)]
        for places in permutations(set(range(n)) - {i}, len(xs)):
            rows = [*a]
            rows[i] = np.array(element, object)
            for x, at in zip(xs, places, strict=True):
                rows[at] = x[at]
            out[i, k] += float(exact_det(rows))
    return out


def whole(n: int, rank: int, seed: int = 0) -> Any:
    """A matrix of whole numbers of this rank."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, n))).astype(float)


SECOND = [*(whole(n, rank) for n in (1, 2, 3, 4, 5) for rank in range(n + 1)), RANK_2, RANK_1, ZERO_ROW, REGULAR,
          np.diag([1.0, 1e-8, 0.0, 3.0]), np.diag([1e150, 1e-150, 1.0, 0.0]), REGULAR * 1e-120]  # fmt: skip


@pytest.mark.parametrize("a", SECOND, ids=lambda a: f"{len(a)}x{len(a)}, rank {np.linalg.matrix_rank(a)}")
def test_second_derivatives(a: Any) -> None:
    w = np.random.default_rng(len(a)).integers(-2, 3, a.shape) * 1.0
    second = gradient(lambda x: np.sum(w * gradient(np.linalg.det)(x)))
    want = exact_mixed(a, w)
    for _ in range(3):
        noise = 1e-13 * np.max(np.abs(want)) + 1e-12 * (1 <= np.max(np.abs(a)) < 100)
        assert_allclose(second(a), want, rtol=1e-12, atol=noise)


@pytest.mark.parametrize("a", [whole(n, r) for n, r in [(2, 1), (3, 3), (3, 2), (3, 1), (4, 2), (4, 1), (4, 0)]])
def test_third_and_fourth_derivatives(a: Any) -> None:
    rng = np.random.default_rng(1)
    v, w, u = (rng.integers(-2, 3, a.shape) * 1.0 for _ in range(3))
    second = gradient(lambda x: np.sum(w * gradient(np.linalg.det)(x)))
    third = gradient(lambda x: np.sum(v * second(x)))
    fourth = gradient(lambda x: np.sum(u * third(x)))
    assert_allclose(third(a), exact_mixed(a, w, v), rtol=1e-12, atol=1e-10)
    assert_allclose(fourth(a), exact_mixed(a, w, v, u), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_second_derivatives_of_nearly_singular_matrices(gap: float) -> None:
    a = RANK_2 + gap * np.array([[1.0, 0.0, 2.0], [-1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    w = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0], [2.0, 1.0, -1.0]])
    assert_allclose(gradient(lambda x: np.sum(w * gradient(np.linalg.det)(x)))(a), exact_mixed(a, w), rtol=1e-11)


def test_second_derivatives_of_stacks() -> None:
    a = np.stack([ZERO_ROW, REGULAR, np.zeros((3, 3)), RANK_1, RANK_2])
    w = np.random.default_rng(3).integers(-2, 3, a.shape) * 1.0
    second = gradient(lambda x, w: np.sum(w * gradient(lambda x: np.sum(np.linalg.det(x)))(x)))
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 1, 1, 1, 1], [2, 2, 0, 0, 0]):
        want = np.stack([exact_mixed(a[i], w[i]) for i in order])
        assert_allclose(second(a[order], w[order]), want, rtol=1e-12, atol=1e-12)
        assert_allclose(second(a[order][:, None], w[order][:, None]), want[:, None], rtol=1e-12, atol=1e-12)
    assert second(np.zeros((0, 3, 3)), np.zeros((0, 3, 3))).shape == (0, 3, 3)


def test_second_derivatives_in_other_dtypes() -> None:
    w = np.array([[1.0, -2.0], [0.5, 3.0]])
    want = [[3.0, -0.5], [2.0, 1.0]]
    second = gradient(lambda x: np.sum(w * np.real(gradient(lambda x: np.real(np.linalg.det(x)))(x))))
    for a in (REGULAR[:2, :2], np.ones((2, 2)), np.zeros((2, 2)), REGULAR[1:, 1:]):
        for dtype in (np.float64, np.float32, np.complex128, np.complex64):
            got = second(a.astype(dtype))
            assert got.dtype == dtype
            assert_allclose(got, want, atol=1e-5 if dtype in (np.float32, np.complex64) else 1e-12)


def test_second_derivatives_of_complex_matrices() -> None:
    rng = np.random.default_rng(2)
    b, c = (rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4)) for _ in range(2))
    b[0, :, 0], b[1, 2:] = 0, 0
    for a in b:
        check_grads(lambda x: np.real(np.linalg.det(x) * np.conj(np.linalg.det(x)) + np.linalg.det(x) * (1 + 2j)), a)
        check_grads(lambda x, c=c: np.real(np.sum(c * gradient(lambda x: np.imag(np.linalg.det(x)))(x))), a)


def test_sizes_that_are_too_large_are_refused() -> None:
    a = np.zeros((700, 700))
    third = gradient(lambda x: np.sum(gradient(lambda x: np.sum(gradient(np.linalg.det)(x)))(x)))
    with pytest.raises(MissingRuleError, match="derivative of order 3 of the determinant of a singular matrix"):
        third(a)
