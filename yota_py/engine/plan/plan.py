"""From steps to a program: a place in memory for every value, and the words of every kernel call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...base.records import record
from ...base.types import ArrayType, Order
from ...tape.operations import Call, Constant, Guard, Input, Variable, operands
from ..kernels.ir import DTYPES
from ..kernels.store import Spec
from ..schedule.steps import (
    Accumulate,
    Assign,
    Cluster,
    Concatenate,
    Join,
    Linear,
    Map,
    Matmul,
    Python,
    PythonCopy,
    Reduce,
    Repeat,
    Scatter,
    Schedule,
    Search,
    Sort,
    Step,
    written,
)
from .copies import accumulate, assign, concatenate
from .layout import (
    ARENA_SLOT,
    FIRST_SLOT,
    HEAD_SLOT,
    Arena,
    Place,
    c_strides,
    memory_dtype,
    order_of,
    ordered_strides,
    to_the_end,
)
from .lifetimes import read_outside, unused_after
from .matrices import factorize, multiply
from .nest import Locations, copy_nest, fill_nest, nest_of
from .overwrite import overwritten
from .repeat import KernelCall, PythonTurns, Turns, repeat
from .sorting import search, sort


@record(frozen=False)
class Plan:
    """A program before its kernels are compiled.

    ``segments`` are runs of kernel calls (structure and words) and, between them, steps, copies and loops in Python.
    ``inputs`` (those of the tape, then what it has captured) and ``outputs`` are ``(slot, type)``, ``turned`` the slots
    of those in Fortran's order, ``arrays`` constant arrays; ``results`` say where each result is found:
    ``("output", index)``, ``("number", place, type)`` or ``("value", value)``, ``overwritten`` which inputs have become
    results, by their numbers; ``decisions`` where in the head (in
    bytes) a guard that fails leaves its value: its number, the value's type, and for each loop around it the word that
    counts its turns, and how many decisions each takes.
    """

    schedule: Schedule
    inputs: list[tuple[int, ArrayType]] = field(default_factory=list)
    arrays: list[tuple[int, np.ndarray]] = field(default_factory=list)
    outputs: list[tuple[int, ArrayType]] = field(default_factory=list)
    turned: set[int] = field(default_factory=set)
    results: list[tuple[Any, ...]] = field(default_factory=list)
    overwritten: dict[int, int] = field(default_factory=dict)
    segments: list[list[KernelCall] | Python | PythonCopy | PythonTurns] = field(default_factory=list)
    decisions: dict[int, tuple[int, ArrayType, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    places: dict[Variable, Place] = field(default_factory=dict)
    numbers: list[tuple[int, Any]] = field(default_factory=list)
    head_words: int = FIRST_SLOT
    arena_bytes: int = 0


def make_plan(schedule: Schedule, turned: Collection[int] = (), over: Mapping[int, int] | None = None) -> Plan:
    """Assign memory by liveness and write all words.

    The results with the numbers ``turned`` are in Fortran's order; others replace inputs, if they can be written
    ``over`` them.
    """
    return Planner(schedule, turned).run(over or {})


class Planner(Locations):
    """Plans a schedule, or the body of a loop of an ``outer`` one, with loops ``around`` it as in ``decisions``."""

    def __init__(
        self, schedule: Schedule, turned: Collection[int] = (), outer: Planner | None = None,
        around: tuple[tuple[int, int], ...] = (),
    ) -> None:  # fmt: skip
        self.schedule, self.tape, self._turned, self.around = schedule, schedule.tape, turned, around
        self.plan: Plan = Plan(schedule) if outer is None else outer.plan
        self.segments: list[Any] = self.plan.segments if outer is None else []
        self.places: dict[Variable, Place] = self.plan.places if outer is None else {}
        self.arena: Arena = Arena() if outer is None else outer.arena
        self._numbers: dict[tuple[str, str], Place] = {} if outer is None else outer._numbers
        self.buffers: dict[Variable, tuple[int, int]] = {}
        self._temporaries: list[tuple[int, int]] = []
        self._framed: dict[Variable, int] = {}  # offsets of numbers
        self._free_words: list[int] = []
        self.reserved: dict[Variable, Place] = {}
        self._copies: dict[Variable, list[Place]] = {}
        self._escaping = read_outside(schedule)

    def run(self, over: Mapping[int, int]) -> Plan:
        """The whole plan."""
        self.reserve_guards()
        self._bind_inputs(over)
        self._reserve_results()
        self.take_steps()
        self._copy_results()
        self.plan.arena_bytes = self.arena.size
        return self.plan

    def take_steps(self) -> None:
        """All steps, in their order."""
        for step, unused in zip(self.schedule.steps, unused_after(self.schedule), strict=True):
            self._step(step, unused)
            for var in unused:
                if var in self.buffers:
                    self.arena.give(*self.buffers.pop(var))
                elif var in self._framed:
                    self._free_words.append(self._framed.pop(var))
            self.drop_temporaries()

    # -- memory

    def drop_temporaries(self) -> None:
        """The current step is done."""
        while self._temporaries:
            self.arena.give(*self._temporaries.pop())

    def word(self) -> int:
        self.plan.head_words += 1
        return self.plan.head_words - 1

    def _words(self, dtype: str) -> int:
        """The first of as many words as a number of this dtype takes."""
        first = self.word()
        for _ in range(1, -(-np.dtype(dtype).itemsize // 8)):
            self.word()
        return first

    def number(self, value: Any, dtype: str) -> Place:
        """The place of a constant number."""
        key = (dtype, repr(value))
        if key not in self._numbers:
            word = self._words(dtype)
            self.plan.numbers.append((word, np.asarray(value).astype(dtype)))
            self._numbers[key] = Place(HEAD_SLOT, 8 * word, (), (), dtype)
        return self._numbers[key]

    def reserve_guards(self) -> None:
        """A word for each guard, in their order: the first of those that fail is the one with the least offset."""
        for var, op in self.tape:
            if isinstance(op, Guard):
                t, offset = self.tape.type_of(op.var), 8 * self.word()
                kind = "scalar" if t.kind == "array" else t.kind
                around = self.around if op.number >= 0 else ()
                self.plan.decisions[offset] = op.number, replace(t, shape=(), kind=kind), around
                self.places[var] = Place(HEAD_SLOT, offset, (), (), memory_dtype(t))

    def _bind_inputs(self, over: Mapping[int, int]) -> None:
        inputs: list[Any] = []
        captured: list[Any] = []
        for var, op in self.tape:
            if not isinstance(t := op.type, ArrayType):
                continue
            if isinstance(op, Input):
                inputs.append((var, t, op.order))
            elif isinstance(op, Constant) and op.captured is not None:
                captured.append((op.captured, var, t, op.order))
        self.bind_constants()
        captured.sort(key=lambda entry: entry[0])
        inputs += [entry[1:] for entry in captured]
        for var, t, order in inputs:
            self.plan.inputs.append((self._slot_of(var, t, order), t))
        computed = {i: x for i in over if isinstance(x := self.tape.results[i], Variable)}
        found = overwritten(self.schedule, {x: inputs[over[i]][0] for i, x in computed.items()})
        self.reserved.update((x, self.places[given]) for x, given in found.items())
        self.plan.overwritten = {i: over[i] for i, x in computed.items() if x in found}

    def bind_constants(self) -> None:
        """Places of the tape's own constants."""
        for var, op in self.tape:
            if not isinstance(op, Constant) or op.captured is not None or not isinstance(t := op.type, ArrayType):
                continue
            if isinstance(op.value, np.ndarray):
                self.plan.arrays.append((self._slot_of(var, t), op.value))
            else:
                self.places[var] = self.number(op.value, memory_dtype(t))

    def _slot_of(self, var: Variable, t: ArrayType, order: Order = "C") -> int:
        """A word for what is given: the address of an array, or a float64 number itself."""
        slot = self.word()
        if t.kind == "array" or t.name != "float64":
            self.places[var] = self._whole(slot, t, order)
        else:
            self.places[var] = Place(HEAD_SLOT, 8 * slot, (), (), "float64")
        return slot

    def temporary(self, shape: tuple[int, ...], dtype: str) -> Place:
        """A buffer for the current step only."""
        itemsize = np.dtype(dtype).itemsize
        nbytes = int(np.prod(shape, dtype=np.int64)) * itemsize
        offset = self.arena.take(nbytes)
        self._temporaries.append((offset, nbytes))
        return Place(ARENA_SLOT, offset, shape, c_strides(shape, itemsize), dtype)

    def place(self, var: Variable) -> Place:
        """Where a variable is, or is to be written."""
        chain = [var]  # views of views, down to what has a place
        while chain[-1] not in self.places and (base := self.schedule.views.get(chain[-1])) is not None:
            chain.append(base)
        for v in reversed(chain):
            if v not in self.places:
                self.places[v] = self._new_place(v)
        return self.places[var]

    def _new_place(self, var: Variable) -> Place:
        if (base := self.schedule.views.get(var)) is not None:
            return self._view(var, self.places[base])
        if var in self.reserved:
            return self.reserved[var]
        t = self.tape.type_of(var)
        nbytes = t.size * t.dtype.itemsize
        if t.shape == () and nbytes <= 8:
            offset = self._free_words.pop() if self._free_words else 8 * self.word()
            self._framed[var] = offset
            return Place(HEAD_SLOT, offset, (), (), memory_dtype(t))
        offset = self.arena.take(nbytes)
        self.buffers[var] = (offset, nbytes)
        return Place(ARENA_SLOT, offset, t.shape, c_strides(t.shape, t.dtype.itemsize), memory_dtype(t))

    def _view(self, var: Variable, base: Place) -> Place:
        op = self.tape[var]
        assert isinstance(op, Call) and not isinstance(op.fn, Variable)
        fn, rest, kwargs = op.fn, op.args[1:], op.kwargs
        if getattr(op.fn, "__name__", "") == "getitem":  # an element is a view with no dimensions
            rest = (to_the_end(rest[0]),)
        place = base.view(lambda array: fn(array, *rest, **kwargs))
        if place is None:  # this memory cannot be looked at that way: a copy in order can
            copied = self.temporary_for(var, base)
            place = copied.view(lambda array: fn(array, *rest, **kwargs))
            assert place is not None
        return place

    def temporary_for(self, var: Variable, base: Place) -> Place:
        """A contiguous copy of ``base`` that lives as long as ``var``: in a result of this size, if ``var`` is one."""
        itemsize = np.dtype(base.dtype).itemsize
        size = int(np.prod(base.shape, dtype=np.int64))
        fitting = (x for x in self._copies.get(var, ()) if x.contiguous and x.size == size and x.dtype == base.dtype)
        if (result := next(fitting, None)) is not None:
            slot, offset = result.slot, result.offset
        else:
            slot, offset = ARENA_SLOT, self.arena.take(size * itemsize)
            self.buffers[var] = (offset, size * itemsize)
        target = Place(slot, offset, base.shape, c_strides(base.shape, itemsize), base.dtype)
        self.copy(base, target)
        return target

    def contiguous(self, place: Place) -> Place:
        """The same values in C order, copied if they are not."""
        if place.contiguous:
            return place
        target = self.temporary(place.shape, place.dtype)
        self.copy(place, target)
        return target

    def _whole(self, slot: int, t: ArrayType, order: Order) -> Place:
        """An array of a caller's."""
        self.plan.turned.update([slot] if order == "F" else [])
        dims = range(t.ndim)[::-1] if order == "F" else range(t.ndim)
        return Place(slot, 0, t.shape, ordered_strides(t.shape, t.dtype.itemsize, dims), memory_dtype(t))

    # -- results

    def _reserve_results(self) -> None:
        """Results that a step computes are written where they are wanted; the rest is copied at the end."""
        computed = {v: isinstance(step, Cluster) for step in self.schedule.steps for v in written(step)}
        for i, result in enumerate(self.tape.results):
            if i in self.plan.overwritten:
                self.plan.results.append(("value", None))
            elif not isinstance(result, Variable) or not isinstance(t := self.tape.type_of(result), ArrayType):
                self.plan.results.append(("variable" if isinstance(result, Variable) else "value", result))
            else:
                place = self._place_of_result(i, t)
                in_order = computed.get(result, True) or i not in self._turned  # the others know one order only
                if result in computed and in_order and result not in self.reserved:
                    self.reserved[result] = place
                else:
                    self._copies.setdefault(result, []).append(place)

    def _place_of_result(self, i: int, t: ArrayType) -> Place:
        if t.shape == ():
            place = Place(HEAD_SLOT, 8 * self._words(memory_dtype(t)), (), (), memory_dtype(t))
            self.plan.results.append(("number", place, t))
            return place
        slot = self.word()
        self.plan.results.append(("output", len(self.plan.outputs), t))
        self.plan.outputs.append((slot, t))
        return self._whole(slot, t, "F" if i in self._turned else "C")

    def _copy_results(self) -> None:
        for var, places in self._copies.items():
            for place in places:
                if self.tape.type_of(var).size and self.place(var) != place:
                    self.copy(self.place(var), place)

    # -- steps

    def copy(self, source: Place, target: Place) -> None:
        """Write what is in one place into another, which has its shape."""
        if target.dtype in DTYPES:
            self.emit(*copy_nest(source, target))
        elif np.dtype(target.dtype).kind == "c":
            for given, place in zip(source.parts, target.parts, strict=True):
                self.copy(given, place)
        else:
            self.append(PythonCopy(source, target))

    def append(self, step: Python | PythonCopy | PythonTurns) -> None:
        """Have Python take a step next."""
        self.segments.append(step)

    def emit(self, spec: Spec, words: list[int]) -> None:
        """Call a kernel next."""
        self.call(spec, words)

    def call(self, spec: Spec, words: list[int] | Turns) -> None:
        """Call a kernel, or a loop, next."""
        if not self.segments or not isinstance(self.segments[-1], list):
            self.segments.append([])
        segment = self.segments[-1]
        assert isinstance(segment, list)
        segment.append((spec, words))

    def _step(self, step: Step, unused: Collection[Variable]) -> None:
        if isinstance(step, Python):
            for x in operands(self.tape[step.var]):
                if isinstance(self.tape.type_of(x), ArrayType):
                    self.place(x)
            if isinstance(self.tape.type_of(step.var), ArrayType):
                self.place(step.var)
            self.append(step)
        elif isinstance(step, Repeat):
            each = step.loop.decisions
            repeat(self, step, lambda word: Planner(step.schedule, outer=self, around=(*self.around, (word, each))))
        elif isinstance(step, Matmul):
            multiply(self, step)
        elif isinstance(step, Linear):
            factorize(self, step)
        elif isinstance(step, Sort):
            sort(self, step)
        elif isinstance(step, Search):
            search(self, step)
        elif isinstance(step, Concatenate):
            concatenate(self, step)
        elif isinstance(step, Assign):
            assign(self, step, unused)
        elif isinstance(step, Accumulate):
            accumulate(self, step, unused)
        else:
            self._cluster(step)

    def _cluster(self, step: Cluster) -> None:
        own = {item.var for item in step.items}
        for item in step.items:
            for x in item.variables:
                if x not in own:
                    self.place(x)  # before the nest: a view may need a copy first
            if isinstance(item, Scatter):
                self.emit(*fill_nest(self.place(item.var), self.number(0, item.dtype)))
        self._arrange(step)
        self.emit(*nest_of(step, self._escaping, self))

    def _arrange(self, step: Cluster) -> None:
        """Let intermediates that a loop nest writes lie in memory as what it reads does."""
        if not all(isinstance(item, Map | Reduce | Join) for item in step.items):
            return
        places = [self.place(x) for item in step.items for x in item.variables if x in self.places]
        order = order_of([p for p in places if len(p.shape) <= len(step.space)], step.space)
        if order == tuple(range(len(order))):
            return
        for var in (item.var for item in step.items if isinstance(item, Map | Join) and item.var in self._escaping):
            if var not in self.reserved:
                place = self.place(var)
                strides = ordered_strides(step.space, np.dtype(place.dtype).itemsize, order)
                self.places[var] = replace(place, strides=strides)
