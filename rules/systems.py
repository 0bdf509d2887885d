"""Linear systems, inverses and powers of matrices, and stacks of them. What ``fails`` raises LinAlgError for some.

Formulas: Giles 2008, as in decompositions.py; Golub and Pereyra 1973, "The differentiation of pseudo-inverses and
nonlinear least squares problems whose variables separate".
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from yota_py.registry.composites import composite, rule_of_body
from yota_py.registry.kernels import Lapack
from yota_py.registry.registry import case, nondiff, primitive, rrule, vjps

from .decompositions import added, svd_cotangent
from .linalg import adjoint
from .matrices import hermitian, of_triangle, spread_out, square_cases, well_conditioned
from .support import Pullback, dtype_of, operand, shape_of


def inverse_cotangent(dy: Any, y: Any) -> Any:
    """``dA = -Y^H dY Y^H`` (Giles 2.2.3)."""
    return np.negative(np.matmul(np.matmul(adjoint(y), dy), adjoint(y)))


vjps(np.linalg.inv, lambda dy, y, a: inverse_cotangent(dy, y), kernel=Lapack("inv"), fails=True, cases=square_cases)


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
    case(well_conditioned(s, 2, 3, 2), rcond=1e-9),
    case(well_conditioned(s, 3, 2, dtype=np.complex128)), case(well_conditioned(s, 3, 3), hermitian=True),
    case(well_conditioned(s, 2, 3, 3, dtype=np.complex128), None, True), case(spread_out(s, 2, 3, 3), 0.4),
    case(spread_out(s, 2, 4, dtype=np.complex128), 0.4), case(spread_out(s, 4, 3), 0.4),
])  # fmt: skip
def pinv_rule(a: Any, rcond: Any = None, hermitian: bool = False, **options: Any) -> tuple[Any, Pullback]:
    """``pinv``, of which ``hermitian`` reads the lower triangle."""
    y = np.linalg.pinv(a, rcond, hermitian, **options)
    triangle = "lower" if hermitian and 0 not in shape_of(a) else ""
    cuts = cuts_off(rcond, *options.values())
    return y, lambda dy: (pinv_cotangent(a, y, dy, triangle, cuts=cuts), None, None)


_TINY = 1e-8  # a part of the largest singular value that does not count beside it


def cuts_off(*limits: Any) -> bool:
    """Whether singular values may be cut off that count."""
    return any(limit is not None and bool(np.any(np.greater(limit, _TINY))) for limit in limits)


def pinv_cotangent(a: Any, y: Any, dy: Any, triangle: str = "", *, cuts: bool = False) -> Any:
    """The cotangent where the rank does not change (Golub and Pereyra 1973); of the ``triangle`` that is read. It
    ``cuts`` off singular values that are not zero."""
    if triangle:
        a = hermitian(a, triangle == "upper")
    if cuts:
        da = _cut_cotangent(a, y, dy)
        return of_triangle(da, triangle == "upper") if triangle else da
    yh, dyh = adjoint(y), adjoint(dy)
    through = np.matmul(np.matmul(yh, dy), yh)
    rows, columns = np.matmul(dyh, np.matmul(y, yh)), np.matmul(np.matmul(yh, y), dyh)
    rows = np.subtract(rows, np.matmul(a, np.matmul(y, rows)))  # (1 - A Y) dY^H Y Y^H
    columns = np.subtract(columns, np.matmul(np.matmul(columns, y), a))  # Y^H Y dY^H (1 - Y A)
    da = np.subtract(np.add(rows, columns), through)
    return of_triangle(da, triangle == "upper") if triangle else da


def couplings(s: Any, kept: Any) -> tuple[Any, Any]:
    """By the singular values of A = U S V^H: ``1 / (s_k^2 - s_c^2)`` of pairs of which one is kept and one is cut off,
    and that times ``s_c / s_k``; zero of the others."""
    row, column, first, second = s[..., :, None], s[..., None, :], kept[..., :, None], kept[..., None, :]
    apart = np.not_equal(first, second)
    low, high = np.where(first, column, row), np.where(first, row, column)
    gap = np.where(apart, (high - low) * (high + low), 1)
    return np.where(apart, 1 / gap, 0), np.where(apart, low / np.where(apart, high, 1) / gap, 0)


def _cut_cotangent(a: Any, y: Any, dy: Any) -> Any:
    """As ``V f(S) U^H``, with f(s) = 1/s or 0: what turns singular vectors that are kept into those that are not counts
    as much as the difference of their f (Noferini 2017, "A Formula for the Frechet Derivative of a Generalized Matrix
    Function")."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    uh, v, c = adjoint(u), adjoint(vh), adjoint(dy)
    f = np.real(np.einsum("...ij,...ji->...i", np.matmul(vh, y), u))
    kept = np.greater(f * s, 0.5)
    f = np.where(kept, 1 / np.where(kept, s, 1), 0)
    inner = np.matmul(np.matmul(uh, c), v)
    same, crossed = couplings(s, kept)
    crossed = np.subtract(crossed, f[..., :, None] * f[..., None, :])
    middle = np.matmul(np.matmul(u, same * inner + crossed * adjoint(inner)), vh)
    squares = (f * f)[..., None]
    rows, columns = np.matmul(np.matmul(c, v), squares * vh), np.matmul(u, squares * np.matmul(uh, c))
    rows = np.subtract(rows, np.matmul(u, np.matmul(uh, rows)))
    columns = np.subtract(columns, np.matmul(np.matmul(columns, v), vh))
    return middle + rows + columns


@rrule(np.linalg.lstsq, fails=True, cases=lambda s: [
    case(well_conditioned(s, 4, 2), s(4)), case(well_conditioned(s, 4, 2), s(4, 3)),
    case(well_conditioned(s, 2, 3), s(2)),
    case(well_conditioned(s, 3, 3), s(3, 1)), case(well_conditioned(s, 4, 2), s(4), rcond=1e-9),
    case(spread_out(s, 3, 2, dtype=np.complex128), s(3)),
    case(spread_out(s, 3, 2), s(3, dtype=np.complex128), rcond=-1),
    case(well_conditioned(s, 3, 2, dtype=np.float32), s(3, dtype=np.float32)), case(well_conditioned(s, 4, 2), s(4, 0)),
])  # fmt: skip
def lstsq_rule(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Pullback]:
    """``lstsq``, all parts but the rank."""
    a, b = operand(a), operand(b)
    x, _, _, s = y = np.linalg.lstsq(a, b, rcond)
    if rcond is None or rcond < 0:
        rcond = np.finfo(dtype_of(s)).eps * (1 if rcond else max(shape_of(a)))
    return y, lambda dy: (*lstsq_cotangents(a, b, x, rcond, dy), None)


def lstsq_cotangents(a: Any, b: Any, x: Any, rcond: Any, dy: Any) -> tuple[Any, Any]:
    """The cotangents of ``lstsq`` where the rank does not change, by the pseudo-inverse P: of ``x = P b``, of the sums
    of squares, to which x does not contribute, and of the singular values (Golub and Pereyra 1973)."""
    dx, dsquares, _, ds = dy
    vector = len(shape_of(b)) == 1
    if vector:
        b, x, dx = (None if z is None else z[..., None] for z in (b, x, dx))
    da = db = None
    rest = np.subtract(b, np.matmul(a, x))
    if dx is not None:
        p = np.linalg.pinv(a, rcond)
        db = np.matmul(adjoint(p), dx)
        if cuts_off(rcond):
            da = _cut_cotangent(a, p, np.matmul(dx, adjoint(b)))
        else:
            outside = adjoint(np.subtract(dx, np.matmul(adjoint(a), db)))  # (1 - P A) dX
            da = np.matmul(rest, adjoint(np.matmul(p, db))) + np.matmul(np.matmul(adjoint(p), x), outside)
            da = np.subtract(da, np.matmul(db, adjoint(x)))
    if dsquares is not None and 0 not in shape_of(dsquares):
        drest = np.multiply(2 * rest, np.reshape(dsquares, (*shape_of(rest)[:-2], 1, shape_of(rest)[-1])))
        da, db = added(da, np.negative(np.matmul(drest, adjoint(x)))), added(db, drest)
    if ds is not None:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        da = added(da, svd_cotangent(u, s, vh, None, ds, None))
    return da, db[..., 0] if vector and db is not None else db


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


# -------------------------------------------------------------------------- conditions, tensors, ranks

nondiff(np.linalg.matrix_rank, cases=lambda s: [
    case(spread_out(s, 3, 2)), case(np.ones((2, 3, 3))), case(spread_out(s, 2, 2), 2.0), case(s(3)),
    case(spread_out(s, 2, 2), hermitian=True), case(spread_out(s, 2, 2), rtol=0.9),
])  # fmt: skip


@primitive
def regular_inverse(a: Any) -> Any:
    """The inverse, and NaN of singular matrices."""
    singular = np.equal(np.linalg.det(a), 0)[..., None, None]
    inverse = np.linalg.inv(np.where(singular, np.eye(a.shape[-1], dtype=a.dtype), a))
    return np.where(singular, inverse * np.nan, inverse)


vjps(regular_inverse, lambda dy, y, a: inverse_cotangent(dy, y), cases=square_cases)


@rrule(np.linalg.cond, fails=True, cases=lambda s: [
    *(case(spread_out(s, 3, 3), p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")),
    case(spread_out(s, 3, 2)), case(spread_out(s, 2, 3), -2), case(spread_out(s, 2, 2, 2), 1),
    case(spread_out(s, 2, 2, 2)), case(spread_out(s, 2, 2, dtype=np.complex128), "fro"),
    case(spread_out(s, 2, 2, dtype=np.float32)),
])  # fmt: skip
def cond_rule(x: Any, p: Any = None) -> tuple[Any, Pullback]:
    """``cond``: a quotient of singular values, or a product of norms."""

    def body(x: Any) -> Any:
        if p in (None, 2, -2):
            s = np.linalg.svd(x, compute_uv=False)
            return np.divide(s[..., -1], s[..., 0]) if p == -2 else np.divide(s[..., 0], s[..., -1])
        return np.multiply(*(np.linalg.norm(z, p, (-2, -1)) for z in (x, regular_inverse(x))))

    back = rule_of_body(body, [x])[1]
    return np.linalg.cond(x, p), lambda dy: (*back(dy), None)


@composite(np.linalg.tensorinv, cases=lambda s: [
    case(np.reshape(well_conditioned(s, 4, 4), (2, 2, 4)), 2),
    case(np.reshape(well_conditioned(s, 4, 4), (4, 2, 2)), ind=1),
])  # fmt: skip
def _tensorinv(a: Any, ind: int = 2) -> Any:
    shape = shape_of(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    size = math.prod(shape[ind:])
    return np.reshape(np.linalg.inv(np.reshape(a, (size, math.prod(shape[:ind])))), (*shape[ind:], *shape[:ind]))


@rrule(np.linalg.tensorsolve, fails=True, cases=lambda s: [
    case(np.reshape(well_conditioned(s, 4, 4), (2, 2, 4)), s(2, 2)),
    case(np.reshape(well_conditioned(s, 4, 4), (2, 2, 2, 2)), s(2, 2), (1,)),
    case(np.reshape(well_conditioned(s, 3, 3), (3, 3)), s(3)),
])  # fmt: skip
def tensorsolve_rule(a: Any, b: Any, axes: Any = None) -> tuple[Any, Pullback]:
    """``tensorsolve``: ``solve`` with all axes of the solution as one."""

    def body(a: Any, b: Any) -> Any:
        kept = [i for i in range(len(shape_of(a))) if axes is None or i not in axes]
        a = a if axes is None else np.transpose(a, (*kept, *axes))
        shape = shape_of(a)[len(shape_of(b)) :]
        return np.reshape(np.linalg.solve(np.reshape(a, (math.prod(shape),) * 2), np.ravel(b)), shape)

    a, b = operand(a), operand(b)
    y = np.linalg.tensorsolve(a, b, axes)
    back = rule_of_body(body, [a, b])[1]
    return y, lambda dy: (*back(dy), None)
