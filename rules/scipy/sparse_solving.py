"""Linear systems and norms of sparse matrices: the derivative of a solution is a solve with the transpose.

With A x = b: ``db = A^-H dx``, ``dA = -db x^H`` in the places of A (Giles 2008, section 2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from yota_py.base.dispatch import decided
from yota_py.registry.patches import patch
from yota_py.registry.registry import Pullback, case, primitive, rrule, vjps
from yota_py.registry.tangents import conj

from ..support import operand, shape_of, stop_gradient, unsupported
from .sparse import Sparse, is_ours, is_sparse, sparse_of
from .sparse_places import gathered, products_in_places

_PLACES = np.array([0, 0, 1, 1, 2]), np.array([0, 2, 1, 2, 2])  # of the cases


@primitive
def sparse_solve(values: Any, b: Any, rows: Any, cols: Any, n: int) -> Any:
    """The solution for a vector or for each column."""
    x = linalg.spsolve(sparse.csc_array((values, (rows, cols)), shape=(n, n)), b)
    return x.reshape(b.shape)


def _to_right_side(dy: Any, y: Any, values: Any, b: Any, rows: Any, cols: Any, n: int) -> Any:
    return sparse_solve(conj(values), dy, cols, rows, n)


def _to_values(dy: Any, y: Any, values: Any, b: Any, rows: Any, cols: Any, n: int) -> Any:
    return -products_in_places(_to_right_side(dy, y, values, b, rows, cols, n), y, rows, cols)


vjps(sparse_solve, _to_values, _to_right_side, cases=lambda s: [
    case(s(5, low=1.0), s(3), *_PLACES, 3), case(s(5, low=1.0), s(3, 2), *_PLACES, 3),
    case(s(5, low=1.0), s(3, 1), *_PLACES, 3),
    case(s(5, low=1.0, dtype=complex), s(3, dtype=complex), *_PLACES, 3),
])  # fmt: skip


@primitive
def sparse_iterated(values: Any, b: Any, rows: Any, cols: Any, n: int, name: str, options: tuple[Any, ...]) -> Any:
    """The solution that a method of iterations finds, and what it says of it."""
    return getattr(linalg, name)(sparse.csr_array((values, (rows, cols)), shape=(n, n)), b, **dict(options))


@rrule(sparse_iterated, cases=lambda s: [
    case(np.array([2.0, 0.5, 3.0]), s(2), np.array([0, 0, 1]), np.array([0, 1, 1]), 2, name, ())
    for name in ("gmres", "bicgstab")
])  # fmt: skip
def _sparse_iterated_rule(
    values: Any, b: Any, rows: Any, cols: Any, n: int, name: str, options: tuple[Any, ...]
) -> tuple[Any, Pullback]:
    """Whatever way it has been found, it is the solution."""
    x, info = sparse_iterated(values, b, rows, cols, n, name, options)

    def pullback(dy: Any) -> Sequence[Any]:
        db = _to_right_side(dy[0], x, values, b, rows, cols, n)
        return -products_in_places(db, x, rows, cols), db, None, None, None, None, None

    return (x, info), pullback


def _matrix(A: Any) -> Sparse | None:
    """A square matrix with its values; of a dense one, all."""
    if is_sparse(A):
        return sparse_of(A)
    if not hasattr(A, "shape") or hasattr(A, "matvec"):
        return None
    dense = operand(A)
    rows, cols = (np.ravel(x) for x in np.indices(shape_of(dense)))
    return Sparse(sparse.coo_array((np.arange(1, len(rows) + 1), (rows, cols)), shape=shape_of(dense)), np.ravel(dense))


def patched(name: str, *, always: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for what is done in the place of a function of SciPy, if a matrix or value is traced, or ``always``."""

    def register(ours: Callable[..., Any]) -> Callable[..., Any]:
        fn = getattr(linalg, name)

        @wraps(fn)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return ours(fn, *args, **kwargs) if always or is_ours(*args, *kwargs.values()) else fn(*args, **kwargs)

        patch(linalg, name, stand_in)
        return ours

    return register


def solved(A: Sparse, b: Any) -> Any:
    if is_sparse(b):
        raise unsupported("a solution for a sparse right side", "Use b.toarray()")
    b = operand(b)
    if A.shape[0] != A.shape[1] or not shape_of(b) or shape_of(b)[0] != A.shape[0]:
        return linalg.spsolve(A._pattern.tocsc() * 1.0, np.zeros(shape_of(b)))  # raises what it raises
    return sparse_solve(A._held * 1.0, b * 1.0, A._rows, A._cols, A.shape[0])


@patched("spsolve")
def _spsolve(fn: Any, A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    x = solved(known(A), b)
    return np.ravel(x) if len(shape_of(x)) == 2 and shape_of(x)[1] == 1 else x


def known(A: Any) -> Sparse:
    matrix = _matrix(A)
    if matrix is None:
        raise unsupported(f"a system with a {type(A).__name__}", "Give a sparse matrix")
    return matrix


@patched("spsolve_triangular")
def _spsolve_triangular(
    fn: Any, A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """What is beyond the diagonal does not count, nor what is on it if it is one."""
    matrix = known(A)
    below = matrix._rows > matrix._cols if lower else matrix._rows < matrix._cols
    kept = np.flatnonzero(below if unit_diagonal else below | (matrix._rows == matrix._cols))
    ones = np.arange(matrix.shape[0] if unit_diagonal else 0)
    values = np.concatenate([matrix._held[kept], np.ones(len(ones))])
    rows, cols = (np.concatenate([x[kept], ones]) for x in (matrix._rows, matrix._cols))
    return sparse_solve(values, operand(b) * 1.0, rows, cols, matrix.shape[0])


def _iterative(fn: Any, A: Any, b: Any, x0: Any = None, **options: Any) -> Any:
    """``x0`` is where it starts, which the solution does not depend on; neither on what is done to be quick."""
    matrix = known(A)
    plain = {key: decided(stop_gradient(x)) if not callable(x) else x for key, x in options.items() if x is not None}
    if x0 is not None:
        plain["x0"] = decided(stop_gradient(operand(x0)))
    b = operand(b)
    places = matrix._rows, matrix._cols, matrix.shape[0]
    return sparse_iterated(matrix._held * 1.0, b * 1.0, *places, fn.__name__, tuple(plain.items()))


for _name in ("cg", "gmres", "bicg", "bicgstab", "cgs", "minres", "lgmres", "qmr", "gcrotmk", "tfqmr"):
    patched(_name)(_iterative)


@patched("norm")
def _norm(fn: Any, x: Any, ord: Any = None, axis: Any = None) -> Any:
    x = sparse_of(x)._summed()
    if ord in (None, "fro", "f") and axis is None:
        return np.linalg.norm(x._held)
    if axis is None and ord in (1, -1, np.inf, -np.inf):
        sums = gathered(np.abs(x._held), x._cols if abs(ord) == 1 else x._rows, x.shape[1 if abs(ord) == 1 else 0])
        return np.max(sums) if ord > 0 else np.min(sums)
    if isinstance(axis, int) or (isinstance(axis, tuple) and len(axis) == 1):
        over = int(np.arange(2)[axis])  # raises for others
        kept, n, size = x._rows if over else x._cols, x.shape[1 - over], np.abs(x._held)
        if ord == 1:
            return gathered(size, kept, n)
        if ord in (None, 2):
            squares = gathered(size**2, kept, n)
            return np.where(squares == 0, 0, np.sqrt(np.where(squares == 0, 1, squares)))
    raise unsupported(f"scipy.sparse.linalg.norm with ord={ord!r}, axis={axis!r}", "Use the norm of x.toarray()")


def refused(fn: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(x, Sparse) for x in (*args, *kwargs.values())):
        raise unsupported(f"scipy.sparse.linalg.{fn.__name__} of a matrix with traced values", "Use A.toarray()")
    return fn(*args, **kwargs)


for _name in ("expm", "expm_multiply", "inv", "eigs", "eigsh", "svds", "lobpcg", "lsqr", "lsmr", "onenormest"):
    patched(_name)(refused)
