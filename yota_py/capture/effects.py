"""What a traced call does besides returning a result, and how the caller's arrays and objects learn of it.

While a function is traced its arguments are copies of the caller's containers, its arrays are tracers, and what it
assigns to them happens on the tape alone. When it ends, ``perform`` makes it happen: the caller's arrays get their
final contents, and attributes, items and cells the plain values of what the function has stored there.
"""

from __future__ import annotations

import dataclasses
import opcode
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..base.containers import dict_of
from ..base.dispatch import is_traced
from ..base.generators import Draws
from ..base.impure import Output
from ..base.ownership import is_library_frame
from ..base.unwinding import Passing, unwinding
from ..errors import UntraceableError, YotaError
from ..tape.operations import Call
from ..tracing.outputs import tell
from ..tracing.shells import is_recording
from ..tracing.stand_ins import tracing
from .places import Holder
from .plain import Performance, Plain
from .recording import Recording, undo
from .sinks import Attempts
from .slots import Slot, literal


@unwinding
def perform(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: frozenset[str | int] = frozenset()
) -> Performance:
    """Call ``f`` on tracers, with the result and the effects that it has by itself; ``inputs`` as in ``Captures``.

    Raises ``UntraceableError``, before anything has happened, if only ``f`` itself knows what it does; and what ``f``
    raises, after its effects up to there have happened.
    """
    if tracing() or sys.getprofile() is not None:
        raise UntraceableError("another function is being traced, or a profiler is active")
    attempts = Attempts()
    with Draws() as draws:
        try:
            while (performance := _attempt(f, args, kwargs, inputs, attempts)) is None:
                draws.take_back()
        except UntraceableError:
            draws.take_back()
            raise
    return performance


def _attempt(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: frozenset[str | int],
    attempts: Attempts,
) -> Performance | None:  # fmt: skip
    """``perform``; ``None``, and nothing has happened, if more is known now, so that another attempt may do."""
    try:
        recording = Recording(f, args, kwargs, lambda argnum: False, inputs, effects=True, attempts=attempts)
        performance = Performance(recording, None)
        for i, (copy, own) in enumerate(zip(recording.given[0], args, strict=True)):
            _pair(performance, copy, own, Slot("args").item(literal(i)))
        for name, own in kwargs.items():
            _pair(performance, recording.given[1][name], own, Slot("kwargs").item(literal(name)))
    except TypeError as error:  # arrays of objects, subclasses of arrays, containers that cannot be rebuilt
        raise UntraceableError(str(error)) from error
    if any(isinstance(leaf, np.ndarray) and not is_traced(leaf) for leaf in recording.trace.tape.leaves):
        recording.trace.problems.append("an argument is an array that holds no numbers")
    failure: BaseException | None = None
    captures = recording.captures
    try:
        with _Happening(performance) as happening:
            try:
                performance.output = recording.run()
            except BaseException as error:  # of the user's own, after which there are the effects up to there
                if not isinstance(error, Exception) and not _is_own(error):  # an interrupt
                    raise
                failure = error
            captures.sinks.finish()
            if captures.sinks.was_read:
                raise UntraceableError("it reads a list to which it appends")
            if (refused := recording.trace.refused) is not None and failure is None:
                raise UntraceableError(str(refused)) from refused
            if failure is not None and (captures.given_up or not _is_own(failure)):
                said = "" if isinstance(failure, YotaError) else f"{type(failure).__name__}: "
                raise UntraceableError(f"{said}{failure}", captures.imports.first) from failure
            if failure is None and _has_grown(performance, attempts) and attempts.again():
                return None
            happening.plan(failure)
    except UntraceableError:
        if _has_learned(recording, attempts) and attempts.again():
            return None
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # its traceback holds this frame
    return performance


class _Happening(Passing):
    """A block after which nothing of what the function has stored has happened, or all that is planned."""

    def __init__(self, performance: Performance) -> None:
        self._performance = performance
        self._stores: list[Callable[[], object]] | None = None

    def plan(self, failure: BaseException | None) -> None:
        """Let the caller's arrays and objects be as the function has left their tracers."""
        self._stores = _stores(self._performance, failure)

    def begin(self) -> _Happening:
        return self

    def end(self) -> None:
        if self._stores is None:
            captures = self._performance.recording.captures
            captures.sinks.finish()
            undo(captures)
        else:
            for store in self._stores:
                store()


def _has_grown(performance: Performance, attempts: Attempts) -> bool:
    """Whether the function has appended to lists that it was thought to read, and perhaps does not."""
    if performance.problems or attempts.read is None:
        return False
    grown = [holder.obj for holder in performance.recording.captures.exchange.holders.values()
             if type(holder.obj) is list and id(holder.obj) not in attempts.read and holder.has_grown()]
    attempts.grown.update((id(value), value) for value in grown)
    return bool(grown)


def _has_learned(recording: Recording, attempts: Attempts) -> bool:
    """Whether a failed attempt tells how the next one may do better."""
    sinks = recording.captures.sinks
    if sinks.was_read:
        return True
    tied = {id(owner): owner for owner in recording.tied()}
    if tied.keys() - attempts.tied.keys():
        attempts.tied |= tied
        return True
    attempts.read = None  # whatever it is, it does not come of lists then
    return bool(sinks.holders)


def _pair(performance: Performance, copy: Any, own: Any, slot: Slot) -> None:
    """Remember which container among the arguments each copy stands for, and how it is found in another call."""
    if copy is own or is_traced(copy) or is_recording(copy):
        return
    items: dict[Any, Any]
    holder = Holder(copy, [slot], own)
    if isinstance(own, tuple):
        items = dict(enumerate(own))
    elif isinstance(own, list | dict):
        items = own if isinstance(own, dict) else dict(enumerate(own))
    elif dataclasses.is_dataclass(own):
        holder.names = {entry.name for entry in dataclasses.fields(own)}
        items = {name: getattr(own, name) for name in holder.names}
    else:
        raise TypeError(f"a {type(own).__name__} among the arguments")
    if not isinstance(own, tuple) and any(known.target is own for known in performance.copies.values()):
        raise TypeError(f"a {type(own).__name__} stands twice among the arguments")
    holder.before = holder.read()
    performance.copies[id(copy)] = holder
    constant = performance.recording.captures.guards.constant
    for key, item in items.items():
        _pair(performance, holder.before[key], item, slot.attribute(key) if holder.names else slot.item(constant(key)))


def _is_own(error: BaseException) -> bool:
    """Whether an exception is raised by a statement of the user's code, rather than by a function given a tracer."""
    if isinstance(error, YotaError) or error.__traceback__ is None:
        return False
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    if is_library_frame(frame):
        return False
    return opcode.opname[frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"


def _parts_of(holder: Holder) -> str:
    """What a container holds, in the user's words."""
    own = any(slot.is_own for slot in holder.slots)
    if own or holder.names is not None:
        named = [slot.words for slot in holder.slots if slot.words]
        return f"attributes of {named[0] if named else 'an object'}"
    return f"items of a {type(holder.target).__name__}"


def _stores(performance: Performance, failure: BaseException | None) -> list[Callable[[], object]]:
    """What is to be done so that the caller's arrays and objects are as the function has left their tracers."""
    recording = performance.recording
    trace, exchange = recording.trace, recording.captures.exchange
    if any(isinstance(x, np.ndarray) and not x.dtype.isnative for x in map(recording.real, trace.roots)):
        raise UntraceableError("it reads an array whose bytes are in another order than this machine's")
    if (shared := recording.shared_memory()) is not None:
        raise UntraceableError(f"{shared[0]} shares memory with {shared[1]}")
    for holder in performance.records():
        given = holder.target if recording.captures.attributes.counts else holder.obj
        if not {*(dict_of(holder.obj) or ()), *(dict_of(given) or ())} <= (holder.names or set()):
            raise UntraceableError("a dataclass among its arguments has attributes that are no fields")
    changed = [*exchange.changes()]
    for holder in performance.copies.values():
        changed += ((holder, key, value) for key, value in holder.read().items()
                    if key not in holder.before or value is not holder.before[key])
    for holder in _restructured(performance):
        trace.problems.append(f"it adds or removes {_parts_of(holder)}")
    own = {id(holder.target) for holder in performance.copies.values()}
    if own & recording.captures.sinks.holders.keys():
        raise UntraceableError("it is given a list to which it also appends")
    both = own & exchange.holders.keys()
    touched = [*(holder for holder, _, _ in changed), *_restructured(performance)]
    if both and any(holder.target is not holder.obj or id(holder.target) in both for holder in touched):
        raise UntraceableError("it is given a container that it also reads from elsewhere")
    if recording.captures.comparisons.objects and (own & exchange.holders.keys() or recording.same_twice()):
        raise UntraceableError("it compares objects by identity, one of which it is given in two places")
    if recording.captures.comparisons.numbers and (recording.same_number() or recording.counts()):
        raise UntraceableError("it may ask whether one number is the same object as another, and two may be")
    plain = Plain(performance)
    if any(plain(key) is not key for _, key, _ in changed):
        raise UntraceableError("it puts an item under a key that holds a traced value")
    values = [plain(value) for _, _, value in changed]
    if any(plain(member) is not member for members in recording.captures.items.changed_sets() for member in members):
        raise UntraceableError("it puts something into a set that holds a traced value")
    contents = {id(holder): {key: plain(value) for key, value in holder.read().items()}
                for holder in _restructured(performance) if holder.obj is not holder.target}
    appended = [*recording.captures.sinks.stores(plain)]
    told = [partial(tell, trace, op) for op in trace.tape.ops if isinstance(op, Call) and type(op.fn) is Output]
    plain(failure)
    performance.result = plain(performance.output)
    performance.changes = changed
    stores: list[Callable[[], object]] = [
        partial(np.copyto, recording.real(var), np.array(trace.roots[var]._current()[1])) for var in trace.written
    ]
    stores += (partial(holder.put, key, value) for (holder, key, _), value in zip(changed, values, strict=True)
               if id(holder) not in contents)
    stores += (partial(Holder(holder.target, [], None, holder.names).hold, contents[id(holder)])
               for holder in performance.copies.values() if id(holder) in contents)
    return told + stores + appended


def _restructured(performance: Performance) -> Iterator[Holder]:
    """Holders that hold other items than before, or in another order."""
    exchange = performance.recording.captures.exchange
    for holder in (*exchange.holders.values(), *performance.copies.values()):
        if list(holder.read()) != list(holder.before):
            yield holder
