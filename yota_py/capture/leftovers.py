"""Traced values that a function has left behind become what they stand for."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..base.containers import base_of, is_proxy, refill, with_items
from ..base.dispatch import is_traced, original, shadow
from ..registry.patches import standing_for
from ..tracing.shells import is_recording, real
from ..tracing.tracer import Tracer, tracers_in
from ..tracing.traces import Trace
from .kinds import IMMUTABLE
from .places import objects_in, replace_in

MAX_OBJECTS = 100_000  # looked into
MAX_DEPTH = 50  # of tuples in one another, as keys
_NOTHING_LEFT = (*IMMUTABLE, np.ndarray, type, types.ModuleType, types.BuiltinFunctionType)


class Leftovers:
    """What objects hold after a trace; its tracers are taken out where they stand. What is ``known`` from before the
    trace is not looked into."""

    def __init__(self, trace: Trace, known: Callable[[Any], bool] = lambda value: False) -> None:
        self._trace, self._is_known = trace, known
        self.found = False
        self._seen: dict[int, Any] = {}
        self._made: dict[int, Any] = {}  # by the identity of what stood for it, which has been seen
        self._pending: list[Any] = []  # lists may be linked, and long

    def plain(self, value: Any) -> Any:
        """What a value is to the caller: itself, unless it is a tracer or a tuple of them; ``clear`` looks into it."""
        if is_traced(value):
            if not self._is_ours(value):
                return value
            self.found = True
            return shadow(value)
        if is_recording(value):
            self.found = True
            return real(value)
        if is_proxy(value):
            return value
        if (function := original(value)) is not value:  # which the library has, instead of a stand-in
            return function
        of_method = type(value) is types.MethodType and type(value.__self__) in standing_for
        if (make := _method if of_method else standing_for.get(type(value))) is not None:
            if id(value) not in self._made:
                self._seen[id(value)], self.found = value, True
                self._made[id(value)] = make(value, self.plain)
            return self._made[id(value)]
        if isinstance(value, tuple):
            items = [self.plain(item) for item in tuple.__iter__(value)]
            if any(a is not b for a, b in zip(items, tuple.__iter__(value), strict=True)):
                value = with_items(value, items)  # and what it has besides its items is looked into
        if isinstance(value, _NOTHING_LEFT) or id(value) in self._seen or self._is_known(value):
            return value
        if len(self._seen) < MAX_OBJECTS:
            self._seen[id(value)] = value
            self._pending.append(value)
        return value

    def _is_ours(self, traced: Any) -> bool:
        """Whether a value belongs to the trace, or to one within it."""
        trace = tracers_in(traced)[0]._ledger
        return trace is self._trace or (trace.level > self._trace.level and trace.thread == self._trace.thread)

    def clear(self, objects: Iterable[Any] = ()) -> None:
        """Take tracers out of these, of all that has been met, and of what that holds."""
        for met in objects:
            self.plain(met)
        while self._pending:
            value: Any = self._pending.pop()
            if isinstance(value, dict):
                base: Any = base_of(type(value))
                for key in objects_in([*base.__iter__(value)]):
                    self.plain(key)
            elif isinstance(value, set):
                items = {id(item): item for item in value}
                if any(self.plain(item) is not item for item in items.values()):
                    refill(value, [self.plain(item) for item in items.values()])
            elif isinstance(value, types.FunctionType):
                for cell in value.__closure__ or ():
                    replace_in(cell, self.plain)
            elif isinstance(value, types.MethodType):
                self.plain(value.__self__)
            elif isinstance(value, functools.partial):  # which may be a method of a traced array
                state = self.plain(value.func), self.plain(value.args), value.keywords, vars(value)
                if state[0] is not value.func or state[1] is not value.args:
                    functools.partial.__setstate__(value, state)  # type: ignore[attr-defined]
                self.plain(value.keywords)
            elif isinstance(value, BaseException):
                self.plain((value.__cause__, value.__context__))
            elif isinstance(value, Iterator):  # of a list, perhaps; what is in frames stays
                for part in gc.get_referents(value):
                    self.plain(part) if isinstance(part, list) else None
            replace_in(value, self.plain)


def _method(method: types.MethodType, plain: Callable[[Any], Any]) -> Any:
    """The same of what the library has."""
    return getattr(plain(method.__self__), method.__name__)


def take_out(tracers: list[Tracer], others: Sequence[Any]) -> bool:
    """Put plain values in the places of traced ones, in all that holds them as keys; whether that could be done. They
    are no keys in the ``others``, where they stand too.

    What a traced value is looked up by has been decided, so a key is the same at each call of the trace.
    """
    done = True
    found = {id(container): container for container in _holders(tracers, others)}
    for container in found.values():
        if isinstance(container, dict):
            base: Any = base_of(type(container))
            items = [(shadow(key), dict.__getitem__(container, key)) for key in base.__iter__(container)]
            refill(container, items)
        elif isinstance(container, set):
            refill(container, [shadow(member) for member in set.__iter__(container)])
        else:
            done = False
    return done


_TABLES = dict, set, frozenset
_ASKED = [object()]
_ASKING = sys.getrefcount(_ASKED[0]) - 1  # references that come of asking how many there are


def _holders(keys: list[Any], others: Sequence[Any]) -> Iterator[Any]:
    """Dicts and sets that hold these values, themselves or in tuples."""
    known = {id(other) for other in others}
    for _ in range(MAX_DEPTH):
        keys = _held_elsewhere(keys, others)
        if not keys:
            break
        found = _referrers(keys)
        if _held_elsewhere(keys, found) and gc.get_freeze_count():
            gc.unfreeze()  # with this the garbage collector takes longer, no more
            found = _referrers(keys)
        ids = {*map(id, keys)}
        for holder in found:
            if issubclass(type(holder), _TABLES) and not ids.isdisjoint(map(id, _members(holder))):
                yield holder
        keys = [x for x in found if issubclass(type(x), tuple) and id(x) not in known]


def _referrers(keys: list[Any]) -> list[Any]:
    """What refers to some objects, of all but what is frozen; the arguments of the question do with Python 3.13."""
    asked = (*keys,)
    return [x for x in gc.get_referrers(*asked) if x is not asked]


def _held_elsewhere(keys: list[Any], holders: Sequence[Any]) -> list[Any]:
    """Those of some objects to which there are more references than from these holders."""
    counts = Counter[int]()
    for holder in {id(holder): holder for holder in (keys, *holders)}.values():
        counts.update(map(id, gc.get_referents(holder)))
    more = [i for i in range(len(keys)) if sys.getrefcount(keys[i]) > counts[id(keys[i])] + _ASKING]
    return [*{id(keys[i]): keys[i] for i in more}.values()]


def _members(table: Any) -> Iterator[Any]:
    return next(cls for cls in _TABLES if isinstance(table, cls)).__iter__(table)
