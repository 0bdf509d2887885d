"""Arrays that are filled element by element, or row by row: ``s[t] = a * s[t - 1] + b`` in a loop.

An assignment at a position that is known is noted, not made. Who reads that position gets what was assigned; and when
the array itself is wanted, all that was noted is put into it at once. So the cost of a write does not depend on the
size of the array, forward and backward.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import is_traced, shadow
from ..base.types import ArrayType, typeof
from ..base.unwinding import state
from ..registry.tangents import astype
from ..registry.writes import setitem
from . import selections
from .quick import taken
from .tracer import Tracer, heed_layout, make_tracer
from .views import Look

Key = tuple[int, ...]


def select(x: Tracer, index: Any) -> Any:
    """``x[index]``."""
    with state.unwatched:
        if (element := taken(x, index, sys._getframe(2))) is not None:
            return element
        if x._noted is not None and (key := _key(x, index)) is not None and _length(x._noted) == len(key):
            if (known := noted_at(x, index)) is not None:
                return known
            if len(key) == x.ndim:
                return operator.getitem(_before(x), index)
        return selections.select(x, index)


def noted_at(x: Any, index: Any) -> Any:
    """What was assigned to an element or a row, if that is not yet in the array; a row is a view of it."""
    if not isinstance(x, Tracer) or x._noted is None or (key := _key(x, index)) is None or key not in x._noted:
        return None
    value = x._noted[key]
    if len(key) == x.ndim:
        return value
    row = make_tracer(x._ledger, *value._current())
    row._look_at(Look(x, operator.getitem, (index,), {}))
    return row


def note(x: Tracer, index: Any, value: Any) -> bool:
    """``x[index] = value`` of one element or row, for later; whether it has been noted."""
    key = _key(x, index)
    if key is None or not _is_ordinary(x):
        return False
    if (value := _fitting(x, value, x.shape[len(key) :])) is None:
        return False
    if x._noted is not None and _length(x._noted) != len(key):
        x._current()
    if x._noted is None:
        x._noted = {}
        x._ledger.will_settle(x)
    x._noted[key] = value
    x._mark_written()
    heed_layout()  # what shares memory with what, depends on it
    return True


def put_noted(x: Tracer) -> None:
    """Put what was noted into the array."""
    noted, before, trace = x._noted, _before(x), x._ledger
    x._noted = None
    k = _length(noted)
    with state.unwatched:
        if len(noted) == prod(x._value.shape[:k]):
            new = trace.record(np.stack, ([noted[key] for key in sorted(noted)],), {})
            new = new if k == 1 else trace.record(np.reshape, (new, x._value.shape), {})
        else:
            places = [trace.tracer(trace.constant(np.array(column))) for column in zip(*noted, strict=True)]
            rows = trace.record(np.stack, ([*noted.values()],), {})
            new = trace.record(setitem, (before, tuple(places), rows), {})
    x._point_to(new)


def put_rows(x: Tracer, cut: slice, rows: Any) -> None:
    """``x[cut] = rows``, after what was noted one by one."""
    noted, trace, n = x._noted, x._ledger, x._value.shape[0]
    before = [*range(n)[: cut.start or 0]]
    with state.unwatched:
        if cut.step is None and cut.stop == n and [*noted] == [(k,) for k in before] and len(before) > 1:
            first = trace.record(np.stack, ([*noted.values()],), {})
            new = trace.record(np.concatenate, ([first, rows],), {})
        else:
            x._current()
            new = trace.record(setitem, (_before(x), cut, rows), {})
    x._noted = None
    x._mark_written()
    x._point_to(new)


def _before(x: Tracer) -> Tracer:
    """What stands for an array as it is without what was noted."""
    return make_tracer(x._ledger, x._var, x._value)


def is_made_in(x: Tracer, trace: Any) -> bool:
    """Whether an array of a trace around this one is new since this one has begun: its function has made it."""
    begun = trace.around.get(id(x._ledger))
    return begun is not None and x._root._var.id > begun and not x._is_captured()


def as_now(x: Tracer, trace: Any) -> Tracer:
    """A value of a trace around this one, where this one computes with it: it is not to hear of later assignments."""
    return make_tracer(x._ledger, *x._current()) if is_made_in(x, trace) else x


def without(tracers: Sequence[Tracer], value: Any) -> Any:
    """A result with the values behind these tracers."""
    if any(value is t for t in tracers):
        return value._current()[1]
    return mapped(lambda item: without(tracers, item), value)


def _is_ordinary(x: Tracer) -> bool:
    """Whether an array may be written into, and all of its elements are its own."""
    trace, array = x._ledger, x._value
    if type(array) is not np.ndarray or x._look is not None or (x._is_captured() and not trace.effects):
        return False
    inner = bool(state.traces) and state.traces[-1] is not trace
    own = array.flags.c_contiguous and array.flags.writeable and not any(x is shown for shown in trace.shown)
    return own and trace.alive and not inner


def _length(noted: dict[Key, Any]) -> int:
    return len(next(iter(noted)))


def _key(x: Tracer, index: Any) -> Key | None:
    """The position of an element or row, from 0 on in each axis; ``None`` if it is none, or depends on values."""
    if not isinstance(x, np.ndarray):
        return None
    shape, parts = x._value.shape, index if type(index) is tuple else (index,)
    if not parts or len(parts) > len(shape):
        return None
    key = []
    for part, n in zip(parts, shape, strict=False):
        if not (type(part) is int or (isinstance(part, np.integer) and not is_traced(part))) or not -n <= part < n:
            return None
        key.append(int(part) % n)
    return tuple(key)


def _fitting(x: Tracer, value: Any, shape: tuple[int, ...]) -> Any:
    """What is assigned, in the dtype of the array; ``None`` if NumPy has more to do than to convert a number."""
    t = typeof(value)
    if not isinstance(t, ArrayType) or t.shape != shape or (is_traced(value) and not _is_of(x, value)):
        return None
    if t.dtype != x.dtype and np.result_type(shadow(value), x._value) != x.dtype:
        return None
    if not is_traced(value):
        return None if shape else x.dtype.type(value)
    if isinstance(value, np.ndarray) and not shape:
        value = value[()]
    value = value if t.dtype == x.dtype and t.kind != "python" else astype(value, x.dtype)
    return make_tracer(value._ledger, *value._current())  # as it is now: a row may be written into later


def _is_of(x: Tracer, value: Any) -> bool:
    return isinstance(value, Tracer) and value._ledger is x._ledger
