"""``x[index]`` and its adjoint, and how they lower: to views, and to indexing by whole numbers and arrays of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from yota_py.base.dispatch import call, dispatching, find_traced, is_traced
from yota_py.base.types import ArrayType, is_basic, is_integer, typeof

from .support import dtype_of, shape_of


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``, recorded also if only the index is traced."""
    return call(operator.getitem, (x, index), {})


@dispatching
def unindex(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of ``shape`` with ``dy`` added at ``index``: the adjoint of ``x[index]``; repeated indices add up."""
    dx = np.zeros(shape, dtype_of(dy))
    if is_basic(index):
        dx[index] = dy
    else:
        np.add.at(dx, index, dy)
    return dx


def _with_arrays(index: Any) -> Any:
    """The same index with arrays in the place of lists, and of masks the positions where they are true; ``None`` if it
    has neither, or what is no position."""
    parts: list[Any] = []
    changed = False
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, list):
            if find_traced(part) is None:
                array = np.asarray(part)
                part = array if array.size else array.astype(np.intp)
            elif all(map(is_integer, part)):
                part = np.stack(part)
            else:
                return None
            changed = True
        if part is None or part is Ellipsis or isinstance(part, slice) or is_integer(part):
            parts.append(part)
            continue
        t = typeof(part)
        if not isinstance(t, ArrayType) or t.dtype.kind not in "iub" or (t.dtype.kind == "b" and is_traced(part)):
            return None
        is_mask = t.dtype.kind == "b"
        if is_mask and not t.ndim:  # another dimension
            return None
        parts += np.nonzero(part) if is_mask else [part]
        changed |= is_mask
    return tuple(parts) if changed else None


def lowered_getitem(x: Any, index: Any) -> Any:
    """By slices, whole numbers and arrays of whole numbers."""
    return NotImplemented if (arrays := _with_arrays(index)) is None else getitem(x, arrays)


def lowered_unindex(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """The same; slices with steps are written out."""
    if is_basic(index) and find_traced((index,)) is None:
        return _unsliced(dy, index, tuple(shape))
    return NotImplemented if (arrays := _with_arrays(index)) is None else unindex(dy, arrays, tuple(shape))


def _unsliced(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """A backward slice is a mirrored forward one; with a step, each element is the first of a row of zeros."""
    given = index if isinstance(index, tuple) else (index,)
    parts = _per_dimension([part for part in given if part is not None], len(shape))
    if all(not isinstance(part, slice) or part.step in (None, 1) for part in parts):
        return NotImplemented
    ranges = [range(n)[part] if isinstance(part, slice) else [part] for part, n in zip(parts, shape, strict=True)]
    sizes = tuple(map(len, ranges))
    if 0 in sizes:
        return NotImplemented
    z = np.reshape(dy, sizes)
    box: list[Any] = list(parts)
    for axis, (part, taken) in enumerate(zip(parts, ranges, strict=True)):
        if not isinstance(part, slice):
            box[axis] = slice(part % shape[axis], part % shape[axis] + 1)
            continue
        first, last, step = min(taken), max(taken), abs(taken.step)  # type: ignore[union-attr]
        z = np.flip(z, axis) if taken.step < 0 else z  # type: ignore[union-attr]
        end = last + 1
        if step > 1:
            end = min(first + step * len(taken), shape[axis])
            z = _spaced(z, axis, step, end - first)
        box[axis] = slice(first, end)
    return unindex(z, tuple(box), shape)


def _per_dimension(parts: list[Any], ndim: int) -> list[Any]:
    """The ellipsis written out."""
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    behind = parts[at + 1 :]
    return [*parts[:at], *[slice(None)] * (ndim - at - len(behind)), *behind]


def _spaced(z: Any, axis: int, step: int, n: int) -> Any:
    """The elements along an axis with ``step - 1`` zeros behind each, cut off at ``n`` elements."""
    shape: Sequence[int] = shape_of(z)
    before, rows, after = shape[:axis], shape[axis], shape[axis + 1 :]
    zeros = np.zeros((math.prod(before), rows, step - 1, math.prod(after)), dtype_of(z))
    wide = np.concatenate((np.reshape(z, (math.prod(before), rows, 1, math.prod(after))), zeros), axis=2)
    long = np.reshape(wide, (*before, rows * step, *after))
    return long[(slice(None),) * axis + (slice(0, n),)]
