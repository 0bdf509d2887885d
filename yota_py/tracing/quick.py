"""The short way to the tape, for calls of which nothing has to be asked: functions that are one operation, of numbers
and arrays of real floating-point numbers that are up to date, on a trace that records all as it comes.

It gives what ``Trace.record`` gives; ``None`` stands for everything else, also for what raises: the long way raises it.
"""

from __future__ import annotations

import operator
from _thread import get_ident
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType, MappingProxyType
from typing import Any

import numpy as np
from numpy import ndarray

from ..base import locks
from ..base.containers import NUMBERS
from ..base.floating import code_of_calls
from ..base.ownership import users_frame
from ..base.types import typeof
from ..base.unwinding import state
from ..registry.kernels import Map, Product, Reduce
from ..registry.registry import Primitive, entries
from ..tape.operations import Call, Site, site_of, variable
from ..tape.recorder import is_large
from .tracer import Status, Tracer, tracers_of
from .views import Look

_NUMBERS = frozenset([np.float64, float])
_RESULTS = {cls: tracers_of(cls) for cls in (ndarray, *_NUMBERS, np.float32, np.float16, np.longdouble)}
_TRACERS, _ARRAYS = frozenset(map(tracers_of, [ndarray, *_NUMBERS])), tracers_of(ndarray)
_BOUNDS = frozenset([int, type(None)])  # of slices
_PLAIN = _NUMBERS | {int}
_KERNELS = (Map, Product, Reduce)
_ACTIVE = Status.ACTIVE
MAX_SPOTS = 2**14
NOTHING: Mapping[str, Any] = MappingProxyType({})
_AXES, _PLAIN_AXES = frozenset(["axis", "keepdims"]), frozenset([int, bool])

Spot = tuple[CodeType, int, CodeType, Site]  # code, the identity of its global names, what calls there, its line
_spots: dict[tuple[int, int], Spot] = {}  # by the identity of the code and the instruction


def dispatched(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], frame: FrameType) -> Any:
    """The same with keywords that say over which axes a function goes."""
    if kwargs and not (kwargs.keys() <= _AXES and all(map(_is_axis, kwargs.values()))):
        return None
    return quickly(fn, args, frame, kwargs)


def _is_axis(x: Any) -> bool:
    return x is None or type(x) in _PLAIN_AXES or (type(x) is tuple and all(type(k) is int for k in x))


def quickly(
    fn: Callable[..., Any], args: tuple[Any, ...], frame: FrameType, kwargs: Mapping[str, Any] = NOTHING
) -> Any:
    """What a recorded call gives, by default one without keywords; ``frame`` is the user's, or one that the user's has
    called."""
    entry = entries.get(fn)
    if entry is None or not (_is_quick(entry) if entry.quick is None else entry.quick):
        return None
    trace, names, values, status = None, [], [], 0
    for x in args:
        if (cls := type(x)) in _TRACERS:
            if trace is None:
                trace = x._ledger
                statuses = trace._status
            if x._ledger is not trace or x._noted is not None or (x._look is not None and is_stale(x)):
                return None
            value, name = x._value, x._var
            if (cls := type(value)) is ndarray:
                if value.dtype.kind != "f":
                    return None
            elif cls not in _NUMBERS:
                return None
            names.append(name)
            values.append(value)
            if (own := statuses.get(name.id, 0)) > status:
                status = own
        elif cls in _PLAIN:
            names.append(x)
            values.append(x)
        else:
            return None
    if trace is None or not trace.alive or trace.sets_errors or trace.thread != get_ident():
        return None
    if entry.unasked and np.float64 not in map(type, values):
        return None
    if trace.opens and (entry.lowering is not None or trace.unknown):
        return None
    return _recorded(trace, fn, tuple(names), values, status, frame, kwargs)


def taken(x: Any, index: Any, frame: FrameType) -> Any:
    """``x[index]`` of an array, by whole numbers and slices."""
    trace, value = x._ledger, x._value
    if type(x) not in _TRACERS or x._noted is not None or (x._look is not None and is_stale(x)):
        return None
    if type(value) is not ndarray or value.dtype.kind != "f":
        return None
    if type(index) is not int and not _is_fixed(index):
        return None
    if trace.opens or not trace.alive or trace.sets_errors or trace.thread != get_ident():
        return None
    y = _recorded(trace, operator.getitem, (x._var, index), (value, index), trace.status(x._var), frame)
    if type(y) is _ARRAYS:
        y._look_at(Look(x, operator.getitem, (index,), {}))
    return y


def _is_fixed(index: Any) -> bool:
    """Whether an index is made of Python's own whole numbers and slices of such."""
    for part in index if type(index) is tuple else (index,):
        if (cls := type(part)) is slice:
            if not (type(part.start) in _BOUNDS and type(part.stop) in _BOUNDS and type(part.step) in _BOUNDS):
                return False
        elif cls is not int:
            return False
    return True


def is_stale(view: Tracer) -> bool:
    """Whether something has been assigned to the array at which a view looks, since it did so."""
    root = view if view._owner is None else view._owner
    return view._version != root._version


def _recorded(
    trace: Any, fn: Any, names: tuple[Any, ...], values: Any, status: Any, frame: FrameType,
    kwargs: Mapping[str, Any] = NOTHING,
) -> Any:  # fmt: skip
    """The tracer of a result, whose computation is recorded."""
    spot, site = None, trace.site if trace.opens else None
    if site is None:
        spot = _spots.get((id(frame.f_code), frame.f_lasti))
        if spot is None or spot[1] != id(frame.f_globals):
            users = users_frame(frame)
            if users is None:
                return None
            spot, frame = _spot_of(users), users
        site = trace.site or spot[3]
    try:
        if spot is not None and state.traces and (state.traces[0] is trace or NUMBERS.issuperset(map(type, values))):
            value = FunctionType(spot[2], frame.f_globals)(fn, values, kwargs)
        else:
            value = fn(*values, **kwargs)
    except Exception:  # any: it is raised again on the long way
        return None
    if (cls := type(value)) is ndarray:
        if trace.opens and is_large(value):  # of which the trace keeps no memory
            return None
        if value.dtype.kind != "f" or (value.base is not None and (fn is not operator.getitem or not value.size)):
            return None
    elif cls not in _RESULTS:
        return None
    op = Call(fn, names, dict(kwargs), typeof(value), site)
    with locks.tables:
        ops = trace.tape.ops
        ops.append(op)
        dropped = status == _ACTIVE and is_large(value)  # its derivative computes it again
        trace.values.append(None if dropped else value)
        var = variable(len(ops))
        trace._status[var.id] = status
    if var.id >= trace.look_at:
        trace.grown()
    return _RESULTS[cls](trace, var, value)


def _spot_of(frame: FrameType) -> Spot:
    """Where the user's code is. Its name space is not kept alive."""
    key, space = (id(frame.f_code), frame.f_lasti), id(frame.f_globals)
    spot = _spots.get(key)
    if spot is None or spot[1] != space:
        if len(_spots) >= MAX_SPOTS:
            _spots.clear()
        _spots[key] = spot = frame.f_code, space, code_of_calls(frame), site_of(frame.f_code, frame.f_lineno)
    return spot


def _is_quick(entry: Primitive) -> bool:
    """Whether a call of a function is to be recorded and nothing else; its entry remembers it."""
    entry.quick = (
        entry.known and isinstance(entry.kernel, _KERNELS) and entry.rule is not None
        and ((entry.decides is None and entry.raises is None) or entry.unasked)
        and entry.instead is None and entry.body is None
        and not (entry.inline or entry.users or entry.nondiff or entry.immediate)
    )  # fmt: skip
    return entry.quick
