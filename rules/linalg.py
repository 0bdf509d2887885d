"""Products of vectors, matrices and tensors. Cotangents of complex arguments are those of dL/dRe + i dL/dIm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.kernels import Product
from yota_py.registry.registry import Case, Sample, case, vjps
from yota_py.registry.tangents import as_array, conj, like, strong_multiply
from yota_py.registry.writes import sparse_matmul

from .support import (
    axis_of,
    count_along,
    dtype_of,
    ndim_of,
    operand,
    shape_of,
    strong,
    unsupported,
)


def adjoint(a: Any) -> Any:
    """Conjugate transpose of the last two axes."""
    if type(a) is np.ndarray:
        return conj(a.swapaxes(-1, -2) if a.ndim > 1 else a)
    return conj(np.swapaxes(a, -1, -2) if len(shape_of(a)) > 2 else np.transpose(a))


def _outer(a: Any, b: Any) -> Any:
    return np.multiply(a[:, None], b[None, :])


def _scaled(a: Any, b: Any) -> Any:
    """A product with a number, which is an array here: one of Python's is not weak, other than in ``np.multiply``."""
    y = np.multiply(strong(a), strong(b))
    return np.add(y, 0.0) if shape_of(y) and dtype_of(y).kind in "fc" else y  # added to zero: 0.0, not -0.0


# ------------------------------------------------------------------------------------- matrix product


def _left(dy: Any, y: Any, a: Any, b: Any) -> Any:
    """The cotangent of ``a`` in ``a @ b``, of vectors, matrices and stacks (Giles 2008, section 2.2.1)."""
    na, nb = ndim_of(a), ndim_of(b)
    if na == nb == 1:
        return strong_multiply(dy, conj(b))
    if nb == 1:
        return _outer(dy, conj(b)) if na == 2 else _left(dy[..., None], y, a, b[:, None])
    if na == 1:
        return np.matmul(conj(b), dy) if nb == 2 else _left(dy[..., None, :], y, a[None, :], b)
    if na > nb == 2:  # a stack times one matrix: the stack is one tall matrix
        return np.reshape(np.matmul(_tall(dy), adjoint(b)), shape_of(a))
    return np.matmul(dy, adjoint(b))


def _right(dy: Any, y: Any, a: Any, b: Any) -> Any:
    """The cotangent of ``b`` likewise."""
    na, nb = ndim_of(a), ndim_of(b)
    if na == nb == 1:
        return strong_multiply(dy, conj(a))
    if na == 1:
        return _outer(conj(a), dy) if nb == 2 else _right(dy[..., None, :], y, a[None, :], b)
    if nb == 1:
        return np.matmul(adjoint(a), dy) if na == 2 else _right(dy[..., None], y, a, b[:, None])[..., 0]
    return np.matmul(adjoint(_tall(a)), _tall(dy)) if na > nb == 2 else np.matmul(adjoint(a), dy)


def _tall(x: Any) -> Any:
    """The matrices of a stack as one, below each other."""
    return np.reshape(x, (count_along(shape_of(x)[:-1], None), shape_of(x)[-1]))


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
_WRITTEN_OUT = 8  # rows and columns up to which there is a kernel that is quicker than either


def _lowered_matmul(x1: Any, x2: Any, out: None = None) -> Any:
    """Dot products are sums; a stack times one matrix is one tall product; a stack of products of narrow
    matrices is one sum."""
    a, b = operand(x1), operand(x2)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if max(na, nb) == 2 or dtype_of(a) != dtype_of(b) or dtype_of(a).char not in "fd":
        return NotImplemented
    if na == nb == 1:
        return np.sum(np.multiply(a, b))
    if nb <= 2:
        return np.reshape(np.matmul(_tall(a), b), (*shape_of(a)[:-1], *shape_of(b)[1:]))
    if na == 1:
        return np.matmul(a[None, :], b)[..., 0, :]
    sizes = (*shape_of(a)[-2:], shape_of(b)[-1])
    if max(sizes) <= _WRITTEN_OUT or count_along(sizes, None) > _SMALL:
        return NotImplemented
    return np.sum(np.multiply(a[..., :, :, None], b[..., None, :, :]), axis=-2)


vjps(np.matmul, _left, _right, kernel=Product(), lowering=_lowered_matmul,
     cases=lambda s: [*_matmul_cases(s), *_stack_cases(s)])  # fmt: skip


def _dot(a: Any, b: Any, out: None = None) -> Any:
    """A product of numbers or matrices, or a sum over the last axis of ``a`` and the last but one of ``b``."""
    a, b = operand(a), operand(b)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return _scaled(a, b)
    return np.matmul(a, b) if max(na, nb) <= 2 else contraction(a, b, (na - 1, max(nb - 2, 0)))


def _dot_left(dy: Any, y: Any, a: Any, b: Any, out: None = None) -> Any:
    a, b = operand(a), operand(b)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return np.multiply(dy, conj(b))
    others = [i for i in range(nb) if i != max(nb - 2, 0)]
    return _left(dy, y, a, b) if max(na, nb) <= 2 else contraction(dy, conj(b), (range(na - 1, na + nb - 2), others))


def _dot_right(dy: Any, y: Any, a: Any, b: Any, out: None = None) -> Any:
    a, b = operand(a), operand(b)
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return np.multiply(dy, conj(a))
    if max(na, nb) <= 2:
        return _right(dy, y, a, b)
    return np.moveaxis(contraction(conj(a), dy, (range(na - 1), range(na - 1))), 0, max(nb - 2, 0))


vjps(np.dot, _dot_left, _dot_right, kernel=Product(), lowering=_dot, method="dot", cases=lambda s: [
    *_matmul_cases(s), case(s(2, 3, 4), s(4)), case(s(2, 3, 4), s(4, 2)), case(s(2, 3), s(2, 3, 2)), case(s(), s(3)),
    case(s(2, 3), 2.0), case(s(3), s(2, 3, 2)), case([1.0, 2.0], s(2, 2)), case(s(2, 3, dtype=complex), s(2, 3, 2)),
])  # fmt: skip


@composite(np.vecdot, aliases=[np.linalg.vecdot], cases=lambda s: [
    case(s(2, 3), s(2, 3)), case(s(3), s(4, 3)), case(s(3), s(3)), case(s(1, 3), s(4, 1, 3)),
    case(s(2, 3), s(2, 1), axis=0), case(s(3, dtype=np.complex128), s(3, dtype=np.complex128)),
])  # fmt: skip
def _vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """The sum of ``conj(a) * b`` over one axis."""
    a, b = operand(x1), operand(x2)
    if axis != -1:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    product = np.multiply(conj(a), b)
    if dtype_of(product).kind == "b":
        return np.any(product, axis=-1)
    return like(np.sum(product, axis=-1), product)  # integers are not widened, other than in a sum


@composite(np.matvec, cases=lambda s: [
    case(s(2, 3), s(3)), case(s(4, 2, 3), s(3)), case(s(2, 3), s(4, 3)), case(s(4, 2, 3), s(4, 3)),
])  # fmt: skip
def _matvec(x1: Any, x2: Any) -> Any:
    """A matrix product with stacks of vectors as columns."""
    return np.matmul(x1, x2) if len(shape_of(x2)) == 1 else np.matmul(x1, x2[..., None])[..., 0]


@composite(np.vecmat, cases=lambda s: [
    case(s(2), s(2, 3)), case(s(4, 2), s(2, 3)), case(s(2), s(4, 2, 3)), case(s(2, dtype=np.complex128), s(2, 3)),
])  # fmt: skip
def _vecmat(x1: Any, x2: Any) -> Any:
    """The conjugates of vectors as rows times matrices."""
    return np.matmul(conj(x1)[..., None, :], x2)[..., 0, :]


# --------------------------------------------------------------------------------- sums over any axes


def _contracted(axes: Any, na: int, nb: int) -> tuple[list[int], list[int]]:
    """The axes that ``tensordot`` sums over, of both arguments."""
    if isinstance(axes, int | np.integer):
        return list(range(na - int(axes), na)), list(range(int(axes)))
    left, right = ([int(i) for i in np.atleast_1d(side)] for side in axes)
    return [axis_of(i, na) for i in left], [axis_of(i, nb) for i in right]


def _as_matrix(x: Any, contracted: list[int], *, first: bool) -> tuple[Any, tuple[int, ...]]:
    """An array with its free axes as one, first or last, and the others as one; the extents of the free axes."""
    shape = shape_of(x)
    free = [i for i in range(len(shape)) if i not in contracted]
    order = free + contracted if first else contracted + free
    k = count_along(shape, tuple(contracted))
    sizes = (count_along(shape, tuple(free)),) if free else ()
    flat = (*sizes, k) if first else (k, *sizes)
    moved = x if order == [*range(len(shape))] else np.transpose(x, tuple(order))
    return moved if shape_of(moved) == flat else np.reshape(moved, flat), tuple(shape[i] for i in free)


def contraction(a: Any, b: Any, axes: Any) -> Any:
    """``tensordot`` as one matrix product of the transposed and reshaped arguments; a number where no axis is left."""
    over_a, over_b = _contracted(axes, len(shape_of(a)), len(shape_of(b)))
    (left, free_a), (right, free_b) = _as_matrix(a, over_a, first=True), _as_matrix(b, over_b, first=False)
    y = np.matmul(left, right)
    return y if shape_of(y) == (*free_a, *free_b) else np.reshape(y, (*free_a, *free_b))


@composite(np.tensordot, cases=lambda s: [
    case(s(2, 3, 4), s(3, 4, 2)), case(s(2, 3), s(3, 2), 1), case(s(2, 3), s(4), 0),
    case(s(3, 2, 4), s(4, 3), axes=([0, 2], [1, 0])), case(s(2, 3), s(2, 3)), case(s(2, 3, 2), s(2), axes=(-1, 0)),
    case(s(3), s(2, 3), axes=(0, 1)), case(s(2, 2, dtype=np.complex128), s(2, 2), 1), case(s(2, 0), s(0, 3), 1),
])  # fmt: skip
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Always an array."""
    y = contraction(operand(a), operand(b), axes)
    return y if shape_of(y) else as_array(y)


@composite(np.inner, kernel=Product(), cases=lambda s: [
    case(s(3), s(3)), case(s(2, 3), s(3)), case(s(3), s(2, 3)), case(s(2, 3), s(4, 3)), case(s(2, 2, 3), s(4, 3)),
    case(s(2, 3), 2.0), case(s(2, dtype=np.complex128), s(2, dtype=np.complex128)),
])  # fmt: skip
def _inner(a: Any, b: Any) -> Any:
    """The sum over both last axes."""
    a, b = operand(a), operand(b)
    return contraction(a, b, (-1, -1)) if shape_of(a) and shape_of(b) else _scaled(a, b)


@composite(np.vdot, kernel=Product(), cases=lambda s: [
    case(s(3), s(3)), case(s(2, 3), s(2, 3)), case(s(), s()),
    case(s(3, dtype=np.complex128), s(3, dtype=np.complex128)),
    case(s(3), s(3, dtype=np.complex128)), case(s(3, dtype=np.complex128), s(3)),
])  # fmt: skip
def _vdot(a: Any, b: Any) -> Any:
    """Both flat, the first conjugated."""
    return np.matmul(conj(np.ravel(operand(a))), np.ravel(operand(b)))


@composite(np.outer, aliases=[np.linalg.outer], cases=lambda s: [
    case(s(3), s(2)), case(s(2, 2), s(3)), case(s(), s(3)), case(s(2, dtype=np.complex128), s(2)), case(s(0), s(2)),
])  # fmt: skip
def _outer_product(a: Any, b: Any, out: None = None) -> Any:
    """A product of a column and a row."""
    return _outer(np.ravel(operand(a)), np.ravel(operand(b)))


@composite(
    np.kron, cases=lambda s: [case(s(2, 3), s(3, 2)), case(s(2), s(3)), case(s(2), s(2, 3)), case(s(2, 1, 2), s(2, 2))]
)
def _kron(a: Any, b: Any) -> Any:
    """Every element of ``a`` times the whole of ``b``."""
    a, b = operand(a), operand(b)
    n = max(len(shape_of(a)), len(shape_of(b)))
    sa, sb = ((1,) * (n - len(shape)) + shape for shape in (shape_of(a), shape_of(b)))
    blocks = np.reshape(a, tuple(m for size in sa for m in (size, 1)))
    inside = np.reshape(b, tuple(m for size in sb for m in (1, size)))
    return np.reshape(np.multiply(blocks, inside), tuple(m * k for m, k in zip(sa, sb, strict=True)))


def _cross(a: Any, b: Any) -> Any:
    one = np.roll(a, -1, -1) * np.roll(b, -2, -1)
    return one - np.roll(a, -2, -1) * np.roll(b, -1, -1)


@composite(np.cross, aliases=[np.linalg.cross], cases=lambda s: [
    case(s(3), s(3)), case(s(2, 3), s(2, 3)), case(s(2, 3), s(3)), case(s(3, 2), s(3, 2), axis=0),
    case(s(3, 2), s(2, 3), 0), case(s(2, 3), s(2, 3), -1, -1, 0), case(s(3, dtype=np.complex128), s(3)),
])  # fmt: skip
def _cross_product(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Of vectors of length 3."""
    if axis is not None:
        axisa = axisb = axisc = axis
    u, v = np.moveaxis(operand(a), axisa, -1), np.moveaxis(operand(b), axisb, -1)
    if shape_of(u)[-1] != 3 or shape_of(v)[-1] != 3:
        raise unsupported(
            "np.cross of vectors that are not of length 3", "In the plane, write a[0] * b[1] - a[1] * b[0]"
        )
    return np.moveaxis(_cross(u, v), -1, axisc)


composite(np.linalg.matmul, cases=lambda s: [case(s(2, 3), s(3, 2))])(lambda x1, x2: np.matmul(x1, x2))
composite(np.linalg.tensordot, cases=lambda s: [case(s(2, 3), s(3, 2), axes=1)])(_tensordot)


# ------------------------------------------------------- long products, in the order that costs least


def _cheapest_cut(dims: tuple[int, ...]) -> tuple[int, int]:
    """Cost of a chain of matrices with these dimensions, and after how many factors to cut it (Cormen et al., 15.2)."""
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i + 1): (0, 0) for i in range(len(dims) - 1)}
    for length in range(2, len(dims)):
        for i in range(len(dims) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k, j][0] + dims[i] * dims[k] * dims[j], k - i) for k in range(i + 1, j)
            )
    return best[0, len(dims) - 1]


def _chain(arrays: list[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    shapes = [shape_of(x) for x in arrays]
    rows = shapes[0][0] if len(shapes[0]) == 2 else 1
    cut = _cheapest_cut((rows, *(shape[0] for shape in shapes[1:]), shapes[-1][-1] if len(shapes[-1]) == 2 else 1))[1]
    return np.matmul(_chain(arrays[:cut]), _chain(arrays[cut:]))


@composite(np.linalg.multi_dot, cases=lambda s: [
    case([s(2, 3), s(3, 4), s(4, 2)]), case([s(3), s(3, 4), s(4)]), case((s(2, 3), s(3, 1))),
    case([s(5, 2), s(2, 5), s(5, 1), s(1, 3)]),
])  # fmt: skip
def _multi_dot(arrays: Any, *, out: None = None) -> Any:
    return _chain(list(arrays))


# -------------------------------------- products with SciPy's sparse matrices, which are constant


def _sparse_cases(s: Sample) -> Iterable[Case]:
    """A matrix of whole numbers stands for a sparse one, which is constant as well."""
    matrix = s.integers(2, 3, high=5)
    return [
        case(matrix, s(3)), case(matrix, s(3, 2)), case(matrix, s(3, dtype=np.float32)),
        case(matrix, s(3, dtype=np.complex128)),
    ]  # fmt: skip


vjps(sparse_matmul, None, lambda dy, y, matrix, x: sparse_matmul(matrix.conj().transpose(), dy), cases=_sparse_cases)
