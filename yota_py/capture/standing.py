"""Users' rules on tracers of a tape that is written when its trace has ended: what the rules call by name, of SciPy, of
``math``, is exchanged for what notices tracers, as while a function is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import CellType, FunctionType
from typing import Any

from ..base import locks
from ..base.dispatch import find_traced, original
from ..base.ownership import is_library_code
from ..base.unwinding import Holding, Passing, state
from ..registry.registry import primitive_of
from ..tracing.stand_ins import Installed, stand_in_for
from ..tracing.traces import Trace
from .bytecode import names_of, nested
from .places import Attribute, Item, Spot
from .rules import is_of_library

LOCK_SECONDS = 2.0  # for which another thread's trace is waited for

_NOTHING = nullcontext()


def standing_in(rule: Callable[..., Any], args: Any) -> AbstractContextManager[Any]:
    """The block in which a user's rule, or its pullback, is called with these arguments."""
    trace = getattr(find_traced(args), "_ledger", None)
    if not isinstance(trace, Trace) or any(trace is running for running in state.traces):
        return _NOTHING
    return _Standing(trace, rule)


class _Standing(Passing):
    """The block itself. Names stay as they are if another thread is tracing."""

    def __init__(self, trace: Trace, rule: Callable[..., Any]) -> None:
        self._trace, self._rule = trace, rule

    def begin(self) -> None:
        alone = Holding(locks.tracing, LOCK_SECONDS).__enter__()  # these end before this one does
        _Modules(self._trace).__enter__()
        if alone:
            _Names(self._rule).__enter__()


class _Names(Passing):
    """Stand-ins in the closures and under the global names that a rule reads."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self._exchanged = [(place, value, new) for place, value in _read_by(rule, set())
                           if (new := stand_in_for(value)) is not None]  # fmt: skip

    def begin(self) -> None:
        for place, _, new in self._exchanged:
            place.write(new)

    def end(self) -> None:
        for place, value, new in self._exchanged:
            if place.read() is new:
                place.write(value)


class _Modules(Installed):
    """Stand-ins in modules, for a trace that goes on."""

    def end(self) -> None:
        alive = self._trace.alive
        super().end()
        self._trace.alive = alive


def _read_by(fn: Any, known: set[int]) -> Iterator[tuple[Spot, Any]]:
    """What a rule, and the functions that it calls, find in closures and under global names."""
    parts = (fn.func, *fn.args, *fn.keywords.values()) if isinstance(fn, partial) else fn if type(fn) is tuple else ()
    for part in parts:
        yield from _read_by(part, known)
    if not isinstance(fn, FunctionType) or id(fn) in known or primitive_of(fn) is not None or is_of_library(fn):
        return
    known.add(id(fn))
    found: list[tuple[Spot, Any]] = [
        (Attribute(cell, "cell_contents"), cell.cell_contents) for cell in fn.__closure__ or () if cell != CellType()
    ]
    names = () if is_library_code(fn.__code__, fn.__globals__) else map(names_of, nested(fn.__code__))
    found += [
        (Item(fn.__globals__, name), fn.__globals__[name]) for part in names for name in part.globals
        if name in fn.__globals__
    ]  # fmt: skip
    for place, value in found:
        yield place, original(value)
        yield from _read_by(value, known)
    for value in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()):
        yield from _read_by(value, known)
