"""Loops over numbers and short vectors: each value of the body is one of registers, and the whole loop one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from ...base.records import record
from ...base.types import ArrayType
from ...registry import kernels
from ...tape.loop import COUNT, END, Loop
from ...tape.operations import Call, Constant, Guard, Input, Variable, substitute
from ...tape.tape import Tape
from ..kernels.ir import DTYPES
from ..kernels.registers import Kind, Node, Operation, Pick, RegistersSpec, Total
from ..maths.builder import WRITTEN_OUT
from ..schedule.classify import classify, kernel_for, require, view_base
from ..schedule.steps import Assign, Concatenate, Gather, Map, Matmul, Pad, Reduce, Repeat, Scatter
from .copies import Room
from .layout import ARENA_SLOT, Arena, Place, aligned, c_strides, memory_dtype, to_the_end

LONGEST = 16  # elements of a vector
MOST_WORK = 1500  # operations on four numbers at most, of which those that are written out count as many
OF_WRITTEN_OUT = 20
_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")


class _OutsideError(Exception):
    """Something of the loop is not for registers."""


class Planning(Room, Protocol):
    """What plans a schedule: that of a body, for a loop in an outer one."""

    tape: Tape
    arena: Arena

    def word(self) -> int:
        """A word of the frame."""
        ...

    def reserve_guards(self) -> None:
        """Words for decisions."""
        ...


def in_registers(
    memory: Planning, step: Repeat, inner: Callable[[int], Planning]
) -> tuple[RegistersSpec, list[int]] | None:
    """The kernel of a loop and its words; ``None`` if it is to be another one. ``inner`` makes what plans its body,
    given the word that counts its turns: of it, the decisions are wanted."""
    loop, body = step.loop, step.loop.body
    inputs = body.inputs
    try:
        values = _Values(body, loop.until)
        kinds = [values.given(x) for x in inputs]
        results = values.results(loop.types[: loop.carried])
    except _OutsideError:
        return None
    n = loop.carried + loop.stacked
    spec = values.spec(kinds[: loop.carried], kinds[loop.carried : n], kinds[n:], results)
    if loop.counted:
        spec = replace(spec, counted="backward" if loop.backward else "forward")
    words, found = _words(memory, step, values)
    if values.checks:
        words.append(memory.word())
        body_memory = inner(words[-1])
        body_memory.reserve_guards()
        words += [body_memory.places[var].offset for var, *_ in values.checks]
    if loop.until:
        words += [found[-1].slot, found[-1].offset]
    return spec, words


def _words(memory: Planning, step: Repeat, values: _Values) -> tuple[list[int], list[Place]]:
    """The words that stand first, and where the loop's results are."""
    loop = step.loop
    xs, invariants = loop.parted(step.args[loop.carried :])
    others = loop.types[loop.carried + loop.stacked :]

    def at(x: Any, t: ArrayType) -> list[int]:
        place = memory.contiguous(memory.place(x)) if isinstance(x, Variable) else memory.number(x, memory_dtype(t))
        return [place.slot, place.offset]

    words = at(step.args[-1], COUNT) if loop.counted else [loop.turns]
    for x, t in zip(step.args[: loop.carried], loop.types, strict=False):
        words += at(x, t)
    for x in xs:
        place = memory.place(x)
        if place.strides[1:] != c_strides(place.shape[1:], np.dtype(place.dtype).itemsize):
            place = memory.contiguous(place)
        words += _moving(place, loop)
    for x, t in zip(invariants, others, strict=True):
        words += at(x, t)
    for value, dtype in values.numbers:
        place = memory.number(value, dtype)
        words += [place.slot, place.offset]
    found = _room(memory, step)
    for place in found[: loop.carried]:
        words += [place.slot, place.offset]
    for place in found[loop.carried : len(found) - loop.until]:
        words += _moving(place, loop)
    give_results(memory, step, found)
    return words, found


def give_results(memory: Planning, step: Repeat, found: Sequence[Place]) -> None:
    """Let what looks at results of a loop look where these are found."""
    for var, base in memory.schedule.views.items():
        if base == step.var:
            op = memory.tape[var]
            assert isinstance(op, Call)
            memory.places[var] = found[op.args[1]]


def _moving(stack: Place, loop: Loop) -> list[int]:
    """A stack from its first element to the last, or backward; from the first one if nobody knows yet which is last."""
    stride = stack.strides[0]
    first = (loop.turns - 1) * stride if loop.backward and not loop.counted else 0
    return [stack.slot, stack.offset + first, -stride if loop.backward else stride]


def _room(memory: Planning, step: Repeat) -> list[Place]:
    """Places of the loop's results."""
    types = step.loop.output_types
    sizes = [t.size * t.dtype.itemsize for t in types]
    total = sum(map(aligned, sizes))
    at = memory.arena.take(total)
    memory.buffers[step.var] = (at, total)
    places = []
    for t, nbytes in zip(types, sizes, strict=True):
        places.append(Place(ARENA_SLOT, at, t.shape, c_strides(t.shape, t.dtype.itemsize), memory_dtype(t)))
        at += aligned(nbytes)
    return places


@record(frozen=False)
class _Values:
    """The values of a body, by numbers: what it is given, then nodes."""

    tape: Any
    until: bool  # a decision ends the loop
    end: int | None = None  # its mask
    kinds: list[Kind] = field(default_factory=list)
    numbers: list[tuple[Any, str]] = field(default_factory=list)
    checks: list[tuple[Variable, int, int]] = field(default_factory=list)  # guards, their masks and values
    _ids: dict[Variable, int] = field(default_factory=dict)
    _known: dict[tuple[str, str], int] = field(default_factory=dict)
    _nodes: list[tuple[Node, int]] = field(default_factory=list)
    _same: dict[Node, int] = field(default_factory=dict)
    _work: int = 0

    def given(self, var: Variable) -> Kind:
        """A new value for an input."""
        self._ids[var] = len(self.kinds)
        self.kinds.append(self._kind(self.tape[var].type))
        return self.kinds[-1]

    def results(self, carried: Sequence[ArrayType]) -> list[int]:
        """Compute everything; the numbers of the results."""
        for var, op in self.tape:
            if isinstance(op, Constant):
                self._ids[var] = self._constant(op)
            elif isinstance(op, Call) and not isinstance(op.fn, Variable):
                self._ids[var] = self._called(var, op)
            elif isinstance(op, Guard):
                self._check(var, op)
            elif not isinstance(op, Input):
                raise _OutsideError
        types = [*carried, *map(self.tape.type_of, self.tape.results[len(carried) :])]
        out = []
        for x, t in zip(self.tape.results, types, strict=True):
            i = self._value(x, memory_dtype(t))
            if self.kinds[i] != self._kind(t):
                raise _OutsideError
            out.append(i)
        return out

    def spec(
        self, carried: Sequence[Kind], stacks: Sequence[Kind], fixed: Sequence[Kind], results: Sequence[int]
    ) -> RegistersSpec:
        """The structure, in which numbers that are known stand behind what is given, and nodes behind them."""
        given = len(carried) + len(stacks) + len(fixed)
        constants = list(self._known.values())
        order = [*range(given), *constants, *(i for _, i in self._nodes)]
        new = {old: i for i, old in enumerate(order)}
        nodes = tuple(_renumbered(node, new) for node, _ in self._nodes)
        known = tuple(self.kinds[i] for i in constants)
        checks = tuple((new[mask], new[value]) for _, mask, value in self.checks)
        end = None if self.end is None else new[self.end]
        return RegistersSpec(
            tuple(carried), tuple(stacks), (*fixed, *known), nodes, tuple(new[r] for r in results), checks, end
        )

    # -- values

    def _kind(self, t: Any) -> Kind:
        if not isinstance(t, ArrayType) or t.name not in DTYPES or not 1 <= t.size <= LONGEST:
            raise _OutsideError
        return Kind(t.name, t.size)

    def _constant(self, op: Constant) -> int:
        kind = self._kind(op.type)
        if not isinstance(op.value, np.ndarray):
            return self._number(op.value, kind.dtype)
        numbers = [self._number(x, kind.dtype) for x in op.value.ravel()]
        return numbers[0] if kind.size == 1 else self._node(Pick(tuple((i, 0) for i in numbers), kind))

    def _number(self, value: Any, dtype: str) -> int:
        key = dtype, repr(value)
        if key not in self._known:
            self._known[key] = len(self.kinds)
            self.kinds.append(Kind(dtype, 1))
            self.numbers.append((value, dtype))
        return self._known[key]

    def _value(self, x: Any, dtype: str) -> int:
        return self._ids[x] if isinstance(x, Variable) else self._number(x, dtype)

    def _node(self, node: Node) -> int:
        if node not in self._same:
            self._same[node] = len(self.kinds)
            self._nodes.append((node, len(self.kinds)))
            self.kinds.append(node.kind)
            each = OF_WRITTEN_OUT if isinstance(node, Operation) and node.emit in WRITTEN_OUT else 1
            self._work += each * -(-node.kind.size // 4)
            if self._work > MOST_WORK:
                raise _OutsideError
        return self._same[node]

    def _shape(self, x: Any) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.tape.type_of(x).shape
        return shape

    def _taken(self, x: int, lanes: np.ndarray, dtype: str) -> int:
        """Elements of a value."""
        flat = lanes.ravel().tolist()
        if flat == [*range(self.kinds[x].size)]:
            return x
        return self._node(Pick(tuple((x, lane) for lane in flat), Kind(dtype, len(flat))))

    def _codes(self, x: Any, dtype: str) -> np.ndarray:
        """A value as an array of numbers that say which element of which value each is."""
        i, shape = self._value(x, dtype), self._shape(x)
        return i * LONGEST + np.arange(math.prod(shape)).reshape(shape)

    def _of_codes(self, codes: np.ndarray, dtype: str) -> int:
        elements = tuple((code // LONGEST, code % LONGEST) if code >= 0 else None for code in codes.ravel().tolist())
        return self._node(Pick(elements, Kind(dtype, len(elements))))

    # -- operations

    def _check(self, var: Variable, op: Guard) -> None:
        item = require(self.tape, var, op)
        if item is None:
            raise _OutsideError
        (x, dtype), (expected, other) = item.reads
        value = self._value(x, dtype)
        operands = (value, dtype), (self._number(expected, other), other)
        mask = self._node(Operation(item.emit, operands, Kind("bool", self.kinds[value].size)))
        if self.kinds[mask].size > 1:
            mask = self._node(Total("all", mask, (tuple(range(self.kinds[mask].size)),), Kind("bool", 1)))
        if self.until and op.number == END:
            self.end = mask
        else:
            self.checks.append((var, mask, value))

    def _called(self, var: Variable, op: Call) -> int:
        kind = self._kind(op.type)
        if (base := view_base(self.tape, op)) is not None:
            return self._view(op, base, kind)
        item = classify(self.tape, var, op)
        if isinstance(item, Map):
            shape = self._shape(var)
            operands = [(self._spread(x, shape, dtype), dtype) for x, dtype in item.reads]
            return self._node(Operation(item.kernel.emit, tuple(operands), kind))
        if isinstance(item, Reduce) and item.mode in _REDUCTIONS:
            return self._total(item, kind)
        if isinstance(item, Pad) and not item.inner:
            (x, dtype), out = item.reads[0], np.full(self._shape(var), -1)
            out[tuple(slice(first, first + extent) for first, extent in item.box)] = self._codes(x, dtype).reshape(
                [extent for _, extent in item.box])
            return self._of_codes(out, dtype)
        if isinstance(item, Gather):
            (x, dtype), *_ = item.reads
            return self._of_codes(self._codes(x, dtype)[self._known_index(op.args[1])], dtype)
        if isinstance(item, Scatter):
            return self._scattered(op, item, kind)
        if isinstance(item, Concatenate):
            parts = [self._codes(x, kind.dtype) for x in item.parts]
            return self._of_codes(np.concatenate(parts, item.axis), kind.dtype)
        if isinstance(item, Assign):
            whole = self._codes(item.x, kind.dtype)
            value = self._codes(item.value, kind.dtype)
            for index, row in item.places:
                whole[index] = value if row is None else value[row]
            return self._of_codes(whole, kind.dtype)
        if isinstance(item, Matmul):
            return self._product(item, kind)
        raise _OutsideError

    def _view(self, op: Call, base: Variable, kind: Kind) -> int:
        rest = op.args[1:]
        if isinstance(kernel_for(op), kernels.Index):  # an element is a view with no dimensions
            rest = (to_the_end(rest[0]),)
        t = self.tape.type_of(base)
        self._kind(t)
        lanes = op.fn(np.arange(t.size).reshape(t.shape), *rest, **op.kwargs)  # type: ignore[operator]
        return self._taken(self._ids[base], np.asarray(lanes), kind.dtype)

    def _spread(self, x: Any, shape: tuple[int, ...], dtype: str) -> int:
        """An operand, broadcast."""
        i, own = self._value(x, dtype), self._shape(x)
        if math.prod(own) in (1, math.prod(shape)):
            return i
        lanes = np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape)
        return self._taken(i, lanes, self.kinds[i].dtype)

    def _known_index(self, index: Any) -> Any:
        """An index whose arrays are constants."""

        def value(var: Variable) -> Any:
            op = self.tape[var]
            if not isinstance(op, Constant) or op.captured is not None:
                raise _OutsideError
            return op.value

        return substitute(index, value)

    def _scattered(self, op: Call, item: Scatter, kind: Kind) -> int:
        (x, dtype), out = item.reads[0], np.full(op.args[2], -1)
        index = self._known_index(op.args[1])
        counts = np.zeros(op.args[2], int)
        np.add.at(counts, index, 1)
        if counts.max(initial=0) > 1:
            raise _OutsideError
        out[index] = self._codes(x, dtype)
        return self._of_codes(out, dtype)

    def _total(self, item: Reduce, kind: Kind) -> int:
        x, dtype = item.reads[0]
        shape = self._shape(x)
        lanes = np.moveaxis(np.arange(math.prod(shape)).reshape(shape), item.axes, range(-len(item.axes), 0))
        groups = lanes.reshape(kind.size, -1).tolist()
        if dtype != kind.dtype:
            raise _OutsideError
        return self._node(Total(item.mode, self._value(x, dtype), tuple(map(tuple, groups)), kind))

    def _product(self, item: Matmul, kind: Kind) -> int:
        a, b = self._codes(item.a, kind.dtype), self._codes(item.b, kind.dtype)
        if not {a.ndim, b.ndim} <= {1, 2}:
            raise _OutsideError
        left, right = np.atleast_2d(a), b if b.ndim == 2 else b[:, None]
        total: int | None = None
        for k in range(left.shape[1]):
            shape = left.shape[0], right.shape[1]
            pair = [self._of_codes(np.broadcast_to(x, shape), kind.dtype) for x in (left[:, k, None], right[k])]
            term = self._node(Operation("mul", tuple((i, kind.dtype) for i in pair), kind))
            total = term if total is None else self._node(
                Operation("add", ((total, kind.dtype), (term, kind.dtype)), kind))
        assert total is not None
        return total


def _renumbered(node: Node, new: dict[int, int]) -> Node:
    if isinstance(node, Operation):
        return Operation(node.emit, tuple((new[i], dtype) for i, dtype in node.operands), node.kind)
    if isinstance(node, Pick):
        return Pick(tuple(None if e is None else (new[e[0]], e[1]) for e in node.elements), node.kind)
    return Total(node.mode, new[node.value], node.groups, node.kind)
