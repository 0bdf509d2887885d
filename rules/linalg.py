"""Products of vectors, matrices and tensors. Cotangents of complex arguments are those of dL/dRe + i dL/dIm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case, methods, rrule
from yota_py.registry.tangents import as_array, conj, like, unbroadcast

from .support import (
    Pullback,
    axis_of,
    count_along,
    dtype_of,
    operand,
    rule_of,
    rule_of_primitives,
    shape_of,
    spread,
    strong,
    unsupported,
)


def adjoint(a: Any) -> Any:
    """Conjugate transpose of the last two axes."""
    return conj(np.swapaxes(a, -1, -2) if len(shape_of(a)) > 2 else np.transpose(a))


def _outer(a: Any, b: Any) -> Any:
    return np.multiply(a[:, None], b[None, :])


def _scaled(a: Any, b: Any) -> tuple[Any, Pullback]:
    """A product with a number, which is an array here: one of Python's is not weak, other than in ``np.multiply``."""
    y, pullback = rule_of(np.multiply, strong(a), strong(b))
    return np.add(y, 0.0) if shape_of(y) and dtype_of(y).kind in "fc" else y, pullback  # added to zero: 0.0, not -0.0


# ------------------------------------------------------------------------------------- matrix product


def matmul_pullback(a: Any, b: Any, dy: Any) -> tuple[Any, Any]:
    """Cotangents of ``a @ b`` for every combination of vectors, matrices and stacks (Giles 2008, section 2.2.1)."""
    na, nb = len(shape_of(a)), len(shape_of(b))
    if na == nb == 2:
        return np.matmul(dy, adjoint(b)), np.matmul(adjoint(a), dy)
    if na == nb == 1:
        return np.multiply(dy, conj(b)), np.multiply(dy, conj(a))
    if (na, nb) == (2, 1):
        return _outer(dy, conj(b)), np.matmul(adjoint(a), dy)
    if (na, nb) == (1, 2):
        return np.matmul(conj(b), dy), _outer(conj(a), dy)
    if na == 1:
        da, db = matmul_pullback(a[None, :], b, dy[..., None, :])
        return np.sum(da, axis=tuple(range(len(shape_of(da)) - 1))), db
    if nb == 1:
        da, db = matmul_pullback(a, b[:, None], dy[..., None])
        return da, db[..., 0]
    if nb == 2:  # a stack times one matrix: the stack is one tall matrix
        rows = int(np.prod(shape_of(dy)[:-1]))
        tall, dtall = np.reshape(a, (rows, shape_of(a)[-1])), np.reshape(dy, (rows, shape_of(dy)[-1]))
        return np.reshape(np.matmul(dtall, adjoint(b)), shape_of(a)), np.matmul(adjoint(tall), dtall)
    return unbroadcast(np.matmul(dy, adjoint(b)), a), unbroadcast(np.matmul(adjoint(a), dy), b)


def _matmul_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(3, 4), s(4, 2)), case(s(3, 4), s(4)), case(s(3), s(3, 4)), case(s(3), s(3)), case(s(4, 3).T, s(2, 4).T),
        case(s(6, 4)[::2], s(8)[::2]), case(s(3, 4)[:, ::-1], np.asfortranarray(s(4, 2))), case(s(1, 1), s(1, 3)),
        case(s(3, 0), s(0, 2)), case(s(0, 3), s(3)), case(s(2, 3, dtype=np.float32), s(3, 2, dtype=np.float32)),
        case(s(2, 2, dtype=np.complex128), s(2, dtype=np.complex128)), case(s(2, 2), s(2, 2, dtype=np.complex128)),
        case(s(2, 2, dtype=np.complex128), s(2, 2)),
    ]  # fmt: skip


def _stack_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(2, 3, 4), s(2, 4, 2)), case(s(2, 3, 4), s(4, 2)), case(s(3, 4), s(2, 4, 2)),
        case(s(5, 1, 3, 4), s(2, 4, 2)),
        case(s(2, 3, 4), s(4)), case(s(3), s(2, 3, 4)), case(s(1, 3, 4), s(2, 4, 1)), case(s(0, 2, 3), s(3, 2)),
    ]  # fmt: skip


_SMALL = 64  # multiplications per matrix of a stack, up to which one loop is quicker than a call of BLAS for each


def _lowered_matmul(x1: Any, x2: Any, out: None = None) -> Any:
    """Dot products are sums; a stack times one matrix is one tall product; a stack of small products is one sum."""
    a, b = operand(x1), operand(x2)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if max(na, nb) == 2 or dtype_of(a) != dtype_of(b) or dtype_of(a).char not in "fd":
        return NotImplemented
    if na == nb == 1:
        return np.sum(np.multiply(a, b))
    if nb <= 2:
        tall = np.reshape(a, (count_along(shape_of(a)[:-1], None), shape_of(a)[-1]))
        return np.reshape(np.matmul(tall, b), (*shape_of(a)[:-1], *shape_of(b)[1:]))
    if na == 1 or shape_of(a)[-2] * shape_of(a)[-1] * shape_of(b)[-1] > _SMALL:
        return NotImplemented
    return np.sum(np.multiply(a[..., :, :, None], b[..., None, :, :]), axis=-2)


@rrule(
    np.matmul, kind="matmul", lowering=_lowered_matmul, cases=lambda s: [*_matmul_cases(s), *_stack_cases(s)]
)
def matmul_rule(x1: Any, x2: Any, out: None = None) -> tuple[Any, Pullback]:
    """``a @ b``."""
    a, b = operand(x1), operand(x2)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da, db = matmul_pullback(a, b, dy)
        return like(da, a), like(db, b)

    return np.matmul(a, b), pullback


@rule_of_primitives(
    np.dot,
    kind="matmul",
    cases=lambda s: [
        *_matmul_cases(s), case(s(2, 3, 4), s(4)), case(s(2, 3, 4), s(4, 2)), case(s(2, 3), s(2, 3, 2)),
        case(s(), s(3)),
        case(s(2, 3), 2.0),
    ],
)  # fmt: skip
def dot_rule(a: Any, b: Any, out: None = None) -> tuple[Any, Pullback]:
    """``dot``: a product of numbers or matrices, or a sum over the last axis of ``a`` and the last but one of ``b``."""
    a, b = operand(a), operand(b)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return _scaled(a, b)
    return matmul_rule(a, b) if max(na, nb) <= 2 else contraction(a, b, (na - 1, max(nb - 2, 0)))


@rule_of_primitives(
    np.vecdot, aliases=[np.linalg.vecdot],
    cases=lambda s: [
        case(s(2, 3), s(2, 3)), case(s(3), s(4, 3)), case(s(3), s(3)), case(s(1, 3), s(4, 1, 3)),
        case(s(2, 3), s(2, 1), axis=0),
        case(s(3, dtype=np.complex128), s(3, dtype=np.complex128)),
    ],
)  # fmt: skip
def vecdot_rule(x1: Any, x2: Any, axis: int = -1) -> tuple[Any, Pullback]:
    """``vecdot``: the sum of ``conj(a) * b`` over one axis."""
    a, b = operand(x1), operand(x2)
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    product, pullback = rule_of(np.multiply, conj(a), b)

    def back(dy: Any) -> tuple[Any, ...]:
        da, db = pullback(spread(dy, shape_of(product), -1))
        return np.moveaxis(conj(da), -1, axis), np.moveaxis(db, -1, axis)

    if dtype_of(product).kind == "b":
        return np.any(product, axis=-1), back
    return like(np.sum(product, axis=-1), product), back  # integers are not widened, other than in a sum


@rule_of_primitives(
    np.matvec,
    cases=lambda s: [
        case(s(2, 3), s(3)),
        case(s(4, 2, 3), s(3)),
        case(s(2, 3), s(4, 3)),
        case(s(4, 2, 3), s(4, 3)),
    ],
)
def matvec_rule(x1: Any, x2: Any) -> tuple[Any, Pullback]:
    """``matvec``: a matrix product with stacks of vectors as columns."""
    if len(shape_of(x2)) == 1:
        return matmul_rule(x1, x2)
    y, pullback = matmul_rule(x1, x2[..., None])

    def back(dy: Any) -> tuple[Any, ...]:
        da, db = pullback(dy[..., None])
        return da, db[..., 0]

    return y[..., 0], back


@rule_of_primitives(
    np.vecmat,
    cases=lambda s: [
        case(s(2), s(2, 3)),
        case(s(4, 2), s(2, 3)),
        case(s(2), s(4, 2, 3)),
        case(s(2, dtype=np.complex128), s(2, 3)),
    ],
)
def vecmat_rule(x1: Any, x2: Any) -> tuple[Any, Pullback]:
    """``vecmat``: the conjugates of vectors as rows times matrices."""
    row = conj(x1)[..., None, :]
    y, pullback = matmul_rule(row, x2)

    def back(dy: Any) -> tuple[Any, ...]:
        da, db = pullback(dy[..., None, :])
        return conj(da[..., 0, :]), db

    return y[..., 0, :], back


# --------------------------------------------------------------------------------- sums over any axes


def _contracted(axes: Any, na: int, nb: int) -> tuple[list[int], list[int]]:
    """The axes that ``tensordot`` sums over, of both arguments."""
    if isinstance(axes, int | np.integer):
        return list(range(na - int(axes), na)), list(range(int(axes)))
    left, right = ([int(i) for i in np.atleast_1d(side)] for side in axes)
    return [axis_of(i, na) for i in left], [axis_of(i, nb) for i in right]


class _AsMatrix:
    """An array with some axes moved together: free axes first or last, the contracted ones as one axis."""

    def __init__(self, x: Any, contracted: list[int], *, first: bool) -> None:
        shape = shape_of(x)
        free = [i for i in range(len(shape)) if i not in contracted]
        self.order = tuple(free + contracted if first else contracted + free)
        self.moved = tuple(shape[i] for i in self.order)
        self.free = tuple(shape[i] for i in free)
        k = count_along(shape, tuple(contracted))
        sizes = (count_along(shape, tuple(free)),) if free else ()
        self.value = np.reshape(np.transpose(x, self.order), (*sizes, k) if first else (k, *sizes))

    def back(self, dx: Any) -> Any:
        inverse = tuple(self.order.index(i) for i in range(len(self.order)))
        return np.transpose(np.reshape(dx, self.moved), inverse)


def contraction(a: Any, b: Any, axes: Any) -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
    """``tensordot`` as one matrix product of the transposed and reshaped arguments; a number where no axis is left."""
    over_a, over_b = _contracted(axes, len(shape_of(a)), len(shape_of(b)))
    left, right = _AsMatrix(a, over_a, first=True), _AsMatrix(b, over_b, first=False)
    y = np.matmul(left.value, right.value)
    flat, shape = shape_of(y), (*left.free, *right.free)

    def pullback(dy: Any) -> tuple[Any, Any]:
        da, db = matmul_pullback(left.value, right.value, dy if shape == flat else np.reshape(dy, flat))
        return like(left.back(da), a), like(right.back(db), b)

    return y if shape == flat else np.reshape(y, shape), pullback


@rule_of_primitives(
    np.tensordot,
    cases=lambda s: [
        case(s(2, 3, 4), s(3, 4, 2)), case(s(2, 3), s(3, 2), 1), case(s(2, 3), s(4), 0),
        case(s(3, 2, 4), s(4, 3), axes=([0, 2], [1, 0])),
        case(s(2, 3), s(2, 3)), case(s(2, 3, 2), s(2), axes=(-1, 0)), case(s(3), s(2, 3), axes=(0, 1)),
        case(s(2, 2, dtype=np.complex128), s(2, 2), 1), case(s(2, 0), s(0, 3), 1),
    ],
)  # fmt: skip
def tensordot_rule(a: Any, b: Any, axes: Any = 2) -> tuple[Any, Pullback]:
    """``tensordot``: always an array."""
    y, pullback = contraction(operand(a), operand(b), axes)
    return (y if shape_of(y) else as_array(y)), pullback


@rule_of_primitives(
    np.inner,
    kind="matmul",
    cases=lambda s: [
        case(s(3), s(3)), case(s(2, 3), s(3)), case(s(3), s(2, 3)), case(s(2, 3), s(4, 3)), case(s(2, 2, 3), s(4, 3)),
        case(s(2, 3), 2.0), case(s(2, dtype=np.complex128), s(2, dtype=np.complex128)),
    ],
)  # fmt: skip
def inner_rule(a: Any, b: Any) -> tuple[Any, Pullback]:
    """``inner``: the sum over both last axes."""
    a, b = operand(a), operand(b)
    if not shape_of(a) or not shape_of(b):
        return _scaled(a, b)
    return contraction(a, b, (-1, -1))


@rule_of_primitives(
    np.vdot,
    kind="matmul",
    cases=lambda s: [
        case(s(3), s(3)), case(s(2, 3), s(2, 3)), case(s(), s()),
        case(s(3, dtype=np.complex128), s(3, dtype=np.complex128)),
        case(s(3), s(3, dtype=np.complex128)), case(s(3, dtype=np.complex128), s(3)),
    ],
)  # fmt: skip
def vdot_rule(a: Any, b: Any) -> tuple[Any, Pullback]:
    """``vdot``: both flat, the first conjugated."""
    a, b = operand(a), operand(b)
    left, right = np.ravel(a), np.ravel(b)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da, db = np.multiply(conj(dy), right), np.multiply(dy, left)
        return like(np.reshape(da, shape_of(a)), a), like(np.reshape(db, shape_of(b)), b)

    return np.matmul(conj(left), right), pullback


@rule_of_primitives(
    np.outer, aliases=[np.linalg.outer],
    cases=lambda s: [
        case(s(3), s(2)), case(s(2, 2), s(3)), case(s(), s(3)), case(s(2, dtype=np.complex128), s(2)), case(s(0), s(2)),
    ],
)  # fmt: skip
def outer_rule(a: Any, b: Any, out: None = None) -> tuple[Any, Pullback]:
    """``outer``: a product of a column and a row."""
    a, b = operand(a), operand(b)
    y, pullback = rule_of(np.multiply, np.ravel(a)[:, None], np.ravel(b)[None, :])

    def back(dy: Any) -> tuple[Any, ...]:
        da, db = pullback(dy)
        return _reshaped(da, a), _reshaped(db, b)

    return y, back


@rule_of_primitives(
    np.kron, cases=lambda s: [case(s(2, 3), s(3, 2)), case(s(2), s(3)), case(s(2), s(2, 3)), case(s(2, 1, 2), s(2, 2))]
)
def kron_rule(a: Any, b: Any) -> tuple[Any, Pullback]:
    """``kron``: every element of ``a`` times the whole of ``b``."""
    a, b = operand(a), operand(b)
    n = max(len(shape_of(a)), len(shape_of(b)))
    sa, sb = ((1,) * (n - len(shape)) + shape for shape in (shape_of(a), shape_of(b)))
    blocks = np.reshape(a, tuple(m for size in sa for m in (size, 1)))
    inside = np.reshape(b, tuple(m for size in sb for m in (1, size)))
    y, pullback = rule_of(np.multiply, blocks, inside)

    def back(dy: Any) -> tuple[Any, ...]:
        da, db = pullback(np.reshape(dy, shape_of(y)))
        return _reshaped(da, a), _reshaped(db, b)

    return np.reshape(y, tuple(m * k for m, k in zip(sa, sb, strict=True))), back


def _reshaped(dx: Any, x: Any) -> Any:
    """A cotangent in the shape of its argument; integers have none."""
    return None if dx is None else np.reshape(dx, shape_of(x))


def _cross(a: Any, b: Any) -> Any:
    one = np.roll(a, -1, -1) * np.roll(b, -2, -1)
    return one - np.roll(a, -2, -1) * np.roll(b, -1, -1)


@rule_of_primitives(
    np.cross, aliases=[np.linalg.cross],
    cases=lambda s: [
        case(s(3), s(3)), case(s(2, 3), s(2, 3)), case(s(2, 3), s(3)), case(s(3, 2), s(3, 2), axis=0),
        case(s(3, 2), s(2, 3), 0),
        case(s(2, 3), s(2, 3), -1, -1, 0), case(s(3, dtype=np.complex128), s(3)),
    ],
)  # fmt: skip
def cross_rule(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> tuple[Any, Pullback]:
    """``cross`` of vectors of length 3: ``da = b x dy``, ``db = dy x a``."""
    if axis is not None:
        axisa = axisb = axisc = axis
    u, v = np.moveaxis(operand(a), axisa, -1), np.moveaxis(operand(b), axisb, -1)
    if shape_of(u)[-1] != 3 or shape_of(v)[-1] != 3:
        raise unsupported(
            "np.cross of vectors that are not of length 3", "In the plane, write a[0] * b[1] - a[1] * b[0]"
        )

    def pullback(dy: Any) -> tuple[Any, ...]:
        dy = np.moveaxis(dy, axisc, -1)
        du, dv = unbroadcast(_cross(conj(v), dy), u), unbroadcast(_cross(dy, conj(u)), v)
        return np.moveaxis(du, -1, axisa), np.moveaxis(dv, -1, axisb)

    return np.moveaxis(_cross(u, v), -1, axisc), pullback


rrule(np.linalg.matmul, lowering=np.matmul, cases=lambda s: [case(s(2, 3), s(3, 2))])(matmul_rule)
rrule(np.linalg.tensordot, lowering=np.tensordot, cases=lambda s: [case(s(2, 3), s(3, 2), axes=1)])(tensordot_rule)

methods["dot"] = np.dot
