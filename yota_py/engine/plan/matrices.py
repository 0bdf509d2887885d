"""Products, systems of equations and factorizations of matrices: calls of BLAS and LAPACK, and their words."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from ..kernels.ir import Matrices, Product
from ..kernels.lapack import WORKSPACE
from ..kernels.small import MOST
from ..kernels.store import LapackSpec, ProductSpec, SmallProductSpec, Spec
from ..schedule.steps import Linear, Matmul
from .layout import Place
from .nest import Locations


class Memory(Locations, Protocol):
    """What gives room, and writes down what is called."""

    def contiguous(self, place: Place) -> Place:
        """The same values in C order."""
        ...

    def copy(self, source: Place, target: Place) -> None:
        """Write what is in one place into another."""
        ...

    def emit(self, spec: Spec, words: list[int]) -> None:
        """Call a kernel next."""
        ...


def multiply(memory: Memory, step: Matmul) -> None:
    """A product of matrices, of stacks of them, or of a matrix and a vector, by BLAS; small ones of stacks without."""
    a, b, c = memory.place(step.a), memory.place(step.b), memory.place(step.var)
    itemsize = np.dtype(c.dtype).itemsize
    if len(a.shape) >= 2 and len(b.shape) >= 2:
        stack, (m, k), n = c.shape[:-2], a.shape[-2:], b.shape[-1]
        (a, ta, lda, a_step), (b, tb, ldb, b_step) = _matrices(memory, a, stack), _matrices(memory, b, stack)
        # row-major C = A B is column-major C' = B' A'
        product = Product(b.slot, b.offset, a.slot, a.offset, c.slot, c.offset, n, m, k, ldb, lda, n, tb, ta,
                          math.prod(stack), b_step, a_step, m * n * itemsize)  # fmt: skip
        small = math.prod(stack) > 1 and max(m, n, k) <= MOST
        spec = SmallProductSpec(c.dtype, (m, n, k), bool(tb)) if small else ProductSpec(c.dtype, vector=False)
        memory.emit(spec, product.words())
        return
    matrix, vector, left = (a, b, True) if len(a.shape) == 2 else (b, a, False)
    matrix, transposed, ld = _matrix(memory, matrix)
    if (vector.strides[0] <= 0 and vector.shape[0] > 1) or vector.strides[0] % itemsize:
        vector = memory.contiguous(vector)
    rows, columns = matrix.shape if not transposed else matrix.shape[::-1]  # as they lie in memory, row by row
    step_words = max(1, vector.strides[0] // itemsize)
    flag = int(left != bool(transposed))  # column-major memory is the transpose of what lies there
    product = Product(
        matrix.slot, matrix.offset, vector.slot, vector.offset, c.slot, c.offset,
        columns, rows, 0, ld, step_words, 0, flag, 0, 1, 0, 0, 0,
    )  # fmt: skip
    memory.emit(ProductSpec(c.dtype, vector=True), product.words())


def factorize(memory: Memory, step: Linear) -> None:
    """LAPACK works in place, on columns: on a copy of the matrix with its rows as columns, unless it only reads it, and
    on right-hand sides, or what is found, with theirs; vectors and numbers, and what is the transpose of what is
    wanted, in the result."""
    a, y = memory.place(step.a), memory.place(step.var)
    *stack, n, _ = a.shape
    k, right, only_read = n, y, step.routine in ("triangular", "factored")
    turned = only_read and not _transposed(a).contiguous
    if only_read:
        matrices = memory.contiguous(a) if turned else a
    else:
        matrices = memory.temporary(a.shape, a.dtype)
        memory.copy(_transposed(a), matrices)
    if step.b is not None:
        b = memory.place(step.b)
        k = 1 if len(b.shape) == 1 else b.shape[-1]
        right = y if k == 1 else memory.temporary((*stack, k, n), a.dtype)
        memory.copy(b if k == 1 else _transposed(b), right)
    elif step.routine == "inv":
        right = memory.temporary(a.shape, a.dtype)
    pivots = memory.temporary((WORKSPACE * n,) if step.finite else (n,), "int32")
    words = Matrices(matrices.slot, matrices.offset, right.slot, right.offset, pivots.slot, pivots.offset,
                     math.prod(stack), n, k).words()  # fmt: skip
    memory.emit(LapackSpec(a.dtype, step.routine, step.upper, step.finite, turned), words)
    if step.routine == "cholesky":
        right = matrices
    if right is not y:
        memory.copy(_transposed(right), y)


def _matrices(memory: Memory, place: Place, stack: tuple[int, ...]) -> tuple[Place, int, int, int]:
    """``_matrix`` of each in a stack, and the bytes from one to the next."""
    place, transposed, ld = _matrix(memory, place)
    seen = place.broadcast((*stack, *place.shape[-2:]))
    steps = [(n, stride) for n, stride in zip(stack, seen.strides[:-2], strict=True) if n > 1]
    if any(outer != n * inner for (_, outer), (n, inner) in pairwise(steps)):
        return _matrices(memory, memory.contiguous(seen), stack)
    return place, transposed, ld, steps[-1][1] if steps else 0


def _matrix(memory: Memory, place: Place) -> tuple[Place, int, int]:
    """A matrix that BLAS can read: with one contiguous dimension; whether it lies transposed, and its stride."""
    itemsize = np.dtype(place.dtype).itemsize
    for transposed, (rows, columns) in ((0, (-2, -1)), (1, (-1, -2))):
        outer, inner = place.strides[rows], place.strides[columns]
        n = place.shape[columns]
        if (inner == itemsize or n == 1) and (
            place.shape[rows] == 1 or (outer >= n * itemsize and outer % itemsize == 0)
        ):
            return place, transposed, max(1, n, outer // itemsize if place.shape[rows] > 1 else 1)
    return _matrix(memory, memory.contiguous(place))


def _transposed(place: Place) -> Place:
    """Matrices with their rows as columns."""
    return replace(place, shape=(*place.shape[:-2], *place.shape[:-3:-1]),
                   strides=(*place.strides[:-2], *place.strides[:-3:-1]))  # fmt: skip
