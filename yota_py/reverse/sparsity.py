"""Which results depend on which arguments: the pattern of a Jacobian, as the tape says, and rows that can be computed
together (A. Curtis, M. Powell and J. Reid, 1974, "On the estimation of sparse Jacobian matrices").

A pattern has a row for each element of a value, with the elements of the argument on which it may depend: of an
elementwise operation the union of its operands' rows, of a view or an index the same rows in another order. What an
operation does is known by its kernel; of all others each element depends on all that goes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from ..base.dispatch import decided, original
from ..base.types import ArrayType
from ..registry.kernels import Accumulate, Assign, Concatenate, Index, Map, Product, Reduce, Scan, Unindex, View
from ..registry.registry import primitive_of
from ..registry.tangents import getfield
from ..tape.operations import Call, Input, Variable, operands, substitute
from ..tape.recorder import Recorder

COMPARED = 1_000_000  # elements of a matrix, that its zeros count
MOST = 20_000_000  # of the marks in one pattern; with more, it is taken to be dense
Matrix: TypeAlias = Any  # a SciPy sparse matrix of truth values, by rows


class DenseError(Exception):
    """A pattern has too many marks to be of use."""


def pattern_of(source: Recorder, argument: Variable) -> Matrix:
    """The pattern of a tape's only result, an array, in an argument. Raises ``DenseError``."""
    return _Patterns(source, argument).of_result()


class _Patterns:
    """The patterns of a tape's variables; those that depend on nothing have none."""

    def __init__(self, source: Recorder, argument: Variable) -> None:
        self._source, self._tape, self._argument = source, source.tape, argument
        self._sparse = import_module("scipy.sparse")
        self._n = self._size(argument)
        self._known: dict[Variable, Matrix] = {}

    def of_result(self) -> Matrix:
        for var, op in self._tape:
            if isinstance(op, Input):
                if var == self._argument:
                    self._known[var] = self._sparse.identity(self._n, dtype=bool, format="csr")
            elif isinstance(op, Call):
                reads = [x for x in operands(op) if x in self._known]
                found = self._of_call(op, reads) if reads else None
                if found is not None:
                    self._known[var] = found
        (result,) = self._tape.results
        return self._matrix(result, self._tape.type_of(result).size)

    def _size(self, x: Any) -> int:
        return self._tape.type_of(x).size  # type: ignore[no-any-return]

    def _shape(self, x: Any) -> tuple[int, ...]:
        return x.shape if isinstance(x, np.ndarray) else getattr(self._tape.type_of(x), "shape", ())

    def _matrix(self, x: Any, size: int) -> Matrix:
        """The pattern of a value of so many elements."""
        found = self._known.get(x) if isinstance(x, Variable) else None
        return self._sparse.csr_matrix((size, self._n), dtype=bool) if found is None else found

    def _of_call(self, op: Call, reads: Sequence[Variable]) -> Matrix | None:
        entry, t = primitive_of(op.fn), op.type
        if (entry is not None and entry.nondiff) or (isinstance(t, ArrayType) and not t.inexact):
            return None
        if not isinstance(t, ArrayType):  # several values at once: each depends on all
            return self._union(reads, 1)
        if op.fn is getfield:
            return self._union(reads, t.size)
        kernel = None if entry is None or isinstance(op.fn, Variable) else type(entry.kernel)
        if kernel not in _OF_KERNELS or not self._is_read_by(kernel, op, reads):
            return self._union(reads, t.size)
        try:
            found = _OF_KERNELS[kernel](self, op, t)
        except (TypeError, ValueError, LookupError):  # another way to write the call
            found = None
        return self._union(reads, t.size) if found is None else found

    def _is_read_by(self, kernel: type, op: Call, reads: Sequence[Variable]) -> bool:
        """Whether derivatives flow through no other arguments than those that are looked at."""
        looked_at = [op.args[i] for i in _LOOKED_AT.get(kernel, range(len(op.args))) if i < len(op.args)]
        looked_at += op.args[0] if kernel is Concatenate and isinstance(op.args[0], list | tuple) else []
        known = [x for x in looked_at if isinstance(x, Variable)]
        return all(x in known and isinstance(self._tape.type_of(x), ArrayType) for x in reads)

    def _checked(self, marks: int) -> None:
        if marks > MOST:
            raise DenseError

    def _union(self, reads: Sequence[Variable], size: int) -> Matrix:
        """Each of so many elements depends on all that these do."""
        row = sum(self._known[x].sum(axis=0) for x in reads)
        columns = np.flatnonzero(np.asarray(row))
        self._checked(size * len(columns))
        indices, starts = np.tile(columns, size), np.arange(size + 1) * len(columns)
        return self._sparse.csr_matrix((np.ones(len(indices), bool), indices, starts), shape=(size, self._n))

    def _moved(self, op: Call, of: Mapping[int, Any]) -> np.ndarray:
        """What an operation that moves elements gives where others stand for arguments, as numbers."""
        args = [of[i] if i in of else substitute(x, self._plain) for i, x in enumerate(op.args)]
        moved = original(op.fn)(*args, **substitute(dict(op.kwargs), self._plain))
        return np.asarray(moved).ravel().astype(np.intp)

    def _plain(self, x: Variable) -> Any:
        """The value of an index; one that is traced is what it is at this call only, which becomes a decision."""
        return decided(self._source[x])

    def _numbers(self, x: Any, start: int = 0) -> np.ndarray:
        """The positions of the elements of a value, in its shape."""
        shape = self._shape(x)
        return np.arange(start, start + math.prod(shape), dtype=float).reshape(shape)

    def _places(self, rows: Any, columns: Any, shape: tuple[int, int]) -> Matrix:
        return self._sparse.csr_matrix((np.ones(len(rows), bool), (rows, columns)), shape=shape)

    # -- by kernels

    def _map(self, op: Call, t: ArrayType) -> Matrix | None:
        total = None
        for x in op.args:
            if isinstance(x, Variable) and x in self._known:
                at = np.broadcast_to(self._numbers(x), t.shape).ravel().astype(np.intp)
                rows = self._known[x] if len(at) == self._size(x) else self._known[x][at]
                total = rows if total is None else total + rows
                self._checked(total.nnz)
        return total

    def _view(self, op: Call, t: ArrayType) -> Matrix | None:
        return self._known[op.args[0]][self._moved(op, {0: self._numbers(op.args[0])})]

    def _unindex(self, op: Call, t: ArrayType) -> Matrix | None:
        dy, index, *_ = op.args
        numbers = np.arange(t.size).reshape(t.shape)
        at = np.asarray(numbers[substitute(index, self._plain)])
        spread = np.broadcast_to(self._numbers(dy), at.shape).ravel().astype(np.intp)
        rows = self._matrix(dy, max(1, math.prod(self._shape(dy))))
        return self._places(at.ravel(), np.arange(at.size), (t.size, at.size)) @ rows[spread]

    def _assign(self, op: Call, t: ArrayType) -> Matrix | None:
        x, index, y, *_ = op.args
        at = np.asarray(np.arange(t.size).reshape(t.shape)[substitute(index, self._plain)])
        stays = np.ones(t.size, bool)
        stays[at.ravel()] = False
        kept = np.flatnonzero(stays)
        rows = self._places(kept, kept, (t.size, t.size)) @ self._matrix(x, t.size)
        return self._put(rows, y, at, t.size)

    def _accumulate(self, op: Call, t: ArrayType) -> Matrix | None:
        _, x, index, *values = op.args
        at = np.asarray(np.arange(t.size).reshape(t.shape)[substitute(index, self._plain)])
        rows = self._matrix(x, t.size)
        for y in values:
            rows = self._put(rows, y, at, t.size)
        return rows

    def _put(self, rows: Matrix, y: Any, at: np.ndarray, size: int) -> Matrix:
        """The pattern of so many elements, of which those at some positions depend on a value as well."""
        if not (isinstance(y, Variable) and y in self._known):
            return rows
        spread = np.broadcast_to(self._numbers(y), at.shape).ravel().astype(np.intp)
        return rows + self._places(at.ravel(), np.arange(at.size), (size, at.size)) @ self._known[y][spread]

    def _reduce(self, op: Call, t: ArrayType) -> Matrix | None:
        x, shape = op.args[0], self._shape(op.args[0])
        axis = op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else None)
        axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        found, _ = self._gathered(x, axes)
        return found if found.shape[0] == t.size else None

    def _scan(self, op: Call, t: ArrayType) -> Matrix | None:
        x = op.args[0]
        axis = op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else None)
        if axis is None or self._shape(x) != t.shape:
            return None
        rows, groups = self._gathered(x, (axis,))
        self._checked(int(rows.getnnz(axis=1).max(initial=0)) * t.size)
        return rows[groups]

    def _gathered(self, x: Variable, axes: Sequence[int]) -> tuple[Matrix, np.ndarray]:
        """The rows of what is the same but for these axes, together; and to which of them each element belongs."""
        shape = self._shape(x)
        along = {k % len(shape) for k in axes} if shape else set()
        kept = tuple(1 if k in along else n for k, n in enumerate(shape))
        groups = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), shape).ravel()
        found = self._places(groups, np.arange(len(groups)), (math.prod(kept), len(groups))) @ self._known[x]
        self._checked(found.nnz)
        return found, groups

    def _concatenate(self, op: Call, t: ArrayType) -> Matrix | None:
        parts, start, numbers = op.args[0], 0, list[np.ndarray]()
        for x in parts:
            numbers.append(self._numbers(x, start))
            start += numbers[-1].size
        rows = [self._matrix(x, k.size) for x, k in zip(parts, numbers, strict=True)]
        return self._sparse.vstack(rows, format="csr")[self._moved(op, {0: numbers})]

    def _others_than_zero(self, x: Any) -> np.ndarray | None:
        """Where a matrix that no derivative flows through differs from zero; ``None`` if it may anywhere. Of one that
        is read from elsewhere, that becomes a decision."""
        value = self._source[x] if isinstance(x, Variable) else x
        if (isinstance(x, Variable) and x in self._known) or np.size(value) > COMPARED:
            return None
        return np.asarray(decided(np.not_equal(value, 0)))

    def _product(self, op: Call, t: ArrayType) -> Matrix | None:
        a, b = op.args[:2]
        (left, right), sparse = (self._shape(a), self._shape(b)), self._sparse
        if not 1 <= len(left) <= 2 or not 1 <= len(right) <= 2 or left[-1] != right[0]:
            return None
        i, k, j = (left[0] if len(left) == 2 else 1), right[0], (right[1] if len(right) == 2 else 1)
        total = None
        for x, other, is_left in ((a, b, True), (b, a, False)):
            if not (isinstance(x, Variable) and x in self._known):
                continue
            of = self._others_than_zero(other)
            if is_left:
                parts = of.reshape(k, j).T if of is not None else np.ones((1, k), bool)
                rows = sparse.kron(sparse.identity(i, dtype=bool), parts, format="csr") @ self._known[x]
                rows = rows if of is not None else rows[np.repeat(np.arange(i), j)]  # those of all columns are the same
            else:
                parts = of.reshape(i, k) if of is not None else np.ones((1, k), bool)
                rows = sparse.kron(parts, sparse.identity(j, dtype=bool), format="csr") @ self._known[x]
                rows = rows if of is not None else rows[np.tile(np.arange(j), i)]
            total = rows if total is None else total + rows
            self._checked(total.nnz)
        return total


_OF_KERNELS: dict[type, Callable[[_Patterns, Call, ArrayType], Matrix | None]] = {
    Map: _Patterns._map, View: _Patterns._view, Index: _Patterns._view, Unindex: _Patterns._unindex,
    Assign: _Patterns._assign, Accumulate: _Patterns._accumulate, Reduce: _Patterns._reduce, Scan: _Patterns._scan,
    Product: _Patterns._product, Concatenate: _Patterns._concatenate,
}  # fmt: skip
_LOOKED_AT: dict[type, tuple[int, ...]] = {
    View: (0,), Index: (0,), Unindex: (0,), Assign: (0, 2), Accumulate: (1, 3), Reduce: (0,), Scan: (0,),
    Product: (0, 1),
}  # fmt: skip


def groups_of(pattern: Matrix, most: int) -> np.ndarray | None:
    """A number for each row, such that rows of one number share no column; ``None`` if more than ``most`` are needed.

    Each row gets the first number that it can have, in their order: for a band, as many as it is wide.
    """
    rows, columns = pattern.tocsr(), pattern.tocsc()
    in_column = np.diff(columns.indptr)
    if in_column.max(initial=0) > most or (in_column.astype(float) ** 2).sum() > MOST * 5:
        return None
    starts, marks = rows.indptr.tolist(), rows.indices.tolist()
    taken: list[set[int]] = [set() for _ in range(pattern.shape[1])]  # by the rows of each column
    groups = np.zeros(pattern.shape[0], np.intp)
    for i in range(len(groups)):
        here = [taken[k] for k in marks[starts[i] : starts[i + 1]]]
        group = 0
        while any(group in used for used in here):
            group += 1
        if group >= most:
            return None
        groups[i] = group
        for used in here:
            used.add(group)
    return groups
