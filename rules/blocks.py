"""``np.block``, and what is joined in brackets: ``np.r_`` and ``np.c_``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.registry.constants import made_of_numbers
from yota_py.registry.patches import show
from yota_py.registry.registry import describe
from yota_py.registry.tangents import astype, listed

from .casting import assemble
from .support import promoted, shape_of, unsupported


def _depth(arrays: Any) -> int:
    return 1 + max(map(_depth, arrays), default=0) if isinstance(arrays, list) else 0


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for part in arrays for leaf in _leaves(part)] if isinstance(arrays, list) else [arrays]


def _wide(x: Any, ndim: int) -> Any:
    """An array with axes put before its own."""
    y = assemble(x)
    return np.reshape(y, (1,) * (ndim - len(shape_of(y))) + shape_of(y))


def _block(arrays: Any) -> Any:
    """``np.block`` as concatenations: the innermost lists along the last axis."""
    np.block(_shapes(arrays))  # raises what NumPy raises
    ndim = max(_depth(arrays), *(len(shape_of(leaf)) for leaf in _leaves(arrays)))

    def joined(part: Any, axis: int) -> Any:
        if not isinstance(part, list):
            return _wide(part, ndim)
        return np.concatenate([joined(item, axis + 1) for item in part], axis)

    return np.copy(assemble(arrays)) if not isinstance(arrays, list) else joined(arrays, -_depth(arrays))


def _shapes(arrays: Any) -> Any:
    return list(map(_shapes, arrays)) if isinstance(arrays, list) else np.broadcast_to(0.0, shape_of(arrays))


describe(np.block, lowering=_block, inline=True)


# ------------------------------------------------------------------------------ what stands in brackets


def _given(item: slice) -> tuple[Any, Any, Any]:
    """Start, stop and step of a slice."""
    return 0 if item.start is None else item.start, item.stop, 1 if item.step is None else item.step


def _steps(item: slice, dtype: Any = None) -> Any:
    """The numbers that a slice with traced bounds stands for; an imaginary step is how many there are."""
    start, stop, step = _given(item)
    if not isinstance(step, complex | np.complexfloating):
        count, dtype = max(math.ceil((stop - start) / step), 0), dtype or promoted(start, stop, step)
    else:
        size: Any = abs(step)
        count, dtype = int(size), dtype or promoted(start, stop, 1.0)
        step = (stop - start) / (count - 1.0) if count != 1 else 1
    return np.arange(count, dtype=dtype) * step + start


class _Brackets:
    """A stand-in for an object that makes arrays of what stands in brackets: only of traced items otherwise."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def __getitem__(self, key: Any) -> Any:
        key = tuple(map(listed, key)) if type(key) is tuple else listed(key)
        return made_of_numbers(self._plain[key], (key,)) if find_traced((key,)) is None else self._made(key)

    def _made(self, key: Any) -> Any:
        raise NotImplementedError


class _Joining(_Brackets):
    """The stand-in for ``np.r_`` or ``np.c_``."""

    def _made(self, key: Any) -> Any:
        axis, ndmin, trans1d = self._plain.axis, self._plain.ndmin, self._plain.trans1d
        items = [*key] if type(key) is tuple else [key]
        if type(items[0]) is str:
            words: str = items.pop(0)
            if words in ("r", "c"):
                raise unsupported(f"np.r_[{words!r}, ...], which makes a matrix,", "Use np.vstack or np.column_stack")
            self._plain[(words, *(np.zeros(shape_of(_item(item))) for item in items))]  # raises what NumPy raises
            numbers = [*map(int, words.split(",")), *(axis, ndmin, trans1d)[words.count(",") + 1 :]]
            axis, ndmin, trans1d = numbers
        parts = [_item(item) for item in items]
        dtype = promoted(*parts)
        wide = [_turned(_wide(part, ndmin), ndmin - len(shape_of(part)), trans1d) for part in parts]
        return np.concatenate([part if part.dtype == dtype else astype(part, dtype) for part in wide], axis)


def _item(item: Any) -> Any:
    """A slice or list as an array; numbers and arrays as they are."""
    if isinstance(item, slice):
        if find_traced((item,)) is not None and isinstance(item.step, complex):
            return np.linspace(0 if item.start is None else item.start, item.stop, int(abs(item.step)))
        return np.r_[item] if find_traced((item,)) is None else _steps(item)
    return item if is_traced(item) or isinstance(item, _NUMBERS) else assemble(item)


_NUMBERS = (int, float, complex, np.generic)


def _turned(x: Any, added: int, trans1d: int) -> Any:
    """An array to which axes were added, with its own from ``trans1d`` on."""
    if added <= 0 or trans1d == -1 or added == len(shape_of(x)):
        return x
    first = trans1d if trans1d >= 0 else trans1d + added + 1
    axes = [*range(len(shape_of(x)))]
    return np.transpose(x, axes[:first] + axes[added:] + axes[first:added])


class _Grid(_Brackets):
    """The stand-in for ``np.mgrid`` or ``np.ogrid``."""

    def _made(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return _steps(key)
        bounds = [x for item in key for x in _given(item)]
        dtype = promoted(0, *(abs(x) if isinstance(x, complex | np.complexfloating) else x for x in bounds))
        axes = [_steps(item, dtype) for item in key]
        shape = tuple(len(axis) for axis in axes)
        n = len(axes)
        open_ = [np.reshape(axis, tuple(-1 if k == i else 1 for k in range(n))) for i, axis in enumerate(axes)]
        if self._plain.sparse:
            return tuple(open_)
        return np.stack([np.broadcast_to(astype(axis, promoted(*axes)), shape) for axis in open_])


for _plain, _stand_in in ((np.r_, _Joining), (np.c_, _Joining), (np.mgrid, _Grid), (np.ogrid, _Grid)):
    show(_plain, _stand_in(_plain), always=True)
