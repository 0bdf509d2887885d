"""``x[index]`` and its adjoint, and how they lower: to views, and to indexing of leading axes by arrays of integers."""

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


def parts_of_index(index: Any, ndim: int) -> list[Any] | None:
    """One part per axis, masks as the positions where they are true; ``None`` if the index has other things in it."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or isinstance(part, bool | np.bool_):
            return None
        if isinstance(part, list):
            part = np.asarray(part) if find_traced(part) is None else None
        t = typeof(part)
        if isinstance(part, slice) or part is Ellipsis or is_integer(part):
            parts.append(part)
        elif not isinstance(t, ArrayType) or t.dtype.kind not in "iub" or (t.dtype.kind == "b" and is_traced(part)):
            return None
        else:
            parts += np.nonzero(part) if t.dtype.kind == "b" else [part]
    missing = ndim - sum(part is not Ellipsis for part in parts)
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    if not missing and 0 < at < len(parts) - 1:
        return None  # an ellipsis that stands for nothing still counts where arrays are apart
    return parts[:at] + [slice(None)] * missing + parts[at + 1 :]


class _Plan:
    """An index as slices, then ``axes`` moved to the front, ``arrays`` for these, and their axes moved to ``at``."""

    def __init__(self, parts: list[Any], shape: tuple[int, ...]) -> None:
        self.axes = tuple(i for i, part in enumerate(parts) if not isinstance(part, slice))
        self.arrays = tuple(parts[i] for i in self.axes)
        self.slices = tuple(part if isinstance(part, slice) else slice(None) for part in parts)
        ranges = [range(n)[part] for n, part in zip(shape, self.slices, strict=True)]
        self.sliced = tuple(map(len, ranges))
        self.whole = ranges == [*map(range, shape)]
        self.order = (*self.axes, *(i for i in range(len(shape)) if i not in self.axes))
        self.ndim = len(np.broadcast_shapes(*map(shape_of, self.arrays)))
        together = self.axes[-1] - self.axes[0] == len(self.axes) - 1
        self.at = self.axes[0] if together else 0

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes of the arrays where the indexing of leading axes has them, and where they belong."""
        return tuple(range(self.ndim)), tuple(range(self.at, self.at + self.ndim))

    def is_direct(self, index: Any) -> bool:
        """Whether there is nothing to do: arrays on the leading axes, all others whole."""
        given = index if isinstance(index, tuple) else (index,)
        unchanged = all(any(array is part for part in given) for array in self.arrays)
        return unchanged and self.whole and self.axes == tuple(range(len(self.axes)))


def _plan(index: Any, shape: tuple[int, ...]) -> _Plan | None:
    parts = parts_of_index(index, len(shape))
    if parts is None or all(isinstance(part, slice) for part in parts):
        return None
    plan = _Plan(parts, shape)
    return None if plan.is_direct(index) else plan


def lowered_getitem(x: Any, index: Any) -> Any:
    """Slices and transposes are views, which leaves arrays of integers on the leading axes."""
    shape = shape_of(x)
    if is_basic(index) or (plan := _plan(index, shape)) is None:
        return NotImplemented
    x = x if plan.whole else getitem(x, plan.slices)
    x = x if plan.order == tuple(range(len(shape))) else np.transpose(x, plan.order)
    y = getitem(x, plan.arrays)
    return np.moveaxis(y, *plan.moves) if plan.at and plan.ndim else y


def lowered_unindex(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of ``lowered_getitem``, and of slices with steps."""
    shape = tuple(shape)
    if is_basic(index):
        return _unsliced(dy, index, shape)
    if (plan := _plan(index, shape)) is None:
        return NotImplemented
    dy = np.moveaxis(dy, *plan.moves[::-1]) if plan.at and plan.ndim else dy
    dx = unindex(dy, plan.arrays, tuple(plan.sliced[i] for i in plan.order))
    if plan.order != tuple(range(len(shape))):
        dx = np.transpose(dx, tuple(plan.order.index(i) for i in range(len(shape))))
    return dx if plan.whole else unindex(dx, plan.slices, shape)


def _unsliced(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """A backward slice is a mirrored forward one; with a step, each element is the first of a row of zeros."""
    given = index if isinstance(index, tuple) else (index,)
    parts = parts_of_index(tuple(part for part in given if part is not None), len(shape))
    if parts is None or all(not isinstance(part, slice) or part.step in (None, 1) for part in parts):
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


def _spaced(z: Any, axis: int, step: int, n: int) -> Any:
    """The elements along an axis with ``step - 1`` zeros behind each, cut off at ``n`` elements."""
    shape: Sequence[int] = shape_of(z)
    before, rows, after = shape[:axis], shape[axis], shape[axis + 1 :]
    zeros = np.zeros((math.prod(before), rows, step - 1, math.prod(after)), dtype_of(z))
    wide = np.concatenate((np.reshape(z, (math.prod(before), rows, 1, math.prod(after))), zeros), axis=2)
    long = np.reshape(wide, (*before, rows * step, *after))
    return long[(slice(None),) * axis + (slice(0, n),)]
