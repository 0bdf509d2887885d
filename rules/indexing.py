"""Indexing and its adjoint, and the functions that pick elements by position. Sorting stands in ``sorting.py``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from yota_py.base.dispatch import decided, find_traced
from yota_py.registry.composites import composite
from yota_py.registry.kernels import Index, Unindex, View
from yota_py.registry.registry import Case, Sample, case, describe, rrule, vjps
from yota_py.registry.tangents import astype

from .indices import getitem, lowered_getitem, lowered_unindex, unindex
from .support import (
    Pullback,
    along,
    axis_of,
    dtype_of,
    given,
    operand,
    shape_of,
)  # fmt: skip


def _getitem_cases(s: Sample) -> Iterable[Case]:
    basic = [
        (s(5), 2), (s(5), -1), (s(5), slice(1, -1)), (s(5), slice(None, None, -2)), (s(3, 4), 1),
        (s(3, 4), (slice(None), -1)),
        (s(3, 4), (slice(0, 2), slice(3, 0, -1))), (s(3, 4), (Ellipsis, None, 2)), (s(3, 4), (None, slice(1, 3))),
        (s(3, 4), (1, 2)), (s(2, 3, 4), (1, Ellipsis)), (s(), ()), (s(), Ellipsis), (s(), None), (s(5), slice(2, 2)),
        (s(4, 3).T, (slice(1, None), 0)), (np.asfortranarray(s(3, 4)), 2), (s(5, dtype=np.float32), slice(1, 3)),
    ]  # fmt: skip
    fancy = [
        (s(5), np.array([0, 2, 2, -1])), (s(5), [3, 3]), (s(5), np.array([], dtype=int)),
        (s(5), np.array([[0, 1], [1, 4]])),
        (s(3, 4), np.array([2, 0, 2])), (s(3, 4), (np.array([0, 1, 0]), np.array([3, 1, 3]))),
        (s(3, 4), (slice(None), [1, 1])),
        (s(3, 4), (np.array([[0], [2]]), np.array([1, 3]))), (s(2, 3, 4), (np.array([1, 0]), slice(None), 2)),
        (s(3, 4), (1, np.array([0, 0]))), (s(3, 4), s.mask(3, 4)), (s(3, 4), s.mask(3)),
        (s(3, 4), (slice(None), s.mask(4))),
        (s(3, 4), np.zeros((3, 4), bool)), (s(3, 4), (None, np.array([0, 2]))), (s(6, 4)[::2, ::-1], np.array([1, 1])),
        (s(5, dtype=np.float32), np.array([1, 1])), (s(3, dtype=np.complex128), np.array([2, 0])),
        (s(5), s.integers(7, high=5)), (s(3, 4), (slice(None, None, -1), [0, 2])),
        (s(3, 4), (np.array([2, 0]), slice(None, None, -1))), (s(3, 4), (slice(None, None, -1), s.mask(4))),
    ]  # fmt: skip
    return [case(x, index) for x, index in basic + fancy]


@rrule(operator.getitem, kernel=Index(), lowering=lowered_getitem, cases=_getitem_cases)
def getitem_rule(x: Any, index: Any) -> tuple[Any, Pullback]:
    """``x[index]``: the cotangent goes back to where the elements came from."""
    shape = shape_of(x)
    return getitem(x, index), lambda dy: (unindex(dy, index, shape), None)


vjps(
    unindex, lambda dz, y, dy, index, shape: getitem(dz, index),
    kernel=Unindex(),
    lowering=lowered_unindex,
    cases=lambda s: [
        case(s(2), slice(1, 3), (5,)), case(s(), 2, (4,)), case(s(3), np.array([0, 0, 2]), (4,)),
        case(s(2, 3), (slice(None), np.array([1, 1, 0])), (2, 2)), case(s(2, 1), (Ellipsis, None, 1), (2, 3)),
        case(s(2, dtype=np.float32), [1, 1], (3,)), case(s(3, 2), (slice(None, None, -1), [0, 2]), (3, 4)),
        case(s(2, 3), (np.array([1, 1]), slice(None, None, -1)), (2, 3)),
    ],
)  # fmt: skip


# ------------------------------------------------------------------------------- picking by position


def _positions(indices: Any, n: int, mode: str) -> Any:
    """Indices as integers, brought into range as ``np.take`` does. Without elements, a list has no dtype yet."""
    empty = isinstance(indices, list | tuple) and not np.size(indices)
    indices = operand(indices)
    if empty or dtype_of(indices).kind == "b":
        indices = astype(indices, np.dtype(np.intp))
    if mode == "wrap":
        return np.remainder(indices, n)
    return np.minimum(np.maximum(indices, 0), n - 1) if mode == "clip" else indices


@composite(np.take, method="take", cases=lambda s: [
    case(s(5), [0, 3, 3]), case(s(3, 4), np.array([1, 0]), 1), case(s(3, 4), [5, 5, -1]), case(s(3, 4), 2, axis=0),
    case(s(3, 4), np.array([[0, 1], [2, 2]]), axis=-2), case(s(4), [5, -6, 1], mode="wrap"),
    case(s(4), [5, -6, 1], mode="clip"), case(s(4), np.array([], dtype=int)), case(s(4, 3).T, [0, 0], axis=1),
    case(s(3, dtype=np.float32), [2]), case(s(3), 1),
])  # fmt: skip
def _take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    if axis is None or not shape_of(a):
        return _take(np.ravel(operand(a)), indices, 0, mode=mode)
    shape = shape_of(a)
    at = axis_of(axis, len(shape))
    return getitem(a, along(at, len(shape), _positions(indices, shape[at], mode)))


def index_along(indices: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """The index with which ``take_along_axis`` takes: ``indices`` on one axis, every position on the others."""
    n = len(shape)
    at = axis_of(axis, n)
    return tuple(
        indices if i == at else np.reshape(np.arange(shape[i]), tuple(-1 if k == i else 1 for k in range(n)))
        for i in range(n)
    )


@composite(np.take_along_axis, cases=lambda s: [
    case(s(3, 4), s.integers(3, 2, high=4), 1), case(s(3, 4), s.integers(2, 4, high=3), axis=0),
    case(s(4), np.array([0, 0, 3]), 0),
    case(s(3, 4), np.array([[0], [3], [0]]), axis=-1), case(s(2, 3), np.array([5, 5, 0]), None),
])  # fmt: skip
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Indexing on one axis, in step with the others."""
    if axis is None:
        return take_along_axis(np.ravel(arr), indices, 0)
    return getitem(arr, index_along(indices, shape_of(arr), axis))


# ------------------------------------------------------------------------------------------ diagonals


def _on_diagonal(rows: int, columns: int, offset: int) -> tuple[Any, ...]:
    """The index, on the last two axes, of a diagonal."""
    first, n = max(0, -offset), max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    i = np.arange(first, first + n)
    return (Ellipsis, i, i + offset)


@rrule(np.diagonal, kernel=View(), method="diagonal", cases=lambda s: [
    case(s(3, 3)), case(s(3, 4), 1), case(s(3, 4), -1), case(s(2, 3, 4), 0, 2, 0),
    case(s(2, 3, 3), axis1=1, axis2=2), case(s(2, 2), 5), case(s(3, 4).T),
])  # fmt: skip
def diagonal_rule(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> tuple[Any, Pullback]:
    """``diagonal``: the cotangent goes back to the diagonal."""

    def pullback(dy: Any) -> tuple[Any, ...]:
        shape = shape_of(a)
        pair = axis_of(axis1, len(shape)), axis_of(axis2, len(shape))
        rest = tuple(n for i, n in enumerate(shape) if i not in pair)
        rows, columns = shape[pair[0]], shape[pair[1]]
        dx = unindex(dy, _on_diagonal(rows, columns, offset), (*rest, rows, columns))
        return (dx if pair == (len(shape) - 2, len(shape) - 1) else np.moveaxis(dx, (-2, -1), pair),)

    return np.diagonal(a, offset, axis1, axis2), pullback


@composite(np.linalg.diagonal, cases=lambda s: [case(s(2, 3, 4)), case(s(3, 4), offset=1)])
def _linalg_diagonal(x: Any, *, offset: int = 0) -> Any:
    return np.diagonal(x, offset, -2, -1)


@composite(
    np.diag, cases=lambda s: [case(s(3)), case(s(3), 1), case(s(2), -2), case(s(3, 4)), case(s(3, 4), k=-1), case(s(0))]
)
def _diag(v: Any, k: int = 0) -> Any:
    """Of a vector the matrix, of a matrix the diagonal."""
    v, shape = operand(v), shape_of(operand(v))
    if len(shape) != 1:
        return np.diagonal(v, k)
    n = shape[0] + abs(k)
    return unindex(v, _on_diagonal(n, n, k), (n, n))


@composite(np.diagflat, cases=lambda s: [case(s(3)), case(s(2, 2), 1)])
def _diagflat(v: Any, k: int = 0) -> Any:
    return _diag(np.ravel(operand(v)), k)


@composite(np.trace, method="trace", cases=lambda s: [
    case(s(3, 3)), case(s(3, 4), 1), case(s(2, 3, 4), 0, 1, 2), case(s(3, 3, dtype=np.float32)),
])  # fmt: skip
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, **given(dtype=dtype))


@composite(np.linalg.trace, cases=lambda s: [case(s(2, 3, 3)), case(s(3, 4), offset=-1)])
def _linalg_trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    return _trace(x, offset, -2, -1, dtype)


def _triangle(fn: Callable[..., Any], outside: Callable[[int, int, int], Any]) -> None:
    @composite(fn, cases=lambda s: [
        case(s(3, 3)), case(s(3, 4), 1), case(s(2, 3, 4), k=-1), case(s(3)), case(s(3, dtype=np.float32)),
    ])  # fmt: skip
    def body(m: Any, k: int = 0) -> Any:
        m, shape = operand(m), shape_of(operand(m))
        return np.where(outside(shape[-2] if len(shape) > 1 else shape[-1], shape[-1], k), 0, m)


_triangle(np.tril, lambda rows, columns, k: ~np.tri(rows, columns, k, dtype=bool))
_triangle(np.triu, lambda rows, columns, k: np.tri(rows, columns, k - 1, dtype=bool))


# ------------------------------------------------------------------------------------------- windows


def _windows(shape: tuple[int, ...], window_shape: Any, axis: Any) -> np.ndarray:
    """Where the elements of the windows stand in the raveled array."""
    positions = np.reshape(np.arange(math.prod(shape)), shape)
    return np.array(sliding_window_view(positions, decided(window_shape), decided(axis)))


@composite(sliding_window_view, cases=lambda s: [
    case(s(5), 2), case(s(5), (3,)), case(s(3, 4), (2, 2)), case(s(3, 4), 2, 0), case(s(3, 4), 3, axis=-1),
    case(s(3, 4), (2, 2), (1, 1)), case(s(4, 3).T, (1, 3), writeable=True), case(s(3, dtype=np.float32), 3),
])  # fmt: skip
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, **options: Any) -> Any:
    """An element gets the cotangents of all windows that it is in."""
    return getitem(np.ravel(x), _windows(shape_of(x), window_shape, axis))


# ----------------------------------------------------------------- results whose shape depends on values


def _delete_known(arr: Any, obj: Any, axis: int | None = None) -> Any:
    return NotImplemented if find_traced((obj,)) is None else np.delete(arr, decided(obj), axis)


@composite(np.delete, instead=_delete_known, cases=lambda s: [
    case(s(5), 1), case(s(3, 4), 1, 1), case(s(3, 4), [0, 2], axis=0), case(s(3, 4), [1], axis=-1),
    case(s(3, 4), slice(0, 2), 1), case(s(3, 4), [0, 5]), case(s(4), np.array([True, False, True, False]), 0),
])  # fmt: skip
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Indexing with the positions that are left."""
    if axis is None:
        return _delete(np.ravel(arr), obj, 0)
    shape = shape_of(arr)
    at = axis_of(axis, len(shape))
    return getitem(arr, along(at, len(shape), np.delete(np.arange(shape[at]), decided(obj))))


def _inline(fn: Callable[..., Any], lowering: Callable[..., Any], **options: Any) -> None:
    """Written out while tracing; the decisions that the result's shape depends on become guards."""
    describe(fn, lowering=lowering, inline=True, **options)


def _mask(x: Any) -> Any:
    return decided(x if dtype_of(x).kind == "b" else np.not_equal(x, 0))


def _unique_rows(ar: Any, axis: int | None, equal_nan: bool, wanted: Sequence[bool]) -> Any:
    """The rows along an axis, or the elements, in order, the first of equal ones; and where they stand, which of them
    each is, how many there are."""
    lines = np.ravel(ar) if axis is None else np.moveaxis(ar, axis, 0)
    n = shape_of(lines)[0]
    rows = np.reshape(lines, (n, math.prod(shape_of(lines)[1:])))
    order = np.lexsort(np.transpose(rows)[::-1]) if shape_of(rows)[1] else np.arange(n)
    inorder = rows[order]
    other = np.not_equal(inorder[1:], inorder[:-1])
    if equal_nan and axis is None:
        other = np.logical_and(other, np.logical_not(np.isnan(inorder[:-1])))
    other = other[:, 0] if axis is None else np.any(other, axis=1)
    first = np.append(np.ones(min(n, 1), bool), decided(other))
    starts = np.flatnonzero(first)
    places = np.cumsum(first) - 1
    inverse = np.take(places, np.argsort(order))
    values = lines[np.take(order, starts)]
    results = (
        values if axis is None else np.moveaxis(values, 0, axis), np.take(order, starts),
        np.reshape(inverse, shape_of(ar)) if axis is None else inverse, np.diff(np.append(starts, n)),
    )  # fmt: skip
    chosen = tuple(x for x, keep in zip(results, (True, *wanted), strict=True) if keep)
    return chosen if len(chosen) > 1 else chosen[0]


def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """Sorted, and of equal elements the first; all NaNs are one."""
    if return_index or return_inverse or return_counts or (axis is not None and len(shape_of(ar)) != 1):
        return _unique_rows(ar, axis, equal_nan, (return_index, return_inverse, return_counts))
    if axis is not None:
        axis_of(axis, 1)
    x = np.sort(np.ravel(ar))
    other = np.not_equal(x[1:], x[:-1])
    if equal_nan:
        other = np.logical_and(other, np.logical_not(np.isnan(x[:-1])))
    return x[np.append(True, decided(other))] if shape_of(x)[0] else x


_inline(np.nonzero, lambda a: np.nonzero(_mask(a)), method="nonzero")
_inline(np.flatnonzero, lambda a: np.flatnonzero(_mask(a)))
_inline(np.argwhere, lambda a: np.argwhere(_mask(a)))
_inline(np.compress, lambda condition, a, axis=None, out=None: np.take(a, np.flatnonzero(_mask(condition)), axis),
        method={"compress": lambda x, condition, axis=None: np.compress(condition, x, axis)})
_inline(np.extract, lambda condition, arr: np.take(arr, np.flatnonzero(_mask(condition))))
_inline(np.unique, _unique)

