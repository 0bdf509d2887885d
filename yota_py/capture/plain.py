"""A call that has been traced and has happened: what the function has made of traced values, as its caller gets it."""

from __future__ import annotations

import dataclasses
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base import containers
from ..base.containers import dict_of, is_proxy, keys_of, with_items
from ..base.dispatch import is_traced
from ..base.ownership import is_library
from ..base.records import record
from ..errors import UntraceableError
from ..tape.trees import opened
from ..tracing.shells import is_recording, real
from ..tracing.tracer import Tracer
from .kinds import is_bound, is_builtin, is_of_library, is_plain
from .places import Holder, replace_in
from .recording import Recording

ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, range, type(Ellipsis))
_OWN = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")
WRITABLE = {types.FunctionType: {*_OWN, "__defaults__", "__kwdefaults__"}, types.CellType: {"cell_contents"}}
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)  # of a class that the function has made


@record(frozen=False)
class Performance:
    """A call that has been traced and has happened; ``changes`` are the items that it has replaced.

    By identity, ``copies`` are what stood for the caller's own containers among the arguments, and ``pictures`` what
    the containers that the function has made held while there were traced values in them.
    """

    recording: Recording
    output: Any
    result: Any = None
    changes: list[tuple[Holder, Any, Any]] = dataclasses.field(default_factory=list)
    pictures: dict[int, Any] = dataclasses.field(default_factory=dict)
    copies: dict[int, Holder] = dataclasses.field(default_factory=dict)

    def records(self) -> Iterator[Holder]:
        """Dataclasses among the arguments that have a dict of attributes, which may hold more than fields."""
        return (holder for holder in self.copies.values() if holder.names and dict_of(holder.target) is not None)

    @property
    def problems(self) -> list[str]:
        """Why another call might not be the same."""
        return self.recording.trace.problems


class Plain:
    """What a value that the function has made is to the caller: no tracers in it, and the caller's own containers."""

    def __init__(self, performance: Performance) -> None:
        self.trace = performance.recording.trace
        self.guards = performance.recording.captures.guards
        self.reals = {id(root): performance.recording.real(var) for var, root in self.trace.roots.items()}
        self.reals |= {key: view for key, (view, _) in performance.recording.captures.captured.views.items()}
        exchange = performance.recording.captures.exchange
        tuples = {key: old for key, (_, old, _) in performance.recording.captures.items.tuples.items()}
        copies = {key: holder.target for key, holder in performance.copies.items()}
        self.known = {**exchange.originals, **tuples, **copies}
        self.made: dict[int, Any] = {}
        old = (value for holder in exchange.holders.values() for value in holder.before.values())
        self.old = {id(value) for value in (*performance.recording.leaves, *old)}
        self.keep: list[Any] = []  # so that ids stay their own
        self.pictures = performance.pictures
        self._pending: list[Any] = []  # lists may be linked, and long

    def __call__(self, value: Any) -> Any:
        plain = self._plain(value)
        while self._pending:
            self._inside(self._pending.pop())
        return plain

    def _plain(self, value: Any) -> Any:
        if is_traced(value):
            return self._traced(value)
        if is_recording(value):
            return real(value)
        if id(value) in self.known:
            return self.known[id(value)]
        if id(value) in self.made:
            return self.made[id(value)]
        if is_proxy(value) or isinstance(value, ATOMS) or id(value) in self.old:
            return value
        self.keep.append(value)
        self.made[id(value)] = value
        if isinstance(value, tuple) or binds(value):
            if isinstance(value, types.MethodType) and is_traced(value.__self__):
                raise UntraceableError("it makes a method of a traced value")
            parts = [*tuple.__iter__(value)] if isinstance(value, tuple) else parts_of(value)
            items = [self._plain(item) for item in parts]
            if any(a is not b for a, b in zip(items, parts, strict=True)):
                self.made[id(value)] = (with_items if isinstance(value, tuple) else with_parts)(value, items)
            if isinstance(value, tuple) and type(value) is not tuple:  # SciPy's results have attributes besides
                replace_in(self.made[id(value)], self._plain)
            return self.made[id(value)]
        self._pending.append(value)
        return value

    def _inside(self, value: Any) -> None:
        """Take the tracers out of something that may stay itself."""
        if isinstance(value, list | dict):
            self.pictures[id(value)] = value.copy() if type(value) in (list, dict) else opened(value)
            if isinstance(value, dict) and any(self._plain(key) is not key for key in keys_of(value)):
                raise UntraceableError("it makes a dict with a key that holds a traced value")
            if isinstance(value, defaultdict) and callable(value.default_factory):
                self._factory(value.default_factory)
            replace_in(value, self._plain)
        elif isinstance(value, BaseException):
            self.pictures[id(value)] = opened(value)
            replace_in(value, self._plain)
            self._plain((value.__cause__, value.__context__))
        elif isinstance(value, types.FunctionType):
            if not self.guards.knows(value):
                self.pictures[id(value)] = held_by(value)
            for cell in value.__closure__ or ():
                self._plain(cell)
            replace_in(value, self._plain)
        elif isinstance(value, types.BuiltinFunctionType):
            if is_bound(value) and self._plain(value.__self__) is not value.__self__:
                raise UntraceableError(f"it makes a method of a {type(value.__self__).__name__}")
        elif isinstance(value, types.CellType):
            self.pictures[id(value)] = held_by(value)
            replace_in(value, self._plain)
        elif isinstance(value, type):
            if not (self.guards.knows(value) or is_of_library(value)):  # made in the call, so that nobody has read it
                replace_in(value, self._plain)
        elif isinstance(value, set | frozenset):
            if any(self._plain(member) is not member for member in value):
                raise UntraceableError("it makes a set with a member that holds a traced value")
        elif not (isinstance(value, np.ndarray | types.ModuleType) or is_builtin(value)):
            self._object(value)

    def _factory(self, factory: Any) -> None:
        """What makes the items of a ``defaultdict``: a program would use it again."""
        if not (isinstance(factory, type) or is_builtin(factory) or self.guards.knows(factory)):
            raise UntraceableError("it makes a defaultdict with a function of its own")

    def _object(self, value: Any) -> None:
        cls = type(value)
        self.pictures[id(value)] = held_by(value) if is_plain(cls) else opened(value)
        if is_library(cls.__module__) and not (dataclasses.is_dataclass(value) or cls is types.SimpleNamespace):
            if isinstance(value, staticmethod | classmethod):
                self._plain(value.__func__)
            elif isinstance(value, property):
                self._plain((value.fget, value.fset, value.fdel))
            elif not isinstance(value, _DESCRIPTORS):
                raise UntraceableError(f"it makes a {cls.__name__}, which may hold traced values")
            return
        replace_in(value, self._plain)
        self._plain(cls)

    def _traced(self, tracer: Tracer) -> Any:
        if (known := self.made.get(id(tracer))) is not None:
            return known
        if tracer._ledger is not self.trace:  # of a differentiation inside
            return self._plain(tracer._current()[1])
        value = tracer._current()[1]
        if not isinstance(value, np.ndarray):
            return value
        if id(tracer) in self.reals:
            made = self.reals[id(tracer)]
        elif tracer._look is not None:
            made = tracer._look.of(self._plain(tracer._look.parent))
        else:
            made = np.array(value)
            made.flags.writeable = value.flags.writeable
        self.keep.append(tracer)
        self.made[id(tracer)] = made
        return made


# -- functions, methods and partials as what they are made of, so that a step can make others like those of its trace


def held_by(obj: Any) -> dict[str, Any]:
    """What an object, a method, a partial or a cell holds under names; of a function, what makes it of another one of
    the same code and cells."""
    if isinstance(obj, types.CellType):
        return {} if obj == types.CellType() else {"cell_contents": obj.cell_contents}
    if isinstance(obj, types.MethodType):
        return {"__func__": obj.__func__, "__self__": obj.__self__}
    if isinstance(obj, types.FunctionType):
        return _held_by_function(obj)
    if isinstance(obj, partial):
        return {"func": obj.func, "args": obj.args, "keywords": obj.keywords, **obj.__dict__}
    return containers.held_by(obj)


def _held_by_function(fn: types.FunctionType) -> dict[str, Any]:
    like = types.FunctionType(fn.__code__, fn.__globals__, None, None, fn.__closure__)
    held = {name: value for name in _OWN if (value := getattr(fn, name)) != getattr(like, name)}
    if annotations := held.pop("__annotations__", None):
        held["__annotations__"] = dict(annotations)
    held |= {name: value for name in ("__defaults__", "__kwdefaults__") if (value := getattr(fn, name)) is not None}
    return held | fn.__dict__


def binds(value: Any) -> bool:
    """Whether a value is a method, or a partial that has no attributes."""
    return type(value) is types.MethodType or (type(value) is partial and not value.__dict__)


def parts_of(bound: Any) -> list[Any]:
    """The function of a method or partial, and what it is bound to."""
    if type(bound) is types.MethodType:
        return [bound.__func__, bound.__self__]
    return [bound.func, *bound.args, *bound.keywords.values()]


def with_parts(like: Any, parts: Sequence[Any]) -> Any:
    """A method or partial of other parts."""
    if type(like) is types.MethodType:
        return types.MethodType(*parts)
    values = parts[1 + len(like.args) :]
    return partial(parts[0], *parts[1 : 1 + len(like.args)], **dict(zip(like.keywords, values, strict=True)))
