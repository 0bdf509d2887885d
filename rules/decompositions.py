"""Inverses and decompositions of matrices, and stacks of them. What ``fails`` raises LinAlgError for some.

Formulas, in the notation dA for the cotangent of A and A^H for the conjugate transpose: Giles 2008, "An extended
collection of matrix derivative results for forward and reverse mode algorithmic differentiation"; Magnus and
Neudecker, "Matrix Differential Calculus"; others at their place. Complex cotangents are dL/dRe + i dL/dIm.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.kernels import Lapack
from yota_py.registry.registry import Case, Sample, case, rrule, vjps

from .linalg import adjoint
from .support import Pullback, dtype_of, given, operand, shape_of, unsupported, zero_over_zero


def _diagonal_matrix(d: Any) -> Any:
    """Matrices with these diagonals."""
    return np.multiply(d[..., None], np.eye(shape_of(d)[-1], dtype=dtype_of(d)))


def _halved(n: int, dtype: Any, upper: bool = False) -> Any:
    """Ones in a triangle, one half on the diagonal."""
    ones = np.tri(n, dtype=dtype) - np.eye(n, dtype=dtype) / 2
    return ones.T if upper else ones


def _of_triangle(dh: Any, upper: bool = False) -> Any:
    """The cotangent of what one triangle is read of, from that of the Hermitian matrix that it stands for.

    The other triangle is the conjugate of the one that is read, and the diagonal is taken to be real.
    """
    return np.multiply(np.add(dh, adjoint(dh)), _halved(shape_of(dh)[-1], _real_dtype(dh), upper))


def _hermitian(a: Any) -> Any:
    """The Hermitian matrix that the lower triangle of ``a`` stands for."""
    below = np.tril(a, -1)
    return np.add(np.add(below, adjoint(below)), _diagonal_matrix(_real(np.diagonal(a, 0, -2, -1))))


def _real(x: Any) -> Any:
    return np.real(x) if dtype_of(x).kind == "c" else x


def well_conditioned(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """A random matrix (or a stack of them) whose inverse is harmless."""
    return np.asarray(s(*shape, low=-0.5, high=0.5, dtype=dtype) + 2 * np.eye(shape[-2], shape[-1]), dtype)


def square_cases(s: Sample) -> Iterable[Case]:
    return [
        case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 3, 3)), case(well_conditioned(s, 1, 1)),
        case(well_conditioned(s, 3, 3).T), case(well_conditioned(s, 2, 2, dtype=np.float32)),
        case(well_conditioned(s, 3, 3, dtype=np.complex128)), case(np.zeros((0, 2, 2))),
    ]  # fmt: skip


# ------------------------------------------------------------------------ inverses and linear systems


# dA = -Y^H dY Y^H (Giles 2.2.3)
vjps(np.linalg.inv, lambda dy, y, a: np.negative(np.matmul(np.matmul(adjoint(y), dy), adjoint(y))),
     kernel=Lapack("inv"), fails=True, cases=square_cases)  # fmt: skip


@rrule(np.linalg.solve, kernel=Lapack("solve"), fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3), s(3)), case(well_conditioned(s, 3, 3), s(3, 2)),
    case(well_conditioned(s, 2, 3, 3), s(2, 3, 2)), case(well_conditioned(s, 2, 3, 3), s(3, 2)),
    case(well_conditioned(s, 3, 3), s(2, 3, 1)), case(well_conditioned(s, 2, 3, 3), s(3)),
    case(well_conditioned(s, 2, 2, dtype=np.complex128), s(2)),
    case(well_conditioned(s, 2, 2), s(2, dtype=np.complex128)),
    case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32)),
    case(well_conditioned(s, 3, 3).T, s(2, 3).T),
])  # fmt: skip
def solve_rule(a: Any, b: Any) -> tuple[Any, Pullback]:
    """``solve``: ``dB = A^-H dY``, ``dA = -dB Y^H`` (Giles 2.3.1)."""
    a, b = operand(a), operand(b)
    y = np.linalg.solve(a, b)
    vector = len(shape_of(b)) == 1

    def pullback(dy: Any) -> tuple[Any, ...]:
        columns, dcolumns = (y[..., None], dy[..., None]) if vector else (y, dy)
        db = np.linalg.solve(adjoint(a), dcolumns)
        da = np.negative(np.matmul(db, adjoint(columns)))
        return da, db[..., 0] if vector else db

    return y, pullback


@rrule(np.linalg.pinv, fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 2)), case(well_conditioned(s, 2, 3)), case(well_conditioned(s, 2, 2)),
    case(well_conditioned(s, 2, 3, 2)),
    case(well_conditioned(s, 3, 2, dtype=np.complex128)), case(well_conditioned(s, 3, 3), hermitian=True),
    case(well_conditioned(s, 2, 3, 3, dtype=np.complex128), None, True),
])  # fmt: skip
def pinv_rule(a: Any, rcond: Any = None, hermitian: bool = False, **options: Any) -> tuple[Any, Pullback]:
    """``pinv`` where the rank does not change (Golub and Pereyra 1973, "The differentiation of pseudo-inverses")."""
    y = np.linalg.pinv(a, rcond, hermitian, **options)
    hermitian = hermitian and 0 not in shape_of(a)
    x = _hermitian(a) if hermitian else a

    def pullback(dy: Any) -> tuple[Any, ...]:
        yh, dyh = adjoint(y), adjoint(dy)
        through = np.matmul(np.matmul(yh, dy), yh)
        rows, columns = np.matmul(dyh, np.matmul(y, yh)), np.matmul(np.matmul(yh, y), dyh)
        rows = np.subtract(rows, np.matmul(x, np.matmul(y, rows)))  # (1 - A Y) dY^H Y Y^H
        columns = np.subtract(columns, np.matmul(np.matmul(columns, y), x))  # Y^H Y dY^H (1 - Y A)
        dx = np.subtract(np.add(rows, columns), through)
        return (_of_triangle(dx) if hermitian else dx,)

    return y, pullback


def _power(a: Any, n: int) -> Any:
    """``a`` to a positive power by squaring."""
    if n == 1:
        return a
    root = _power(a, n // 2)
    square = np.matmul(root, root)
    return np.matmul(square, a) if n % 2 else square


@composite(np.linalg.matrix_power, cases=lambda s: [
    *[case(well_conditioned(s, 2, 2), n) for n in (0, 1, 2, 3, 5, -1, -2)], case(well_conditioned(s, 3, 2, 2), 3),
    case(well_conditioned(s, 2, 2, dtype=np.complex128), 3),
])  # fmt: skip
def _matrix_power(a: Any, n: int) -> Any:
    n = operator.index(n)
    if n == 0:
        return np.broadcast_to(np.eye(shape_of(a)[-1], dtype=dtype_of(a)), shape_of(a))
    return _power(a if n > 0 else np.linalg.inv(a), abs(n))


# ------------------------------------------------------------------------------------- decompositions


def _differences(w: Any) -> Any:
    """``1 / (w[j] - w[i])``, zero on the diagonal and for equal values, which so are left out."""
    return zero_over_zero(1, np.subtract(w[..., None, :], w[..., :, None]))


def _triangle_cases(s: Sample, **options: Any) -> Iterable[Case]:
    """Matrices whose other triangle is something else, with eigenvalues far apart."""
    return [
        case(_spread_out(s, 3, 3), **options), case(_spread_out(s, 2, 3, 3), **options),
        case(_spread_out(s, 1, 1), **options), case(_spread_out(s, 2, 2, dtype=np.float32), **options),
        case(_spread_out(s, 3, 3).T, **options),
    ]  # fmt: skip


def _complex_cases(s: Sample, **options: Any) -> Iterable[Case]:
    return [case(_spread_out(s, *shape, dtype=np.complex128), **options) for shape in ((3, 3), (2, 2, 2))]


@rrule(np.linalg.cholesky, kernel=Lapack("cholesky"), fails=True, cases=lambda s: [
    case for upper in (False, True) for case in (*_triangle_cases(s, upper=upper), *_complex_cases(s, upper=upper))
])  # fmt: skip
def cholesky_rule(a: Any, /, *, upper: bool = False) -> tuple[Any, Pullback]:
    """``cholesky``, which reads one triangle only; the cotangent lies there.

    ``dH = L^-H P L^-1`` with P the lower triangle of ``L^H dL``, its diagonal halved (Murray 2016, "Differentiation of
    the Cholesky decomposition", section 3.1), for the Hermitian matrix H that the triangle stands for.
    """
    y = np.linalg.cholesky(a, **given(upper=upper))
    lower = adjoint(y) if upper else y

    def pullback(dy: Any) -> tuple[Any, ...]:
        p = np.matmul(adjoint(lower), adjoint(dy) if upper else dy)
        p = np.multiply(p, _halved(shape_of(p)[-1], _real_dtype(p)))
        half = np.linalg.solve(adjoint(lower), p)
        return (_of_triangle(np.linalg.solve(adjoint(lower), adjoint(half)), upper),)

    return y, pullback


@rrule(np.linalg.eigh, fails=True, cases=lambda s: [*_triangle_cases(s), *_triangle_cases(s, UPLO="U")])
def eigh_rule(a: Any, UPLO: Any = "L") -> tuple[Any, Pullback]:
    """``eigh``, which reads one triangle only; the cotangent lies there.

    ``dH = V (diag(dw) + F * (V^H dV)) V^H`` with ``F[i, j] = 1 / (w[j] - w[i])`` (Giles 3.1), for the Hermitian matrix
    H that the triangle stands for. For equal eigenvalues the part of their vectors is left out: right for functions
    that do not depend on the choice of the vectors.
    """
    w, v = y = np.linalg.eigh(a, UPLO)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dw, dv = dy
        inner: Any = None if dw is None else _diagonal_matrix(dw)
        if dv is not None:
            turned = np.multiply(_differences(w), np.matmul(adjoint(v), dv))
            inner = turned if inner is None else np.add(inner, turned)
        return (_of_triangle(np.matmul(np.matmul(v, inner), adjoint(v)), UPLO in ("U", "u")),)

    return y, pullback


@composite(np.linalg.eigvalsh, cases=lambda s: [
    *_triangle_cases(s), *_complex_cases(s), *_complex_cases(s, UPLO="U"), case(_spread_out(s, 2, 2), "u"),
])  # fmt: skip
def _eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    return np.linalg.eigh(a, UPLO)[0]


@rrule(
    np.linalg.svd, fails=True,
    cases=lambda s: [
        case(_spread_out(s, m, n), **options) for m,
        n in ((3, 3), (4, 2), (2, 3)) for options in ({"compute_uv": False},)
    ] + [case(_spread_out(s, 2, 3, 2), compute_uv=False),
    case(_spread_out(s, 3, 2, dtype=np.complex128), compute_uv=False)],
)  # fmt: skip
def svd_rule(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> tuple[Any, Pullback]:
    """``svd``, the vectors only for ``full_matrices=False`` or square matrices.

    Townsend 2016, "Differentiating the singular value decomposition"; the part of the phases in the complex case from
    Wan and Zhang 2019, "Automatic differentiation for complex valued SVD". For equal singular values the part of their
    vectors is left out.
    """
    rows, columns = shape_of(a)[-2:]
    if hermitian:
        raise unsupported("np.linalg.svd with hermitian=True", "Leave it out, or use np.linalg.eigh")
    if compute_uv and full_matrices and rows != columns:
        raise unsupported(
            "np.linalg.svd with full_matrices=True of a matrix that is not square", "Pass full_matrices=False"
        )
    u, s, vh = y = np.linalg.svd(a, full_matrices=False)

    def pullback(dy: Any) -> tuple[Any, ...]:
        du, ds, dvh = dy if compute_uv else (None, dy, None)
        inner: Any = None if ds is None else _diagonal_matrix(ds)
        outer: Any = None
        over = zero_over_zero(1, s)
        if du is not None:
            skew = _skew(np.matmul(adjoint(u), du))
            part = np.multiply(np.multiply(_differences(np.multiply(s, s)), skew), s[..., None, :])
            if dtype_of(a).kind == "c":
                part = np.add(part, _diagonal_matrix(np.multiply(np.diagonal(skew, 0, -2, -1), over / 2)))
            inner = part if inner is None else np.add(inner, part)
            if rows > columns:
                outside = np.subtract(du, np.matmul(u, np.matmul(adjoint(u), du)))
                outer = np.matmul(np.multiply(outside, over[..., None, :]), vh)
        if dvh is not None:
            skew = _skew(np.matmul(vh, adjoint(dvh)))
            part = np.multiply(s[..., :, None], np.multiply(_differences(np.multiply(s, s)), skew))
            inner = part if inner is None else np.add(inner, part)
            if columns > rows:
                outside = np.subtract(dvh, np.matmul(np.matmul(dvh, adjoint(vh)), vh))
                outer = np.matmul(u, np.multiply(over[..., :, None], outside))
        da = np.matmul(np.matmul(u, inner), vh)
        return (da if outer is None else np.add(da, outer),)

    return (y if compute_uv else s), pullback


def _skew(a: Any) -> Any:
    return np.subtract(a, adjoint(a))


def _spread_out(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """A random matrix with singular values far apart."""
    stretch = np.diag(np.arange(1.0, shape[-1] + 1))
    return np.asarray(well_conditioned(s, *shape, dtype=dtype) @ stretch, dtype)


@rrule(np.linalg.qr, cases=lambda s: [
    case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 4, 2)), case(well_conditioned(s, 2, 3, 2)),
])  # fmt: skip
def qr_rule(a: Any, mode: str = "reduced") -> tuple[Any, Pullback]:
    """``qr`` of matrices with at least as many rows as columns, in reduced form.

    ``dA = (dQ + Q C) R^-H``, with C the Hermitian matrix that has the lower triangle of ``R dR^H - dQ^H Q`` (Walter and
    Lehmann 2018, "Algorithmic differentiation of linear algebra functions with application in optimum experimental
    design"; Liao, Liu, Wang and Xiang 2019 for the complex case).
    """
    if mode != "reduced" or shape_of(a)[-2] < shape_of(a)[-1]:
        raise unsupported(
            f"np.linalg.qr with mode={mode!r} of shape {shape_of(a)}", "Covered: mode='reduced', rows >= columns"
        )
    q, r = y = np.linalg.qr(a)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dq, dr = dy
        m: Any = 0
        if dr is not None:
            m = np.matmul(r, adjoint(dr))
        if dq is not None:
            m = np.subtract(m, np.matmul(adjoint(dq), q))
        n = shape_of(m)[-1]
        below = np.multiply(m, np.tri(n, k=-1, dtype=_real_dtype(m)))
        c = np.add(np.add(below, adjoint(below)), _diagonal_matrix(_real(np.diagonal(m, 0, -2, -1))))
        rest = np.matmul(q, c)
        if dq is not None:
            rest = np.add(rest, dq)
        return (adjoint(np.linalg.solve(r, adjoint(rest))),)

    return y, pullback


def _real_dtype(x: Any) -> Any:
    return np.finfo(dtype_of(x)).dtype
