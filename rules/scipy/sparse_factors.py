"""Factors of sparse matrices, of constant ones and of such with traced values, and what they solve.

SuperLU is a class of C, whose methods cannot be exchanged: an object of ours has them while a trace runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from yota_py.registry.constants import as_constants
from yota_py.registry.patches import instances, standing_for
from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import conj
from yota_py.registry.writes import constant_sparse

from ..support import operand
from .sparse import Sparse, is_ours
from .sparse_solving import known, patched, refused, solved


@primitive
def factor_solve(lu: Any, b: Any, trans: str) -> Any:
    """The solution for a vector or for each column, by factors that are there."""
    return lu.solve(b, trans)


def _to_right_side(dy: Any, y: Any, lu: Any, b: Any, trans: str) -> Any:
    if trans == "T":
        return conj(factor_solve(lu, conj(dy), "N"))
    return factor_solve(lu, dy, "H" if trans == "N" else "N")


def _factors(dtype: Any) -> Any:
    return linalg.splu(sparse.csc_array(np.array([[2, 0.5, 0], [1, 3, 0], [0, 0.7, 1]]).astype(dtype)))


vjps(factor_solve, None, _to_right_side, cases=lambda s: [
    case(_factors(float), s(3), "N"), case(_factors(float), s(3, 2), "T"), case(_factors(float), s(3), "H"),
    case(_factors(float), s(3, dtype="f4"), "N"), case(_factors(complex), s(3), "T"),
    *(case(_factors(complex) , s(3, dtype=complex), trans) for trans in "NTH"),
])  # fmt: skip


class Factors:
    """What ``splu`` gives, of a matrix with traced values: it solves. ``factor`` is what SciPy has for plain ones."""

    def __init__(self, matrix: Sparse, factor: Callable[[Any], Any]) -> None:
        self._matrix, self._factor = matrix, factor
        self.shape, self.nnz = matrix.shape, matrix.nnz

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        matrix = self._matrix if trans == "N" else self._matrix.transpose()
        return solved(matrix.conj() if trans == "H" else matrix, rhs)


def _of_scipy(factors: Factors, plain: Callable[[Any], Any]) -> Any:
    matrix = plain(factors._matrix)
    return factors if is_ours(matrix) else factors._factor(matrix)


class Factored:
    """What ``splu`` gives, of a constant matrix, for the time of a trace."""

    def __init__(self, lu: Any) -> None:
        self._lu = lu

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return linalg.SuperLU  # type: ignore[no-any-return]

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if isinstance(rhs, list | tuple) or not is_ours(rhs):
            return self._lu.solve(rhs, trans)
        return factor_solve(self._lu, operand(rhs), trans)

    def __getattr__(self, name: str) -> Any:
        return as_constants(getattr(self._lu, name))

    def __repr__(self) -> str:
        return repr(self._lu)


_standing: WeakValueDictionary[int, Factored] = WeakValueDictionary()  # by the identities of those that they keep


def _factored(lu: Any) -> Factored:
    """The same for the same."""
    if (found := _standing.get(id(lu))) is None:
        _standing[id(lu)] = found = Factored(lu)
    return found


instances[linalg.SuperLU] = _factored
standing_for[Factors] = _of_scipy
standing_for[Factored] = lambda factored, plain: factored._lu


def _splu(fn: Any, A: Any, *args: Any, **kwargs: Any) -> Any:
    if is_ours(A):
        return Factors(known(A), lambda matrix: fn(matrix, *args, **kwargs))
    constant_sparse(A if sparse.issparse(A) else sparse.csc_array(A))
    return _factored(fn(A, *args, **kwargs))


def _spilu(fn: Any, A: Any, *args: Any, **kwargs: Any) -> Any:
    return refused(fn, A) if is_ours(A) else _splu(fn, A, *args, **kwargs)


patched("splu", always=True)(_splu)
patched("spilu", always=True)(_spilu)
patched("factorized", always=True)(lambda fn, A: _splu(linalg.splu, A).solve)
