"""``x.flat`` of traced arrays: their elements in C order, wherever they lie in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_held, find_traced, is_traced
from yota_py.base.types import is_sequence
from yota_py.registry.patches import show, standing_for
from yota_py.registry.registry import properties
from yota_py.registry.tangents import as_array, listed, operand, said

from .support import shape_of, unsupported


class Flat:
    """An iterator over the elements, like ``np.flatiter``: what is taken of it is a copy, what is assigned to it is
    written into the array."""

    __slots__ = ("_array",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Any) -> None:
        if array._ledger.effects:  # it may be stored, or returned
            raise unsupported("x.flat under jit", "Use x.ravel(), or x.reshape(-1)")
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        taken = np.ravel(self._array)[index]
        return np.copy(taken) if shape_of(taken) else taken

    def __setitem__(self, index: Any, value: Any) -> None:
        shape = shape_of(self._array)
        positions = np.arange(int(np.prod(shape)))[index]
        self._array[np.unravel_index(positions, shape)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(np.ravel(self._array))

    def __len__(self) -> int:
        return int(np.prod(shape_of(self._array)))

    def copy(self) -> Any:
        """The elements in an array of one axis."""
        return np.copy(np.ravel(self._array))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*opened(inputs), **opened(kwargs))

    def __array_function__(self, fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return fn(*opened(args), **opened(kwargs))

    def __array__(self, dtype: Any = None, *, copy: Any = None) -> Any:
        flat: Any = np.ravel(self._array)
        return flat.__array__(dtype, copy)


def _of_numpy(flat: Flat, plain: Callable[[Any], Any]) -> Any:
    array = plain(flat._array)
    return flat if is_traced(array) else array.flat


standing_for[Flat] = _of_numpy


def _comparing(operator_: Any) -> Any:
    return lambda self, other: operator_(self.copy(), opened(other))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Flat, f"__{_name}__", _comparing(getattr(operator, _name)))


def opened(value: Any) -> Any:
    """Arguments with arrays in the places of such iterators, and lists in those of other sequences."""
    value = listed(value) if is_sequence(type(value)) else value
    if type(value) in (tuple, list):
        return type(value)(map(opened, value))
    if type(value) is dict:
        return {key: opened(item) for key, item in value.items()}
    return value.copy() if type(value) is Flat else said(value)


def _ndenumerate(arr: Any) -> Any:
    """``np.ndenumerate``: places and elements in C order, each as it is when its turn comes."""
    arr = opened(arr)
    if find_traced((arr,)) is None:
        return np.ndenumerate(arr)
    array = as_array(operand(arr))
    if array._ledger.effects:  # it may be stored, or returned
        raise unsupported("np.ndenumerate under jit", "Loop over np.ndindex(x.shape)")
    return ((index, array[index]) for index in np.ndindex(shape_of(array)))


def _nditer(*args: Any, **kwargs: Any) -> Any:
    if find_held((args, kwargs), held=True) is None:
        return np.nditer(*args, **kwargs)
    raise unsupported("np.nditer", "Loop over x.ravel(), or zip(x.ravel(), y.ravel()), or compute with whole arrays")


properties["flat"] = Flat
show(np.ndenumerate, _ndenumerate)
show(np.nditer, _nditer)
