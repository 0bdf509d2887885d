"""Calls of elementwise functions with numbers: the short way, on which models that loop over numbers are traced."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.floating import at_users_line
from ..base.ownership import users_frame
from ..base.types import typeof
from ..base.unwinding import state
from ..registry.kernels import Map
from ..registry.registry import Primitive
from ..tape.operations import Call, Variable, site_of
from .tracer import tracers_of

_DOUBLE = frozenset([np.float64, float])
_TRACERS = frozenset(map(tracers_of, _DOUBLE))
_PLAIN = frozenset([np.float64, float, int])


def of_numbers(fn: Callable[..., Any], entry: Primitive | None, args: tuple[Any, ...]) -> Any:
    """What a recorded call gives, if it is of numbers in double precision that belong to one trace, and of a function
    of which there is nothing to ask; ``None`` for all others, and where it raises."""
    trace, names, values = None, [], []
    for x in args:
        if (cls := type(x)) in _TRACERS:
            if trace is None:
                trace = x._ledger
            if x._ledger is not trace or x._look is not None or type(x._value) not in _DOUBLE:
                return None
            names.append(x._var)
            values.append(x._value)
        elif cls in _PLAIN:
            names.append(x)
            values.append(x)
        else:
            return None
    if trace is None or not trace.is_plain or not _is_quick(entry) or trace.thread != threading.get_ident():
        return None
    frame = users_frame(sys._getframe(1))
    with state.unwatched:
        try:
            value = at_users_line(fn, values, frame=frame) if state.traces and state.traces[0] is trace else fn(*values)
        except Exception:  # any: it is raised again on the long way
            return None
        if type(value) not in _DOUBLE:
            return None
        site = trace.site or (None if frame is None else site_of(frame.f_code, frame.f_lineno))
        var = trace.append(Call(fn, tuple(names), {}, typeof(value), site), value)
        status = max([trace.status(x) for x in names if type(x) is Variable])
        return trace.wrap(var, value, status)


def _is_quick(entry: Primitive | None) -> bool:
    """Whether a call of a function is to be recorded and nothing else."""
    return (
        entry is not None and entry.known and type(entry.kernel) is Map and entry.rule is not None
        and entry.decides is None and entry.raises is None and entry.instead is None and entry.body is None
        and not (entry.inline or entry.users or entry.nondiff)
    )  # fmt: skip
