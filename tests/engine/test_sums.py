"""Compiled sums are as exact as NumPy's, over whatever axes and strides, and long ones too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from yota_py import grad, jit
from yota_py.engine.plan.layout import Place, Reference, collapse

SIZES = [3, 17, 100, 1000, 2**13 - 1, 10**6]
DATA: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "tenths": lambda rng, n: np.full(n, 0.1),
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "large and small": lambda rng, n: np.exp(3 * rng.normal(size=n)),
    "a large one first": lambda rng, n: np.concatenate([[1e4], np.full(n - 1, 1e-5)]),
}
SUMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], Callable[[np.ndarray], np.ndarray]]] = {
    # what is compiled, of which shape, and the terms of each of its elements along the last axis
    "rows": (lambda x: np.sum(x, axis=1), (7, 20001), lambda x: x),
    "columns": (lambda x: np.sum(x, axis=0), (20001, 7), np.transpose),
    "two columns": (lambda x: np.sum(x, axis=0), (20001, 2), np.transpose),
    "one column": (lambda x: np.sum(x, axis=0), (20001, 1), np.transpose),
    "rows of the transpose": (lambda x: np.sum(x.T, axis=1), (20001, 7), np.transpose),
    "columns of the transpose": (lambda x: np.sum(x.T, axis=0), (7, 20001), lambda x: x),
    "columns of twice the transpose": (lambda x: np.sum(2 * x.T, axis=0), (7, 20001), lambda x: 2 * x),
    "every other element": (lambda x: np.sum(x[:, ::2], axis=1), (7, 20001), lambda x: x[:, ::2]),
    "backwards": (lambda x: np.sum(x[::-1, ::-1], axis=1), (7, 20001), lambda x: x[::-1]),
    "two axes": (lambda x: np.sum(x, axis=(1, 2)), (3, 101, 201), lambda x: x.reshape(3, -1)),
    "outer axes": (lambda x: np.sum(x, axis=(0, 2)), (101, 3, 201), lambda x: x.transpose(1, 0, 2).reshape(3, -1)),
    "axes moved": (lambda x: np.moveaxis(x, 2, 0).sum(axis=0), (11, 3, 2001), lambda x: x.reshape(33, -1)),
    "all": (lambda x: np.sum(x[:, ::3]), (301, 303), lambda x: x[:, ::3].reshape(1, -1)),
    "means": (lambda x: np.mean(x, axis=1), (7, 20001), lambda x: x / 20001),
    "a product": (lambda x: np.sum(x * x, axis=1), (7, 20001), lambda x: x * x),
}  # fmt: skip


def error(have: Any, terms: np.ndarray) -> float:
    """The largest error of sums of rows, in epsilons of the sum of absolute values."""
    rows = terms.astype(float)
    eps = float(np.finfo(np.asarray(have).dtype).eps)
    sums = np.array([math.fsum(row) for row in rows])
    return float(np.max(np.abs(np.asarray(have, float).ravel() - sums) / np.sum(np.abs(rows), axis=1))) / eps


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("data", DATA)
def test_long_sums(data: str, dtype: str) -> None:
    f = jit(lambda x: np.sum(x))
    for n in SIZES * 2:
        x = DATA[data](np.random.default_rng(n), n).astype(dtype)
        assert error(f(x), x[None]) <= max(2 * error(np.sum(x), x[None]), 1.0), f"{n} {data}"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_over_axes(name: str, dtype: str) -> None:
    f, shape, terms = SUMS[name]
    compiled = jit(f)
    for data in ("tenths", "uniform", "large and small"):
        x = DATA[data](np.random.default_rng(1), math.prod(shape)).reshape(shape).astype(dtype)
        compiled(x)
        # A mean is divided, a product rounded once more.
        bound = max(2 * error(f(x), terms(x.astype(float))), 2.0)
        assert error(compiled(x), terms(x.astype(float))) <= bound, data


def test_sums_in_gradients() -> None:
    def f(scale: float, x: np.ndarray) -> Any:
        return np.sum(scale * x)

    x = np.full(10**6, 0.1)
    for scale in (1.0, 2.0, 3.0):
        _, (dscale, _) = grad(f, scale, x)
        assert error(dscale, x[None]) <= 2 * error(np.sum(x), x[None])


@pytest.mark.parametrize("n", [5, 1000])
@pytest.mark.parametrize("ends", [(np.inf, 1.0), (np.inf, -np.inf), (np.nan, 1.0), (-np.inf, -np.inf)])
def test_infinities(ends: tuple[float, float], n: int) -> None:
    f = jit(lambda x: (np.sum(x), np.max(x), np.prod(x)))
    for _ in range(3):
        x = np.ones(n)
        x[0], x[-1] = ends
        with np.errstate(all="ignore"):
            assert_array_equal(f(x), (np.sum(x), np.max(x), np.prod(x)))


def test_what_is_reduced_is_walked_through_first_where_memory_is_so() -> None:
    def order(strides: list[int], store: list[int]) -> list[int]:
        source = Reference(Place(4, 0, (), (), "float64"), strides, [False, False])
        target = Reference(Place(5, 0, (), (), "float64"), store, [True, False])
        return collapse([5, 7], [source, target])

    assert order([8, 40], [0, 8]) == [7, 5]
    assert order([56, 8], [0, 8]) == [5, 7]
    assert order([0, 8], [0, 8]) == [5, 7]
