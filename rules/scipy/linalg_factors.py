"""Factorizations of ``scipy.linalg`` and what solves with them. Formulas: where NumPy's rules have them, or named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.base.dispatch import plain
from yota_py.registry.registry import Case, Sample, case, nondiff, primitive, rrule

from ..decompositions import cholesky_cotangent, qr_cotangent, svd_cotangent
from ..linalg import adjoint
from ..matrices import split_columns, spread_out, well_conditioned
from ..support import Pullback, dtype_of, operand, shape_of, unsupported
from .linalg import adjoint_solve, of_transposed, ruled, system_cotangents
from .linalg_compiled import are_of_kernels, cholesky_factor, factored


def triangle_cases(s: Sample) -> Iterable[Case]:
    """Positive definite matrices, whose other triangle is something else."""
    return [
        *(case(well_conditioned(s, *shape), lower) for shape in ((3, 3), (2, 2, 2), (1, 1)) for lower in (False, True)),
        case(well_conditioned(s, 2, 2, dtype=np.complex128)),
        case(well_conditioned(s, 2, 2, dtype=complex), lower=True),
        case(well_conditioned(s, 3, 3).T), case(well_conditioned(s, 2, 2, dtype=np.float32), False, False, False),
    ]  # fmt: skip


def triangle(a: Any, lower: bool, k: int = 0) -> Any:
    """The lower or upper triangle, from the diagonal that is ``k`` off the main one."""
    return np.tril(a, -k) if lower else np.triu(a, k)


# ------------------------------------------------------------------------------------------------ Cholesky


def _cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return cholesky_factor(a, not lower) if check_finite is True and are_of_kernels(a) else NotImplemented


def _cho_factor(a: Any, lower: bool, check_finite: bool) -> Any:
    if check_finite is not True or not are_of_kernels(a):
        return NotImplemented
    return np.add(cholesky_factor(a, not lower), triangle(a, not lower, 1))


@ruled("cholesky", lowering=_cholesky, cases=triangle_cases)
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``cholesky``; the cotangent lies in the triangle that is read."""
    y = cholesky(a, lower, check_finite=check_finite)
    return y, lambda dy: (cholesky_cotangent(y, triangle(dy, lower), not lower),)


@primitive
def cho_factor_of_one(a: Any, lower: bool, check_finite: bool) -> Any:
    """The factor that ``cho_factor`` gives of one matrix, without the flag, which is no result: rules decide on it."""
    return plain(cho_factor)(a, lower, check_finite=check_finite)[0]


@rrule(cho_factor_of_one, lowering=_cho_factor, fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3), True, True), case(well_conditioned(s, 2, 2, dtype=complex), False, False),
])  # fmt: skip
def _factor_of_one(a: Any, lower: bool, check_finite: bool) -> tuple[Any, Pullback]:
    c = cho_factor_of_one(a, lower, check_finite)
    return c, lambda dc: (_of_factor(c, dc, lower), None, None)


def _of_factor(c: Any, dc: Any, lower: bool) -> Any:
    """The cotangent of the matrix, of which ``c`` has kept the other triangle."""
    da = cholesky_cotangent(triangle(c, lower), triangle(dc, lower), not lower)
    return np.add(da, triangle(dc, not lower, 1))


def _with_flag(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    a = operand(a)
    return (cho_factor_of_one(a, lower, check_finite), lower) if len(shape_of(a)) == 2 else NotImplemented


@ruled("cho_factor", instead=_with_flag, cases=triangle_cases)
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``cho_factor``, whose other triangle is that of the matrix."""
    y = cho_factor(a, lower, check_finite=check_finite)
    return y, lambda dy: (_of_factor(y[0], dy[0], lower),)


def _factored(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    c, lower = c_and_lower
    return factored(c, b, not lower, bool(check_finite)) if are_of_kernels(c, b) else NotImplemented


@ruled("cho_solve", lowering=_factored, cases=lambda s: [
    *(case((well_conditioned(s, 3, 3), lower), b) for lower in (False, True) for b in (s(3), s(3, 2))),
    *(case((well_conditioned(s, 2, 2, dtype=complex), lower), s(2, dtype=complex)) for lower in (False, True)),
    case((well_conditioned(s, 2, 2, 2), True), s(2)), case((well_conditioned(s, 2, 2), False), s(3, 2, 1)),
    case([well_conditioned(s, 2, 2, dtype=np.float32), True], s(2, dtype=np.float32), False, False),
])  # fmt: skip
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``cho_solve``: from that of ``A = L L^H``, ``dL = (dA + dA^H) L`` in the triangle that is read."""
    (c, lower), b = c_and_lower, operand(b)
    c = operand(c)
    x = cho_solve((c, lower), b, check_finite=check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        da, db = system_cotangents(lambda d: cho_solve((c, lower), d, False, False), x, dx, b)
        factor, dh = triangle(c, lower), np.add(da, adjoint(da))
        dc = np.matmul(dh, factor) if lower else np.matmul(factor, dh)
        return (triangle(dc, lower), None), db

    return x, pullback


# ------------------------------------------------------------------------------------------------------ LU


def lu_cotangent(l: Any, u: Any, dl: Any, du: Any) -> Any:  # noqa: E741 - the field's name
    """Of ``A = L U``: ``dA = L^-H (tril(L^H dL, -1) + triu(dU U^H)) U^-H``, with more below or on the right
    (de Hoog, Anderssen and Lukas 2011, "Differentiation of matrix functionals using triangular factorization")."""
    k = shape_of(u)[-2]
    dl, du = (np.zeros_like(z) if dz is None else dz for z, dz in ((l, dl), (u, du)))
    (u1, u2), (du1, du2) = split_columns(u, k), split_columns(du, k)
    (l1, l2), (dl1, dl2) = (split_columns(np.swapaxes(z, -1, -2), k) for z in (l, dl))
    l1, dl1 = np.swapaxes(l1, -1, -2), np.swapaxes(dl1, -1, -2)
    below, above = np.matmul(adjoint(l1), dl1), np.matmul(du1, adjoint(u1))
    if u2 is not None:
        below = np.subtract(below, np.matmul(du2, adjoint(u2)))
    if l2 is not None:
        l2, dl2 = np.swapaxes(l2, -1, -2), np.swapaxes(dl2, -1, -2)
        above = np.subtract(above, np.matmul(adjoint(l2), dl2))
    left = np.linalg.solve(adjoint(l1), np.add(np.tril(below, -1), np.triu(above)))
    da = adjoint(np.linalg.solve(u1, adjoint(left)))
    if l2 is not None:
        da = np.concatenate([da, adjoint(np.linalg.solve(u1, adjoint(dl2)))], -2)
    return da if u2 is None else np.concatenate([da, np.linalg.solve(adjoint(l1), du2)], -1)


_SHAPES = ((3, 3), (4, 2), (2, 3), (2, 3, 3), (1, 1))


def _lu_cases(s: Sample) -> Iterable[Case]:
    return [
        *(case(_mixed(s, *shape), permute) for shape in _SHAPES for permute in (False, True)),
        *(case(_mixed(s, *shape), p_indices=True) for shape in _SHAPES), case(_mixed(s, 3, 3, dtype=np.complex128)),
        case(_mixed(s, 3, 3).T), case(_mixed(s, 2, 2, dtype=np.float32), False, False, False),
    ]  # fmt: skip


def _mixed(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """Matrices whose rows are exchanged in an elimination."""
    return np.asarray(well_conditioned(s, *shape, dtype=dtype)[..., ::-1, :])


@ruled("lu", cases=_lu_cases)
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> tuple[Any, Pullback]:
    """``lu`` in every form: ``A = P L U``."""
    p, l, u = y = lu(a, check_finite=check_finite, p_indices=p_indices and not permute_l)  # noqa: E741

    def pullback(dy: Any) -> tuple[Any, ...]:
        dl, du = dy[-2:]
        if permute_l and dl is not None:
            dl = np.matmul(np.swapaxes(p, -1, -2), dl)
        da = lu_cotangent(l, u, dl, du)
        return (_rows(da, p) if p_indices and not permute_l else np.matmul(p, da),)

    return (lu(a, True, check_finite=check_finite) if permute_l else y), pullback


def _rows(a: Any, p: Any) -> Any:
    return np.take_along_axis(a, np.broadcast_to(p[..., None], shape_of(a)), -2)


@primitive
def row_order(piv: Any, m: int) -> Any:
    """The order of ``m`` rows that LAPACK's exchanges make: ``A[row_order]`` is ``L U``."""
    flat = np.reshape(piv, (math.prod(piv.shape[:-1]), piv.shape[-1]))
    rows = np.tile(np.arange(m), (len(flat), 1))
    for row, exchanges in zip(rows, flat, strict=True):
        for i, k in enumerate(exchanges):
            row[i], row[k] = row[k], row[i]
    return np.reshape(rows, (*piv.shape[:-1], m))


nondiff(row_order, cases=lambda s: [
    case(np.array([2, 2, 2]), 3), case(np.array([[1, 1], [0, 1]]), 2), case(np.array([2]), 3),
    case(np.zeros(0, int), 0),
])  # fmt: skip


@ruled("lu_factor", cases=lambda s: [
    case(_mixed(s, 3, 3)), case(_mixed(s, 2, 3)), case(_mixed(s, 3, 2)),
    case(_mixed(s, 2, 3, 3)), case(_mixed(s, 3, 3).T),
    case(_mixed(s, 1, 1)),
    case(_mixed(s, 2, 2, dtype=np.complex128)), case(_mixed(s, 2, 2, dtype=np.float32), True, False),
])  # fmt: skip
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``lu_factor``: L without its diagonal, and U, in one array."""
    y = lu_factor(a, check_finite=check_finite)

    def pullback(dy: Any) -> tuple[Any, ...]:
        l, u = _unpacked(y[0])  # noqa: E741
        k = shape_of(u)[-2]
        order = np.argsort(row_order(y[1], shape_of(l)[-2]), -1)
        return (_rows(lu_cotangent(l, u, dy[0][..., :k], dy[0][..., :k, :]), order),)

    return y, pullback


def _unpacked(factors: Any) -> tuple[Any, Any]:
    m, k = shape_of(factors)[-2], min(shape_of(factors)[-2:])
    lower = np.add(np.tril(factors[..., :k], -1), np.eye(m, k, dtype=dtype_of(factors)))
    return lower, np.triu(factors[..., :k, :])


@ruled("lu_solve", cases=lambda s: [
    *(case((well_conditioned(s, 3, 3), np.array([2, 2, 2], np.int32)), b, trans) for b in (s(3), s(3, 2))
      for trans in (0, 1, 2)),
    *(case((well_conditioned(s, 2, 2, dtype=complex), np.array([1, 1], np.int32)), s(2), trans=k) for k in (0, 1, 2)),
    case((well_conditioned(s, 2, 2, 2), np.array([[1, 1], [0, 1]], np.int32)), s(2)),
    case((well_conditioned(s, 2, 2, dtype=np.float32), np.array([0, 1], np.int32)), s(2, dtype=np.float32), 0, False),
])  # fmt: skip
def lu_solve(
    lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``lu_solve``: from that of ``A = L U``, ``dL = tril(dA U^H, -1)`` and ``dU = triu(L^H dA)``."""
    (factors, piv), b = lu_and_piv, operand(b)
    x = lu_solve((factors, piv), b, trans, check_finite=check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        back = adjoint_solve(lambda d, trans: lu_solve((factors, piv), d, trans, False, False), trans)
        da, db = system_cotangents(back, x, dx, b)
        da = of_transposed(da, trans)
        order = row_order(piv, shape_of(da)[-1])
        da = _rows(da, np.broadcast_to(order, (*shape_of(da)[:-2], shape_of(da)[-1])))
        l, u = _unpacked(factors)  # noqa: E741
        return (np.add(np.tril(np.matmul(da, adjoint(u)), -1), np.triu(np.matmul(adjoint(l), da))), None), db

    return x, pullback


# --------------------------------------------------------------------------------------- QR, RQ and SVD


@ruled("qr", cases=lambda s: [
    *(case(well_conditioned(s, *shape), mode=mode) for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2))
      for mode in ("full", "economic", "r")),
    *(case(spread_out(s, *shape), mode=mode, pivoting=True) for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 3))
      for mode in ("full", "economic", "r")),
    case(well_conditioned(s, 3, 2, dtype=np.complex128), mode="economic"),
    case(well_conditioned(s, 2, 2, dtype=np.float32), True),
])  # fmt: skip
def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``qr``, also of columns in another order, in every mode but "raw"."""
    if mode == "raw":
        raise unsupported("scipy.linalg.qr with mode='raw'", "Covered: 'full', 'economic', 'r'")
    options: Any = {"pivoting": pivoting, "check_finite": check_finite}
    q, r, *p = y = qr(a, mode="full" if mode == "r" else mode, **options)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dq, dr = (None, dy[0] if pivoting or len(shape_of(a)) == 2 else dy) if mode == "r" else dy[:2]
        if dq is None and dr is None:
            return (None,)
        da = qr_cotangent(q, r, dq, dr)
        if not pivoting:
            return (da,)
        order = np.argsort(p[0], -1)
        return (np.take_along_axis(da, np.broadcast_to(order[..., None, :], shape_of(da)), -1),)

    return (qr(a, mode="r", **options) if mode == "r" else y), pullback


@ruled("rq", cases=lambda s: [
    *(case(well_conditioned(s, *shape) + 2 * np.eye(*shape[-2:])[::-1], mode=mode)
      for shape in ((3, 3), (2, 3), (3, 2), (2, 2, 3)) for mode in ("full", "economic", "r")),
    case(well_conditioned(s, 2, 2, dtype=np.complex128)), case(well_conditioned(s, 2, 2, dtype=np.float32), True),
])  # fmt: skip
def rq(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``rq``: the matrix upside down has the adjoint factors, upside down, in ``qr``."""
    r, q = y = rq(a, mode="full" if mode == "r" else mode, check_finite=check_finite)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dr, dq = (dy, None) if mode == "r" else dy
        turned = [None if z is None else adjoint(z[..., ::-1, :]) for z in (q, dq)]
        both = [None if z is None else adjoint(z[..., ::-1, ::-1]) for z in (r, dr)]
        return (adjoint(qr_cotangent(turned[0], both[0], turned[1], both[1]))[..., ::-1, :],)

    return (rq(a, mode="r", check_finite=check_finite) if mode == "r" else y), pullback


@ruled("svd", cases=lambda s: [
    *(case(spread_out(s, *shape), full) for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2)) for full in (True, False)),
    case(spread_out(s, 3, 2), True, False), case(spread_out(s, 3, 2, dtype=np.complex128), compute_uv=False),
    case(spread_out(s, 2, 2, dtype=np.float32)), case(spread_out(s, 3, 2), lapack_driver="gesvd"),
])  # fmt: skip
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> tuple[Any, Pullback]:  # fmt: skip
    """``svd``."""
    options: Any = {"check_finite": check_finite, "lapack_driver": lapack_driver}
    u, s, vh = y = svd(a, full_matrices and compute_uv, **options)
    return (y if compute_uv else s), lambda dy: (svd_cotangent(u, s, vh, *(dy if compute_uv else (None, dy, None))),)


@ruled("svdvals", cases=lambda s: [
    case(spread_out(s, 3, 2)), case(spread_out(s, 2, 2, 2)), case(spread_out(s, 2, 3, dtype=np.complex128)),
    case(spread_out(s, 2, 2, dtype=np.float32), True, False),
])  # fmt: skip
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``svdvals``."""
    u, s, vh = svd(a, False, check_finite=check_finite)
    return s, lambda ds: (svd_cotangent(u, s, vh, None, ds, None),)
