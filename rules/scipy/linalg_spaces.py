"""Polar forms, null spaces, ranges and angles of ``scipy.linalg``, where the rank does not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.composites import rule_of_body
from yota_py.registry.registry import case, primitive, rrule

from ..decompositions import svd_cotangent
from ..linalg import adjoint
from ..matrices import real_dtype, skew, spread_out, well_conditioned
from ..support import Pullback, dtype_of, inexact, shape_of
from ..systems import couplings, cuts_off
from .linalg import ruled
from .linalg_equations import solve_sylvester


@primitive
def unitary_factor(a: Any) -> Any:
    """U of the polar form ``A = U P``: the nearest matrix with orthonormal columns, or rows."""
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return np.matmul(u, vh)


@rrule(unitary_factor, fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 3, 2)), case(well_conditioned(s, 2, 3)), case(np.eye(2)),
    case(well_conditioned(s, 3, 2, dtype=np.complex128)), case(well_conditioned(s, 2, 3, dtype=np.complex128)),
])  # fmt: skip
def _unitary_factor(a: Any) -> tuple[Any, Pullback]:
    """``dU = U Z`` with ``Z P + P Z = U^H dA - dA^H U``, and ``(1 - U U^H) dA P^-1`` (Higham 2008, "Functions of
    Matrices", section 8.4, for square matrices)."""
    if shape_of(a)[-2] < shape_of(a)[-1]:
        y, back = rule_of_body(lambda a: adjoint(unitary_factor(adjoint(a))), [a])
        return y, back
    y = unitary_factor(a)

    def pullback(dy: Any) -> tuple[Any, ...]:
        inner, p = np.matmul(adjoint(y), dy), np.matmul(adjoint(y), a)
        da = np.matmul(y, solve_sylvester(p, p, skew(inner)))
        if shape_of(a)[-2] > shape_of(a)[-1]:
            outside = np.subtract(dy, np.matmul(y, inner))
            da = np.add(da, adjoint(np.linalg.solve(p, adjoint(outside))))
        return (da,)

    return y, pullback


@ruled("polar", cases=lambda s: [
    *(case(spread_out(s, *shape), side) for shape in ((3, 3), (3, 2), (2, 3), (2, 2, 2)) for side in ("right", "left")),
    case(spread_out(s, 2, 2, dtype=np.complex128)), case(np.eye(2)), case(spread_out(s, 2, 2, dtype=np.float32)),
])  # fmt: skip
def polar(a: Any, side: str = "right") -> tuple[Any, Pullback]:
    """``polar``: from U, ``P = U^H A`` or ``A U^H``."""
    a = inexact(a)

    def body(a: Any) -> Any:
        u = unitary_factor(a)
        p = np.matmul(adjoint(u), a) if side == "right" else np.matmul(a, adjoint(u))
        return u, (p + adjoint(p)) / 2

    return polar(a, side), rule_of_body(body, [a])[1]


@ruled("orthogonal_procrustes", cases=lambda s: [
    case(well_conditioned(s, 3, 2), well_conditioned(s, 3, 2)),
    case(well_conditioned(s, 2, 2), s.integers(2, 2, high=3)),
    case(well_conditioned(s, 3, 2, dtype=np.complex128), spread_out(s, 3, 2, dtype=np.complex128)),
    case(well_conditioned(s, 2, 3, 2), well_conditioned(s, 3, 2), False),
])  # fmt: skip
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``orthogonal_procrustes``: the polar form of ``A^H B``, and the sum of its singular values (Schonemann 1966)."""

    def body(a: Any, b: Any) -> Any:
        m = np.matmul(adjoint(a), b)
        return unitary_factor(m), np.sum(np.linalg.svd(m, compute_uv=False), -1)

    return orthogonal_procrustes(A, B, check_finite), rule_of_body(body, [inexact(A), inexact(B)])[1]


@ruled("null_space", cases=lambda s: [
    case(well_conditioned(s, 2, 3)), case(well_conditioned(s, 1, 2), rcond=1e-9), case(np.ones((2, 2), int)),
    case(well_conditioned(s, 2, 3, dtype=np.float32)), case(well_conditioned(s, 2, 1, 2), lapack_driver="gesvd"),
])  # fmt: skip
def null_space(
    A: Any, rcond: Any = None, *, overwrite_a: bool = False, check_finite: bool = True, lapack_driver: str = "gesdd"
) -> tuple[Any, Pullback]:
    """``null_space`` where the rank does not change: ``dA = -A^+H dN N^H`` (Golub and Pereyra 1973); the vectors do not
    turn among themselves."""
    y = null_space(A, rcond, check_finite=check_finite, lapack_driver=lapack_driver)
    if cuts_off(rcond):
        return y, lambda dy: (_turned(A, y, dy),)
    limit = np.finfo(real_dtype(y)).eps * max(shape_of(A)[-2:]) if rcond is None else rcond
    return y, lambda dy: (np.negative(np.matmul(adjoint(np.linalg.pinv(A, limit)), np.matmul(dy, adjoint(y)))),)


def _turned(a: Any, y: Any, dy: Any) -> Any:
    """The cotangent of a null space to which right singular vectors count that are not quite in it: they turn into
    those that are left out (Papadopoulo and Lourakis 2000, "Estimating the Jacobian of the SVD")."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    v, flow = adjoint(vh), np.matmul(dy, adjoint(y))
    kept = np.less(np.sum(np.square(np.abs(np.matmul(vh, y))), -1), 0.5)
    same, _ = couplings(s, kept)
    turn, size = np.matmul(np.matmul(vh, flow), v), np.where(kept, s, 1)[..., :, None]
    down = np.where(kept[..., :, None], turn, 0)
    middle = s[..., :, None] * same * down + adjoint(s[..., None, :] * same * down)
    beyond = np.matmul(vh, np.subtract(flow, np.matmul(np.matmul(flow, v), vh)))
    outside = np.where(kept[..., :, None], beyond / size, 0)
    return np.negative(np.matmul(u, np.matmul(middle, vh) + outside))


@ruled("orth", cases=lambda s: [
    case(spread_out(s, 3, 2)), case(spread_out(s, 2, 3)), case(np.outer([1.0, 2.0], [3, 4]).astype(int)),
    case(spread_out(s, 2, 3, 2), rcond=1e-9), case(spread_out(s, 2, 2, dtype=np.float32)),
])  # fmt: skip
def orth(A: Any, rcond: Any = None) -> tuple[Any, Pullback]:
    """``orth`` where the rank does not change: left singular vectors."""
    y = orth(A, rcond)
    u, s, vh = np.linalg.svd(A, full_matrices=False)
    rest = np.zeros((*shape_of(u)[:-1], shape_of(u)[-1] - shape_of(y)[-1]), dtype_of(u))
    return y, lambda dy: (svd_cotangent(u, s, vh, np.concatenate([dy, rest], -1), None, None),)


@ruled("subspace_angles", cases=lambda s: [
    case(spread_out(s, 4, 2), spread_out(s, 4, 2)[::-1]),
    case(well_conditioned(s, 3, 1), well_conditioned(s, 3, 2)[::-1]),
    case(spread_out(s, 3, 2, dtype=complex)[::-1], spread_out(s, 3, 1, dtype=complex)), case(s(2, 4, 1), s(4, 2)),
])  # fmt: skip
def subspace_angles(A: Any, B: Any) -> tuple[Any, Pullback]:
    """``subspace_angles``: sines of small angles and cosines of large ones are singular values (Knyazev and Argentati
    2002, "Principal angles between subspaces in an A-based scalar product")."""

    def body(a: Any, b: Any) -> Any:
        a, b = orth(a), orth(b)
        if shape_of(a)[-1] < shape_of(b)[-1]:
            a, b = b, a
        inner = np.matmul(adjoint(a), b)
        cosines = np.linalg.svd(inner, compute_uv=False)
        sines = np.linalg.svd(np.subtract(b, np.matmul(a, inner)), compute_uv=False)
        small = np.greater_equal(np.square(cosines), 0.5)
        angles = np.arccos(np.minimum(cosines[..., ::-1], 1))
        return np.where(small, np.arcsin(np.minimum(sines, 1)), angles)

    return subspace_angles(A, B), rule_of_body(body, [inexact(A), inexact(B)])[1]
