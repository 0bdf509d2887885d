"""What a program does when its first kernels have run: steps in Python, and the kernels behind each of them.

All that is known of a step before a call is looked up once: where each argument lies, as a view of the caller's array
or one that stays with the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...base.dispatch import plain
from ...base.floating import silence, unsilence
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
    """Memory of one call in flight: the head with slots and numbers, and the arena; views of places in it. Of a call
    that has come to its Python steps: the inputs and outputs, what the steps have given that is no array, the turns of
    its loops by their counters, and views of inputs and outputs turn by turn."""

    __slots__ = ("address", "arena", "head", "others", "turn", "turned", "values", "views")

    def __init__(self, template: np.ndarray, arena_bytes: int) -> None:
        self.head = template.copy()
        memory = np.empty(arena_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        self.arena = memory[start : start + arena_bytes]
        self.address = self.head.ctypes.data
        self.head[HEAD_SLOT] = self.address
        self.head[ARENA_SLOT] = self.arena.ctypes.data
        self.views: dict[int, np.ndarray] = {}
        self.values: Sequence[Any] = ()
        self.others: dict[tuple[int, Variable], Any] = {}  # each by its tape, too
        self.turn: dict[int, int] = {}
        self.turned: dict[int, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.head.nbytes + self.arena.nbytes


Find: TypeAlias = Callable[[Frame], Any]
Stepping: TypeAlias = Callable[..., int]
# A table of kernels, by its address and length; or a step.
Segment: TypeAlias = tuple[int, int] | Python | PythonCopy | PythonTurns


def stepping(
    tape: Tape, plan: Plan, owned: Mapping[int, np.ndarray], segments: Sequence[Segment], frames: Mapping[int, Frame]
) -> Stepping:
    """A function of the address of a frame, and of a call's inputs and outputs, that takes these steps; it returns the
    fault, or 0."""
    given = {slot: (i, t) for i, (slot, t) in enumerate((*plan.inputs, *plan.outputs))}
    maker = _Maker(tape, plan.places, owned, given, {}, {})
    steps = [maker.step(segment) for segment in segments]

    def run(address: int, *values: Any) -> int:
        frame = frames[address]
        frame.values = values
        said = silence()  # as kernels are
        try:
            for step in steps:
                if fault := step(frame):
                    return fault
            return OK
        finally:
            unsilence(said)
            frame.values = ()
            if frame.others:
                frame.others.clear()
            if frame.turned:
                frame.turned.clear()

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

    def step(self, segment: Segment) -> Callable[[Frame], int]:
        """One step; it returns a fault, or 0."""
        if isinstance(segment, tuple):
            table, length = segment
            return lambda frame: resume(frame.address, table, length)
        if isinstance(segment, PythonCopy):
            source, target = self._array(segment.source), self._array(segment.target)

            def copy(frame: Frame) -> int:
                target(frame)[...] = source(frame)
                return OK

            return copy
        return self._turns(segment) if isinstance(segment, PythonTurns) else self._python(segment.var)

    def _turns(self, loop: PythonTurns) -> Callable[[Frame], int]:
        """All turns of a loop."""
        moving = {slot: _Moving(base, first, step, loop) for slot, base, first, step in loop.addresses}
        maker = replace(self, tape=loop.tape, places=loop.places, moving={**self.moving, **moving})
        steps = [maker.step(segment) for segment in loop.segments]
        slots, bases, firsts, moves = np.array(loop.addresses, np.int64).reshape(-1, 4).T

        def turns(frame: Frame) -> int:
            head, turn = frame.head, frame.turn
            at = head[bases] + firsts
            for k in range(loop.turns):
                turn[loop.counter] = head[loop.counter] = k
                head[slots] = at
                for step in steps:
                    if fault := step(frame):
                        return fault
                at += moves
            return OK

        return turns

    def _python(self, var: Variable) -> Callable[[Frame], int]:
        op = self.tape[var]
        assert isinstance(op, Call)
        fn, store, args = plain(op.fn), self._storing(var), [self._found(arg) for arg in op.args]
        if not any(True for _ in paths((fn, op.kwargs))):  # nearly always
            bound = partial(fn, **op.kwargs) if op.kwargs else fn
            others = None if not args or any(True for _ in paths(op.args[1:])) else op.args[1:]
            return _of_arguments(bound, args, store) if others is None else _of_one(bound, args[0], others, store)
        function, named = self._found(fn), {key: self._found(arg) for key, arg in op.kwargs.items()}

        def step(frame: Frame) -> int:
            try:
                given = [find(frame) for find in args]
                return store(frame, function(frame)(*given, **{key: find(frame) for key, find in named.items()}))
            except Exception:
                return RAISED

        return step

    def _storing(self, var: Variable) -> Callable[[Frame, Any], int]:
        """What puts a step's result into its place; it returns a fault, or 0."""
        t, name = self.tape[var].type, (id(self.tape), var)
        if not isinstance(t, ArrayType):

            def keep(frame: Frame, result: Any) -> int:
                frame.others[name] = result
                return OK

            return keep
        dtype, shape, find = t.dtype, t.shape, self._array(self.places[var]) if t.size else None

        def store(frame: Frame, result: Any) -> int:
            have = result if type(result) is np.ndarray else typeof(result)
            if have is not result and not isinstance(have, ArrayType):
                return MISFIT
            if have.dtype != dtype or have.shape != shape:
                return MISFIT
            if find is not None:
                find(frame)[...] = result
            return OK

        return store

    # -- where values are found

    def _found(self, structure: Any) -> Find:
        """What finds an argument, with all the variables in it."""
        if isinstance(structure, Variable):
            return self._variable(structure)
        finds = {var: self._variable(var) for _, var in paths(structure)}
        if not finds:
            return lambda frame: structure
        return lambda frame: substitute(structure, lambda var: finds[var](frame))

    def _variable(self, var: Variable) -> Find:
        t, name = self.tape[var].type, (id(self.tape), var)
        if not isinstance(t, ArrayType):
            return lambda frame: frame.others[name]
        if not t.size:
            shape, dtype = t.shape, t.dtype
            return lambda frame: np.empty(shape, dtype)
        find = self._array(self.places[var])
        if t.kind == "array":
            return find
        return (lambda frame: find(frame)[()]) if t.kind == "scalar" else lambda frame: find(frame).item()

    def _array(self, place: Place) -> Find:
        """What finds a place in memory as an array."""
        if place.slot in self.moving:
            at = self.moving[place.slot]
            return self._in_nested(place) if at.base in self.moving else self._in_turn(place, at)
        if place.slot in self.owned:
            constant = _view(self.owned[place.slot], place)
            return lambda frame: constant
        if place.slot not in self.given:
            key = self.keys.setdefault(place, len(self.keys))

            def kept(frame: Frame) -> np.ndarray:
                views = frame.views
                if key not in views:
                    views[key] = _view(frame.head if place.slot == HEAD_SLOT else frame.arena, place)
                return views[key]

            return kept
        i, t = self.given[place.slot]
        shape, strides = place.shape, place.strides
        is_whole = t.kind == "array" and not place.offset and np.dtype(place.dtype) == t.dtype and t.shape == shape

        def given(frame: Frame) -> np.ndarray:
            x = frame.values[i]
            if is_whole and type(x) is np.ndarray and x.strides == strides:
                return x
            return _view(np.asarray(x), place)

        return given

    def _in_turn(self, place: Place, at: _Moving) -> Find:
        """What finds a place of each turn: in an array of those of all turns, which is made once."""
        counter, offset = at.loop.counter, at.first + place.offset
        of_all = Place(at.base, offset, (at.loop.turns, *place.shape), (at.step, *place.strides), place.dtype)
        find, key = self._array(of_all), self.keys.setdefault(of_all, len(self.keys))

        def turned(frame: Frame) -> Any:
            views = frame.turned
            if key not in views:
                views[key] = find(frame)
            return views[key][frame.turn[counter], ...]

        return turned

    def _in_nested(self, place: Place) -> Find:
        """What finds a place of each turn of a loop in a loop."""
        memory = self._memory(place.slot)

        def turned(frame: Frame) -> Any:
            flat, at = memory(frame)
            return np.ndarray(place.shape, place.dtype, flat, at + place.offset, place.strides)

        return turned

    def _memory(self, slot: int) -> Callable[[Frame], tuple[np.ndarray, int]]:
        """What finds the memory whose address is in a slot: all of it in bytes, and where in it that is."""
        if slot in self.owned:
            constant = _flat(self.owned[slot])
            return lambda frame: (constant, 0)
        if slot in self.given:
            i, _ = self.given[slot]
            return lambda frame: (_flat(np.asarray(frame.values[i])), 0)
        if slot not in self.moving:
            return lambda frame: (_flat(frame.head) if slot == HEAD_SLOT else frame.arena, 0)
        moving = self.moving[slot]
        memory, first, step, counter = self._memory(moving.base), moving.first, moving.step, moving.loop.counter

        def moved(frame: Frame) -> tuple[np.ndarray, int]:
            flat, at = memory(frame)
            return flat, at + first + step * frame.turn[counter]

        return moved


def _of_one(
    fn: Callable[..., Any], first: Find, others: Sequence[Any], store: Callable[[Frame, Any], int]
) -> Callable[[Frame], int]:
    """A step that calls a function of which the first argument varies."""

    def step(frame: Frame) -> int:
        try:
            return store(frame, fn(first(frame), *others))
        except Exception:  # any: the traced function may catch it, and goes another way then
            return RAISED

    return step


def _of_arguments(
    fn: Callable[..., Any], args: Sequence[Find], store: Callable[[Frame, Any], int]
) -> Callable[[Frame], int]:
    """One that calls a function of which arguments vary."""

    def step(frame: Frame) -> int:
        try:
            return store(frame, fn(*[find(frame) for find in args]))
        except Exception:
            return RAISED

    return step


def _flat(memory: np.ndarray) -> np.ndarray:
    """The bytes of an array, as they lie."""
    return memory.reshape(-1, order="A").view(np.uint8)


def _view(memory: np.ndarray, place: Place) -> np.ndarray:
    """A place in memory as an array."""
    return np.ndarray(place.shape, place.dtype, _flat(memory), place.offset, place.strides)
