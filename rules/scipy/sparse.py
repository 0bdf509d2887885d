"""Sparse matrices of ``scipy.sparse`` with traced values in fixed places.

What has only to move elements (transpose, index, stack, convert) SciPy itself does with a matrix of their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import astype, conj
from yota_py.registry.writes import constant_sparse

from ..support import dtype_of, operand, shape_of, unsupported

# ------------------------------------------------------------------------ values in places, as functions of the values

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


# ------------------------------------------------------------------------------------------------------ the matrix


class Sparse:
    """A sparse matrix of the class of ``pattern``, which has at each place the position of its value, from one on."""

    __array_ufunc__ = None  # arrays of NumPy leave operators to it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, pattern: Any, values: Any) -> None:
        given = np.ravel(pattern.data) if pattern.format != "dia" else pattern.data.ravel()
        if 0 in given:  # what a format fills up with
            values = np.concatenate([np.zeros(1, dtype_of(values)), values])
            values = values[given]
        elif len(given) != shape_of(values)[0] or not np.array_equal(given, np.arange(1, len(given) + 1)):
            values = values[given - 1]
        pattern = pattern.copy()
        pattern.data = np.arange(1, len(given) + 1).reshape(pattern.data.shape)
        self._pattern, self._values = pattern, values
        coo = pattern.tocoo()
        self._rows, self._cols = coo.row, coo.col
        at = coo.data - 1
        self._held = values if np.array_equal(at, np.arange(len(given))) else values[at]

    shape = property(lambda self: self._pattern.shape)
    ndim = property(lambda self: 2)
    nnz = property(lambda self: self._pattern.nnz)
    size = property(lambda self: self._pattern.size)
    format = property(lambda self: self._pattern.format)
    dtype = property(lambda self: dtype_of(self._values))
    data = property(lambda self: np.reshape(self._values, self._pattern.data.shape))
    T = property(lambda self: self.transpose())
    real = property(lambda self: self._with(np.real(self._values)))
    imag = property(lambda self: self._with(np.imag(self._values)))

    def _with(self, values: Any) -> Sparse:
        return Sparse(self._pattern, values)

    def _moved(self, move: Callable[[Any], Any]) -> Any:
        """The elements elsewhere. Those in one place are added first: SciPy would add their positions."""
        keys = self._rows.astype(np.int64) * self.shape[1] + self._cols
        if len(np.unique(keys)) < len(keys):
            whole = assembled(type(self._pattern), self._held, self._rows, self._cols, self.shape, "csr")
            return whole._moved(move)
        found = move(self._pattern)
        if sparse.issparse(found):
            if found.ndim != 2:
                raise unsupported("a row of a sparse array, of one dimension,", "Write x[[0], :], or x.toarray()[0]")
            return Sparse(found, self._values)
        return self._values[found - 1] if found else np.zeros((), self.dtype)[()]

    def __getattr__(self, name: str) -> Any:
        if name in _MOVES:
            return lambda *args, **kwargs: self._moved(lambda p: getattr(p, name)(*args, **kwargs))
        if name in _ELEMENTWISE:
            return lambda: self._with(getattr(np, name)(self._values))
        if name in ("indices", "indptr", "row", "col", "coords", "offsets", "blocksize", "has_sorted_indices"):
            return getattr(self._pattern, name)
        if name.startswith("__") or not hasattr(self._pattern, name):
            raise AttributeError(f"{type(self._pattern).__name__!r} object has no attribute {name!r}")
        raise unsupported(f"{type(self._pattern).__name__}.{name} of traced values", "Use x.toarray(), or x.data")

    def __getitem__(self, index: Any) -> Any:
        return self._moved(lambda p: p[index])

    def __repr__(self) -> str:
        return f"<{type(self._pattern).__name__} of shape {self.shape} with {self.nnz} traced values>"

    def toarray(self, order: Any = None, out: None = None) -> Any:
        return sparse_dense(self._held, self._rows, self._cols, self.shape)

    def todense(self, order: Any = None, out: None = None) -> Any:
        self._refuse_matrix("x.todense()", "x.toarray()")
        return self.toarray()

    def _refuse_matrix(self, what: str, instead: str) -> None:
        """Where SciPy gives an ``np.matrix``, whose arithmetic is another."""
        if self._is_matrix():
            raise unsupported(f"{what} of a sparse matrix, an np.matrix,", f"Use {instead}, or a sparse array")

    def dot(self, other: Any) -> Any:
        return self @ other

    def __matmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _of_two(self, sparse_of(other))
        other = operand(other)
        if not shape_of(other) or shape_of(other)[0] != self.shape[1]:
            return self._pattern @ np.zeros(shape_of(other))  # raises what it raises
        return sparse_dot(self._held, other, self._rows, self._cols, self.shape)

    def __rmatmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _of_two(sparse_of(other), self)
        return np.transpose(self.T @ np.transpose(operand(other)))

    def __mul__(self, other: Any) -> Any:
        if not shape_of_any(other):
            return self._scaled(other)
        self._refuse_other_kind(other)
        return self @ other if self._is_matrix() else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if not shape_of_any(other):
            return self._scaled(other)
        self._refuse_other_kind(other)
        return self.__rmatmul__(other) if self._is_matrix() else self.multiply(other)

    def _refuse_other_kind(self, other: Any) -> None:
        if is_sparse(other) and sparse_of(other)._is_matrix() != self._is_matrix():
            raise unsupported("x * y of a sparse matrix and a sparse array", "Write x @ y, or x.multiply(y)")

    def _is_matrix(self) -> bool:
        return isinstance(self._pattern, sparse.spmatrix)

    def _scaled(self, number: Any) -> Sparse:
        return self._with(self._values * number)

    def multiply(self, other: Any) -> Any:
        """Element by element: with a sparse matrix in the places that both have."""
        if not shape_of_any(other):
            return self._scaled(other)
        if is_sparse(other):
            other = sparse_of(other)
            both = self._moved(lambda p: p.tocsr().multiply(other._pattern.tocsr() != 0).tocsr())
            there = other._moved(lambda p: p.tocsr().multiply(self._pattern.tocsr() != 0).tocsr())
            return both._with(both._values * there._values)
        dense = np.broadcast_to(operand(other), self.shape)
        return Sparse(_numbered(self._pattern.tocoo()), self._held * dense[self._rows, self._cols])

    def __truediv__(self, other: Any) -> Any:
        if is_sparse(other):
            raise unsupported("the quotient of two sparse matrices", "Divide the arrays")
        if not shape_of_any(other):
            return self._with(self._values / other)
        return self.multiply(1 / operand(other))

    def __neg__(self) -> Sparse:
        return self._with(-self._values)

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other):
            if not shape_of_any(other):
                return self._refuse_sum(other)
            self._refuse_matrix("a sum with a dense array", "x.toarray() + y")
            return self.toarray() + other
        other = sparse_of(other)
        if other.shape != self.shape:
            return self._pattern + other._pattern  # raises what it raises
        values = np.concatenate([self._held, other._held])
        rows, cols = np.concatenate([self._rows, other._rows]), np.concatenate([self._cols, other._cols])
        return assembled(type(self._pattern), values, rows, cols, self.shape, self.format)

    def _refuse_sum(self, other: Any) -> Any:
        if not is_traced(other) and other == 0:
            return self.copy()
        raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self + (-sparse_of(other) if is_sparse(other) else -operand(other))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __pow__(self, power: Any) -> Any:
        if not self._is_matrix():
            return self.power(power)
        out = self
        for _ in range(power - 1):
            out = out @ self
        return out

    def power(self, n: Any, dtype: Any = None) -> Any:
        return self._with(self._values**n)

    def __abs__(self) -> Any:
        return self._with(np.abs(self._values))

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        return self._with(astype(self._values, np.dtype(dtype)))

    def conj(self, copy: bool = True) -> Any:
        return self._with(conj(self._values))

    conjugate = conj

    def sum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        if axis is None:
            return np.sum(self._held)
        self._refuse_matrix("x.sum(axis)", "x.toarray().sum(axis)")
        over = axis % 2
        kept = self._cols if over == 0 else self._rows
        return gathered(self._held, kept, self.shape[1 - over])

    def mean(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        return self.sum(axis) / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis % 2])

    def diagonal(self, k: int = 0) -> Any:
        found = self._pattern.tocsr().diagonal(k)
        return np.concatenate([np.zeros(1, self.dtype), self._values])[found]

    def trace(self, offset: int = 0) -> Any:
        return np.sum(self.diagonal(offset))

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))


_MOVES = (
    "transpose", "tocsr", "tocsc", "tocoo", "tobsr", "todia", "asformat", "getrow", "getcol", "reshape", "copy",
    "sorted_indices",
)  # fmt: skip
_ELEMENTWISE = (
    "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "expm1", "log1p", "sqrt", "rint", "sign",
    "floor", "ceil", "trunc", "deg2rad", "rad2deg",
)  # fmt: skip


def shape_of_any(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if is_sparse(x) else shape_of(x)


def is_sparse(x: Any) -> bool:
    return isinstance(x, Sparse) or sparse.issparse(x)


def is_ours(*xs: Any) -> bool:
    """Whether a matrix, or one in a list of them, has traced values, or is traced itself."""
    ours = any(isinstance(x, Sparse) or (isinstance(x, list | tuple) and is_ours(*x)) for x in xs)
    return ours or find_traced(xs) is not None


def _numbered(pattern: Any) -> Any:
    pattern = pattern.copy()
    pattern.data = np.arange(1, pattern.data.size + 1).reshape(pattern.data.shape)
    return pattern


def sparse_of(matrix: Any) -> Sparse:
    """One of SciPy's own as one with values that are constant, and are compared when the program is called again."""
    if isinstance(matrix, Sparse):
        return matrix
    matrix = constant_sparse(matrix)
    return Sparse(_numbered(matrix), np.ravel(matrix.data))


def assembled(cls: Any, values: Any, rows: Any, cols: Any, shape: Sequence[int], form: str) -> Sparse:
    """A matrix of values in places, in the order of its format; those in one place are added, but in "coo"."""
    rows, cols = rows.astype(np.int64), cols.astype(np.int64)
    if form == "coo":
        return Sparse(cls((np.arange(1, len(rows) + 1), (rows, cols)), shape=shape), values)
    keys = cols * shape[0] + rows if form == "csc" else rows * shape[1] + cols
    places, index = np.unique(keys, return_inverse=True)
    rows, cols = (places % shape[0], places // shape[0]) if form == "csc" else (places // shape[1], places % shape[1])
    pattern = sparse.coo_array((np.arange(1, len(places) + 1), (rows, cols)), shape=shape)
    return Sparse(cls(pattern), gathered(values, index, len(places)))


def _of_two(a: Sparse, b: Sparse) -> Sparse:
    """The product of two: one product of values for each pair that meets."""
    if a.shape[1] != b.shape[0]:
        a._pattern @ b._pattern  # raises what it raises
    b_ = b.tocsr()
    starts = b_.indptr[:-1][a._cols]
    lengths = np.diff(b_.indptr)[a._cols]
    first = np.repeat(np.arange(len(lengths)), lengths)
    skipped = starts - np.concatenate([[0], np.cumsum(lengths)[:-1]])[: len(lengths)]
    second = np.repeat(skipped, lengths) + np.arange(len(first))
    values = a._held[first] * b_._values[second]
    form = a.format if a.format in ("csr", "csc") else "csr"
    cls = type(a._pattern.asformat(form))
    return assembled(cls, values, a._rows[first], b_.indices[second], (a.shape[0], b.shape[1]), form)
