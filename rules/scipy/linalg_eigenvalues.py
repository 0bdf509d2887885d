"""Eigenvalues and vectors of ``scipy.linalg``. Formulas: Giles 2008, section 3.1, as in ``rules/decompositions.py``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case
from yota_py.registry.tangents import conj

from ..decompositions import added, eig_cotangent
from ..linalg import adjoint
from ..matrices import hermitian, of_triangle, real, spread_out, well_conditioned
from ..support import Pullback, inexact, shape_of, unsupported, zero_over_zero
from .linalg import ruled, written_as
from .linalg_banded import band_of

# ------------------------------------------------------------------------------------ Hermitian matrices


def vectors_cotangent(w: Any, v: Any, of_all: Any, dw: Any, dv: Any, first: int = 0) -> Any:
    """``dH = (V F * (V^H dv) + v dw) v^H`` for some eigenvalues w, whose vectors v are the columns from ``first`` on of
    all vectors V but for their phases; ``F[i, j] = 1 / (w[j] - W[i])``, zero for a vector itself and equal values."""
    every, vectors = of_all
    out: Any = None if dw is None else np.multiply(v, dw[..., None, :])
    if dv is not None:
        own = np.eye(shape_of(every)[-1], dtype=bool)[:, first : first + shape_of(w)[-1]]
        gaps = np.where(own, 0, np.subtract(w[..., None, :], every[..., :, None]))
        turned = np.multiply(zero_over_zero(1, gaps), np.matmul(adjoint(vectors), dv))
        out = added(out, np.matmul(vectors, turned))
    return None if out is None else np.matmul(out, adjoint(v))


def _hermitian_cases(s: Sample) -> Iterable[Case]:
    """Matrices whose other triangle is something else, alone and with a second one."""
    b = well_conditioned(s, 3, 3)
    return [
        case(spread_out(s, 3, 3)), case(spread_out(s, 3, 3), lower=False),
        case(spread_out(s, 2, 2, 2)), case(spread_out(s, 2, 2, dtype=np.float32)),
        *(case(spread_out(s, 3, 3), b, type=k, lower=k < 3) for k in (1, 2, 3)),
        case(spread_out(s, 3, 3), subset_by_index=[1, 2]), case(spread_out(s, 3, 3).T, driver="ev"),
        case(spread_out(s, 3, 3), b, subset_by_index=(0, 1)),
        case(spread_out(s, 2, 2), check_finite=False),
    ]  # fmt: skip


def _complex_cases(s: Sample, **options: Any) -> Iterable[Case]:
    z: Any = {"dtype": np.complex128}
    return [
        *(case(spread_out(s, 2, 2, **z), well_conditioned(s, 2, 2, **z), type=k, **options) for k in (1, 2, 3)),
        case(spread_out(s, 3, 3, **z), **options), case(spread_out(s, 3, 3, **z), lower=False, **options),
    ]  # fmt: skip


@ruled("eigh", cases=lambda s: [*_hermitian_cases(s), *_complex_cases(s, eigvals_only=True)])
def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: str | None = None,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``eigh``, also of two matrices: of ``A v = w B v`` with ``v^H B v = 1``, that of B is that of A times ``-w`` in
    between, less half of ``v Re(v^H dv) v^H``; ``B A v = w v`` is this with ``B^-1``, and ``A B v = w v`` with it and
    ``B v``. The cotangents lie in the triangles that are read."""
    if subset_by_value is not None:
        raise unsupported("scipy.linalg.eigh with subset_by_value", "Use subset_by_index")
    options: Any = {"lower": lower, "type": type, "check_finite": check_finite}
    w, v = y = eigh(a, b, subset_by_index=subset_by_index, driver=driver, **options)
    first = 0 if subset_by_index is None else int(subset_by_index[0])

    def pullback(dy: Any) -> tuple[Any, ...]:
        dw, dv = (dy, None) if eigvals_only else dy
        of_all = (w, v) if subset_by_index is None or dv is None else eigh(a, b, **options)
        if b is None:
            return of_triangle(vectors_cotangent(w, v, of_all, dw, dv, first), not lower), None
        whole: Any = hermitian(b, not lower)
        dvectors: Any = dv
        if type == 2 and dv is not None:  # u = B v is the vector of A and B^-1
            of_all, dvectors = (of_all[0], np.matmul(whole, of_all[1])), np.linalg.solve(whole, dv)
        vectors = np.matmul(whole, v) if type == 2 else v
        da = vectors_cotangent(w, vectors, of_all, dw, dvectors, first)
        db = _second(w, vectors, of_all, dw, dvectors, first)
        if type > 1:  # that of B^-1
            db = np.negative(np.linalg.solve(whole, adjoint(np.linalg.solve(whole, adjoint(db)))))
        if type == 2 and dv is not None:
            db = np.subtract(db, np.matmul(dvectors, adjoint(v)))
        return of_triangle(da, not lower), of_triangle(db, not lower)

    if eigvals_only:
        return eigh(a, b, eigvals_only=True, subset_by_index=subset_by_index, driver=driver, **options), pullback
    return y, pullback


def _second(w: Any, v: Any, of_all: Any, dw: Any, dv: Any, first: int) -> Any:
    """The cotangent of the second matrix."""
    scaled = None if dw is None else np.multiply(dw, w), None if dv is None else np.multiply(dv, w[..., None, :])
    out = np.negative(vectors_cotangent(w, v, of_all, *scaled, first))
    if dv is None:
        return out
    lengths = real(np.sum(np.multiply(conj(v), dv), -2, keepdims=True))
    return np.subtract(out, np.matmul(np.multiply(v, lengths / 2), adjoint(v)))


@written_as("eigvalsh", lambda s: [*_hermitian_cases(s), *_complex_cases(s)])
def _eigvalsh(a: Any, b: Any = None, **options: Any) -> Any:
    return eigh(a, b, eigvals_only=True, **options)


# ------------------------------------------------------------------------- tridiagonal and banded matrices


def _selected(select: Any, what: str) -> None:
    if select not in ("a", "all", 0):
        raise unsupported(f"{what} with select={select!r}", "Take all eigenvalues, and then some of them")


@ruled("eigh_tridiagonal", cases=lambda s: [
    case(np.arange(3.0) + s(3) / 4, s(2)), case(np.arange(3.0) + s(3) / 4, s(2), True), case(s(1), s(0)),
    case(np.arange(3.0) + s(3) / 4, s(2), lapack_driver="stev"), case(s(2, 2) * 3, s(2, 1)),
])  # fmt: skip
def eigh_tridiagonal(
    d: Any, e: Any, eigvals_only: bool = False, select: Any = "a", select_range: Any = None, check_finite: bool = True,
    tol: float = 0.0, lapack_driver: str = "auto",
) -> tuple[Any, Pullback]:  # fmt: skip
    """``eigh_tridiagonal``: the diagonals of what ``eigh`` has; both places of an element count."""
    _selected(select, "scipy.linalg.eigh_tridiagonal")
    options: Any = {"check_finite": check_finite, "tol": tol, "lapack_driver": lapack_driver}
    w, v = y = eigh_tridiagonal(d, e, **options)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da = vectors_cotangent(w, v, (w, v), *((dy, None) if eigvals_only else dy))
        return np.diagonal(da, 0, -2, -1), np.add(np.diagonal(da, -1, -2, -1), np.diagonal(da, 1, -2, -1))

    return (eigh_tridiagonal(d, e, True, **options) if eigvals_only else y), pullback


@written_as("eigvalsh_tridiagonal", lambda s: [
    case(np.arange(3.0) + s(3) / 4, s(2)), case(s(1), s(0)), case(s(2, dtype=np.float32), s(1, dtype=np.float32)),
])  # fmt: skip
def _eigvalsh_tridiagonal(
    d: Any, e: Any, select: Any = "a", select_range: Any = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite, tol, lapack_driver)


def _band(s: Sample, *shape: int, lower: bool = False, dtype: Any = np.float64) -> Any:
    """A Hermitian matrix of bands, with eigenvalues far apart, and something else outside of the matrix."""
    main = np.arange(shape[-2]) == (0 if lower else shape[-2] - 1)
    return np.asarray(s(*shape, dtype=dtype) / 3 + 2 * np.outer(main, 1.0 + np.arange(shape[-1])), dtype)


@ruled("eig_banded", cases=lambda s: [
    *(case(_band(s, 2, 3, lower=lower), lower) for lower in (False, True)), case(_band(s, 3, 4)), case(_band(s, 1, 2)),
    case(_band(s, 2, 3), eigvals_only=True), case(_band(s, 2, 3, dtype=np.complex128), eigvals_only=True),
    case(_band(s, 2, 2, 3)),
])  # fmt: skip
def eig_banded(
    a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: Any = "a",
    select_range: Any = None, max_ev: int = 0, check_finite: bool = True,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``eig_banded``: the bands of what ``eigh`` has."""
    _selected(select, "scipy.linalg.eig_banded")
    w, v = y = eig_banded(a_band, lower, check_finite=check_finite)
    rows = shape_of(a_band)[-2]

    def pullback(dy: Any) -> tuple[Any, ...]:
        da = vectors_cotangent(w, v, (w, v), *((dy, None) if eigvals_only else dy))
        return (band_of(of_triangle(da, not lower), *((rows - 1, 0) if lower else (0, rows - 1))),)

    return (eig_banded(a_band, lower, True, check_finite=check_finite) if eigvals_only else y), pullback


@written_as("eigvals_banded", lambda s: [
    case(_band(s, 2, 3)), case(_band(s, 2, 3, lower=True), True), case(_band(s, 2, 2, 3)),
])  # fmt: skip
def _eigvals_banded(
    a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: Any = "a", select_range: Any = None,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    return eig_banded(a_band, lower, True, False, select, select_range, 0, check_finite)


# ---------------------------------------------------------------------------------------- general matrices

_TURNING = 2 * np.eye(3)[[1, 2, 0]] - 2 * np.eye(3)[[2, 0, 1]]


@ruled("eig", cases=lambda s: [
    *(case(spread_out(s, 3, 3), None, left, right) for left in (False, True) for right in (False, True)),
    *(case(spread_out(s, 2, 2), well_conditioned(s, 2, 2), left) for left in (False, True)),
    case(spread_out(s, 3, 3) + _TURNING, None, True), case(spread_out(s, 2, 2, 2)), case(spread_out(s, 1, 1)),
    case(spread_out(s, 3, 3, dtype=np.complex128), None, True), case(spread_out(s, 2, 2, dtype=np.float32)),
    case(spread_out(s, 2, 2), spread_out(s, 2, 2, dtype=complex), right=False),
])  # fmt: skip
def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``eig``, also of two matrices; left vectors are those of the adjoint matrices and the conjugate values."""
    if homogeneous_eigvals:
        raise unsupported("scipy.linalg.eig with homogeneous_eigvals=True", "Leave it out")
    a, b = inexact(a), None if b is None else inexact(b)
    w, vl, vr = eig(a, b, True, True, check_finite=check_finite)
    y: Any = (w, *((vl,) if left else ()), *((vr,) if right else ()))
    y = y if len(shape_of(a)) == 2 else list(y)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dw, *dvs = dy if left or right else (dy,)
        da = db = None
        if dw is not None or (right and dvs[-1] is not None):
            da, db = eig_cotangent(w, vr, dw, dvs[-1] if right else None, b)
        if left and dvs[0] is not None:
            of_adjoint = eig_cotangent(conj(w), vl, None, dvs[0], None if b is None else adjoint(b))
            da = added(da, adjoint(of_adjoint[0]))
            db = None if b is None else added(db, adjoint(of_adjoint[1]))
        return da, db

    return (y if left or right else w), pullback


@written_as("eigvals", lambda s: [
    case(spread_out(s, 3, 3)), case(spread_out(s, 2, 2), well_conditioned(s, 2, 2)), case(spread_out(s, 2, 2, 2)),
    case(spread_out(s, 3, 3) + _TURNING), case(spread_out(s, 2, 2, dtype=np.complex128), None, False, False),
])  # fmt: skip
def _eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    return eig(a, b, False, False, False, False, check_finite, homogeneous_eigvals)
