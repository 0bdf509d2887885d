"""A run of turns written as operations on whole arrays, and a loop for the rest."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.types import ArrayType, is_basic, is_inexact, is_integer, typeof
from ..registry import kernels
from ..registry.registry import primitive_of
from ..registry.tangents import getfield, zeros_like
from ..tape.loop import Loop
from ..tape.operations import Call, Constant, Guard, Operation, Variable
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .adjoint import primitive_loop
from .align import (
    Aligned,
    Carried,
    Each,
    Invariant,
    Leaf,
    Local,
    Static,
    UnalignedError,
    evenly,
    leaves_of_parts,
    written_out,
)  # fmt: skip
from .repeats import with_leaves
from .rolling import Element, Elements, Rolling, UnfitError

MAX_BYTES = 2**26  # of what is computed for all turns in front of a loop
MAX_WINDOW, MAX_COPIED = 64, 256  # elements of overlapping slices, and of listed arrays, which are copied to a stack


def write_loop(rolling: Rolling, aligned: Aligned) -> None:
    """Write a run to the new tape."""
    turns = _Turns(rolling, aligned)
    try:
        turns.sort()
        turns.write()
    except UnalignedError:  # something is wanted of a turn that nobody has recorded
        raise UnfitError(aligned) from None


class _Turns:
    """By places in a turn: what is the ``same`` in all turns, what there are ``stacks`` of in front of the loop, and
    the rest, the loop's ``body``."""

    def __init__(self, rolling: Rolling, aligned: Aligned) -> None:
        self.rolling, self.aligned, self._run = rolling, aligned, aligned.run
        self.same: dict[int, Variable] = {}
        self._stacks: dict[int, Variable] = {}
        self.body: list[int] = []

    # -- what need not be in the loop

    def sort(self) -> None:
        """Write what belongs in front of the loop."""
        carried = self.aligned.carried
        for place, leaves in enumerate(self.aligned.leaves):
            op = self.rolling.op(self.aligned.var(place, 0))
            if isinstance(op, Constant):
                self._constant(place, op, is_carried=place in carried)
            elif place in carried or isinstance(op, Guard):
                self.body.append(place)
            elif self._is_same(op, leaves):
                args = [self.outside(leaf) for leaf in leaves]
                self.same[place] = self.rolling.append(with_leaves(op, iter(args)), self.value(place, 0))
            elif (stack := self._rows(op, leaves) or self._elementwise(op, leaves)) is not None:
                self._stacks[place] = stack
            else:
                self.body.append(place)

    def value(self, place: int, turn: int) -> Any:
        return self.rolling.value(self.aligned.var(place, turn))

    def values(self, place: int) -> list[Any]:
        return [self.value(place, turn) for turn in range(self._run.recorded)]

    def _constant(self, place: int, op: Constant, *, is_carried: bool) -> None:
        values = self.values(place)
        if all(x is values[0] or _bits(x) == _bits(values[0]) for x in values):
            if is_carried:
                self.body.append(place)
            else:
                self.same[place] = self.rolling.append(op, op.value)
            return
        if is_carried or self._run.said:
            raise UnfitError(self.aligned)
        stack = original(np.stack)(values)
        self._stacks[place] = self.rolling.append(replace(op, value=stack, type=typeof(stack)), stack)

    def outside(self, leaf: Leaf) -> Any:
        """A leaf that is the same in all turns, on the new tape."""
        if isinstance(leaf, Static):
            return leaf.value
        if isinstance(leaf, Invariant):
            return self.rolling.variable(leaf.var)
        return self.same.get(leaf.place) if isinstance(leaf, Local) else None

    def _is_outside(self, leaf: Leaf) -> bool:
        return isinstance(leaf, Static | Invariant) or (isinstance(leaf, Local) and leaf.place in self.same)

    def _is_same(self, op: Operation, leaves: Sequence[Leaf]) -> bool:
        """Whether an operation computes the same in each turn, and nothing goes wrong where it is done before."""
        if not isinstance(op, Call) or not all(map(self._is_outside, leaves)):
            return False
        entry = primitive_of(op.fn)
        if entry is None or entry.kernel is None or entry.fails:
            return False
        return not isinstance(entry.kernel, kernels.Index) or is_basic(op.args[1])

    def _rows(self, op: Operation, leaves: Sequence[Leaf]) -> Variable | None:
        """The elements of an array that the turns take out of it, ``x[t]``, one after the other."""
        entry = primitive_of(op.fn) if isinstance(op, Call) else None
        if entry is None or not isinstance(entry.kernel, kernels.Index) or not self._is_outside(leaves[0]):
            return None
        assert isinstance(op, Call)
        if not is_basic(op.args[1]) or op.kwargs or len(op.args) != 2:
            return None
        base, parts = self.outside(leaves[0]), [*op.args[1]] if isinstance(op.args[1], tuple) else [op.args[1]]
        places = leaves_of_parts(parts, leaves[1:])
        varying = [i for i, part in enumerate(places) if any(isinstance(leaf, Each) for leaf in part)]
        shape = self.rolling.type_of(base).shape
        if not varying:
            return None
        if any(len(places[i]) > 1 for i in varying):  # bounds of slices
            return self._windows(op, base, parts, places)
        parts, places, varying = written_out(parts, places, varying, len(shape))
        extents, dims = [], iter(shape)
        for part in parts:
            extents.append(next(dims) if part is not None else 1)
        indices = {i: [int(k) % extents[i] for k in places[i][0].values] for i in varying}  # type: ignore[union-attr]
        if len(varying) == 1 and (cut := evenly(indices[varying[0]])) is not None:
            at = varying[0]
            index: Any = tuple(cut if i == at else part for i, part in enumerate(parts)) if len(parts) > 1 else cut
            whole = at == 0 and cut == slice(0, shape[0], 1) and all(part == slice(None) for part in parts[1:])
            rows = base if whole else self.rolling.call(operator.getitem, base, index, like=op)
            axis = sum(not is_integer(part) for part in parts[:at])
            return self.rolling.call(np.moveaxis, rows, axis, 0, like=op) if axis else rows
        if any(not is_integer(part) for part in parts[: max(varying) + 1]):
            return None
        arrays = {i: self.rolling.constant(np.array(k)) for i, k in indices.items()}
        return self.rolling.call(operator.getitem, base, tuple(arrays.get(i, p) for i, p in enumerate(parts)), like=op)

    def _windows(self, op: Call, base: Variable, parts: list[Any], places: list[list[Leaf]]) -> Variable | None:
        """The slices of an array that the turns take out of it, ``x[t - 2 : t + 1]``."""
        n = self.rolling.type_of(base).shape[0]
        if len(places[0]) != 3 or any(part not in (slice(None), Ellipsis) for part in parts[1:]):
            return None
        bounds = [leaf.values if isinstance(leaf, Each) else [getattr(leaf, "value", leaf)] * self._run.turns
                  for leaf in places[0]]  # fmt: skip
        if not all(isinstance(x, int | None) for column in bounds for x in column):
            return None
        windows = [range(n)[slice(*three)] for three in zip(*bounds, strict=True)]
        if not 0 < len(windows[0]) <= MAX_WINDOW or len({len(window) for window in windows}) > 1:
            return None
        return self.rolling.call(operator.getitem, base, self.rolling.constant(np.array(windows)), like=op)

    def _elementwise(self, op: Operation, leaves: Sequence[Leaf]) -> Variable | None:
        """What an elementwise operation gives in all turns, if it depends on none before."""
        if not isinstance(op, Call) or op.kwargs or not _is_double(op.type):
            return None
        entry, fn = primitive_of(op.fn), original(op.fn)
        if entry is None or not isinstance(entry.kernel, kernels.Map):
            return None
        if not (isinstance(fn, np.ufunc) or getattr(fn, "__module__", "") == "_operator" or fn is original(np.where)):
            return None
        assert isinstance(op.type, ArrayType)
        if self._run.turns * op.type.size * 8 > MAX_BYTES:
            return None
        args, some = [], False
        for leaf in leaves:
            if isinstance(leaf, Static) and type(leaf.value) in (int, float):
                args.append(leaf.value)
            elif self._is_outside(leaf) and isinstance(var := self.outside(leaf), Variable):
                t = self.rolling.type_of(var)
                if not _is_double(t) or t.shape not in ((), op.type.shape):
                    return None
                args.append(var)
            elif (stack := self.stack(leaf, op)) is not None:
                t = self.rolling.type_of(stack)
                if not (_is_double(t) or t.dtype.kind == "i") or t.shape[1:] != op.type.shape:
                    return None
                some = True
                args.append(stack)
            else:
                return None
        return self.rolling.call(op.fn, *args, like=op) if some else None

    def stack(self, leaf: Leaf, like: Operation) -> Variable | None:
        """A stack of what a leaf is in each turn, if it is known in front of the loop."""
        if isinstance(leaf, Local):
            return self._stacks.get(leaf.place)
        if not isinstance(leaf, Each):
            return None
        if leaf.numbers:
            array = np.array(leaf.values)
            return self.rolling.constant(array) if array.dtype.kind in "fi" else None
        t = self.rolling.op(leaf.values[0]).type
        if isinstance(t, ArrayType) and t.size > MAX_COPIED and not all(map(self.rolling.is_element, leaf.values)):
            return None
        return self.rolling.stacked([*leaf.values], like)

    # -- the loop

    def write(self) -> None:
        """Write the loop, and say where everything is found that is read of it."""
        uses = self.rolling.uses(self.aligned)
        for place, new in self.same.items():
            for turn in uses.get(place, ()):
                self.rolling.give(self.aligned.var(place, turn), new)
        for place, new in self._stacks.items():
            self.give_stack(place, new, uses.get(place, ()))
        if self.body:
            _Body(self, {place: uses[place] for place in self.body if place in uses}).write()


    def give_stack(self, place: int, new: Variable, turns: Iterable[int]) -> None:
        """What an operation has given in these turns, and perhaps in others, is found in a stack."""
        for turn in turns:
            if turn < self._run.recorded or (place, turn) in self.aligned.said:
                self.rolling.give(self.aligned.var(place, turn), Element(new, turn))
        if place in self.aligned.outputs:
            self.rolling.give(self.aligned.outputs[place], Elements(new, self._run.recorded, self._run.turns))

    def stack_of_values(self, place: int) -> Any:
        """What an operation has given in all turns."""
        recorded = original(np.stack)(self.values(place))
        if not self._run.said:
            return recorded
        said = self.rolling.value(self.aligned.outputs[place]) if place in self.aligned.outputs else None
        if said is None:
            raise UnfitError(self.aligned)  # nobody knows
        return original(np.concatenate)([recorded, said])


class _Body:
    """The loop itself: its body, its arguments and what comes of it."""

    def __init__(self, turns: _Turns, uses: dict[int, set[int]]) -> None:
        self._turns, self._uses = turns, uses
        self._rolling, self._aligned, self._run = turns.rolling, turns.aligned, turns.aligned.run
        self._recorder = Recorder(Tape("turn"))
        self._carried: dict[tuple[int, int], Any] = {}  # by place and lag: what it begins with
        self._stacked: dict[Any, Variable] = {}  # by leaf
        self._invariants: dict[Variable, None] = {}
        self._constants: dict[int, Constant] = {}

    def write(self) -> None:
        """Write the loop to the new tape."""
        places = self._turns.body
        for place in places:
            for leaf in self._aligned.leaves[place]:
                self._need(leaf, self._op(place))
        last = self._run.turns - 1
        finals = [place for place in places if self._uses.get(place) == {last}]
        outputs = [place for place in places if place in self._uses and place not in finals]
        kept = [place for place in finals if (place, 1) not in self._carried]
        if not all(isinstance(self._op(place).type, ArrayType) for place in (*finals, *outputs)):
            raise UnfitError(self._aligned)  # of a structure, parts are read
        for place in kept:
            self._carried[place, 1] = self._rolling.constant(_nothing(self._op(place).type))
        self._write_body(places, outputs)
        values = [self._turns.value(place, self._run.turns - lag) for place, lag in self._carried]
        values += map(self._turns.stack_of_values, outputs)
        args = (*self._carried.values(), *self._stacked.values(), *self._invariants)
        body = self._rolling.roll(self._recorder).tape  # there may be loops in it
        loop = Loop(body, len(self._carried), len(self._stacked), self._run.turns, values=tuple(values))
        loop.decisions, loop.every = self._decisions(), self._rolling.every(self._run)
        call = Call(primitive_loop(loop), args, {}, typeof(tuple(values)), self._op(places[0]).site)
        result = self._rolling.append(call, tuple(values))
        names = [*self._carried, *((place, 0) for place in outputs)]
        for i, (place, lag) in enumerate(names):
            if (lag == 1 and place in finals) or lag == 0:
                new = self._rolling.append(Call(getfield, (result, i), {}, typeof(values[i])), values[i])
                if lag == 0:
                    self._turns.give_stack(place, new, self._uses[place])
                else:
                    for turn in self._uses[place]:
                        self._rolling.give(self._aligned.var(place, turn), new)

    def _op(self, place: int) -> Operation:
        return self._rolling.op(self._aligned.var(place, 0))

    def _decisions(self) -> int:
        """How many decisions a turn takes."""
        for place in self._turns.body:
            first, second = (self._rolling.op(self._aligned.var(place, turn)) for turn in (0, 1))
            if isinstance(first, Guard) and isinstance(second, Guard) and first.number >= 0:
                return second.number - first.number
        return 0

    def _need(self, leaf: Leaf, op: Operation) -> None:
        """What a leaf wants from outside of the turn."""
        if isinstance(leaf, Carried):
            for turn, first in enumerate(leaf.firsts):
                begun = self._rolling.variable(first)
                if self._carried.setdefault((leaf.place, leaf.lag - turn), begun) != begun:
                    raise UnfitError(self._aligned)
        elif isinstance(leaf, Invariant) or (isinstance(leaf, Local) and leaf.place in self._turns.same):
            if isinstance(leaf, Local) and isinstance(op := self._op(leaf.place), Constant):
                self._constants[leaf.place] = op
                return
            self._invariants[self._turns.outside(leaf)] = None
        elif not isinstance(leaf, Static) and leaf not in self._stacked:
            if isinstance(leaf, Each) and is_integer(leaf.values[0]) and not _is_elementwise(op):
                raise UnfitError(self._aligned)  # it decides a shape, perhaps
            if (stack := self._turns.stack(leaf, op)) is not None:
                self._stacked[leaf] = stack
            elif isinstance(leaf, Each):
                raise UnfitError(self._aligned)

    def _write_body(self, places: Sequence[int], outputs: Sequence[int]) -> None:
        recorder = self._recorder
        carried = {}
        for place, lag in self._carried:
            value = self._rolling.value_of(self._carried[place, lag])
            carried[place, lag] = recorder.input(value, "", active=is_inexact(value))
        stacked = {}
        for leaf, stack in self._stacked.items():
            value = self._first(leaf, stack)
            stacked[leaf] = recorder.input(value, "", active=is_inexact(value))
        same = {}
        for var in self._invariants:
            value = self._rolling.value_of(var)
            same[var] = recorder.input(value, "", active=is_inexact(value))
        local = {place: recorder.append(op, op.value) for place, op in self._constants.items()}

        def found(leaf: Leaf) -> Any:
            if isinstance(leaf, Static):
                return leaf.value
            if isinstance(leaf, Carried):
                return carried[leaf.place, leaf.lag]
            if leaf in stacked:
                return stacked[leaf]
            if isinstance(leaf, Local) and leaf.place in local:
                return local[leaf.place]
            return same[self._turns.outside(leaf)]

        recorder.tape.regions = self._rolling.regions(self._run, places, len(recorder.tape))
        for place in places:
            op = with_leaves(self._op(place), map(found, self._aligned.leaves[place]))
            local[place] = recorder.append(op, self._turns.value(place, 0))
        after = [local[place] if lag == 1 else carried[place, lag - 1] for place, lag in self._carried]
        recorder.tape.results = [*after, *(local[place] for place in outputs)]

    def _first(self, leaf: Leaf, stack: Variable) -> Any:
        """What a leaf is in the first turn."""
        if isinstance(leaf, Local):
            return self._turns.value(leaf.place, 0)
        assert isinstance(leaf, Each)
        return leaf.values[0] if leaf.numbers else self._rolling.value(leaf.values[0])


def _is_elementwise(op: Operation) -> bool:
    entry = primitive_of(op.fn) if isinstance(op, Call) else None
    return entry is not None and isinstance(entry.kernel, kernels.Map)


def _bits(x: Any) -> Any:
    return np.asarray(x).tobytes()


def _nothing(t: Any) -> Any:
    """A value that nobody reads."""
    zero = zeros_like(t)
    return zero.item() if t.kind == "python" else zero


def _is_double(t: Any) -> bool:
    """Whether a type is one of double precision, or of truth values."""
    return isinstance(t, ArrayType) and t.dtype in (np.float64, np.bool_)
