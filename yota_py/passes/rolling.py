"""A tape that is written anew, with loops in the place of some of its runs."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.records import record
from ..base.types import ArrayType
from ..base.unwinding import Quiet
from ..tape.operations import Call, Guard, Operation, Variable, operands, paths, substitute
from ..tape.recorder import Recorder
from ..tape.tape import Region, Tape, turns_of
from .align import Aligned
from .repeats import Run

MAX_SINGLE = 8  # elements of a stack that are read one by one


@record()
class Element:
    """One element of a stack, which is taken out if somebody wants it alone."""

    stack: Variable
    index: int


@record()
class Elements:
    """Some of a stack, one behind the other, which are taken out if somebody wants them alone."""

    stack: Variable
    start: int
    stop: int


class UnfitError(Exception):
    """A run cannot be a loop for what is read of it."""

    def __init__(self, aligned: Aligned) -> None:
        super().__init__()
        self.aligned = aligned


def _note_use(uses: dict[int, dict[int, set[int]]], homes: Sequence[Aligned], var: Variable) -> None:
    for home in homes:
        for place, turn in home.uses(var):
            uses[home.run.start].setdefault(place, set()).add(turn)


class Rolling:
    """One tape written anew; ``roll`` does the same for the bodies of loops."""

    def __init__(self, source: Recorder, chosen: Sequence[Aligned], roll: Callable[[Recorder], Recorder]) -> None:
        self.roll = roll
        self._source, self._tape, self._chosen = source, source.tape, chosen
        tape = source.tape
        self._out = Recorder(Tape(tape.name, tape.site, in_spec=tape.in_spec, out_spec=tape.out_spec))
        self._env: dict[int, Variable | Element | Elements] = {}
        self._current: Aligned | None = None  # that is being written
        self._single: Counter[Variable] = Counter()  # so many elements that are taken out of stacks alone
        self._uses = self._used()

    def _used(self) -> dict[int, dict[int, set[int]]]:
        """Of each run, by its start: by places, the turns of which something is read outside."""
        homes = self._chosen
        uses: dict[int, dict[int, set[int]]] = {home.run.start: {} for home in homes}
        pending = iter([home.run for home in homes])
        current = next(pending, None)
        for i, op in enumerate(self._tape.ops):
            if current is not None and i >= current.end:
                current = next(pending, None)
            inside = current.start if current is not None and i >= current.start else -1
            for var in operands(op):
                if not 0 <= inside < var.id:  # what a turn reads of its own run is inside
                    _note_use(uses, homes, var)
        for _, var in paths(self._tape.results):
            _note_use(uses, homes, var)
        return uses

    def run(self, write_loop: Callable[[Rolling, Aligned], None]) -> Recorder:
        """The new tape, with loops as ``write_loop`` writes them."""
        i, chosen = 0, iter(self._chosen)
        following = next(chosen, None)
        begun: dict[int, int] = {}  # where the operations of the old tape are on the new one
        while i < len(self._tape):
            begun[i] = len(self._out.tape)
            if following is not None and i == following.run.start:
                self._current = following
                write_loop(self, following)
                self._current = None
                i, following = following.run.end, next(chosen, None)
                continue
            i += 1
            self._env[i] = self._rewritten(self._tape.ops[i - 1], self._source.values[i])
        tape, begun[i] = self._out.tape, len(self._out.tape)
        tape.regions = [
            Region(begun[r.start], begun[r.stop], r.every)
            for r in self._tape.regions
            if r.start in begun and r.stop in begun
        ]
        tape.leaves = [substitute(leaf, self.variable) for leaf in self._tape.leaves]
        tape.results = [substitute(result, self.variable) for result in self._tape.results]
        return self._out

    def _rewritten(self, op: Operation, value: Any) -> Variable | Elements:
        if isinstance(op, Call):
            if _is_stack(op) and (joined := self._joined(op)) is not None:
                return joined
            if _is_concatenation(op) and (whole := self._whole(op.args[0])) is not None:
                return whole
            args, kwargs = substitute((op.args, dict(op.kwargs)), self.variable)
            return self.append(replace(op, args=args, kwargs=kwargs), value)
        return self.append(replace(op, var=self.variable(op.var)) if isinstance(op, Guard) else op, value)

    def append(self, op: Operation, value: Any) -> Variable:
        """Add an operation to the new tape."""
        return self._out.append(op, value)

    def call(self, fn: Any, *args: Any, like: Operation | None = None) -> Variable:
        """Add a call and compute it. Raises ``UnfitError`` if a value is not known any more, which is large."""
        for _, var in paths(args):
            self.value_of(var)
        with Quiet():
            return self._out.call(fn, args, site=getattr(like, "site", None))

    def constant(self, value: Any) -> Variable:
        """Add a constant."""
        return self._out.constant(value)

    def variable(self, var: Variable) -> Variable:
        """The new variable of an old one. Raises ``UnfitError`` for a number of Python's that is in a stack, and where
        many elements of one are wanted alone: the cotangent of each is a stack."""
        new = self._env[var.id]
        if isinstance(new, Element):
            op = self._tape[var]
            self._single[new.stack] += 1
            many = self._single[new.stack] > MAX_SINGLE
            if many or (isinstance(op.type, ArrayType) and op.type.kind == "python"):
                raise UnfitError(next(a for a in self._chosen if a.run.start < var.id <= a.run.end))
            op = Call(operator.getitem, (new.stack, new.index), {}, op.type, op.site)
            new = self._env[var.id] = self.append(op, self._source.values[var.id])
        elif isinstance(new, Elements):
            some = slice(new.start, new.stop)
            new = self._env[var.id] = self.call(operator.getitem, new.stack, some, like=self._tape[var])
        return new

    def stacked(self, names: Sequence[Any], like: Operation) -> Variable:
        """A stack of old variables, and numbers, of one type."""
        parts: list[Any] = []
        for name in names:
            new = self._env[name.id] if isinstance(name, Variable) else name
            if not isinstance(new, Element):
                parts.append(new)
            elif parts and isinstance(end := parts[-1], tuple) and (end[0], end[1][-1] + 1) == (new.stack, new.index):
                end[1].append(new.index)
            else:
                parts.append((new.stack, [new.index]))
        pieces, alone = [], []
        for part in [*parts, None]:
            if part is not None and not isinstance(part, tuple):
                alone.append(part)
                continue
            if alone:
                pieces.append(self.call(np.stack, alone, like=like))
                alone = []
            if part is not None:
                stack, indices = part
                whole = len(indices) == self._extent(stack)
                part_of = slice(indices[0], indices[-1] + 1)
                pieces.append(stack if whole else self.call(operator.getitem, stack, part_of, like=like))
        return pieces[0] if len(pieces) == 1 else self.call(np.concatenate, pieces, like=like)

    def _joined(self, op: Call) -> Variable | Elements | None:
        """``np.stack`` of many elements of stacks."""
        names = op.args[0]
        elements = [new for x in names if isinstance(x, Variable) and isinstance(new := self._env[x.id], Element)]
        if len(elements) < 2 or any(self._tape.type_of(x).dtype != op.type.dtype for x in names):  # type: ignore[union-attr]
            return None
        stack, start = elements[0].stack, elements[0].index
        if elements == [Element(stack, start + k) for k in range(len(names))] and len(names) < self._extent(stack):
            return Elements(stack, start, start + len(names))
        return self.stacked(names, op)

    def _whole(self, names: Sequence[Any]) -> Variable | None:
        """The stack that arrays are the elements of, one behind the other, if they are."""
        parts = [self._env[x.id] for x in names]
        stack = parts[0].stack if isinstance(parts[0], Elements) else None
        end = 0
        for part in parts:
            if not isinstance(part, Elements) or part.stack != stack or part.start != end:
                return None
            end = part.stop
        return stack if stack is not None and end == self._extent(stack) else None

    def _extent(self, stack: Variable) -> int:
        return self._out.tape[stack].type.shape[0]  # type: ignore[union-attr]

    # what is asked for while a loop is written

    def every(self, run: Run) -> int:
        """Every how many turns the loop that a run becomes keeps what it carries; 0 if it keeps all."""
        around = (r for r in self._tape.regions if r.start <= run.start and run.end <= r.stop)
        return next((turns_of(r.every, run.turns) for r in around), 0)

    def regions(self, run: Run, places: Sequence[int], offset: int) -> list[Region]:
        """Those in a turn, where the operations of these places follow each other from ``offset`` on."""
        out = []
        for r in self._tape.regions:
            begin, end = r.start - run.start, r.stop - run.start
            if 0 <= begin < end <= run.period:
                first, last = bisect_left(places, begin), bisect_left(places, end)
                out.append(Region(offset + first, offset + last, r.every))
        return [r for r in out if r.start < r.stop]

    def uses(self, aligned: Aligned) -> dict[int, set[int]]:
        """Of which turns something is read outside of a run, by places."""
        return self._uses[aligned.run.start]

    def give(self, old: Variable, new: Variable | Element | Elements) -> None:
        """An old variable has a new name."""
        self._env[old.id] = new

    def op(self, old: Variable) -> Operation:
        """An operation of the old tape."""
        return self._tape[old]

    def value(self, old: Variable) -> Any:
        """Its value."""
        return self._source[old]

    def is_element(self, old: Variable) -> bool:
        """Whether an old variable is an element of a stack."""
        return isinstance(self._env[old.id], Element)

    def type_of(self, new: Variable) -> Any:
        """The type of a new variable."""
        return self._out.tape[new].type

    def value_of(self, new: Variable) -> Any:
        """Its value; raises ``UnfitError`` if that is not known."""
        value = self._out[new]
        if value is None and self._current is not None:
            raise UnfitError(self._current)
        return value


def _is_concatenation(op: Call) -> bool:
    of_list = len(op.args) == 1 and type(op.args[0]) is list and all(isinstance(x, Variable) for x in op.args[0])
    return original(op.fn) is original(np.concatenate) and of_list and not op.kwargs


def _is_stack(op: Call) -> bool:
    """Whether an operation makes an array of others, one behind the other."""
    return original(op.fn) is original(np.stack) and len(op.args) == 1 and not op.kwargs and type(op.args[0]) is list
