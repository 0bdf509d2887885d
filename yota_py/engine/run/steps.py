"""What a program does when its first kernels have run: steps in Python, and the kernels behind each of them.

All that is known of a step before a call is looked up once: where each argument lies, as a view of the caller's array
or one that stays with the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...base.dispatch import plain
from ...base.floating import silent
from ...base.records import record
from ...base.types import ArrayType, typeof
from ...tape.operations import Call, Variable, paths, substitute
from ...tape.tape import Tape
from ..kernels.lapack import RAISED
from ..plan.layout import ARENA_SLOT, HEAD_SLOT, Place
from ..plan.plan import Plan
from ..plan.repeat import PythonTurns
from ..schedule.steps import Python, PythonCopy
from .driver import OK, resume

MISFIT = 1  # the fault of a Python step whose result has another shape or dtype than it had


class Frame:
    """Memory of one call in flight: the head with slots and numbers, and the arena; views of places in it."""

    __slots__ = ("address", "arena", "head", "views")

    def __init__(self, template: np.ndarray, arena_bytes: int) -> None:
        self.head = template.copy()
        memory = np.empty(arena_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        self.arena = memory[start : start + arena_bytes]
        self.address = self.head.ctypes.data
        self.head[HEAD_SLOT] = self.address
        self.head[ARENA_SLOT] = self.arena.ctypes.data
        self.views: dict[int, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.head.nbytes + self.arena.nbytes


class _Call:
    """One call of a program that has come to its Python steps: its frame, the inputs and outputs, what the steps have
    given that is no array, the turns of its loops by their counters, and views of inputs and outputs turn by turn."""

    __slots__ = ("frame", "others", "turn", "values", "views")

    def __init__(self, frame: Frame, values: Sequence[Any]) -> None:
        self.frame, self.values = frame, values
        self.others: dict[tuple[int, Variable], Any] = {}  # each by its tape, too
        self.turn: dict[int, int] = {}
        self.views: dict[int, np.ndarray] = {}


Find: TypeAlias = Callable[[_Call], Any]
Stepping: TypeAlias = Callable[[Frame, Sequence[Any]], int]
# A table of kernels, by its address and length; or a step.
Segment: TypeAlias = tuple[int, int] | Python | PythonCopy | PythonTurns


def stepping(
    tape: Tape, plan: Plan, owned: Mapping[int, np.ndarray], segments: Sequence[Segment]
) -> Stepping:
    """A function of a frame, and of a call's inputs and outputs, that takes these steps; it returns the fault, or 0."""
    given = {slot: (i, t) for i, (slot, t) in enumerate((*plan.inputs, *plan.outputs))}
    maker = _Maker(tape, plan.places, owned, given, {}, {})
    steps = [maker.step(segment) for segment in segments]

    @silent  # as kernels are
    def run(frame: Frame, values: Sequence[Any]) -> int:
        call = _Call(frame, values)
        for step in steps:
            if fault := step(call):
                return fault
        return OK

    return run


@record()
class _Moving:
    """An address of each turn of a loop: what stands in a slot, and bytes from there."""

    base: int
    first: int
    step: int
    loop: PythonTurns


@record()
class _Maker:
    """What makes the steps of one program, or of a loop in it."""

    tape: Tape
    places: Mapping[Variable, Place]
    owned: Mapping[int, np.ndarray]  # constant arrays, by their slots
    given: Mapping[int, tuple[int, ArrayType]]  # inputs and outputs
    keys: dict[Place, int]  # of the views that stay with a frame
    moving: Mapping[int, _Moving]  # what is at another address in each turn of a loop

    def step(self, segment: Segment) -> Callable[[_Call], int]:
        """One step; it returns a fault, or 0."""
        if isinstance(segment, tuple):
            table, length = segment
            return lambda call: resume(call.frame.address, table, length)
        if isinstance(segment, PythonCopy):
            source, target = self._array(segment.source), self._array(segment.target)

            def copy(call: _Call) -> int:
                target(call)[...] = source(call)
                return OK

            return copy
        return self._turns(segment) if isinstance(segment, PythonTurns) else self._python(segment.var)

    def _turns(self, loop: PythonTurns) -> Callable[[_Call], int]:
        """All turns of a loop."""
        moving = {slot: _Moving(base, first, step, loop) for slot, base, first, step in loop.addresses}
        maker = replace(self, tape=loop.tape, places=loop.places, moving={**self.moving, **moving})
        steps = [maker.step(segment) for segment in loop.segments]
        slots, bases, firsts, moves = np.array(loop.addresses, np.int64).reshape(-1, 4).T

        def turns(call: _Call) -> int:
            head, turn = call.frame.head, call.turn
            at = head[bases] + firsts
            for k in range(loop.turns):
                turn[loop.counter] = head[loop.counter] = k
                head[slots] = at
                for step in steps:
                    if fault := step(call):
                        return fault
                at += moves
            return OK

        return turns

    def _python(self, var: Variable) -> Callable[[_Call], int]:
        op = self.tape[var]
        assert isinstance(op, Call)
        fn, store, args = plain(op.fn), self._storing(var), [self._found(arg) for arg in op.args]
        if not any(True for _ in paths((fn, op.kwargs))):  # nearly always
            return _of_arguments(fn, args, op.kwargs, store)
        function, named = self._found(fn), {key: self._found(arg) for key, arg in op.kwargs.items()}

        def step(call: _Call) -> int:
            try:
                given = [find(call) for find in args]
                return store(call, function(call)(*given, **{key: find(call) for key, find in named.items()}))
            except Exception:
                return RAISED

        return step

    def _storing(self, var: Variable) -> Callable[[_Call, Any], int]:
        """What puts a step's result into its place; it returns a fault, or 0."""
        t, name = self.tape[var].type, (id(self.tape), var)
        if not isinstance(t, ArrayType):

            def keep(call: _Call, result: Any) -> int:
                call.others[name] = result
                return OK

            return keep
        dtype, shape, find = t.dtype, t.shape, self._array(self.places[var]) if t.size else None

        def store(call: _Call, result: Any) -> int:
            have = result if type(result) is np.ndarray else typeof(result)
            if have is not result and not isinstance(have, ArrayType):
                return MISFIT
            if have.dtype != dtype or have.shape != shape:
                return MISFIT
            if find is not None:
                find(call)[...] = result
            return OK

        return store

    # -- where values are found

    def _found(self, structure: Any) -> Find:
        """What finds an argument, with all the variables in it."""
        if isinstance(structure, Variable):
            return self._variable(structure)
        finds = {var: self._variable(var) for _, var in paths(structure)}
        if not finds:
            return lambda call: structure
        return lambda call: substitute(structure, lambda var: finds[var](call))

    def _variable(self, var: Variable) -> Find:
        t, name = self.tape[var].type, (id(self.tape), var)
        if not isinstance(t, ArrayType):
            return lambda call: call.others[name]
        if not t.size:
            shape, dtype = t.shape, t.dtype
            return lambda call: np.empty(shape, dtype)
        find = self._array(self.places[var])
        if t.kind == "array":
            return find
        return (lambda call: find(call)[()]) if t.kind == "scalar" else lambda call: find(call).item()

    def _array(self, place: Place) -> Find:
        """What finds a place in memory as an array."""
        if place.slot in self.moving:
            at = self.moving[place.slot]
            return self._in_nested(place) if at.base in self.moving else self._in_turn(place, at)
        if place.slot in self.owned:
            constant = _view(self.owned[place.slot], place)
            return lambda call: constant
        if place.slot not in self.given:
            key = self.keys.setdefault(place, len(self.keys))

            def kept(call: _Call) -> np.ndarray:
                views = call.frame.views
                if key not in views:
                    views[key] = _view(call.frame.head if place.slot == HEAD_SLOT else call.frame.arena, place)
                return views[key]

            return kept
        i, t = self.given[place.slot]
        shape, strides = place.shape, place.strides
        is_whole = t.kind == "array" and not place.offset and np.dtype(place.dtype) == t.dtype and t.shape == shape

        def given(call: _Call) -> np.ndarray:
            x = call.values[i]
            if is_whole and type(x) is np.ndarray and x.strides == strides:
                return x
            return _view(np.asarray(x), place)

        return given

    def _in_turn(self, place: Place, at: _Moving) -> Find:
        """What finds a place of each turn: in an array of those of all turns, which is made once."""
        counter, offset = at.loop.counter, at.first + place.offset
        of_all = Place(at.base, offset, (at.loop.turns, *place.shape), (at.step, *place.strides), place.dtype)
        find, key = self._array(of_all), self.keys.setdefault(of_all, len(self.keys))

        def turned(call: _Call) -> Any:
            views = call.views
            if key not in views:
                views[key] = find(call)
            return views[key][call.turn[counter], ...]

        return turned

    def _in_nested(self, place: Place) -> Find:
        """What finds a place of each turn of a loop in a loop."""
        memory = self._memory(place.slot)

        def turned(call: _Call) -> Any:
            flat, at = memory(call)
            return np.ndarray(place.shape, place.dtype, flat, at + place.offset, place.strides)

        return turned

    def _memory(self, slot: int) -> Callable[[_Call], tuple[np.ndarray, int]]:
        """What finds the memory whose address is in a slot: all of it in bytes, and where in it that is."""
        if slot in self.owned:
            constant = _flat(self.owned[slot])
            return lambda call: (constant, 0)
        if slot in self.given:
            i, _ = self.given[slot]
            return lambda call: (_flat(np.asarray(call.values[i])), 0)
        if slot not in self.moving:
            return lambda call: (_flat(call.frame.head) if slot == HEAD_SLOT else call.frame.arena, 0)
        moving = self.moving[slot]
        memory, first, step, counter = self._memory(moving.base), moving.first, moving.step, moving.loop.counter

        def moved(call: _Call) -> tuple[np.ndarray, int]:
            flat, at = memory(call)
            return flat, at + first + step * call.turn[counter]

        return moved


def _of_arguments(
    fn: Callable[..., Any], args: Sequence[Find], kwargs: Mapping[str, Any], store: Callable[[_Call, Any], int]
) -> Callable[[_Call], int]:
    """A step that calls a function of which nothing but arguments vary."""
    first = args[0] if len(args) == 1 else None
    if first is not None and not kwargs:

        def step_of_one(call: _Call) -> int:
            try:
                return store(call, fn(first(call)))
            except Exception:  # any: the traced function may catch it, and goes another way then
                return RAISED

        return step_of_one

    def step_of(call: _Call) -> int:
        try:
            return store(call, fn(*[find(call) for find in args], **kwargs))
        except Exception:
            return RAISED

    return step_of


def _flat(memory: np.ndarray) -> np.ndarray:
    """The bytes of an array, as they lie."""
    return memory.reshape(-1, order="A").view(np.uint8)


def _view(memory: np.ndarray, place: Place) -> np.ndarray:
    """A place in memory as an array."""
    return np.ndarray(place.shape, place.dtype, _flat(memory), place.offset, place.strides)
