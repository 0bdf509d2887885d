"""Determinants of matrices, and of stacks of them, also of singular ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.dispatch import dispatching
from yota_py.registry import case
from yota_py.tangents import conj, like

from .decompositions import square_cases, well_conditioned
from .linalg import adjoint
from .reductions import product_of_others
from .support import Pullback, array_rule, dtype_of, shape_of


def wide(x: Any) -> Any:
    """A number for each matrix, to be multiplied with it."""
    return x[..., None, None] if shape_of(x) else x


@dispatching
def cofactors(a: Any, det: Any) -> Any:
    """The derivatives of determinants by each element: ``det(A) A^-T`` (Giles 2.2.4), of singular matrices by their
    singular values: ``det(U) det(V^H) conj(U) P conj(V^H)``, where P has for each value the product of all others."""
    singular = np.equal(det, 0)
    if not singular.any():
        return np.swapaxes(np.multiply(np.asarray(det)[..., None, None], np.linalg.inv(a)), -1, -2)
    u, s, vh = np.linalg.svd(a)
    signs = np.asarray(np.multiply(np.linalg.det(u), np.linalg.det(vh)))
    by_values = np.matmul(np.conj(u) * product_of_others(s)[..., None, :], np.conj(vh)) * signs[..., None, None]
    others = np.where(singular[..., None, None], np.eye(shape_of(a)[-1], dtype=dtype_of(a)), a)
    by_inverse = np.swapaxes(np.asarray(det)[..., None, None] * np.linalg.inv(others), -1, -2)
    return like(np.where(singular[..., None, None], by_values, by_inverse), by_values)


@array_rule(cofactors, fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3), s.number()), case(well_conditioned(s, 2, 2, 2), s(2)),
    case(well_conditioned(s, 2, 2, dtype=np.complex128), 0.5 + 0.25j), case(well_conditioned(s, 1, 1), 2.0),
])  # fmt: skip
def cofactors_rule(a: Any, det: Any) -> tuple[Any, Pullback]:
    """``cofactors``, of regular matrices: a product with the inverse. ``LinAlgError`` for others."""

    def pullback(dy: Any) -> tuple[Any, ...]:
        inverse = adjoint(np.linalg.inv(a))
        turned = np.swapaxes(np.multiply(wide(conj(det)), dy), -1, -2)
        da = np.negative(np.matmul(np.matmul(inverse, turned), inverse))
        return like(da, a), like(np.sum(np.multiply(dy, inverse), axis=(-2, -1)), det)

    return cofactors(a, det), pullback


@array_rule(np.linalg.det, cases=square_cases)
def det_rule(a: Any) -> tuple[Any, Pullback]:
    """``det``: ``dA = dy conj(C)``, with the cofactors C."""
    y = np.linalg.det(a)
    return y, lambda dy: (like(np.multiply(wide(dy), conj(cofactors(a, y))), a),)


@array_rule(np.linalg.slogdet, cases=square_cases)
def slogdet_rule(a: Any) -> tuple[Any, Pullback]:
    """``slogdet``: ``dA = g A^-H``; g is the cotangent of the logarithm, plus i times that of the sign's angle."""
    y = np.linalg.slogdet(a)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dsign, g = dy
        if dsign is not None and dtype_of(a).kind == "c":  # the sign of a real matrix is constant
            angle = np.multiply(np.imag(np.multiply(np.conj(dsign), y[0])), -1j)
            g = angle if g is None else np.add(g, angle)
        return (None if g is None else like(np.multiply(wide(g), adjoint(np.linalg.inv(a))), a),)

    return y, pullback
