"""Assignments to traced arrays, followed by what they do to values.

A tracer stands for a variable; ``x[i] = v`` records a copy with the new elements and lets the tracer stand for that.
A view of ``x`` (a slice, a transpose) remembers how it looks at ``x``: it is looked up again after ``x`` has changed,
and a write through it is written into ``x``. The caller's arrays are not touched while a trace runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dispatch import decided, find_traced, is_traced, shadow
from ..base.types import ArrayType, typeof
from ..base.unwinding import Quiet, state
from ..errors import LostDerivativeError, MutationError
from ..registry.registry import methods, setters
from ..registry.tangents import as_array, astype, listed, operand
from ..registry.writes import accumulated, asked, check_range, copied, overlaps_itself, setitem, spare
from ..tape.operations import user_site
from . import hints
from .calls import record
from .elements import is_made_in, note
from .selections import guarded_masks, overwrite_selection, put_selected
from .tracer import Tracer, heed_layout, unsupported


def assign(x: Tracer, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    if not x._is_here():  # another thread writes into an array that a trace is watching
        shadow(x)[index] = value
        return
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{x.__class__.__name__!r} object does not support item assignment")
    value = listed(value)
    check_range(x.dtype, value)
    if isinstance(value, list | tuple) and find_traced((value,)) is not None:
        value = operand(value)
    _check_dtype(x, value)
    if note(x, index, value):
        return
    new = put_selected(x, index, value)
    install(x, setitem(x, guarded_masks(index), value) if new is NotImplemented else new)


def fill(x: Tracer, value: Any) -> None:
    """``x[...] = value``, broadcast."""
    _require_own(x)
    assign(x, ..., value)


def write_result(out: Any, result: Any, casting: Any = "same_kind") -> Any:
    """What ``out=`` does; returns ``out``."""
    if not is_traced(out) and is_traced(result) and not result._carries():  # no derivative is lost in it
        result._ledger.problems.append(f"{user_site()}: out= is an array that cannot be followed")
        np.copyto(out, decided(result), casting)
        return out
    _require_own(out)
    overwrite(out, result, casting)
    return out


def overwrite(x: Tracer, value: Any, casting: Any = "same_kind") -> None:
    """What ``x += v`` does with its result: same shape, cast to the dtype of ``x``."""
    if not x._is_here():
        shadow(x)[...] = value
        return
    if overwrite_selection(x, value):
        return
    _check_dtype(x, value)
    shape, dtype = np.shape(value), np.result_type(value)
    if shape != x.shape:
        raise ValueError(f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast "
                         f"shape {shape}")
    if not np.can_cast(dtype, x.dtype, casting):
        raise TypeError(f"{user_site()}: cannot cast the result from {dtype} to {x.dtype} with casting rule "
                        f"{casting!r}")
    if not is_traced(value) or value._ledger is not x._ledger:
        install(x, setitem(x, ..., value))
    else:
        install(x, astype(value, x.dtype) if dtype != x.dtype else _another(value))


def traced_result(x: Tracer, t: ArrayType) -> Any:
    """A result of a differentiation inside of a trace, of the kind that its type says: what it was may be changed."""
    if t.kind == "array":
        plain = shadow(x)  # without axes, another one would be a number
        return _another(x) if plain.ndim and plain.flags.c_contiguous else np.copy(x, order="C")
    if t.kind == "python" and isinstance(x, np.ndarray | np.generic):
        return methods["item"](x)
    return x[()] if t.kind == "scalar" and isinstance(x, np.ndarray) else x


def install(x: Tracer, new: Any) -> None:
    """Let ``x`` stand for a new value, in everything it is a view of."""
    standing = [(x, _fitting(x, new))]
    while (look := x._look) is not None:
        x, new = look.parent, look.written(standing[-1][1])
        standing.append((x, _fitting(x, new)))
    outer = x._ledger
    x._mark_written()
    heed_layout()  # what shares memory with what, depends on it
    for tracer, value in standing:
        tracer._point_to(value)
    if x._ledger is not outer:
        x._ledger.settle_views(x)


def _fitting(x: Tracer, new: Any) -> Any:
    """What ``x`` may stand for instead, laid out as its array is."""
    trace, array = x._ledger, shadow(x)
    if any(x is shown for shown in trace.shown):
        raise MutationError(f"{user_site()}: this writes into an array at whose memory something else looks, which "
                            "would not see it (x.data, x.view(dtype)). Write into a copy: y = x.copy()")
    if not array.flags.writeable:
        for running in state.traces:  # the function may catch it, and goes another way at other calls
            running.problems.append("it tries to write into an array that is read-only")
        raise ValueError("assignment destination is read-only")
    if not array.flags.forc and overlaps_itself(array):
        raise MutationError(f"{user_site()}: this writes into an array whose elements share memory, as those of "
                            "np.broadcast_arrays and np.meshgrid(copy=False) do. Write into a copy: y = x.copy()")
    running = state.traces[-1] if state.traces else trace
    if (x._is_captured() and not trace.effects) or (running is not trace and not is_made_in(x, running)):
        raise MutationError(f"{user_site()}: this writes into an array that the function has not made itself but reads "
                            "from elsewhere. Return the new values instead, or work on a copy: y = x.copy()")
    if not is_traced(new) or new._ledger not in (trace, running):
        raise MutationError(f"{user_site()}: a value of an inner differentiation cannot be written into an array "
                            "outside of it; return it instead")
    if not isinstance(new, np.ndarray):  # what NumPy makes of arrays without dimensions
        new = as_array(new)
    return setitem(x, ..., new) if shadow(new).strides != array.strides else new


def accumulate(ufunc: Any, x: Any, index: Any, *value: Any) -> None:
    """``ufunc.at(x, index, *value)``."""
    if not isinstance(x, np.ndarray):
        asked(ufunc.at, spare((x, index, *value)), {})  # raises what NumPy raises
    _require_own(x)
    if not x._is_here():
        ufunc.at(shadow(x), index, *value)
        return
    value = tuple(_known(x, v) if isinstance(v, list | tuple) else v for v in value)
    accumulated(ufunc, shadow(x), shadow(index), *shadow(value))  # raises what NumPy raises
    adds = ufunc in (np.add, np.subtract)
    index = guarded_masks(index) if adds else decided(index)  # how often an element is met
    if value:
        _check_dtype(x, *value)
    with Quiet():  # NumPy has warned
        install(x, accumulated(ufunc, x, index, *value))


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """``np.copyto``."""
    _require_own(dst)
    _check_dtype(dst, src)
    if where is not True:
        src = np.where(_known(dst, where), astype(_known(dst, src), dst.dtype), dst)
    assign(dst, ..., src)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """``np.put``."""
    _require_own(a)
    at, n = np.ravel(_known(a, ind)), a.size
    if mode == "wrap":
        at = np.remainder(at, n)
    elif mode == "clip":
        at = np.minimum(np.maximum(at, 0), n - 1)
    if np.size(at):
        check_range(a.dtype, v)
        _check_dtype(a, v)
        overwrite(a, np.reshape(setitem(np.ravel(a), at, _repeated(a, v, np.size(at))), a.shape))


def putmask(a: Any, mask: Any, values: Any) -> None:
    """``np.putmask``."""
    _require_own(a)
    if a.size:
        repeated, where = np.reshape(_repeated(a, values, a.size), a.shape), np.reshape(_known(a, mask), a.shape)
        copyto(a, repeated, "unsafe", where)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """``np.place``."""
    _require_own(arr)
    if np.may_share_memory(shadow(arr), shadow(vals)):
        raise unsupported("np.place of values that it overwrites")
    put(arr, _constant(arr, np.flatnonzero(decided(mask))), vals)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """``np.put_along_axis``."""
    _require_own(arr)
    if axis is None:
        put(arr, indices, np.broadcast_to(values, np.shape(indices)))
        return
    n, at = arr.ndim, axis % arr.ndim
    index = [_constant(arr, np.arange(extent).reshape([-1 if k == i else 1 for k in range(n)]))
             for i, extent in enumerate(arr.shape)]
    index[at] = indices
    assign(arr, tuple(index), values)


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """``np.fill_diagonal``."""
    _require_own(a)
    positions = np.zeros(a.shape, bool)
    np.fill_diagonal(positions, True, wrap)
    put(a, _constant(a, np.flatnonzero(positions)), val)


def nan_to_num(x: Any, copy: Any = True, *args: Any, **kwargs: Any) -> Any:
    """``np.nan_to_num``."""
    if decided(copy):
        return record(np.nan_to_num, (x, True, *args), kwargs)
    _require_own(x)
    overwrite(x, np.nan_to_num(x, True, *args, **kwargs))
    return x if x.ndim else x[()]


def _setter(name: str, assign_to: Callable[[Any, Any], None]) -> None:
    """What an assignment to an attribute of an array does, where NumPy finds nothing wrong."""
    def assigned(x: Tracer, value: Any) -> None:
        array = shadow(x)
        if not is_traced(value) and hasattr(type(value), "__array_function__"):  # x.flat of a traced array
            value = np.copy(value)
        if not x._is_here():
            setattr(array, name, value)
            return
        setattr(copied(array) if isinstance(array, np.ndarray) else array, name, shadow(value))
        assign_to(x, value)

    setters[name] = assigned


def _put_all(x: Any, value: Any) -> None:
    """The elements of ``value`` one after the other, as often as it takes."""
    if isinstance(value, list | tuple) and find_traced((value,)) is not None:
        value = np.stack(value)
    if np.may_share_memory(shadow(x), shadow(value)):  # NumPy reads what it has written by then
        raise unsupported("x.flat = ... of elements of x", "Copy them first: x.flat = y.copy()")
    if np.size(value):
        put(x, _constant(x, np.arange(x.size)), np.ravel(_known(x, value)))


def _reshape(x: Any, shape: Any) -> None:
    """Other views look at the array as it is."""
    new = np.reshape(shadow(x), decided(shape)).shape
    if x.shape != new:
        raise unsupported("x.shape = ...", f"Bind the name to a view of the array: x = x.reshape({new})")


_setter("real", lambda x, value: assign(np.real(x), ..., value))
_setter("imag", lambda x, value: assign(np.imag(x), ..., value))
_setter("flat", _put_all)
_setter("shape", _reshape)

IN_PLACE: dict[Any, Callable[..., Any]] = {
    np.copyto: copyto, np.put: put, np.putmask: putmask, np.place: place, np.put_along_axis: put_along_axis,
    np.fill_diagonal: fill_diagonal, np.nan_to_num: nan_to_num,
}  # fmt: skip
_CHANGING: dict[str, Callable[..., Any]] = {
    "fill": fill, "put": put, "sort": lambda x, axis=-1, **options: overwrite(x, np.sort(x, axis, **options)),
    "partition": lambda x, kth, axis=-1, **options: overwrite(x, np.partition(x, kth, axis, **options)),
}  # fmt: skip
CHANGING = frozenset(_CHANGING)  # methods that change an array
methods |= _CHANGING


def _another(x: Any) -> Any:
    """The same values on a variable of their own."""
    return np.copy(x) if x.dtype.kind == "b" else np.positive(x)


def _constant(x: Tracer, array: np.ndarray) -> Any:
    """An array that is the same at every call, on the tape of ``x``."""
    return x._ledger.tracer(x._ledger.constant(array))


def _known(x: Tracer, value: Any) -> Any:
    """An operand beside ``x``: numbers and lists of numbers as constants."""
    return value if is_traced(value) or isinstance(value, np.ndarray) else _constant(x, np.asarray(value))


def _repeated(x: Tracer, values: Any, n: int) -> Any:
    """The elements of an array one after the other, again and again, to ``n`` in all."""
    flat = np.ravel(_known(x, values))
    return flat if np.size(flat) == n else flat[_constant(x, np.arange(n) % np.size(flat))]


def _require_own(out: Any) -> None:
    if not is_traced(out):
        if (library := hints.without_rule()).endswith("no rule yet: "):
            raise LostDerivativeError(f"{user_site()}: {library}writing a traced result into its own plain array would "
                                      f"drop its derivative. Instead: {hints.RULE}; {hints.PLAIN}")
        raise MutationError(f"{user_site()}: out= is an array that the function has not made itself (a {typeof(out)}), "
                            "into which a traced result cannot be written. Use the returned value: y = f(x)")


def _check_dtype(x: Tracer, value: Any) -> None:
    if isinstance(value, Tracer) and value._carries() and x.dtype.kind not in "fc":
        raise LostDerivativeError(f"{user_site()}: writing a traced {typeof(value)} into an array of dtype {x.dtype} "
                                  "would drop its derivative. Make the array with a floating dtype: np.zeros(n), not "
                                  f"np.zeros(n, {x.dtype})")
