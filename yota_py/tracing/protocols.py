"""What operators and NumPy's own functions do with tracers: recorded, and written where they work in place."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import lru_cache
from types import BuiltinFunctionType, EllipsisType, FrameType, FunctionType, NoneType
from typing import Any

import numpy as np
from numpy import ndarray, power

from ..base.callsites import called_name
from ..base.dispatch import are_plain, decided, find_traced, shadow
from ..base.signatures import position_of_out
from ..base.types import LARGE, ArrayType, overrides, typeof
from ..base.unwinding import Quiet, state
from ..registry.constants import as_constants
from ..registry.tangents import astype, listed, operand
from ..registry.writes import asked, copied, spare
from ..tape.show import name_of
from . import hints, ufuncs
from . import readings as _readings  # noqa: F401 - arrays are asked for them
from .calls import at_length, record
from .foreign import Foreign, kind_of, meet
from .libraries import written_by_library
from .mutation import IN_PLACE, assign, overwrite, write_result
from .operators import Operator, both_python, is_python
from .quick import quickly
from .tracer import Status, Tracer, lost, tracers_of, unsupported

_INCOMPARABLE = (type(None), str, dict)  # with which arrays are compared element by element
_NO_NUMBERS = frozenset([  # objects of which classes NumPy's operators refuse
    NoneType, str, bytes, dict, set, frozenset, object, type, EllipsisType, FunctionType, BuiltinFunctionType,
])  # fmt: skip
_NUMBERS = (int, float, complex)
_OF_ROOTS = (np.float16, np.longdouble)  # of which NumPy's power 0.5 is the root, which is another one at zero
_SCALARS = (*_NUMBERS, np.generic, list, tuple)


class _Probe:
    """How often a number that is compared, and of which NumPy makes an array, is referred to in ``__array_ufunc__``."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _references(inputs)[0]


def _references(inputs: tuple[Any, ...]) -> list[int]:
    return [sys.getrefcount(x) for x in inputs]


@lru_cache(maxsize=1024)
def _compares(ufunc: np.ufunc) -> bool:
    """Whether a ufunc gives truth values of two numbers."""
    return "dd->?" in ufunc.types


_OF_NUMBER: Any = np.float64(0) < _Probe()  # type: ignore[operator]


def _compared(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers of NumPy's, of which comparisons make arrays: ``np.float64(0) < x``. Nobody else has those."""
    return tuple([
        x[()] if type(x) is ndarray and not x.ndim and count <= _OF_NUMBER else x
        for x, count in zip(inputs, _references(inputs), strict=True)
    ])


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's protocol for ufuncs and their methods."""
    if method == "__call__" and _compares(ufunc):
        inputs = _compared(inputs)
    if method == "__call__" and not kwargs and are_plain(inputs):
        return record(ufunc, inputs, kwargs)
    if any(_has_own_ufuncs(type(x)) for x in inputs):
        return NotImplemented
    if method == "at":
        return ufuncs.apply(ufunc, method, (*inputs[:2], *map(_operand, inputs[2:])), kwargs)
    inputs = _operands(inputs)
    if kwargs or method != "__call__":
        return ufuncs.apply(ufunc, method, inputs, kwargs)
    return record(ufunc, inputs, kwargs)


def array_function(fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's protocol for its other functions."""
    if any(_is_unknown(cls) for cls in types):
        return NotImplemented
    if fn in IN_PLACE:
        asked(fn, spare(args), spare(kwargs))  # warns, or raises what NumPy raises
        with Quiet():
            return IN_PLACE[fn](*args, **kwargs)
    out, at = kwargs.get("out"), position_of_out(fn)
    if at is not None and len(args) > at:
        out, args = args[at], (*args[:at], None, *args[at + 1 :]) if len(args) > at + 1 else args[:at]
    kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    if kwargs.get("overwrite_input"):
        raise unsupported(f"{name_of(fn)} in place")
    out = out[0] if isinstance(out, tuple) else out
    if fn is ufuncs.CLIP and kwargs.keys() & ufuncs.KEYWORDS:
        return ufuncs.clip(*args, **kwargs, out=out)
    if warns := out is not None or kwargs.get("initial", 0) is None:  # raises what NumPy raises
        asked(fn, shadow(args), {**shadow(kwargs), "out": spare(out)})
        args, kwargs = ufuncs.into(fn, args, kwargs, out)
        kwargs = {key: value for key, value in kwargs.items() if key != "initial" or value is not None}
    with Quiet() if warns else nullcontext():  # NumPy has warned, and found nothing wrong
        result = record(fn, args, kwargs)
        return result if out is None else write_result(out, result, "unsafe")


def operated(op: Operator, x: Any, other: Any, operands: tuple[Any, ...], frame: FrameType) -> Any:
    """What an operator gives, where it is one function and the short way can be gone; ``None`` elsewhere."""
    if _is_ufunc(op, type(x), type(other)):
        return quickly(op.ufunc, operands, frame)
    return quickly(op.python, operands, frame) if type(x) is _FLOATS and type(other) in _BESIDE_FLOATS else None


def forward(op: Operator, x: Any, other: Any) -> Any:
    """``x + other``."""
    with state.unwatched:
        if _is_ufunc(op, type(x), type(other)):
            return at_length(op.ufunc, (x, other), {})
        if not _defers(x, other) and not _repeats(x, other, op.python) and not (
            type(other) not in _NUMBERS and is_python(x) and overrides(type(other), op.answer)
        ):
            return op.ufunc(x, other) if _has_own_ufuncs(type(other)) else _apply(op, x, other)
    if op.python in (operator.eq, operator.ne) and isinstance(x, ndarray) and type(other) in _INCOMPARABLE:
        return as_constants(op.python(shadow(x), other))  # whatever the numbers are
    return _of_others(op.python, x, other, x, other)


def reflected(op: Operator, x: Any, other: Any) -> Any:
    """``other + x``, of which ``x`` is asked."""
    with state.unwatched:
        if _is_ufunc(op, type(x), type(other)):
            return at_length(op.ufunc, (other, x), {})
        if not _defers(x, other) and not _repeats(x, other, op.python):
            return op.ufunc(other, x) if _has_own_ufuncs(type(other)) else _apply(op, other, x)
    return _of_others(op.python, x, other, other, x)


def in_place(op: Operator, x: Any, other: Any) -> Any:
    """``x += other``: numbers are immutable, arrays are written."""
    if type(x) is Foreign:
        raise written_by_library(x)
    array = isinstance(x, np.ndarray)
    if type(other) in _NO_NUMBERS and op.in_place is not None:
        op.in_place(copied(shadow(x)) if array else shadow(x), other)  # raises what NumPy raises
    try:
        result = forward(op, x, other)
        if result is NotImplemented or not array:
            return result
        overwrite(x, result._array if type(result) is Foreign else result)
    except (TypeError, ValueError):
        if array and op.in_place is not None:
            op.in_place(copied(shadow(x)), shadow(other))  # raises what NumPy raises
        raise
    return x


def _is_its_ufunc(op: Operator, x: type, other: type) -> bool:
    """Whether an operator of a traced array, or number of NumPy's, and a number or array is its ufunc, whatever their
    values."""
    if op.python in (operator.pow, operator.matmul):
        return op.python is operator.matmul and x is tracers_of(ndarray) and other in (ndarray, x)
    others = (ndarray, np.float64, float, int)
    return x in (tracers_of(ndarray), tracers_of(np.float64)) and (other in others or other in map(tracers_of, others))


_FLOATS = tracers_of(float)
_BESIDE_FLOATS = frozenset([float, int, _FLOATS])  # with which an operator of such a number is Python's
_is_ufunc: Callable[[Operator, type, type], bool] = lru_cache(maxsize=4096)(_is_its_ufunc)


def _apply(op: Operator, x: Any, y: Any) -> Any:
    """An operator. On two Python numbers it stays Python's, whose results promote weakly."""
    x, y = _operands((x, y))
    if kind_of(type(x)) or kind_of(type(y)):
        return meet(op.python, (x, y))
    if not both_python(x, y):
        return record(*_of_numpy(op.python, op.ufunc, x, y), {})
    result = record(op.python, (x, y), {})
    if isinstance(result, Tracer):
        _require_exact(result, op.python, x, y)
    return result


def _require_exact(result: Tracer, fn: Any, x: Any, y: Any) -> None:
    """Guard a whole number of Python's, which may be of any size, against becoming too large for a kernel."""
    trace, (var, _) = result._ledger, result._current()
    if trace.status(var) == Status.CONSTANT or not isinstance(result, int) or isinstance(result, bool):
        return
    small = False
    if fn in (operator.add, operator.sub, operator.mul):
        size = trace.record(np.abs, (fn(astype(x, np.float64), astype(y, np.float64)),), {})
        small = trace.guard(trace.record(np.less, (size, LARGE), {}), bool)
    if not small and fn not in (operator.mod, operator.floordiv, operator.and_, operator.or_, operator.rshift):
        trace.problems.append(f"{trace.origin()}: a whole number may become too large")


def _of_others(python: Any, x: Any, other: Any, *operands: Any) -> Any:
    """An operator of a traced value and of what ``x`` defers to. NumPy refuses what is no number, but for arrays
    without elements; what else it is, but for durations, is asked by Python."""
    if type(other) not in _NO_NUMBERS or python in (operator.eq, operator.ne):
        return _of_duration(python, x, other, *operands)
    if type(x) is Foreign:
        return NotImplemented
    x._current()  # how many elements there are, is a decision
    if not isinstance(x, ndarray | np.generic):
        return NotImplemented
    with Quiet():
        result = python(*map(shadow, operands))  # raises what NumPy raises
    return result if isinstance(x, ndarray) else NotImplemented


def _of_duration(python: Any, x: Any, duration: Any, *operands: Any) -> Any:
    """An operator of a traced value and one of Python's durations, or pandas': plain ones, which are rounded."""
    if not isinstance(duration, timedelta) or type(x) is Foreign:
        return NotImplemented
    plain = python(*map(decided, operands))  # raises its own error
    if x._carries() and not isinstance(plain, bool):
        raise lost(f"a product or ratio with a {type(duration).__name__}", x,
                   f"compute with its seconds, t.total_seconds() * x; {hints.PLAIN}")  # fmt: skip
    return plain


def _of_numpy(python: Any, ufunc: Any, x: Any, p: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that stands behind an operator, where it is not the ufunc: of scalars some are other ones, and of
    arrays some powers."""
    arrays = isinstance(x, ndarray), isinstance(p, ndarray)
    if not any(arrays):
        special = ufunc is power or _is_complex(x) or _is_complex(p)
        return python if special else ufunc, (x, p)
    if ufunc is power and arrays[0] and isinstance(p, int | float) and is_python(p):  # (traced: a decision)
        if x.dtype.kind == "b" and isinstance(p, int) and not isinstance(p, bool) and p == 2:
            return np.square, (x,)
        if (x.dtype.kind == "c" or x.dtype in _OF_ROOTS) and p == 0.5:
            return np.sqrt, (x,)
        if x.dtype.kind == "c" and isinstance(p, int) and p == -1:
            return np.reciprocal, (x,)
    return ufunc, (x, p)


def _is_complex(x: Any) -> bool:
    t = typeof(x)
    return isinstance(t, ArrayType) and t.dtype.kind == "c"


def _operands(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lists beside traced arrays as arrays; what they are beside foreign objects is for their libraries to say."""
    if not state.traces or any(kind_of(type(x)) == "foreign" for x in given):
        return given
    return tuple(map(_operand, given))


def _operand(x: Any) -> Any:
    """A list beside a traced array, as the array that NumPy makes of it."""
    x = listed(x)
    if not isinstance(x, list | tuple):
        return x
    if find_traced((x,)) is not None:
        return operand(x)
    trace = state.traces[-1]
    return trace.tracer(trace.constant(np.asarray(x)))


def _defers(x: Any, other: Any) -> bool:
    """Whether Python asks ``other`` what comes of an operation with ``x``, as it would with the value of ``x``."""
    cls = type(other)
    if (kind := kind_of(cls)) in ("foreign", "rational"):
        return False
    if kind == "sparse" or cls in _NO_NUMBERS or isinstance(other, str | dict | set):
        return True
    if getattr(cls, "__array_ufunc__", 0) is None:
        return True
    if not _is_unknown(cls):
        return False
    if issubclass(cls, timedelta) and type(x) is not Foreign:
        return True
    if not isinstance(x, np.ndarray):
        return not isinstance(x, np.generic) or not _has_own_ufuncs(cls)
    return not _has_own_ufuncs(cls) and getattr(other, "__array_priority__", -1.0) > 0


def _repeats(x: Any, other: Any, python: Any) -> bool:
    """Whether a list beside ``x`` stays one, as in ``3 * [0.0]``; for Python's numbers it is never an array, and
    numbers have no product of matrices."""
    if python is operator.matmul and isinstance(other, _SCALARS) and not isinstance(x, np.ndarray):
        return type(x) is not Foreign
    if not isinstance(other, list | tuple) or isinstance(x, np.ndarray) or type(x) is Foreign:
        return False
    return python is operator.mul or not isinstance(x, np.generic)


def _is_unknown_class(cls: type) -> bool:
    """Whether this is a class of neither NumPy nor Python that its objects' operators may be defined in."""
    return not issubclass(cls, (np.ndarray, np.generic, Tracer, *_NUMBERS, tuple, list)) and kind_of(cls) in ("", "own")


_is_unknown: Callable[[type], bool] = lru_cache(maxsize=4096)(_is_unknown_class)


def _has_own_ufuncs(cls: type) -> bool:
    """Whether a class of the user's says itself what ufuncs make of its objects."""
    return _is_unknown(cls) and getattr(cls, "__array_ufunc__", None) is not None


def assigned(x: Tracer, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    if len(x.shape) > 1 and called_name(sys._getframe(2)) == "shuffle":  # it swaps rows as if they were no views
        raise unsupported("shuffle of an array of several dimensions (x[rng.permutation(len(x))] is the same)")
    assign(x, index, value)
