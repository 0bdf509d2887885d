"""Sparse matrices as functions of their values, in fixed places."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import conj

from ..support import dtype_of, shape_of

_PLACES = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 2])  # of the cases


@primitive
def sparse_dense(values: Any, rows: Any, cols: Any, shape: tuple[int, int]) -> Any:
    """The dense matrix; values in one place are added."""
    return sparse.coo_array((values, (rows, cols)), shape=shape).toarray()


@primitive
def sparse_dot(values: Any, x: Any, rows: Any, cols: Any, shape: tuple[int, int]) -> Any:
    """The product with a dense vector or matrix."""
    return sparse.csr_array((values, (rows, cols)), shape=shape) @ x


def products_in_places(left: Any, right: Any, rows: Any, cols: Any) -> Any:
    """What the outer product of two vectors, or the sum of those of columns, has in these places."""
    products = left[rows] * conj(right)[cols]
    return np.sum(products, -1) if len(shape_of(products)) > 1 else products


vjps(sparse_dense, lambda dy, y, values, rows, cols, shape: dy[rows, cols],
     cases=lambda s: [case(s(4), *_PLACES, (2, 3)),
     case(s(4, dtype=complex), _PLACES[0], _PLACES[0], (2, 2))])  # fmt: skip
vjps(
    sparse_dot, lambda dy, y, values, x, rows, cols, shape: products_in_places(dy, x, rows, cols),
    lambda dy, y, values, x, rows, cols, shape: sparse_dot(conj(values), dy, cols, rows, shape[::-1]),
    cases=lambda s: [
        case(s(4), s(3), *_PLACES, (2, 3)), case(s(4), s(3, 2), *_PLACES, (2, 3)),
        case(s(0), s(3), *np.zeros((2, 0), int), (2, 3)),
        case(s(4, dtype=complex), s(3, dtype=complex), *_PLACES, (2, 3)),
        case(s(4, dtype="f4"), s(3, dtype="f4"), *_PLACES, (2, 3)),
    ],
)  # fmt: skip


def gathered(values: Any, index: Any, n: int) -> Any:
    """The sums of the values that have the same index below n."""
    if len(index) == n and np.array_equal(index, np.arange(n)):
        return values
    return sparse_dot(np.ones(len(index), dtype_of(values)), values, index, np.arange(len(index)), (n, len(index)))
