"""Decompositions of matrices, and of stacks of them. What ``fails`` raises LinAlgError for some.

The cotangent of each is a function of its own, which SciPy's functions use too. Formulas, in the notation dA for the
cotangent of A and A^H for the conjugate transpose: Giles 2008, "An extended collection of matrix derivative results
for forward and reverse mode algorithmic differentiation"; others at their place. Complex cotangents are
dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.kernels import Lapack
from yota_py.registry.registry import Case, Sample, case, nondiff, primitive, rrule
from yota_py.registry.tangents import conj

from .linalg import adjoint
from .matrices import (
    diagonal_matrix,
    differences,
    halved,
    of_triangle,
    real,
    real_dtype,
    skew,
    split_columns,
    spread_out,
    well_conditioned,
)
from .support import Pullback, dtype_of, given, shape_of, unsupported, zero_over_zero


def added(a: Any, b: Any) -> Any:
    """The sum of two cotangents, of which either may be none."""
    return b if a is None else a if b is None else np.add(a, b)


def _triangle_cases(s: Sample, **options: Any) -> Iterable[Case]:
    """Matrices whose other triangle is something else, with eigenvalues far apart."""
    return [
        case(spread_out(s, 3, 3), **options), case(spread_out(s, 2, 3, 3), **options),
        case(spread_out(s, 1, 1), **options), case(spread_out(s, 2, 2, dtype=np.float32), **options),
        case(spread_out(s, 3, 3).T, **options),
    ]  # fmt: skip


def _complex_cases(s: Sample, **options: Any) -> Iterable[Case]:
    return [case(spread_out(s, *shape, dtype=np.complex128), **options) for shape in ((3, 3), (2, 2, 2))]


@rrule(np.linalg.cholesky, kernel=Lapack("cholesky"), fails=True, cases=lambda s: [
    case for upper in (False, True) for case in (*_triangle_cases(s, upper=upper), *_complex_cases(s, upper=upper))
])  # fmt: skip
def cholesky_rule(a: Any, /, *, upper: bool = False) -> tuple[Any, Pullback]:
    """``cholesky``, which reads one triangle only; the cotangent lies there."""
    y = np.linalg.cholesky(a, **given(upper=upper))
    return y, lambda dy: (cholesky_cotangent(y, dy, upper),)


def cholesky_cotangent(y: Any, dy: Any, upper: bool) -> Any:
    """``dH = L^-H P L^-1`` with P the lower triangle of ``L^H dL``, its diagonal halved (Murray 2016, "Differentiation
    of the Cholesky decomposition", section 3.1), for the Hermitian matrix H that the triangle stands for."""
    lower = adjoint(y) if upper else y
    p = np.matmul(adjoint(lower), adjoint(dy) if upper else dy)
    p = np.multiply(p, halved(shape_of(p)[-1], real_dtype(p)))
    half = np.linalg.solve(adjoint(lower), p)
    return of_triangle(np.linalg.solve(adjoint(lower), adjoint(half)), upper)


@rrule(np.linalg.eigh, fails=True, cases=lambda s: [*_triangle_cases(s), *_triangle_cases(s, UPLO="U")])
def eigh_rule(a: Any, UPLO: Any = "L") -> tuple[Any, Pullback]:
    """``eigh``, which reads one triangle only; the cotangent lies there."""
    w, v = y = np.linalg.eigh(a, UPLO)
    return y, lambda dy: (of_triangle(eigh_cotangent(w, v, *dy), UPLO in ("U", "u")),)


def eigh_cotangent(w: Any, v: Any, dw: Any, dv: Any) -> Any:
    """``dH = V (diag(dw) + F * (V^H dV)) V^H`` with ``F[i, j] = 1 / (w[j] - w[i])`` (Giles 3.1). For equal eigenvalues
    the part of their vectors is left out: right for functions that do not depend on the choice of the vectors."""
    inner: Any = None if dw is None else diagonal_matrix(dw)
    if dv is not None:
        inner = added(inner, np.multiply(differences(w), np.matmul(adjoint(v), dv)))
    return np.matmul(np.matmul(v, inner), adjoint(v))


@composite(np.linalg.eigvalsh, lowering=None, fails=True, cases=lambda s: [
    *_triangle_cases(s), *_complex_cases(s), *_complex_cases(s, UPLO="U"), case(spread_out(s, 2, 2), "u"),
])  # fmt: skip
def _eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    """Where no derivative is wanted, it stays what it is, which computes no vectors."""
    return np.linalg.eigh(a, UPLO)[0]


def _svd_cases(s: Sample) -> Iterable[Case]:
    values = [case(spread_out(s, *shape), compute_uv=False) for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2))]
    vectors = [case(spread_out(s, *shape), False) for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2), (1, 1))]
    return [
        *values, *vectors, case(spread_out(s, 3, 2, dtype=np.complex128), compute_uv=False),
        case(spread_out(s, 3, 2)), case(spread_out(s, 2, 3)), case(spread_out(s, 2, 3, 2)), case(spread_out(s, 3, 3)),
        case(spread_out(s, 3, 3), hermitian=True), case(spread_out(s, 3, 3), True, False, True),
        case(spread_out(s, 3, 2, dtype=np.float32), False),
    ]  # fmt: skip


@rrule(np.linalg.svd, fails=True, cases=_svd_cases)
def svd_rule(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> tuple[Any, Pullback]:
    """``svd``, of which ``hermitian`` reads the lower triangle."""
    options: Any = {"hermitian": True} if hermitian else {}
    u, s, vh = y = np.linalg.svd(a, full_matrices=full_matrices and compute_uv, **options)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da = svd_cotangent(u, s, vh, *(dy if compute_uv else (None, dy, None)))
        return (of_triangle(da) if hermitian else da,)

    return (y if compute_uv else s), pullback


def svd_cotangent(u: Any, s: Any, vh: Any, du: Any, ds: Any, dvh: Any) -> Any:
    """The cotangent of ``svd``, also with full matrices.

    Townsend 2016, "Differentiating the singular value decomposition"; the part of the phases in the complex case from
    Wan and Zhang 2019, "Automatic differentiation for complex valued SVD". For equal singular values the part of their
    vectors is left out, and so is, of full matrices, that of the vectors without a value among themselves.
    """
    k = shape_of(s)[-1]
    inner: Any = None if ds is None else diagonal_matrix(ds)
    over = zero_over_zero(1, s)
    (u1, u2), (v1, v2) = split_columns(u, k), split_columns(adjoint(vh), k)
    outer: Any = None
    if du is not None:
        du1, du2 = split_columns(du, k)
        turned = skew(np.matmul(adjoint(u1), du1))
        part = np.multiply(np.multiply(differences(np.multiply(s, s)), turned), s[..., None, :])
        if dtype_of(u).kind == "c":
            part = np.add(part, diagonal_matrix(np.multiply(np.diagonal(turned, 0, -2, -1), over / 2)))
        inner = added(inner, part)
        if shape_of(u)[-2] > k:
            outer = np.matmul(np.multiply(_outside(u1, u2, du1, du2), over[..., None, :]), adjoint(v1))
    if dvh is not None:
        dv1, dv2 = split_columns(adjoint(dvh), k)
        part = np.multiply(differences(np.multiply(s, s)), skew(np.matmul(adjoint(v1), dv1)))
        inner = added(inner, np.multiply(s[..., :, None], part))
        if shape_of(vh)[-1] > k:
            outside = np.multiply(_outside(v1, v2, dv1, dv2), over[..., None, :])
            outer = added(outer, np.matmul(u1, adjoint(outside)))
    return added(np.matmul(np.matmul(u1, inner), adjoint(v1)), outer)


def _outside(q: Any, rest: Any, dq: Any, drest: Any) -> Any:
    """What turns the columns of Q out of their space, from their cotangent and from that of the ``rest`` of a basis."""
    out = np.subtract(dq, np.matmul(q, np.matmul(adjoint(q), dq)))
    return out if rest is None else np.subtract(out, np.matmul(rest, np.matmul(adjoint(drest), q)))


@composite(np.linalg.svdvals, cases=lambda s: [
    case(spread_out(s, 3, 2)), case(spread_out(s, 2, 2, 2)), case(spread_out(s, 2, 3, dtype=np.complex128)),
])  # fmt: skip
def _svdvals(x: Any, /) -> Any:
    return np.linalg.svd(x, compute_uv=False)


@rrule(np.linalg.qr, cases=lambda s: [
    *(case(well_conditioned(s, *shape), mode) for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2), (2, 2, 3), (1, 1))
      for mode in ("reduced", "complete", "r")), case(well_conditioned(s, 4, 2)),
    case(well_conditioned(s, 3, 2, dtype=np.complex128)), case(well_conditioned(s, 2, 3, dtype=np.complex128)),
    case(well_conditioned(s, 3, 3, dtype=np.float32)),
])  # fmt: skip
def qr_rule(a: Any, mode: Any = "reduced") -> tuple[Any, Pullback]:
    """``qr`` in every mode but "raw"."""
    if mode not in ("reduced", "complete", "r"):
        raise unsupported(f"np.linalg.qr with mode={mode!r}", "Covered: 'reduced', 'complete', 'r'")
    q, r = y = np.linalg.qr(a, "reduced" if mode == "r" else mode)
    return (r if mode == "r" else y), lambda dy: (qr_cotangent(q, r, *((None, dy) if mode == "r" else dy)),)


def qr_cotangent(q: Any, r: Any, dq: Any, dr: Any) -> Any:
    """``dA = (dQ + Q C) R^-H``, with C the Hermitian matrix that has the lower triangle of ``R dR^H - dQ^H Q`` (Walter
    and Lehmann 2010, "Algorithmic differentiation of linear algebra functions with application in optimum experimental
    design"). Of a wide matrix, ``A = (A1, Q R2)`` (Roberts and Roberts 2020, "QR and LQ decomposition matrix
    backpropagation algorithms for square, wide, and deep matrices"); the rest of a complete basis turns with Q."""
    k, n = shape_of(r)[-2:]
    if k > n:
        q, rest = split_columns(q, n)
        r, dr = r[..., :n, :], None if dr is None else dr[..., :n, :]
        if dq is not None:
            dq, drest = split_columns(dq, n)
            dq = np.subtract(dq, np.matmul(rest, np.matmul(adjoint(drest), q)))
    r, right = split_columns(r, k)
    dright = None
    if right is not None and dr is not None:
        dr, dright = split_columns(dr, k)
        dq = added(dq, np.matmul(q, np.matmul(right, adjoint(dright))))
    m: Any = None if dr is None else np.matmul(r, adjoint(dr))
    if dq is not None:
        m = added(m, np.negative(np.matmul(adjoint(dq), q)))
    below = np.multiply(m, np.tri(shape_of(m)[-1], k=-1, dtype=real_dtype(m)))
    c = np.add(np.add(below, adjoint(below)), diagonal_matrix(real(np.diagonal(m, 0, -2, -1))))
    da = adjoint(np.linalg.solve(r, adjoint(added(np.matmul(q, c), dq))))
    if right is None:
        return da
    return np.concatenate([da, np.matmul(q, np.zeros_like(right) if dright is None else dright)], -1)


# --------------------------------------------------------------------- eigenvalues of general matrices


@rrule(np.linalg.eig, fails=True, cases=lambda s: [
    case(spread_out(s, 3, 3)), case(spread_out(s, 2, 2, 2)), case(spread_out(s, 1, 1)), case(spread_out(s, 3, 3).T),
    case(spread_out(s, 3, 3, dtype=np.complex128)), case(spread_out(s, 2, 2, dtype=np.float32)),
    case(spread_out(s, 3, 3) + 3 * np.eye(3)[[1, 2, 0]] - 3 * np.eye(3)[[2, 0, 1]]),
])  # fmt: skip
def eig_rule(a: Any) -> tuple[Any, Pullback]:
    """``eig``, of real matrices with complex eigenvalues too; infinite or NaN where there is no basis of vectors."""
    w, v = y = np.linalg.eig(a)
    return y, lambda dy: (eig_cotangent(w, v, *dy)[0],)


def eig_cotangent(w: Any, v: Any, dw: Any, dv: Any, b: Any = None) -> tuple[Any, Any]:
    """``dA = X^H M V^H`` with ``X = (B V)^-1`` and ``M = diag(dw) + conj(F) * (V^H dV)``, and ``dB`` that of A times
    ``-conj(w)`` in between (Giles 3.1; B is the identity without it).

    The vectors are of length one, and their largest elements real, as LAPACK has them.
    """
    inner: Any = None if dw is None else diagonal_matrix(dw)
    if dv is not None:
        along = np.sum(np.multiply(conj(v), dv), -2, keepdims=True)
        dv = np.subtract(dv, np.multiply(v, real(along)))
        if b is None and dtype_of(v).kind == "c":
            place = largest_real(v)
            phase = zero_over_zero(np.imag(along), np.sum(np.multiply(place, np.real(v)), -2, keepdims=True))
            dv = np.subtract(dv, np.multiply(1j * place, phase))
        inner = added(inner, np.multiply(conj(differences(w)), np.matmul(adjoint(v), dv)))
    basis = adjoint(v if b is None else np.matmul(b, v))
    db = None
    if b is not None:
        db = np.negative(np.linalg.solve(basis, np.matmul(np.multiply(inner, conj(w)[..., None, :]), adjoint(v))))
    return np.linalg.solve(basis, np.matmul(inner, adjoint(v))), db


@primitive
def largest_real(v: Any) -> Any:
    """Ones where the columns have their largest real element, zeros elsewhere."""
    sizes = np.where(np.equal(np.imag(v), 0), np.absolute(v), 0)
    if 0 in v.shape:
        return sizes
    places = np.arange(v.shape[-2])[:, None] == np.argmax(sizes, -2, keepdims=True)
    return places.astype(sizes.dtype)


nondiff(largest_real, cases=lambda s: [case(s(2, 3, 3, dtype=np.complex128)), case(s(2, 2)), case(s(0, 0))])


@composite(np.linalg.eigvals, cases=lambda s: [
    case(spread_out(s, 3, 3)), case(spread_out(s, 2, 2, 2)), case(np.array([[1.0, 2.0], [-3.0, 1.0]])),
    case(spread_out(s, 3, 3, dtype=np.complex128)), case(np.zeros((0, 0))),
])  # fmt: skip
def _eigvals(a: Any) -> Any:
    return np.linalg.eig(a)[0]
