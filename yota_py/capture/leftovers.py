"""Traced values that a function has left behind in the caller's objects become what they stand for."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..base.containers import base_of, is_proxy, slots_of, with_items
from ..base.dispatch import is_traced, shadow
from ..base.unwinding import at_once
from ..tracing.tracer import tracers_in
from ..tracing.traces import Trace
from .kinds import IMMUTABLE
from .places import set_attribute, set_item

MAX_OBJECTS = 100_000  # looked into
_NOTHING_LEFT = (*IMMUTABLE, np.ndarray, type, types.ModuleType, types.BuiltinFunctionType)


class Leftovers:
    """What objects hold after a trace; its tracers are taken out where they stand."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.found = False
        self._seen: dict[int, Any] = {}
        self._pending: list[Any] = []  # lists may be linked, and long

    def plain(self, value: Any) -> Any:
        """What a value is to the caller: itself, unless it is a tracer or a tuple of them; ``clear`` looks into it."""
        if is_traced(value):
            if not self._is_ours(value):
                return value
            self.found = True
            return shadow(value)
        if is_proxy(value):
            return value
        if isinstance(value, tuple):
            items = [self.plain(item) for item in tuple.__iter__(value)]
            if any(a is not b for a, b in zip(items, tuple.__iter__(value), strict=True)):
                return with_items(value, items)
        if not isinstance(value, _NOTHING_LEFT) and id(value) not in self._seen and len(self._seen) < MAX_OBJECTS:
            self._seen[id(value)] = value
            self._pending.append(value)
        return value

    def _is_ours(self, traced: Any) -> bool:
        """Whether a value belongs to the trace, or to one within it."""
        trace = tracers_in(traced)[0]._ledger
        return trace is self._trace or (trace.level > self._trace.level and trace.thread == self._trace.thread)

    def clear(self) -> None:
        """Take tracers out of all that has been met, and of what that holds."""
        while self._pending:
            value: Any = self._pending.pop()
            if isinstance(value, dict):
                self._replace(value, dict.items(value))
            elif isinstance(value, list | deque):
                self._replace(value, enumerate(base_of(type(value)).__iter__(value)))  # type: ignore[attr-defined]
            elif isinstance(value, set):
                items = {id(item): item for item in value}
                if any(self.plain(item) is not item for item in items.values()):
                    plain = [self.plain(item) for item in items.values()]
                    at_once(partial(value.clear), partial(value.update, plain))
            elif isinstance(value, types.FunctionType):
                for cell in value.__closure__ or ():
                    self._attributes(cell, ["cell_contents"])
                self._attributes(value, ["__defaults__", "__kwdefaults__"])
            elif isinstance(value, types.MethodType):
                self.plain(value.__self__)
            elif isinstance(value, BaseException):
                value.args = self.plain(value.args)
                self.plain((value.__cause__, value.__context__))
            elif isinstance(value, Iterator):  # of a list, perhaps; what is in frames stays
                for part in gc.get_referents(value):
                    self.plain(part) if isinstance(part, list) else None
            own = getattr(value, "__dict__", ())
            self._attributes(value, [*(own if isinstance(own, dict) else ()), *slots_of(type(value))])

    def _replace(self, container: Any, items: Iterable[tuple[Any, Any]]) -> None:
        for key, item in list(items):
            if (new := self.plain(item)) is not item:
                set_item(container, key, new)

    def _attributes(self, obj: Any, names: Iterable[str]) -> None:
        for name in names:
            try:
                item = getattr(obj, name)
            except (AttributeError, ValueError):  # ValueError: an empty cell
                continue
            if (new := self.plain(item)) is not item:
                set_attribute(obj, name, new)
