"""Values that depend on what is differentiated in, while the function runs and nobody follows it.

What a function does with them beside arithmetic, and beside calls of functions that compute, is too much.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy import float64, ndarray

from ..registry.registry import methods, properties
from ..tracing.operators import Operators

NOTHING: Mapping[str, Any] = {}
_NUMPYS = frozenset(fn for fn in vars(np).values() if isinstance(fn, np.ufunc))
FLOATS = frozenset([float64, float])
_REAL = FLOATS | {int}
_OF_SHAPE = frozenset(["shape", "ndim", "size", "dtype"])


class TooMuchError(BaseException):
    """The call needs a trace. Nobody else is to catch it."""


def _arithmetic(name: str, fn: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The methods of an operator: itself, its reflection and its form in place; of two numbers as short as can be."""
    python = getattr(operator, f"__{name}__")

    def operated(self: Eager, other: Any) -> Any:
        if type(self._value) in FLOATS:
            if (cls := type(other)) in _REAL:
                return self._ledger.of_numbers(fn, python, (self._value, other), self._id, -1)
            if cls is Eager and type(other._value) in FLOATS and other._ledger is self._ledger:
                return self._ledger.of_numbers(fn, python, (self._value, other._value), self._id, other._id)
        return self._ledger.operation(fn, (self, other), NOTHING, python)

    def reflected(self: Eager, other: Any) -> Any:
        if type(self._value) in FLOATS and type(other) in _REAL:
            return self._ledger.of_numbers(fn, python, (other, self._value), -1, self._id)
        return self._ledger.operation(fn, (other, self), NOTHING, python)

    def in_place(self: Eager, other: Any) -> Any:
        if type(self._value) not in FLOATS:  # an array may be seen under other names
            raise TooMuchError
        return operated(self, other)

    return operated, reflected, in_place


def _comparison(python: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives plain values."""
    return lambda self, other: python(self._value, other._value if type(other) is Eager else other)


def _too_much(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise TooMuchError


class Eager(Operators):
    """A value that depends on what is differentiated in."""

    __slots__ = ("_id", "_ledger", "_value")
    __setattr__ = object.__setattr__

    def __init__(self, ledger: Any, value: Any, i: int) -> None:
        self._ledger, self._value, self._id = ledger, value, i

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return self._value.__class__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs or method != "__call__":
            raise TooMuchError
        if ufunc not in _NUMPYS:
            return self._ledger.function(ufunc, (), inputs, NOTHING)
        if type(self._value) in FLOATS and len(inputs) == 1:
            return self._ledger.of_numbers(ufunc, ufunc, (self._value,), self._id, -1)
        return self._ledger.operation(ufunc, inputs, NOTHING)

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if type(self._value) in (float, complex):
            raise TooMuchError
        if name in _OF_SHAPE:
            return getattr(self._value, name)
        if name in properties:
            return properties[name](self)
        if name in methods:
            return partial(methods[name], self)
        raise TooMuchError

    __add__, __radd__, __iadd__ = _arithmetic("add", np.add)
    __sub__, __rsub__, __isub__ = _arithmetic("sub", np.subtract)
    __mul__, __rmul__, __imul__ = _arithmetic("mul", np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("truediv", np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic("floordiv", np.floor_divide)
    __mod__, __rmod__, __imod__ = _arithmetic("mod", np.remainder)
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("matmul", np.matmul)
    _power, __rpow__, __ipow__ = _arithmetic("pow", np.power)
    __and__ = __or__ = __xor__ = __invert__ = __lshift__ = __rshift__ = _too_much  # of whole numbers
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _too_much
    __lt__, __le__, __gt__, __ge__ = map(_comparison, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = map(_comparison, (operator.eq, operator.ne))

    def __neg__(self) -> Any:
        if type(self._value) in FLOATS:
            return self._ledger.of_numbers(np.negative, operator.neg, (self._value,), self._id, -1)
        return self._ledger.operation(np.negative, (self,), NOTHING)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and type(self._value) is ndarray and type(y := self._value[index]) is float64:
            ledger = self._ledger
            ledger.steps.append((self._value, index, self._id))
            ledger.values.append(y)
            return Eager(ledger, y, len(ledger.values) - 1)
        return self._ledger.operation(operator.getitem, (self, index), NOTHING)

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self._value))])

    def __bool__(self) -> bool:
        return bool(self._value)

    __float__ = __int__ = __index__ = __complex__ = __array__ = __hash__ = __contains__ = __round__ = _too_much
    __format__ = __repr__ = __str__ = __reduce_ex__ = __copy__ = __deepcopy__ = __setitem__ = __delitem__ = _too_much
    __trunc__ = __floor__ = __ceil__ = __reversed__ = _too_much
