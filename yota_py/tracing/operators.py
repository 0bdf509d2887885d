"""The operators of traced values: which there are, and what of Python's and of NumPy's stands behind each.

What comes of an operator is the business of the trace; ``protocols.py`` tells it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from ..base.dispatch import decided, find_traced, shadow
from ..base.records import record
from ..base.unwinding import getprofile, setprofile, state

FIRST = 1e9  # a priority above all others: what meets a traced value is its own business


@record(eq=False)
class Operator:
    """``python(x, y)``, and the ufunc that it is for arrays.

    ``answer`` is the method that Python asks of the right operand, before it asks the left one if that derives from
    the class of the left one and has a method of its own; ``in_place`` is what ``x += y`` does to plain values.
    """

    python: Callable[..., Any]
    ufunc: Any
    answer: str
    in_place: Callable[..., Any] | None = None


def is_python(x: Any) -> bool:
    """Whether this is a number of Python's."""
    return isinstance(x, int | float | complex) and not isinstance(x, np.generic)


def both_python(x: Any, y: Any) -> bool:
    """Whether these are two numbers of Python's, with which an operator is Python's."""
    return is_python(x) and is_python(y)


def _method(short: Callable[..., Any], long: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives what the short way gives, of which nobody hears, or else the long one."""

    def operated(self: Operators, *other: Any) -> Any:
        if (profile := state.profile) is not None and getprofile() is profile:
            setprofile(None)  # as in a block with ``state.unwatched``, of which it would hear
            try:
                result = short(_getframe(1), self, *other)
            finally:
                setprofile(profile)
        else:
            with state.unwatched:
                result = short(_getframe(1), self, *other)
        return long(self, *other) if result is None else result

    return operated


def _binary(op: Operator) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The methods of an operator: itself, its reflection and its form in place."""

    def shortly(frame: FrameType, x: Operators, other: Any) -> Any:
        return x._ledger.operated(op, x, other, (x, other), frame)

    def shortly_reflected(frame: FrameType, x: Operators, other: Any) -> Any:
        return x._ledger.operated(op, x, other, (other, x), frame)

    return (
        _method(shortly, lambda x, other: x._ledger.forward(op, x, other)),
        _method(shortly_reflected, lambda x, other: x._ledger.reflected(op, x, other)),
        lambda x, other: x._ledger.in_place(op, x, other),
    )


def _arithmetic(name: str, ufunc: Any) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    return _binary(Operator(getattr(operator, f"__{name}__"), ufunc, f"__r{name}__", getattr(operator, f"i{name}")))


def _comparison(name: str, ufunc: Any, answer: str) -> Callable[..., Any]:
    return _binary(Operator(getattr(operator, name), ufunc, answer))[0]


def _unary(python: Callable[..., Any], ufunc: Any) -> Callable[..., Any]:
    def of(x: Operators) -> Callable[..., Any]:
        return python if is_python(x) else ufunc

    return _method(
        lambda frame, x: x._ledger.quickly(of(x), (x,), frame), lambda x: x.__yota_record__(of(x), (x,), {})
    )


def _divmod(x: Any, y: Any) -> Any:
    if both_python(x, y) and not y:
        return divmod(shadow(x), shadow(y))  # raises its own error
    return x // y, x % y


class Operators:
    """Operators, and what NumPy and other libraries ask of their operands."""

    __slots__ = ()
    __array_priority__ = __pandas_priority__ = FIRST
    _ledger: Any  # a ``Trace``

    def __yota_record__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self._ledger.operation(fn, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self._ledger.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._ledger.function(fn, types, args, kwargs)

    @classmethod
    def __torch_function__(cls, fn: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return find_traced((args, kwargs))._ledger.torch_function(fn, args, kwargs)

    __add__, __radd__, __iadd__ = _arithmetic("add", np.add)
    __sub__, __rsub__, __isub__ = _arithmetic("sub", np.subtract)
    __mul__, __rmul__, __imul__ = _arithmetic("mul", np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("truediv", np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic("floordiv", np.floor_divide)
    __mod__, __rmod__, __imod__ = _arithmetic("mod", np.remainder)
    _power, __rpow__, __ipow__ = _arithmetic("pow", np.power)
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("matmul", np.matmul)
    __and__, __rand__, __iand__ = _arithmetic("and", np.bitwise_and)
    __or__, __ror__, __ior__ = _arithmetic("or", np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _arithmetic("xor", np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _arithmetic("lshift", np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _arithmetic("rshift", np.right_shift)
    __lt__ = _comparison("lt", np.less, "__gt__")
    __le__ = _comparison("le", np.less_equal, "__ge__")
    __gt__ = _comparison("gt", np.greater, "__lt__")
    __ge__ = _comparison("ge", np.greater_equal, "__le__")
    __eq__ = _comparison("eq", np.equal, "__eq__")
    __ne__ = _comparison("ne", np.not_equal, "__ne__")
    __neg__ = _unary(operator.neg, np.negative)
    __pos__ = _unary(operator.pos, np.positive)
    __abs__ = _unary(operator.abs, np.absolute)
    __invert__ = _unary(operator.invert, np.invert)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return self._power(other) if modulus is None else pow(*map(decided, (self, other, modulus)))

    def __divmod__(self, other: Any) -> Any:
        return _divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _divmod(other, self)
