"""Inverses, determinants and decompositions of matrices, and stacks of them.

Formulas, in the notation dA for the cotangent of A and A^H for the conjugate transpose: Giles 2008, "An extended
collection of matrix derivative results for forward and reverse mode algorithmic differentiation"; Magnus and
Neudecker, "Matrix Differential Calculus"; others at their place. Complex cotangents are dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry import Case, Sample, case
from yota_py.tangents import conj, like, unbroadcast

from .linalg import adjoint
from .support import Pullback, array_rule, composite, dtype_of, operand, pipeline, shape_of, unsupported


def _diagonal_matrix(d: Any) -> Any:
    """Matrices with these diagonals."""
    return np.multiply(d[..., None], np.eye(shape_of(d)[-1], dtype=dtype_of(d)))


def _hermitian(a: Any) -> Any:
    return np.divide(np.add(a, adjoint(a)), 2)


def _real(x: Any) -> Any:
    return np.real(x) if dtype_of(x).kind == "c" else x


def well_conditioned(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """A random matrix (or a stack of them) whose inverse is harmless."""
    return np.asarray(s(*shape, low=-0.5, high=0.5, dtype=dtype) + 2 * np.eye(shape[-2], shape[-1]), dtype)


def _square_cases(s: Sample) -> Iterable[Case]:
    return [
        case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 3, 3)), case(well_conditioned(s, 1, 1)), case(well_conditioned(s, 3, 3).T),
        case(well_conditioned(s, 2, 2, dtype=np.float32)), case(well_conditioned(s, 3, 3, dtype=np.complex128)),
        case(np.zeros((0, 2, 2))),
    ]  # fmt: skip


# ------------------------------------------------------------------------ inverses and linear systems


@array_rule(np.linalg.inv, cases=_square_cases)
def inv_rule(a: Any) -> tuple[Any, Pullback]:
    """``inv``: ``dA = -Y^H dY Y^H`` (Giles 2.2.3)."""
    y = np.linalg.inv(a)
    return y, lambda dy: (like(np.negative(np.matmul(np.matmul(adjoint(y), dy), adjoint(y))), a),)


@array_rule(
    np.linalg.solve,
    cases=lambda s: [
        case(well_conditioned(s, 3, 3), s(3)), case(well_conditioned(s, 3, 3), s(3, 2)), case(well_conditioned(s, 2, 3, 3), s(2, 3, 2)),
        case(well_conditioned(s, 2, 3, 3), s(3, 2)), case(well_conditioned(s, 3, 3), s(2, 3, 1)), case(well_conditioned(s, 2, 3, 3), s(3)),
        case(well_conditioned(s, 2, 2, dtype=np.complex128), s(2)), case(well_conditioned(s, 2, 2), s(2, dtype=np.complex128)),
        case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32)), case(well_conditioned(s, 3, 3).T, s(2, 3).T),
    ],
)  # fmt: skip
def solve_rule(a: Any, b: Any) -> tuple[Any, Pullback]:
    """``solve``: ``dB = A^-H dY``, ``dA = -dB Y^H`` (Giles 2.3.1)."""
    a, b = operand(a), operand(b)
    y = np.linalg.solve(a, b)
    vector = len(shape_of(b)) == 1

    def pullback(dy: Any) -> tuple[Any, ...]:
        columns, dcolumns = (y[..., None], dy[..., None]) if vector else (y, dy)
        db = np.linalg.solve(adjoint(a), dcolumns)
        da = np.negative(np.matmul(db, adjoint(columns)))
        return unbroadcast(da, a), unbroadcast(db[..., 0] if vector else db, b)

    return y, pullback


@array_rule(
    np.linalg.pinv,
    cases=lambda s: [
        case(well_conditioned(s, 3, 2)), case(well_conditioned(s, 2, 3)), case(well_conditioned(s, 2, 2)), case(well_conditioned(s, 2, 3, 2)),
        case(well_conditioned(s, 3, 2, dtype=np.complex128)),
    ],
)  # fmt: skip
def pinv_rule(a: Any, rcond: Any = None, hermitian: bool = False, **options: Any) -> tuple[Any, Pullback]:
    """``pinv`` where the rank does not change (Golub and Pereyra 1973, "The differentiation of pseudo-inverses")."""
    y = np.linalg.pinv(a, rcond, hermitian, **options)

    def pullback(dy: Any) -> tuple[Any, ...]:
        yh, dyh = adjoint(y), adjoint(dy)
        direct = np.matmul(np.matmul(yh, dy), yh)
        # (1 - A Y) and (1 - Y A) vanish where A has full rank on that side
        left = np.matmul(np.matmul(yh, y), dyh)
        right = np.matmul(dyh, np.matmul(y, yh))
        left = np.subtract(left, np.matmul(np.matmul(left, a), y))
        right = np.subtract(right, np.matmul(y_a(a, y), right))
        return (like(np.subtract(np.add(left, right), direct), a),)

    return y, pullback
