"""Stored views: an array that looks at another one's memory, as an expression of that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Index = tuple[Any, ...]
Layout = tuple[int, tuple[Any, ...]]


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory an array looks at; itself, if that is no array's."""
    base = array.base
    return base if type(base) is np.ndarray and base.base is None else array


def layout_of(part: np.ndarray, owner: np.ndarray) -> Layout:
    """Where ``part`` looks at the memory of ``owner``, in bytes from its start, and how."""
    return _address(part) - _address(owner), _form(part, owner)


def _form(part: np.ndarray, owner: np.ndarray) -> tuple[Any, ...]:
    return part.shape, part.strides, part.dtype, owner.shape, owner.strides


def is_part(part: Any, owner: Any, layout: Layout, known: Any = None) -> bool:
    """Whether an array looks at the memory of ``owner`` as ``layout`` says, and may be written through; a ``known`` one
    does not begin at another place than before."""
    if type(part) is not np.ndarray or type(owner) is not np.ndarray or part.base is not owner:
        return False
    if not part.flags.writeable or _form(part, owner) != layout[1]:
        return False
    return part is known or _address(part) - _address(owner) == layout[0]


def expression_of(part: np.ndarray, owner: np.ndarray) -> Callable[[Any], Any] | None:
    """What makes ``part`` of ``owner``, or of a traced array that stands for it, by slices, transpositions and
    reshapes; ``None`` if they are not enough."""
    if part.dtype != owner.dtype or not part.size or not is_part(part, owner, layout_of(part, owner)):
        return None
    if not owner.flags.c_contiguous:
        made = _expression_of_rows(part, owner.T) if owner.flags.f_contiguous else None
        return None if made is None else lambda x: made(x.transpose())
    return _expression_of_rows(part, owner)


def _expression_of_rows(part: np.ndarray, owner: np.ndarray) -> Callable[[Any], Any] | None:
    """``expression_of`` for a C-contiguous owner."""
    axes = [k for k in range(part.ndim) if part.shape[k] > 1]
    order = sorted(axes, key=lambda k: -abs(part.strides[k]))
    index = _index(part, owner, order) or None
    start = (_address(part) - _address(owner)) // part.itemsize
    back = tuple(order.index(k) for k in axes)
    lengths = tuple(slice(None) if k in axes else None for k in range(part.ndim))
    shape, stop = tuple(part.shape[k] for k in order), start + part.size

    def sliced(x: Any) -> Any:
        return _placed(x[index], back, lengths)

    def flat(x: Any) -> Any:
        return _placed(x.reshape(-1)[start:stop].reshape(shape), back, lengths)

    if index is not None and _is_same(sliced(owner), part):
        return sliced
    return flat if start >= 0 and stop <= owner.size and _is_same(flat(owner), part) else None


def _index(part: np.ndarray, owner: np.ndarray, order: Sequence[int]) -> Index | None:
    """The index by which ``part`` is taken out of ``owner``, but for the order of axes and those of length one."""
    offset = _address(part) - _address(owner)
    left, index = [*order], list[Any]()
    for stride, extent in zip(owner.strides, owner.shape, strict=True):
        at, offset = divmod(offset, stride)
        axis = next((k for k in left if not part.strides[k] % stride), None) if extent > 1 else None
        if axis is None:
            index.append(at)
            continue
        left.remove(axis)
        step = part.strides[axis] // stride
        last = at + step * (part.shape[axis] - 1)
        if not (0 <= at < extent and 0 <= last < extent):
            return None
        stop = last + (1 if step > 0 else -1)
        index.append(slice(at, stop if stop >= 0 else None, step))
    return tuple(index) if not left and not offset else None


def _placed(x: Any, back: tuple[int, ...], lengths: Index) -> Any:
    """Axes in their own order, and those of length one."""
    if back != tuple(range(len(back))):
        x = x.transpose(back)
    return x[lengths] if None in lengths else x


def _is_same(made: np.ndarray, part: np.ndarray) -> bool:
    """Whether two arrays are one view; how long steps along an axis of length one are does not matter."""
    if made.shape != part.shape or _address(made) != _address(part):
        return False
    return all(n == 1 or a == b for a, b, n in zip(made.strides, part.strides, part.shape, strict=True))


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
