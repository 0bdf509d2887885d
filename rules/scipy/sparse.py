"""Sparse matrices of ``scipy.sparse`` with traced values in fixed places.

What has only to move elements (transpose, index, stack, convert) SciPy itself does with a matrix of their positions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.base.ownership import is_library_frame
from yota_py.registry.patches import standing_for
from yota_py.registry.tangents import astype, conj
from yota_py.registry.writes import constant_sparse

from ..support import dtype_of, operand, shape_of, unsupported
from .sparse_places import gathered, sparse_dense, sparse_dot
from .sparse_positions import numbered, read_only

# ------------------------------------------------------------------------------------------------------ the matrix


class Sparse:
    """A sparse matrix of the class of ``pattern``, which has at each place the position of its value, from one on."""

    __slots__ = ("_at", "_cols", "_pattern", "_rows", "_values")
    __array_ufunc__ = None  # arrays of NumPy leave operators to it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, pattern: Any, values: Any, shared: bool = True) -> None:
        """The values are those of ``values`` itself where they are ``shared`` and stay in order."""
        given = np.ravel(pattern.data) if pattern.format != "dia" else pattern.data.ravel()
        if 0 in given:  # what a format fills up with
            values = np.concatenate([np.zeros(1, dtype_of(values)), values])
            values = values[given]
        elif len(given) != shape_of(values)[0] or not np.array_equal(given, np.arange(1, len(given) + 1)):
            values = values[given - 1]
        elif not shared:
            values = np.copy(values)
        pattern = pattern.copy()
        pattern.data = np.arange(1, len(given) + 1).reshape(pattern.data.shape)
        self._pattern, self._values = pattern, values
        coo = pattern.tocoo()
        self._rows, self._cols = coo.row, coo.col
        at = coo.data - 1
        self._at = None if np.array_equal(at, np.arange(len(given))) else at

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__slots__:
            object.__setattr__(self, name, value)
        elif name == "data" and shape_of(operand(value)) == self._pattern.data.shape:
            self._values = np.ravel(operand(value))
        elif name not in _FLAGS:
            self._refuse(f".{name} = ...")

    shape = property(lambda self: self._pattern.shape)
    ndim = property(lambda self: 2)
    nnz = property(lambda self: self._pattern.nnz)
    size = property(lambda self: self._pattern.size)
    format = property(lambda self: self._pattern.format)
    dtype = property(lambda self: dtype_of(self._values))
    data = property(lambda self: np.reshape(self._values, self._pattern.data.shape))
    _held = property(lambda self: self._values if self._at is None else self._values[self._at])
    T = property(lambda self: self.transpose())
    real = property(lambda self: self._with(np.real(self._values)))
    imag = property(lambda self: self._with(np.imag(self._values)))

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """What ``isinstance`` looks at in the user's code; SciPy's is to leave operators to this class."""
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__instancecheck__" and frame.f_back is not None:
            frame = frame.f_back
        return Sparse if is_library_frame(frame) else type(self._pattern)

    def _with(self, values: Any) -> Sparse:
        return Sparse(self._pattern, values)

    def _summed(self) -> Sparse:
        """The same with one element in each place."""
        keys = self._rows.astype(np.int64) * self.shape[1] + self._cols
        if len(np.unique(keys)) == len(keys):
            return self
        return assembled(type(self._pattern), self._held, self._rows, self._cols, self.shape, "csr")

    def _moved(self, move: Callable[[Any], Any]) -> Any:
        """The elements elsewhere. Those in one place are added first: SciPy would add their positions."""
        if (whole := self._summed()) is not self:
            return whole._moved(move)
        found = move(self._pattern)
        if sparse.issparse(found):
            if found.ndim != 2:
                raise unsupported(f"a sparse array of shape {found.shape}", "Write x[[0], :], or x.toarray()[0]")
            return Sparse(found, self._values, shared=np.shares_memory(found.data, self._pattern.data))
        return self._values[found - 1] if found else np.zeros((), self.dtype)[()]

    def __getattr__(self, name: str) -> Any:
        if name in _MOVES and hasattr(self._pattern, name):
            return lambda *args, **kwargs: self._moved(lambda p: getattr(p, name)(*args, **kwargs))
        if name in _ELEMENTWISE:
            whole = self._summed()
            return lambda: whole._with(getattr(np, name)(whole._values))
        if name in _PARTS:
            return read_only(getattr(self._pattern, name))
        if name.startswith("__") or not hasattr(self._pattern, name):
            raise AttributeError(f"{type(self._pattern).__name__!r} object has no attribute {name!r}")
        return self._refuse(f".{name}")

    def _refuse(self, what: str) -> NoReturn:
        raise unsupported(f"{type(self._pattern).__name__}{what} of traced values", "Use x.toarray(), or x.data")

    def __getitem__(self, index: Any) -> Any:
        return self._moved(lambda p: p[index])

    def __repr__(self) -> str:
        return f"<{type(self._pattern).__name__} of shape {self.shape} with {self.nnz} traced values>"

    def _compare(self, other: object) -> Any:
        return self._refuse(", compared,")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __bool__(self) -> bool:
        return self._refuse(" as a condition")

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        if out is not None:
            self._refuse(".toarray(out=...)")
        y = sparse_dense(self._held, self._rows, self._cols, self.shape)
        return y if order in (None, "C") else np.copy(y, order=order)

    def todense(self, order: Any = None, out: Any = None) -> Any:
        self._refuse_matrix("x.todense()", "x.toarray()")
        return self.toarray(order, out)

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
            self._pattern @ np.zeros(shape_of(other))  # raises what it raises
        if len(shape_of(other)) > 2:
            self._refuse(" @ y, of more than two dimensions")
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

    def __imul__(self, other: Any) -> Any:
        if shape_of_any(other):
            return self * other
        data = self.data  # which other matrices, and arrays of the user's, may share
        data *= other
        return self

    def __itruediv__(self, other: Any) -> Any:
        return self / other if shape_of_any(other) else self.__imul__(1.0 / other)

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
        if not is_sparse(other):
            other = operand(other)
            found = self._pattern.multiply(np.ones(shape_of(other), int))  # raises what it raises
            if not sparse.issparse(found):
                return self.toarray() * other
            out = Sparse(found, self._values)
            values = out._held * np.broadcast_to(other, out.shape)[out._rows, out._cols]
            return Sparse(numbered(found.tocoo()), values).asformat(found.format)
        a, b = self._pattern, sparse_of(other)._pattern
        both = self._moved(lambda p: p.tocsr().multiply(b.tocsr() != 0).tocsr().sorted_indices())
        there = sparse_of(other)._moved(lambda p: p.tocsr().multiply(a.tocsr() != 0).tocsr().sorted_indices())
        return both._with(both._values * there._values).asformat(a.multiply(b).format)

    def __truediv__(self, other: Any) -> Any:
        if is_sparse(other):
            raise unsupported("the quotient of two sparse matrices", "Divide the arrays")
        if shape_of_any(other):
            return self.multiply(1 / operand(other))
        wide = np.can_cast(self.dtype, float)
        return self._with((astype(self._values, np.dtype(float)) if wide else self._values) * (1 / other))

    def __neg__(self) -> Sparse:
        return self._with(-self._values)

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other):
            return self._with_dense(other, "__add__")
        other = sparse_of(other)
        like = self._pattern + other._pattern  # raises what it raises
        values = np.concatenate([self._held, other._held])
        rows, cols = np.concatenate([self._rows, other._rows]), np.concatenate([self._cols, other._cols])
        return assembled(type(like), values, rows, cols, self.shape, like.format)

    def _with_dense(self, other: Any, name: str) -> Any:
        if not shape_of_any(other):
            if other == 0:
                return -self if name == "__rsub__" else self.copy()
            return getattr(self._pattern, name)(1.0)  # raises what it raises
        self._refuse_matrix("a sum with a dense array", "x.toarray() + y")
        np.broadcast_to(np.zeros(shape_of(operand(other))), self.shape)  # raises what it raises
        return getattr(self.toarray(), name)(operand(other))

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self + -sparse_of(other) if is_sparse(other) else self._with_dense(other, "__sub__")

    def __rsub__(self, other: Any) -> Any:
        return -self + other if is_sparse(other) else self._with_dense(other, "__rsub__")

    def __pow__(self, power: Any) -> Any:
        if not self._is_matrix():
            return self.power(power)
        of_numbers = self._pattern.astype(self.dtype) ** power  # raises what it raises
        out = self.copy() if power else of_numbers
        for _ in range(power - 1):
            out = out @ self
        return out

    def power(self, n: Any, dtype: Any = None) -> Any:
        self._pattern.astype(self.dtype).power(np.ones(shape_of(n))[()] if is_traced(n) else n)  # raises what it raises
        whole = self._summed()
        x = whole._values if dtype is None else astype(whole._values, np.dtype(dtype))
        return whole._with(x**n)

    def __abs__(self) -> Any:
        whole = self._summed()
        return whole._with(np.abs(whole._values))

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        self._pattern.data[:0].astype(self.dtype).astype(dtype, casting=casting)  # raises what it raises
        if np.dtype(dtype) == self.dtype:
            return self.copy() if copy else self
        return self._with(astype(self._values, np.dtype(dtype)))

    def conj(self, copy: bool = True) -> Any:
        if self.dtype.kind != "c":
            return self.copy() if copy else self
        return self._with(conj(self._values))

    conjugate = conj

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        self._pattern.sum(axis)  # raises what it raises
        if dtype is not None or out is not None or isinstance(axis, tuple):
            self._refuse(".sum with several axes, dtype or out")
        if axis is None:
            return np.sum(self._held)
        self._refuse_matrix("x.sum(axis)", "x.toarray().sum(axis)")
        over = axis % 2
        kept = self._cols if over == 0 else self._rows
        return gathered(self._held, kept, self.shape[1 - over])

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        total = self.sum(axis, dtype, out)
        return total / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis % 2])

    def diagonal(self, k: int = 0) -> Any:
        if (whole := self._summed()) is not self:
            return whole.diagonal(k)
        found = (self._pattern if self.format == "dia" else self._pattern.tocsr()).diagonal(k)
        if found.size and np.shares_memory(found, self._pattern.data):
            return self._values[found[0] - 1 : found[-1]]
        return np.concatenate([np.zeros(1, self.dtype), self._values])[found]

    def trace(self, offset: int = 0) -> Any:
        return np.sum(self.diagonal(offset))

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))


def _of_scipy(matrix: Sparse, plain: Callable[[Any], Any]) -> Any:
    """The matrix itself, when its values are plain."""
    values = plain(matrix._values)
    if is_traced(values):  # by another thread
        return matrix
    made = matrix._pattern.copy()
    made.data = np.array(values).reshape(made.data.shape)
    return made


standing_for[Sparse] = _of_scipy

_MOVES = (
    "transpose", "tocsr", "tocsc", "tocoo", "tobsr", "todia", "asformat", "getrow", "getcol", "reshape", "copy",
    "sorted_indices",
)  # fmt: skip
_FLAGS = ("has_sorted_indices", "has_canonical_format")  # what the indices are like, whatever is said of them
_PARTS = ("indices", "indptr", "row", "col", "coords", "offsets", "blocksize", *_FLAGS)
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


def sparse_of(matrix: Any) -> Sparse:
    """One of SciPy's own as one with values that are constant."""
    if isinstance(matrix, Sparse):
        return matrix
    if matrix.ndim != 2:
        raise unsupported(f"a sparse array of shape {matrix.shape}", "Write x[None], or x.toarray()")
    matrix = constant_sparse(matrix)
    return Sparse(numbered(matrix), np.ravel(matrix.data))


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
    like = a._pattern @ b._pattern  # raises what it raises
    b_ = b.tocsr()
    starts = b_.indptr[:-1][a._cols]
    lengths = np.diff(b_.indptr)[a._cols]
    first = np.repeat(np.arange(len(lengths)), lengths)
    skipped = starts - np.concatenate([[0], np.cumsum(lengths)[:-1]])[: len(lengths)]
    second = np.repeat(skipped, lengths) + np.arange(len(first))
    values = a._held[first] * b_._values[second]
    return assembled(type(like), values, a._rows[first], b_.indices[second], like.shape, like.format)
