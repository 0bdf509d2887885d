"""What the turns of a run read: what is carried from one to the next, or the same in all, or comes one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ..base.records import record
from ..base.types import ArrayType, Type
from ..tape.loop import as_loop
from ..tape.operations import Call, Constant, Guard, Operation, Variable
from ..tape.tape import Tape
from .repeats import CONTAINERS, Run, leaves_of

MAX_LAG = 4


class UnalignedError(Exception):
    """The turns of a run read what no loop can give them."""


@record()
class Static:
    """A leaf that is no variable and is the same in each turn."""

    value: Any


@record()
class Local:
    """The result of an operation of the same turn, by its place in the turn."""

    place: int


@record()
class Carried:
    """The result that the operation at a place had ``lag`` turns before; ``firsts`` are what the first turns read, of
    which there is none."""

    place: int
    lag: int
    firsts: tuple[Variable, ...]


@record()
class Invariant:
    """A variable from before the loop."""

    var: Variable


@record()
class Each:
    """Another variable from before the loop, or another number, in each turn."""

    values: tuple[Any, ...]

    @property
    def numbers(self) -> bool:
        """Whether it is made of numbers."""
        return not isinstance(self.values[0], Variable)


Leaf: TypeAlias = Static | Local | Carried | Invariant | Each


@record(frozen=False)
class Aligned:
    """A run, with the leaves of each operation of a turn; constants have none."""

    run: Run
    leaves: list[list[Leaf]] = field(default_factory=list)
    said: dict[tuple[int, int], Variable] = field(default_factory=dict)  # results of turns that are not on the tape
    outputs: dict[int, Variable] = field(default_factory=dict)  # by places, a stack of those of all such turns

    def var(self, place: int, turn: int) -> Variable:
        """The variable of an operation on the tape. Raises ``UnalignedError`` for one that is not there."""
        if turn < self.run.recorded:
            return Variable(self.run.start + turn * self.run.period + place + 1)
        if (known := self.said.get((place, turn))) is None:
            raise UnalignedError("nobody has recorded the turn")
        return known

    def uses(self, var: Variable) -> Iterator[tuple[int, int]]:
        """The place and the turn that a variable is the result of, if it is one of the run's."""
        if self.run.start < var.id <= self.run.stop:
            turn, place = divmod(var.id - 1 - self.run.start, self.run.period)
            yield place, turn
        elif self.run.stop < var.id <= self.run.end:
            yield from (at for at, known in self.said.items() if known == var)
            for place, known in self.outputs.items():
                if known == var:
                    yield from ((place, turn) for turn in range(self.run.recorded, self.run.turns))

    @property
    def carried(self) -> set[int]:
        """The places from which something is carried."""
        return {leaf.place for leaves in self.leaves for leaf in leaves if isinstance(leaf, Carried)}


def align(tape: Tape, run: Run) -> Aligned:
    """Compare the turns of a run; raises ``UnalignedError`` if they are no loop."""
    out = Aligned(run)
    if run.said:
        _find_said(tape, out)
    for place in range(run.period):
        ops = tape.ops[run.start + place : run.stop : run.period]
        columns = zip(*map(leaves_in, ops), strict=True)
        out.leaves.append([_leaf(run, place, column) for column in columns])
        _check_numbers(ops)
    for leaves in out.leaves:
        for leaf in leaves:
            if isinstance(leaf, Carried):
                want = tape[out.var(leaf.place, 0)].type
                if not isinstance(want, ArrayType) or any(tape[first].type != want for first in leaf.firsts):
                    raise UnalignedError("what is carried begins as something of another type")
            elif isinstance(leaf, Each) and not leaf.numbers and not _are_alike([tape[x].type for x in leaf.values]):
                raise UnalignedError("what comes one by one has several types")
    return out


def _gone_on(run: Run, column: tuple[Any, ...]) -> tuple[Any, ...]:
    """The numbers of turns that are on the tape, and of those that a loop has said: it has been seen to that they are
    positions, one as far from the next as in the turns before."""
    step = column[-1] - column[-2]
    if any(type(x) is not int for x in column) or any(b - a != step for a, b in itertools.pairwise(column)):
        raise UnalignedError("numbers are others in each turn")
    return (*column, *(column[-1] + step * k for k in range(1, run.said + 1)))


def _find_said(tape: Tape, aligned: Aligned) -> None:
    """Find what a loop has made of the last turns of a run: as it is given results of the turns before, its results are
    those of as many turns later."""
    run = aligned.run
    behind = enumerate(tape.ops[run.stop : run.end], run.stop)
    at, op, loop = next((i, op, loop) for i, op in behind if (loop := as_loop(op)) is not None)
    assert isinstance(op, Call) and loop.continues is not None
    for i, x in enumerate(op.args[: loop.carried]):
        turn, place = divmod(x.id - 1 - run.start, run.period)
        if not 0 <= turn < run.recorded:
            raise UnalignedError("a loop goes on with what is from before")
        aligned.said[place, turn + run.said] = Variable(at + 2 + i)
    for i, place in enumerate(loop.continues.places):
        aligned.outputs[place] = Variable(at + 2 + loop.carried + i)


def _are_alike(types: Sequence[Type]) -> bool:
    return isinstance(types[0], ArrayType) and all(t == types[0] for t in types)


def leaves_in(op: Operation) -> list[Any]:
    """The variables, numbers and other leaves that an operation is given; constants have none."""
    if isinstance(op, Guard):
        return [op.var]
    if isinstance(op, Constant):
        return []
    assert isinstance(op, Call)
    out = leaves_of(op.args, []) if not CONTAINERS.isdisjoint(map(type, op.args)) else [*op.args]
    return leaves_of(dict(op.kwargs), out) if op.kwargs else out


def _check_numbers(ops: Sequence[Operation]) -> None:
    """Decisions are counted in the same steps."""
    if isinstance(ops[0], Guard):
        numbers = [op.number for op in ops if isinstance(op, Guard)]
        step = numbers[1] - numbers[0]
        if any(b - a != step for a, b in itertools.pairwise(numbers)):
            raise UnalignedError("decisions are counted in other ways")


def _leaf(run: Run, place: int, column: tuple[Any, ...]) -> Leaf:
    first = column[0]
    if not isinstance(first, Variable):
        cls = type(first)
        if all(x is first or (type(x) is cls and x == first and repr(x) == repr(first)) for x in column):
            return Static(first)
        return Each(_gone_on(run, column) if run.said else column)
    ids = [x.id for x in column]
    relative = [i - run.start - 1 - k * run.period for k, i in enumerate(ids)]
    last = relative[-1]
    if 0 <= last < place and all(r == last for r in relative):
        return Local(last)
    if ids[0] == ids[-1] <= run.start and all(i == ids[0] for i in ids):
        return Invariant(first)
    lag = -(last // run.period)
    before = all(i <= run.start for i in ids[:lag])
    if 1 <= lag <= min(MAX_LAG, run.recorded - 1) and before and all(r == last for r in relative[lag:]):
        return Carried(last + lag * run.period, lag, column[:lag])
    if all(i <= run.start for i in ids) and not run.said:
        return Each(column)
    raise UnalignedError("turns read what others have computed, in no order")


# -- positions in arrays, part by part, which turns read


def leaves_of_parts(parts: Sequence[Any], leaves: Sequence[Leaf]) -> list[list[Leaf]]:
    """The leaves of each part of an index."""
    rest = iter(leaves)
    return [[next(rest) for _ in range(3 if type(part) is slice else 1)] for part in parts]


def written_out(
    parts: Sequence[Any], places: list[list[Leaf]], varying: list[int], ndim: int
) -> tuple[list[Any], list[list[Leaf]], list[int]]:
    """An index with a part for each dimension: instead of an ellipsis, and at its end, whole ones."""
    given = [i for i, part in enumerate(parts) if part is Ellipsis]
    at = given[0] if given else len(parts)
    whole = [slice(None)] * (ndim - sum(part is not None and part is not Ellipsis for part in parts))
    skip = len(whole) - len(given)
    return (
        [*parts[:at], *whole, *parts[at + len(given) :]],
        [*places[:at], *([] for _ in whole), *places[at + len(given) :]],
        [i if i < at else i + skip for i in varying],
    )


def evenly(indices: list[int]) -> slice | None:
    """A slice that takes these; ``None`` if they are not evenly spaced."""
    step = indices[1] - indices[0]
    if step == 0 or any(b - a != step for a, b in itertools.pairwise(indices)):
        return None
    stop = indices[-1] + (1 if step > 0 else -1)
    return slice(indices[0], stop if stop >= 0 else None, step)
