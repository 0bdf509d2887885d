"""What a traced call does besides returning a result, and how the caller's arrays and objects learn of it.

While a function is traced its arguments are copies of the caller's containers, its arrays are tracers, and what it
assigns to them happens on the tape alone. When it ends, ``perform`` makes it happen: the caller's arrays get their
final contents, and attributes, items and cells the plain values of what the function has stored there.
"""

from __future__ import annotations

import dataclasses
import opcode
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .containers import with_items
from .dispatch import is_traced
from .errors import YotaError
from .exchange import Holder, set_attribute
from .kinds import slots_of
from .ownership import is_library, is_library_frame
from .patching import tracing
from .recording import Recording
from .tracer import Tracer
from .trees import flatten

ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, range, type(Ellipsis))


class UntraceableError(Exception):
    """The call cannot be traced with its effects. Nothing has happened: call the function itself."""


@dataclass(slots=True)
class Performance:
    """A call that has been traced and has happened; ``changes`` are the items that it has replaced.

    By identity, ``copies`` are what stood for the caller's own containers among the arguments, and ``pictures`` what
    the containers that the function has made held while there were traced values in them.
    """

    recording: Recording
    output: Any
    result: Any = None
    changes: list[tuple[Holder, Any, Any]] = field(default_factory=list)
    pictures: dict[int, Any] = field(default_factory=dict)
    copies: dict[int, Holder] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """Why another call might not be the same."""
        return self.recording.trace.problems


def perform(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: frozenset[str] = frozenset()
) -> Performance:
    """Call ``f`` on tracers, with the result and the effects that it has by itself; ``inputs`` as in ``Captures``.

    Raises ``UntraceableError``, before anything has happened, if only ``f`` itself knows what it does; and what ``f``
    raises, after its effects up to there have happened.
    """
    if tracing() or sys.getprofile() is not None:
        raise UntraceableError("another function is being traced, or a profiler is active")
    try:
        recording = Recording(f, args, kwargs, lambda argnum: False, inputs, effects=True)
        performance = Performance(recording, None)
        for i, (copy, own) in enumerate(zip(recording.given[0], args, strict=True)):
            _pair(performance, copy, own, f"args[{i}]")
        for name, own in kwargs.items():
            _pair(performance, recording.given[1][name], own, f"kwargs[{name!r}]")
    except TypeError as error:  # arrays of objects, subclasses of arrays, containers that cannot be rebuilt
        raise UntraceableError(str(error)) from error
    if any(isinstance(leaf, np.ndarray) and not is_traced(leaf) for leaf in recording.trace.tape.leaves):
        recording.trace.problems.append("an argument is an array that holds no numbers")
    failure: BaseException | None = None
    try:
        performance.output = recording.run()
    except BaseException as error:
        failure = error
    try:
        if failure is not None and not _is_own(failure):
            said = "" if isinstance(failure, YotaError) else f"{type(failure).__name__}: "
            raise UntraceableError(f"{said}{failure}") from failure
        _happen(performance)
    except UntraceableError:
        recording.captures.exchange.undo()
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # its traceback holds this frame
    return performance


def _pair(performance: Performance, copy: Any, own: Any, text: str) -> None:
    """Remember which container among the arguments each copy stands for, and how it is found in another call."""
    if copy is own or is_traced(copy):
        return
    items: dict[Any, Any]
    if isinstance(own, tuple):
        for i, (a, b) in enumerate(zip(copy, own, strict=True)):
            _pair(performance, a, b, f"{text}[{i}]")
        return
    holder = Holder(copy, [text], own)
    if isinstance(own, list | dict):
        items = own if isinstance(own, dict) else dict(enumerate(own))
        paths = {key: f"{text}[{performance.recording.captures.guards.constant(key)}]" for key in items}
    elif dataclasses.is_dataclass(own):
        holder.names = {entry.name for entry in dataclasses.fields(own)}
        items = {name: getattr(own, name) for name in holder.names}
        paths = {name: f"{text}.{name}" for name in items}
    else:
        raise TypeError(f"a {type(own).__name__} among the arguments")
    if any(known.target is own for known in performance.copies.values()):
        raise TypeError(f"a {type(own).__name__} stands twice among the arguments")
    holder.before = holder.read()
    performance.copies[id(copy)] = holder
    for key, item in items.items():
        _pair(performance, holder.before[key], item, paths[key])


def _is_own(error: BaseException) -> bool:
    """Whether an exception is raised by a statement of the user's code, rather than by a function given a tracer."""
    if not isinstance(error, Exception):  # an interrupt
        return True
    if isinstance(error, YotaError) or error.__traceback__ is None:
        return False
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    if is_library_frame(frame):
        return False
    return opcode.opname[frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"


def _happen(performance: Performance) -> None:
    """Let the caller's arrays and objects be as the function has left their tracers."""
    recording = performance.recording
    trace, exchange = recording.trace, recording.captures.exchange
    if (shared := recording.shared_memory()) is not None:
        raise UntraceableError(f"{shared[0]} shares memory with {shared[1]}")
    changed = [*exchange.changes()]
    for holder in performance.copies.values():
        changed += ((holder, key, value) for key, value in holder.read().items()
                    if key not in holder.before or value is not holder.before[key])
    for holder in _restructured(performance):
        trace.problems.append(f"it adds or removes items of a {type(holder.target).__name__}")
    own = {id(holder.target) for holder in performance.copies.values()}
    if own & exchange.holders.keys() and any(holder.target is not holder.obj for holder, _, _ in changed):
        raise UntraceableError("it is given a container that it also reads from elsewhere")
    plain = _Plain(performance)
    values = [plain(value) for _, _, value in changed]
    contents = {id(holder): {key: plain(value) for key, value in holder.read().items()}
                for holder in _restructured(performance) if holder.obj is not holder.target}
    performance.result = plain(performance.output)
    performance.changes = changed
    arrays = [(recording.real(var), np.array(trace.roots[var].current()[1])) for var in trace.written]
    for array, value in arrays:
        np.copyto(array, value)
    for (holder, key, _), value in zip(changed, values, strict=True):
        if id(holder) not in contents:
            holder.put(key, value)
    for holder in performance.copies.values():
        if id(holder) in contents:
            Holder(holder.target, [], None, holder.names).hold(contents[id(holder)])


def _restructured(performance: Performance) -> Iterator[Holder]:
    """Holders that hold other items than before, or in another order."""
    exchange = performance.recording.captures.exchange
    for holder in (*exchange.holders.values(), *performance.copies.values()):
        if list(holder.read()) != list(holder.before):
            yield holder


class _Plain:
    """What a value that the function has made is to the caller: no tracers in it, and the caller's own containers."""

    def __init__(self, performance: Performance) -> None:
        self.trace = performance.recording.trace
        self.reals = {id(root): performance.recording.real(var) for var, root in self.trace.roots.items()}
        exchange = performance.recording.captures.exchange
        self.known = {**exchange.originals, **{key: holder.target for key, holder in performance.copies.items()}}
        self.made: dict[int, Any] = {}
        old = (value for holder in exchange.holders.values() for value in holder.before.values())
        self.old = {id(value) for value in (*performance.recording.leaves, *old)}
        self.keep: list[Any] = []  # so that ids stay their own
        self.pictures = performance.pictures

    def __call__(self, value: Any) -> Any:
        if is_traced(value):
            return self._traced(value)
        if id(value) in self.known:
            return self.known[id(value)]
        if id(value) in self.made:
            return self.made[id(value)]
        if isinstance(value, ATOMS) or id(value) in self.old:
            return value
        self.keep.append(value)
        self.made[id(value)] = value
        if isinstance(value, tuple):
            items = [self(item) for item in value]
            if any(a is not b for a, b in zip(items, value, strict=True)):
                self.made[id(value)] = with_items(value, items)
        elif isinstance(value, list | dict):
            self.pictures[id(value)] = value.copy()
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                if (new := self(item)) is not item:
                    value[key] = new
        elif isinstance(value, types.FunctionType):
            for cell in value.__closure__ or ():
                self._attributes(cell, ["cell_contents"])
            self._attributes(value, ["__defaults__", "__kwdefaults__"])
        elif not isinstance(value, (np.ndarray, type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)):
            self._object(value)
        return self.made[id(value)]

    def _object(self, value: Any) -> None:
        cls = type(value)
        self.pictures[id(value)] = flatten(value)
        if is_library(cls.__module__) and not dataclasses.is_dataclass(value):
            if not isinstance(value, types.MethodType | property | staticmethod | classmethod):
                raise UntraceableError(f"it makes a {cls.__name__}, which may hold traced values")
            return
        self._attributes(value, [*getattr(value, "__dict__", ()), *slots_of(cls)])

    def _attributes(self, obj: Any, names: list[str]) -> None:
        for name in names:
            try:
                item = getattr(obj, name)
            except (AttributeError, ValueError):  # ValueError: an empty cell
                continue
            if (new := self(item)) is not item:
                set_attribute(obj, name, new)

    def _traced(self, tracer: Tracer) -> Any:
        if (known := self.made.get(id(tracer))) is not None:
            return known
        if tracer._trace is not self.trace:  # of a differentiation inside
            return self(tracer.current()[1])
        value = tracer.current()[1]
        if not isinstance(value, np.ndarray):
            return value
        if id(tracer) in self.reals:
            made = self.reals[id(tracer)]
        elif tracer._look is not None:
            made = tracer._look.of(self(tracer._look.parent))
        else:
            made = np.array(value)
        self.keep.append(tracer)
        self.made[id(tracer)] = made
        return made

