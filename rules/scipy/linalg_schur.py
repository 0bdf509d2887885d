"""The Schur decomposition of ``scipy.linalg``: ``A = Z T Z^H``.

With ``dZ = Z W``, W skew-Hermitian, ``dT = Z^H dA Z + T W - W T``. What is zero in T below its blocks on the diagonal
stays zero, which determines W there, and so above them; block by block from the left these are linear systems. Inside
a block of two conjugate eigenvalues W is a rotation that leaves the two numbers on the diagonal equal, as LAPACK makes
them. (As for eigenvectors: Giles 2008, section 3.1.) The phases of the columns of a complex Z are not determined, and
are taken to be constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from yota_py.base.dispatch import decided
from yota_py.registry.registry import Sample, case
from yota_py.registry.tangents import conj

from ..decompositions import added
from ..linalg import adjoint
from ..matrices import skew, spread_out
from ..support import Pullback, dtype_of, shape_of, stop_gradient, unsupported, zero_over_zero
from .linalg import ruled


def _blocks(t: Any) -> list[tuple[int, int]]:
    """Where the blocks on the diagonal begin and end."""
    n = shape_of(t)[-1]
    if dtype_of(t).kind == "c" or n < 2:
        return [(i, i + 1) for i in range(n)]
    inside = decided(np.not_equal(stop_gradient(np.diagonal(t, -1)), 0)).tolist()
    begins = [i for i in range(n) if not (i and inside[i - 1])]
    return [*zip(begins, [*begins[1:], n], strict=True)]


def schur_cotangent(t: Any, z: Any, dt: Any, dz: Any) -> Any:
    """``dA``. The cotangents say what W does to the loss; the adjoint of its systems, from the last block to the first,
    gives what is to be taken from the cotangent of T below the blocks."""
    blocks = _blocks(t)
    rows = np.repeat(np.arange(len(blocks)), [end - start for start, end in blocks])
    upper = rows[:, None] <= rows
    dt = np.zeros_like(t) if dt is None else np.where(upper, dt, 0)
    turned = _turned(t, dt)
    if dz is not None:
        turned = np.add(turned, np.matmul(adjoint(z), dz))
    kept, wanted = _kept_equal(t, turned, blocks), skew(turned)
    if kept is not None:
        dt, wanted = np.add(dt, kept), np.add(wanted, _turned(t, kept))
    below: list[Any] = []
    for start, end in reversed(blocks):
        below.insert(0, _column(t, wanted, start, end, below))
    inner = np.subtract(dt, np.where(upper, 0, np.concatenate(below, -1)))
    return np.matmul(np.matmul(z, inner), adjoint(z))


def _turned(t: Any, dt: Any) -> Any:
    """The cotangent of W, of ``T W - W T``."""
    return np.subtract(np.matmul(adjoint(t), dt), np.matmul(dt, adjoint(t)))


def _kept_equal(t: Any, turned: Any, blocks: list[tuple[int, int]]) -> Any:
    """What is added to the cotangents of the two numbers on the diagonal of each block, which a rotation by ``-(d1 -
    d2) / (2 (b + c))`` keeps equal, where b and c are beside them."""
    out: Any = None
    for i in [start for start, end in blocks if end - start == 2]:
        place = np.zeros(shape_of(t))
        place[i, i], place[i + 1, i + 1] = 1, -1
        turn = np.subtract(turned[i, i + 1], turned[i + 1, i])
        out = added(out, np.multiply(zero_over_zero(turn, 2 * np.add(t[i, i + 1], t[i + 1, i])), place))
    return out


def _column(t: Any, wanted: Any, start: int, end: int, right: list[Any]) -> Any:
    """The columns of a block of K, strictly below the blocks, where ``T^H K - K T^H`` is what is ``wanted``; those on
    its ``right`` are known. Where eigenvalues are equal, the smallest solution."""
    m, width = shape_of(t)[-1] - end, end - start
    above = np.zeros((end, width), dtype_of(t))
    if not m:
        return above
    known = np.matmul(np.concatenate(right, -1)[end:], adjoint(t[start:end, end:]))
    rest = np.reshape(np.add(wanted[end:, start:end], known), (m * width,))
    system = np.subtract(np.kron(adjoint(t[end:, end:]), np.eye(width)),
                         np.kron(np.eye(m), conj(t[start:end, start:end])))  # fmt: skip
    return np.concatenate([above, np.reshape(np.linalg.lstsq(system, rest)[0], (m, width))])


def _of_stacks(*parts: Any) -> Any:
    """``schur_cotangent``, of each matrix of a stack."""
    shape = shape_of(parts[0])
    if len(shape) == 2 or not math.prod(shape):
        return schur_cotangent(*parts) if math.prod(shape) else parts[0]
    flat = [None if part is None else np.reshape(part, (-1, *shape[-2:])) for part in parts]
    each = (schur_cotangent(*(None if part is None else part[i] for part in flat)) for i in range(shape_of(flat[0])[0]))
    return np.reshape(np.stack([*each]), shape)


def _turning(s: Sample) -> Any:
    """A matrix with two conjugate eigenvalues between others."""
    return np.array([[3, 1, 2, 1], [0, 1, 2, 1], [0, -1, 1, 1], [0, 0, 0, -2]]) + s(4, 4) / 9


@ruled("schur", cases=lambda s: [
    case(spread_out(s, 3, 3)), case(spread_out(s, 1, 1)), case(_turning(s)), case(s(0, 0)),
    case(spread_out(s, 2, 2, dtype=np.float32)), case(spread_out(s, 3, 3).T, "r", check_finite=False),
    case(np.array([[[1, 0.5], [1, 3]], [[4, 1], [0.5, 1]]]) + s(2, 2, 2) / 9),
])  # fmt: skip
def schur(
    a: Any, output: str = "real", lwork: Any = None, overwrite_a: bool = False, sort: Any = None,
    check_finite: bool = True,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``schur``, real or complex."""
    if sort is not None:
        raise unsupported("scipy.linalg.schur with sort", "Leave the eigenvalues in LAPACK's order")
    t, z = y = schur(a, output, check_finite=check_finite)
    return y, lambda dy: (_of_stacks(t, z, *dy),)
