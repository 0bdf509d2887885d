"""Determinants of matrices, and of stacks of them, also of singular ones.

A determinant is a polynomial, and so are its derivatives of every order. Where the inverse is not to be had, or would
lose digits, they are computed of the singular values, with which nothing is divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import combinations, permutations
from typing import Any

import numpy as np

from yota_py.base.dispatch import dispatching
from yota_py.registry.kernels import Lapack
from yota_py.registry.registry import Case, Sample, case, rrule, vjps
from yota_py.registry.tangents import conj, like

from .linalg import adjoint
from .matrices import square_cases, well_conditioned
from .reductions import product_of_others
from .support import Pullback, dtype_of, given, shape_of, stop_gradient, unsupported


def wide(x: Any) -> Any:
    """A number for each matrix, to be multiplied with it."""
    return x[..., None, None] if shape_of(x) else x


@dispatching
def cofactors(a: Any, det: Any = None) -> Any:
    """The derivatives of determinants by each element: ``det(A) A^-T`` (Giles 2.2.4), of singular matrices by their
    singular values: ``det(U) det(V^H) conj(U) P conj(V^H)``, where P has for each value the product of all others."""
    det = np.linalg.det(a) if det is None else det
    singular = np.equal(det, 0)
    if not singular.any():
        return np.swapaxes(np.multiply(np.asarray(det)[..., None, None], np.linalg.inv(a)), -1, -2)
    u, s, vh = np.linalg.svd(a)
    signs = np.asarray(np.multiply(np.linalg.det(u), np.linalg.det(vh)))
    by_values = np.matmul(np.conj(u) * product_of_others(s)[..., None, :], np.conj(vh)) * signs[..., None, None]
    others = np.where(singular[..., None, None], np.eye(shape_of(a)[-1], dtype=dtype_of(a)), a)
    by_inverse = np.swapaxes(np.asarray(det)[..., None, None] * np.linalg.inv(others), -1, -2)
    return like(np.where(singular[..., None, None], by_values, by_inverse), by_values)


@dispatching
def mixed_cofactors(a: Any, *xs: Any) -> Any:
    """The derivatives of ``cofactors(a)`` in the directions ``xs``, one after the other: Z |-> D^p det(A)[X.., Z].

    It is linear in each direction and does not depend on their order, and so it is closed under differentiation.
    """
    kept, exact = a, np.result_type(a, np.float64)
    a, xs = a.astype(exact, copy=False), tuple(x.astype(exact, copy=False) for x in xs)
    det = np.linalg.det(a)
    if np.not_equal(det, 0).all():
        inverse = np.linalg.inv(a)
        if _is_regular(a, inverse).all():
            return like(_by_inverse(inverse, det, xs), kept)
    n = shape_of(a)[-1]
    if n ** (len(xs) + 1) > MOST:
        raise unsupported(f"the derivative of order {len(xs) + 1} of the determinant of a singular matrix of this size",
                          "Take it where the determinant is not zero, or differentiate a product of eigenvalues")
    b, rows, columns = _balanced(np.reshape(a, (-1, n, n)))
    scales = np.ldexp(1.0, rows)[:, :, None] * np.ldexp(1.0, columns)[:, None, :]
    ys = [np.reshape(x, b.shape) * scales for x in xs]
    out, det = np.empty_like(b), np.linalg.det(b)
    inverse = np.linalg.inv(np.where(np.equal(det, 0)[:, None, None], np.eye(n), b))
    regular = np.logical_and(np.not_equal(det, 0), _is_regular(b, inverse))
    singular = np.logical_not(regular)
    if regular.any():
        out[regular] = _by_inverse(inverse[regular], det[regular], [y[regular] for y in ys])
    if singular.any():
        out[singular] = _by_values(b[singular], [y[singular] for y in ys])
    shift = (-np.sum(rows, -1) - np.sum(columns, -1))[:, None, None]
    return like(np.reshape(_shifted(out * scales, shift), shape_of(a)), kept)


CONDITION = 1e4  # up to which an inverse is used, and as many epsilons of accuracy are lost
MOST = 2e8  # numbers that are computed at once


def _is_regular(a: Any, inverse: Any) -> Any:
    """Of each matrix, whether its condition is below the limit, by the norms of Frobenius."""
    sizes = [np.einsum("...ij,...ij", x, np.conj(x)).real for x in (a, inverse)]
    return sizes[0] * sizes[1] <= (CONDITION * shape_of(a)[-1]) ** 2


def _balanced(a: Any) -> tuple[Any, Any, Any]:
    """Matrices whose rows and columns are multiplied with powers of two, so that the largest numbers are near one, and
    the exponents of these powers."""
    exponents = []
    for axis in (-1, -2):
        exponents.append(-np.frexp(np.max(np.abs(a), axis, initial=0))[1])
        a = a * np.expand_dims(np.ldexp(1.0, exponents[-1]), axis)
    return a, *exponents


def _shifted(a: Any, exponents: Any) -> Any:
    """``a * 2.0**exponents``, without overflow before the end."""
    if a.dtype.kind == "c":
        return np.ldexp(a.real, exponents) + 1j * np.ldexp(a.imag, exponents)
    return np.ldexp(a, exponents)


def _by_inverse(inverse: Any, det: Any, xs: Sequence[Any]) -> Any:
    """A sum over permutations, of products of traces over their cycles: ``tr(Y1 Y2 ...)`` with ``Y = A^-1 X``."""
    ys = [np.matmul(inverse, x) for x in xs]
    total = np.zeros_like(inverse)
    for _, sign, ((_, *with_open), *others) in _permutations(len(ys) + 1):
        factor = sign * det
        for cycle in others:
            factor = factor * np.einsum("...ii", reduce(np.matmul, [ys[i] for i in cycle]))
        total += np.asarray(factor)[..., None, None] * reduce(np.matmul, [*(ys[i] for i in with_open), inverse])
    return np.swapaxes(total, -1, -2)


def _by_values(a: Any, xs: Sequence[Any]) -> Any:
    """The same where nothing is divided: with the singular values s, ``D^p det(S)[X1, ..]`` is the sum over p
    different rows i and permutations q of ``sign(q) X1[i1, iq1] X2[i2, iq2] .. prod(all other s)``."""
    u, s, vh = np.linalg.svd(a)
    n, order = s.shape[-1], len(xs) + 1
    ys = [np.matmul(np.matmul(adjoint(u), x), adjoint(vh)) for x in xs]
    rest = s
    for _ in xs:
        rest = np.where(np.eye(n, dtype=bool), 1, rest[..., None, :])
    places = np.ogrid[(slice(n),) * order]
    different = np.ones((n,) * order, dtype=bool)
    for i, k in combinations(places, 2):
        different &= i != k
    others = np.where(different, product_of_others(rest), 0)
    total = np.zeros_like(a)
    for q, sign, _ in _permutations(order):
        operands: list[Any] = [part for i, y in enumerate(ys) for part in (y, [..., i, q[i]])]
        on_diagonal = q[-1] == order - 1
        wanted: Any = [..., order - 1] if on_diagonal else [..., order - 1, q[-1]]
        term = sign * np.einsum(others, [..., *range(order)], *operands, wanted)
        total += term[..., None] * np.eye(n) if on_diagonal else term
    signs = np.linalg.det(u) * np.linalg.det(vh)
    return np.matmul(np.matmul(np.conj(u), total), np.conj(vh)) * signs[:, None, None]


@lru_cache(maxsize=8)
def _permutations(count: int) -> list[tuple[tuple[int, ...], int, list[list[int]]]]:
    """All permutations, with their signs and their cycles: the one with the last number first."""
    cycles = {order: _cycles(order) for order in permutations(range(count))}
    return [(order, (-1) ** (count - len(parts)), parts) for order, parts in cycles.items()]


def _cycles(order: Sequence[int]) -> list[list[int]]:
    cycles: list[list[int]] = []
    left = set(order)
    while left:
        at = max(left)
        cycles.append([])
        while at in left:
            left.discard(at)
            cycles[-1].append(at)
            at = order[at]
    return cycles


def _directions(s: Sample, *shape: int, count: int = 1, dtype: Any = np.float64) -> Case:
    return case(well_conditioned(s, *shape, dtype=dtype), *(s(*shape, dtype=dtype) for _ in range(count)))


@rrule(mixed_cofactors, fails=True, cases=lambda s: [
    _directions(s, 3, 3), _directions(s, 2, 2, 2), _directions(s, 3, 3, count=2), _directions(s, 1, 1),
    _directions(s, 2, 2, dtype=np.complex128), _directions(s, 2, 2, dtype=np.float32), _directions(s, 0, 2, 2),
    case(np.ones((3, 3)), s(3, 3)), case(np.zeros((2, 2)), s(2, 2)),
    case(np.stack([np.outer(s(4), s(4)) + np.outer(s(4), s(4)), well_conditioned(s, 4, 4)]), s(2, 4, 4), s(2, 4, 4)),
])  # fmt: skip
def mixed_cofactors_rule(a: Any, *xs: Any) -> tuple[Any, Pullback]:
    """``mixed_cofactors``: one direction more, and one in the place of another."""

    def pullback(dy: Any) -> tuple[Any, ...]:
        ys, dz = [conj(x) for x in xs], dy
        return mixed_cofactors(conj(a), *ys, dz), *(
            mixed_cofactors(conj(a), *ys[:i], *ys[i + 1 :], dz) for i in range(len(xs))
        )  # fmt: skip

    return mixed_cofactors(a, *xs), pullback


@rrule(cofactors, kernel=Lapack("cofactors"), fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 2, 2)), case(np.ones((2, 2))), case(np.zeros((3, 3))),
    case(well_conditioned(s, 2, 2, dtype=np.complex128)), case(well_conditioned(s, 1, 1)),
])  # fmt: skip
def cofactors_rule(a: Any, det: Any = None) -> tuple[Any, Pullback]:
    """``cofactors``, which depend on the matrix alone."""
    return cofactors(a, **given(det=det)), lambda dy: (mixed_cofactors(conj(a), dy),)


def det_cotangent(dy: Any, y: Any, a: Any) -> Any:
    """``dA = dy conj(C)``, with the cofactors C."""
    return np.multiply(wide(dy), conj(cofactors(a, det=stop_gradient(y))))


vjps(np.linalg.det, det_cotangent, lowering=lambda a: _det(a), cases=square_cases)


@dispatching
def signed_logarithm(a: Any) -> Any:
    """The two results of ``slogdet`` of real matrices as one array, along its last axis."""
    return np.stack(np.linalg.slogdet(a), axis=-1)


vjps(
    signed_logarithm, lambda dy, y, a: np.multiply(wide(dy[..., 1]), adjoint(np.linalg.inv(a))),
    kernel=Lapack("slogdet"), fails=True, cases=lambda s: [
        case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 3, 3)), case(-np.eye(3)),
        case(well_conditioned(s, 2, 2, dtype=np.float32)), case(np.array([[0.0, 1.0], [1.0, 0.0]])),
    ],
)  # fmt: skip


def _slogdet(a: Any) -> Any:
    if dtype_of(a).kind != "f":
        return NotImplemented
    pair = signed_logarithm(a)
    at: tuple[Any, ...] = (...,) if len(shape_of(pair)) > 1 else ()
    return type(np.linalg.slogdet(np.eye(1)))(pair[*at, 0], pair[*at, 1])


def _det(a: Any) -> Any:
    parts = _slogdet(a)
    return parts if parts is NotImplemented else np.multiply(parts[0], np.exp(parts[1]))


@rrule(np.linalg.slogdet, lowering=_slogdet, cases=square_cases)
def slogdet_rule(a: Any) -> tuple[Any, Pullback]:
    """``slogdet``: ``dA = g A^-H``; g is the cotangent of the logarithm, plus i times that of the sign's angle."""
    y = np.linalg.slogdet(a)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dsign, g = dy
        if dsign is not None and dtype_of(a).kind == "c":  # the sign of a real matrix is constant
            angle = np.multiply(np.imag(np.multiply(np.conj(dsign), y[0])), -1j)
            g = angle if g is None else np.add(g, angle)
        return (None if g is None else np.multiply(wide(g), adjoint(np.linalg.inv(a))),)

    return y, pullback
