"""A loop in memory: its body's steps are planned once, and where they read and write advances from turn to turn.
(Where its values fit into registers, ``registers.py`` makes one kernel of it.)

What is carried lies in a stack of its own, one element for each turn and one for what it begins with: a turn reads
one and writes the next, so that nothing is copied, and what an adjoint wants to know of all turns is there. Where that
would be large and nobody wants it, it lies in one place, in which it is added up, or into which it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ...base.records import record
from ...base.types import ArrayType
from ...registry.kernels import Map
from ...tape.loop import UnrolledError
from ...tape.operations import Call, Variable, operands, paths
from ...tape.tape import Tape
from ..kernels.store import RepeatSpec, Spec
from ..schedule.classify import kernel_for
from ..schedule.steps import Repeat, written
from .layout import ARENA_SLOT, Place, aligned, c_strides, memory_dtype
from .registers import Planning, give_results, in_registers

SMALL_BYTES = 2**18  # of a stack that nobody wants


@record()
class Turns:
    """The words of a loop: so many turns; the word of the frame that counts them; the addresses that advance, as their
    kernel wants them; and the calls of kernels in a turn."""

    turns: int
    counter: int
    addresses: Sequence[tuple[int, int, int, int]]
    calls: Sequence[KernelCall]


KernelCall = tuple[Spec, "list[int] | Turns"]


@record()
class PythonTurns:
    """A loop some steps of which are Python's: as in ``Turns``, with the segments of a turn as in a plan, and the tape
    and the places that they are of."""

    turns: int
    counter: int
    addresses: Sequence[tuple[int, int, int, int]]
    segments: Sequence[Any]
    tape: Tape
    places: dict[Variable, Place]


class Nested(Planning, Protocol):
    """What plans loops in memory as well."""

    segments: list[Any]

    def bind_constants(self) -> None:
        """Places of constants."""
        ...

    def take_steps(self) -> None:
        """Plan all steps."""
        ...

    def drop_temporaries(self) -> None:
        """A step is done."""
        ...

    def call(self, spec: Spec, words: Turns) -> None:
        """Call a loop next."""
        ...

    def append(self, step: PythonTurns) -> None:
        """Have Python take a step next."""
        ...


def repeat(planner: Nested, step: Repeat, inner: Callable[[int], Nested]) -> None:
    """Plan a loop; ``inner`` makes what plans its body, given the word that counts its turns."""
    kernel = in_registers(planner, step, inner)
    if kernel is not None:
        planner.emit(*kernel)
    elif step.loop.until or step.loop.counted:
        raise UnrolledError
    else:
        _Loop(planner, step, inner).write()


class _Loop:
    def __init__(self, planner: Nested, step: Repeat, inner: Callable[[int], Nested]) -> None:
        self._outer, self._step, self._loop = planner, step, step.loop
        self._counter = planner.word()
        self._inner = inner(self._counter)
        self._body = step.loop.body
        self._inputs = self._body.inputs
        self._computed = {var for part in step.schedule.steps for var in written(part)}  # not looked at, or given
        self._addresses: list[tuple[int, int, int, int]] = []
        self._copies: list[tuple[Any, Place, bool]] = []  # at the end of a turn; whether of something that is carried
        self._found: list[Place] = []  # of the results

    def write(self) -> None:
        """Plan its body, and call it."""
        outer, inner, loop = self._outer, self._inner, self._loop
        xs, invariants = loop.parted(self._step.args[loop.carried :])
        places = [self._given(x, t) for x, t in zip(self._step.args[: loop.carried], loop.types, strict=False)]
        stacks = [self._given(x, None) for x in xs]
        others = self._inputs[loop.carried + loop.stacked :]
        for x, given in zip(others, invariants, strict=True):
            inner.places[x] = self._given(given, self._body[x].type)  # type: ignore[arg-type]
        inner.reserve_guards()
        inner.bind_constants()
        for x, stack in zip(self._inputs[loop.carried :], stacks, strict=False):
            inner.places[x] = self._moving(stack, loop.turns - 1 if loop.backward else 0)
        self._arrange(places)
        inner.take_steps()
        self._end_turn()
        if all(isinstance(segment, list) for segment in inner.segments):
            calls = inner.segments[0] if inner.segments else []
            outer.call(RepeatSpec(), Turns(loop.turns, self._counter, self._addresses, calls))
        else:
            outer.append(PythonTurns(
                loop.turns, self._counter, self._addresses, inner.segments, self._body, inner.places))
        for buffer in inner.buffers.values():
            outer.arena.give(*buffer)
        give_results(outer, self._step, self._found)

    def _given(self, x: Any, t: ArrayType | None) -> Place:
        """Where an argument is."""
        if isinstance(x, Variable):
            return self._outer.place(x)
        assert t is not None
        return self._outer.number(x, memory_dtype(t))

    def _moving(self, stack: Place, first: int) -> Place:
        """One element of a stack, another one in each turn."""
        slot, stride = self._outer.word(), stack.strides[0]
        step = -stride if self._loop.backward else stride
        self._addresses.append((slot, stack.slot, stack.offset + first * stride, step))
        return Place(slot, 0, stack.shape[1:], stack.strides[1:], stack.dtype)

    def _arrange(self, begins: Sequence[Place]) -> None:
        """Give places to what is carried and to what comes out."""
        loop, inner = self._loop, self._inner
        results = self._body.results
        after, outputs = results[: loop.carried], results[loop.carried :]
        modes = [self._mode(i, outputs) for i in range(loop.carried)]
        shared: dict[int, tuple[int, int]] = {}  # outputs that are the stacks of what is carried
        for k, output in enumerate(outputs):
            for i, mode in enumerate(modes):
                if mode == "stack" and isinstance(output, Variable) and output in (self._inputs[i], after[i]):
                    shared[k] = i, int((output == self._inputs[i]) == loop.backward)
        count = loop.turns
        sizes = [t.size * t.dtype.itemsize for t in loop.types[: loop.carried]]
        types = loop.output_types[loop.carried :]
        wanted = [size * (count + 1 if mode == "stack" else 1) for size, mode in zip(sizes, modes, strict=True)]
        wanted += [0 if k in shared else t.size * t.dtype.itemsize for k, t in enumerate(types)]
        total = sum(map(aligned, wanted))
        at = start = self._outer.arena.take(total)
        self._outer.buffers[self._step.var] = (start, total)
        offsets = []
        for nbytes in wanted:
            offsets.append(at)
            at += aligned(nbytes)
        stacks: list[Place] = []
        for i, (mode, t) in enumerate(zip(modes, loop.types, strict=False)):
            place = _array(offsets[i], (count + 1, *t.shape) if mode == "stack" else t.shape, t)
            stacks.append(place)
            if mode == "stack":
                begin, end = (count, 0) if loop.backward else (0, count)
                self._outer.copy(begins[i], _of(place, begin))
                moving = self._moving(place, begin)
                inner.places[self._inputs[i]] = moving
                stride = -place.strides[0] if loop.backward else place.strides[0]
                self._leave(after[i], replace(moving, offset=stride))
                self._found.append(_of(place, end))
            else:
                self._outer.copy(begins[i], place)
                inner.places[self._inputs[i]] = place
                if mode == "sum":
                    inner.reserved[after[i]] = place
                else:
                    self._copies.append((after[i], place, True))
                self._found.append(place)
        for k, (output, t) in enumerate(zip(outputs, types, strict=True)):
            if k in shared:
                i, first = shared[k]
                stack = stacks[i]
                self._found.append(replace(stack, offset=stack.offset + first * stack.strides[0],
                                           shape=(count, *stack.shape[1:])))  # fmt: skip
                continue
            place = _array(offsets[loop.carried + k], t.shape, t)
            self._leave(output, self._moving(place, count - 1 if loop.backward else 0))
            self._found.append(place)

    def _leave(self, result: Any, place: Place) -> None:
        """Have a result of the body written to a place that is another one in each turn."""
        if isinstance(result, Variable) and result in self._computed and result not in self._inner.reserved:
            self._inner.reserved[result] = place
        else:
            self._copies.append((result, place, False))

    def _mode(self, i: int, outputs: Sequence[Any]) -> str:
        """How a carried value lies in memory: as a ``"stack"``, in one place that is a ``"sum"``, or ``"copied"``."""
        x, t = self._inputs[i], self._loop.types[i]
        if x in outputs or (self._loop.turns + 1) * t.size * t.dtype.itemsize <= SMALL_BYTES:
            return "stack"
        result = self._body.results[i]
        readers = [var for var, op in self._body if x in operands(op)]
        alone = readers == [result] and not any(var == x for _, var in paths(self._body.results))
        op = self._body[result] if isinstance(result, Variable) else None
        once = self._body.results.count(result) == 1 and isinstance(op, Call) and op.args.count(x) == 1
        if not (alone and once and isinstance(op, Call) and isinstance(kernel_for(op), Map)):
            return "copied"
        return "sum" if op.type == self._body[x].type else "copied"

    def _end_turn(self) -> None:
        """Copy what is not yet where it belongs: what replaces something that is carried at last, and by way of another
        place if it may be a part of that."""
        inner, later = self._inner, []
        for result, target, is_carried in self._copies:
            source = self._result(result, target)
            if is_carried and source.size:
                if result not in self._computed:
                    source, given = inner.temporary(source.shape, source.dtype), source
                    inner.copy(given, source)
                later.append((source, target))
            elif source.size:
                inner.copy(source, target)
        for source, target in later:
            inner.copy(source, target)
        inner.drop_temporaries()

    def _result(self, result: Any, target: Place) -> Place:
        if isinstance(result, Variable):
            return self._inner.place(result)
        return self._outer.number(result, target.dtype)


def _array(offset: int, shape: tuple[int, ...], t: ArrayType) -> Place:
    return Place(ARENA_SLOT, offset, shape, c_strides(shape, t.dtype.itemsize), memory_dtype(t))


def _of(stack: Place, k: int) -> Place:
    """One element of a stack."""
    return replace(
        stack, offset=stack.offset + k * stack.strides[0], shape=stack.shape[1:], strides=stack.strides[1:]
    )
