"""Clocks that a traced function reads: operations of the outermost trace, which run again at each call.

The first are read before a program runs, as random numbers are drawn. Others are read within it, ``after`` what the
function has computed so far: then times that a function measures are those of its computations. Decisions on times, as
on random numbers, are ones that other calls take only if there are few ways to take them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.impure import Clock, Impure
from ..base.ownership import is_library_frame, is_ours
from ..base.types import LARGE, ArrayType, typeof
from ..base.unwinding import state
from ..registry.patches import patch
from ..tape.operations import Call, Guard, Variable, operands
from .tracer import Status
from .traces import Trace

FEW_DECISIONS = 2  # on whole numbers: with more, each call may take others
_NAMES = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


def _read(clock: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
    """The stand-in for a clock."""
    frame = sys._getframe(1)
    while is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    trace: Trace = state.traces[0]
    with state.unwatched:
        value = clock(*args, **kwargs)
        if is_library_frame(frame) or (type(value) is int and value >= LARGE):
            problem = f"it calls {clock.__name__}, whose answer may differ next time"
            if trace.effects and trace.give_up is not None:
                trace.give_up(problem)
            trace.problems.append(problem)
            return value
        trace.clocks += 1
        after = _last(trace)
        fn, kwargs = Clock(clock, first=after is None), {} if after is None else {"after": after}
        return trace.wrap(trace.append(Call(fn, (), kwargs, typeof(value), trace.origin()), value), value,
                          Status.INACTIVE)  # fmt: skip


def _last(trace: Trace) -> list[Variable] | None:
    """What has been computed since a clock was read before, and nobody has used yet; ``None`` if nothing is computed,
    and no clock was read but first ones."""
    used: set[Variable] = set()
    last = list[Variable]()
    for i in range(len(trace.tape), 0, -1):
        op, var = trace.tape[i], Variable(i)
        if not isinstance(op, Call) or isinstance(op.fn, Impure):
            if not (isinstance(op, Call) and isinstance(op.fn, Clock)):
                continue
            return last if last or not op.fn.first else None
        if var not in used and isinstance(op.type, ArrayType) and trace.status(var) != Status.CONSTANT:
            last.append(var)
        used.update(operands(op))
    return last or None


def problems_of_decisions(trace: Trace) -> list[str]:
    """Why decisions that a function has taken on drawn numbers and times are none that other calls take; nothing if
    they may: they are true or false, or a few whole numbers."""
    varies: set[int] = set()
    values = []
    for var, op in trace.tape:
        if isinstance(op, Guard):
            values += [op] if op.var.id in varies and not isinstance(op.expected, bool) else []
        elif isinstance(op, Call) and (isinstance(op.fn, Impure) or any(x.id in varies for x in operands(op))):
            varies.add(var.id)
    if len(values) <= FEW_DECISIONS and all(isinstance(op.expected, int) for op in values):
        return []
    what = "random numbers" if trace.draws else "times"
    return [f"{values[0].site}: it decides on the values of {what}, which are others at each call"]


for _name in _NAMES:
    for _full in (_name, f"{_name}_ns"):
        if hasattr(time, _full):
            patch(time, _full, partial(_read, getattr(time, _full)), anywhere=True)
