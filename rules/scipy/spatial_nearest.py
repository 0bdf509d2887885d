"""The nearest orthogonal matrix, which has a derivative where those of its singular vectors have none; and arcs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import spatial

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, primitive, vjps

from ..support import inexact, shape_of


@primitive
def nearest_orthogonal(M: Any, proper: bool) -> Any:
    """The orthogonal matrix R for which trace(R^T M) is largest, of those with determinant 1 if ``proper``."""
    u, _, vt = np.linalg.svd(M)
    if proper:
        u = np.concatenate([u[..., :-1], u[..., -1:] * np.linalg.det(u @ vt)[..., None, None]], axis=-1)
    return u @ vt


def _transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _nearest_vjp(dy: Any, R: Any, M: Any, proper: bool) -> Any:
    """P = R^T M is symmetric, and R^T dR =: W antisymmetric, so P W + W P = R^T dM - dM^T R, also where singular values
    are equal. What that does not determine is zero. (Higham, Functions of Matrices, 2008, section 8)"""
    P, G, n = _transposed(R) @ M, _transposed(R) @ dy, shape_of(M)[-1]
    P, eye = (P + _transposed(P)) / 2, np.eye(n)
    sums = np.einsum("...ik,jl->...ijkl", P, eye) + np.einsum("ik,...jl->...ijkl", eye, P)
    lead = shape_of(M)[:-2]
    inverse = np.linalg.pinv(np.reshape(sums, (*lead, n * n, n * n)), hermitian=True)
    W = inverse @ np.reshape(G - _transposed(G), (*lead, n * n, 1))
    return R @ np.reshape(W, (*lead, n, n))


vjps(nearest_orthogonal, _nearest_vjp, None, cases=lambda s: [
    case(np.eye(3) + s(3, 3, low=0, high=0.3), True), case(s(2, 3, 3), True), case(s(2, 2), False),
    case(np.eye(3), True),
])  # fmt: skip


@expanded(patch(spatial, "procrustes"), cases=lambda s: [
    case(s(4, 2), s(4, 2)), case(s(2, 4).T, s(4, 2).tolist()), case(s(3, 1), s(3, 1)),
    case(s.integers(4, 2, high=9), s(4, 2)),
])  # fmt: skip
def procrustes(data1: Any, data2: Any) -> Any:
    """Both centred and of unit norm, the second turned and scaled onto the first, and the squares that are left."""
    both = [np.multiply(np.float64(1), inexact(x)) for x in (data1, data2)]
    if any(len(shape_of(x)) != 2 for x in both):
        raise ValueError("Input matrices must be two-dimensional")
    if shape_of(both[0]) != shape_of(both[1]):
        raise ValueError("Input matrices must be of same shape")
    if 0 in shape_of(both[0]):
        raise ValueError("Input matrices must be >0 rows and >0 cols")
    both = [x - np.mean(x, 0) for x in both]
    norms = [np.linalg.norm(x) for x in both]
    if norms[0] == 0 or norms[1] == 0:
        raise ValueError("Input matrices must contain >1 unique points")
    a, b = (x / norm for x, norm in zip(both, norms, strict=True))
    R = nearest_orthogonal(a.T @ b, False)
    b = np.dot(b, R.T) * np.sum(R * (a.T @ b))  # the trace of R^T a^T b is the sum of the singular values
    return a, b, np.sum(np.square(a - b))


@expanded(patch(spatial, "geometric_slerp"), cases=lambda s: [
    case(np.array([3, 4]) // 4, np.array([1, 0]), s(3, low=0)), case([0, 0, 1], [0, 1, 0], s.number(0, 1)),
    case([1, 0], [1, 0], s(2)), case([0, 1], [1, 0], s(0)),
])  # fmt: skip
def geometric_slerp(start: Any, end: Any, t: Any, tol: Any = 1e-7) -> Any:
    """Points on the arc, ``start cos(t w) + e sin(t w)``, where ``e`` is across ``start`` and ``w`` the whole angle."""
    start, end, t = (np.multiply(np.float64(1), inexact(x)) for x in (start, end, t))
    if np.ndim(t) > 1:
        raise ValueError("The interpolation parameter value must be one dimensional.")
    if np.ndim(start) != 1 or np.ndim(end) != 1:
        raise ValueError("Start and end coordinates must be one-dimensional")
    if shape_of(start) != shape_of(end):
        raise ValueError("The dimensions of start and end must match (have same size)")
    if shape_of(start)[0] < 2:
        raise ValueError("The start and end coordinates must both be in at least two-dimensional space")
    for point in (start, end):
        if not np.abs(np.linalg.norm(point) - 1) <= 1e-9:
            raise ValueError("start and end are not on a unit n-sphere")
    t = t[..., None] if np.ndim(t) else t
    if np.all(np.equal(start, end)):
        return start + t * (end - start)
    first = start / np.linalg.norm(start)
    across = end - first * np.dot(first, end)
    angle = np.arctan2(np.linalg.norm(start) * np.linalg.norm(across), np.dot(start, end))
    return first * np.cos(t * angle) + across / np.linalg.norm(across) * np.sin(t * angle)
