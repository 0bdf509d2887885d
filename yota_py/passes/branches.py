"""Turns of a loop that decide otherwise as turns of one kind: what each branch computes is computed, and one is chosen.

An ``if`` in a loop is a decision in each turn, and there are more paths than anybody compiles. Where both branches are
made of operations that are cheap and cannot fail, their results are chosen by the condition, which is no decision then:
one program serves all paths, and its turns are a loop. Branches that a call has not taken stay decisions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias, cast

import numpy as np

from ..base.records import record
from ..base.types import ArrayType, is_basic
from ..registry.kernels import Concatenate, Index, Map, Reduce, View
from ..registry.registry import primitive_of
from ..tape.operations import Call, Constant, Guard, Operation
from .align import Local
from .kinds import Kind, Moving, Number, Source, UnmergedError

BOOL = ArrayType(np.dtype(bool), (), "scalar")
MAX_APART = 200  # operations of two branches


@record(eq=False)
class Step:
    """An operation of merged turns. ``places`` are those that it has in turns of kinds; a decision ``under`` conditions
    is one where all of them are as is said here."""

    token: Hashable
    op: Operation
    reads: tuple[Read, ...]
    places: dict[int, int] = field(default_factory=dict)
    under: Under = ()


@record()
class Chosen:
    """One of two, by a condition."""

    condition: Read
    yes: Read
    no: Read


Read: TypeAlias = "Source | Step | Chosen"
Under: TypeAlias = tuple[tuple[Step, bool], ...]  # conditions, and what they are


@record()
class Body:
    """Turns of some kinds as one: the steps, what slots have in the end, and what is given to arrays."""

    kinds: frozenset[int]
    steps: Sequence[Step]
    ends: Sequence[Read]
    given: Sequence[Read]


def body_of(kinds: Sequence[Kind]) -> Body:
    """One body for turns of all kinds; raises ``UnmergedError``."""
    return _Merging(kinds).body()


class _Merging:
    """Turns of some kinds on their way to one: a path is what a kind does, and goes together with others until they
    decide otherwise, then alone, and from where they do the same again together.

    Only what was seen is merged: where a decision was always the same after those before it in the turn, it stays one.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds
        self._steps: list[Step] = []
        self._made: list[dict[int, Step]] = [{} for _ in kinds]  # by their places
        self._answers: list[dict[Step, bool]] = [{} for _ in kinds]  # of conditions, in their order
        self._conditions: list[Step] = []

    def body(self) -> Body:
        """The one body."""
        every = range(len(self._kinds))
        self._run(dict.fromkeys(every, 0), {k: len(self._kinds[k].tokens) for k in every}, ())
        ends, given = (
            [self._one({k: self._read(k, source) for k, source in enumerate(sources)}) for sources in each]
            for each in (
                zip(*(kind.ends for kind in self._kinds), strict=True),
                zip(*(kind.given for kind in self._kinds), strict=True),
            )
        )
        return Body(frozenset(every), self._steps, ends, given)

    def _read(self, k: int, source: Source) -> Read:
        return self._made[k][source.place] if isinstance(source, Local) else source

    def _one(self, reads: Mapping[int, Read]) -> Read:
        """What these kinds read, by their conditions."""
        if len(set(reads.values())) == 1:
            return next(iter(reads.values()))
        if any(isinstance(x, _FIXED) for x in reads.values()):
            raise UnmergedError
        best: tuple[Step, dict[int, Read], dict[int, Read]] | None = None
        for condition in self._conditions:
            answers = {k: self._answers[k].get(condition) for k in reads}
            if {*answers.values()} != {True, False}:
                continue
            yes, no = ({k: x for k, x in reads.items() if answers[k] is answer} for answer in (True, False))
            settles = len({*yes.values()}) == len({*no.values()}) == 1
            if best is None or settles:
                best = condition, yes, no
            if settles:
                break
        if best is None:
            raise UnmergedError
        condition, yes, no = best
        return Chosen(condition, self._one(yes), self._one(no))

    def _run(self, at: dict[int, int], stop: Mapping[int, int], under: Under) -> None:
        """Go on with kinds from where they are to where they stop."""
        while any(at[k] < stop[k] for k in at):
            first = next(iter(at))
            if any(at[k] >= stop[k] for k in at):
                raise UnmergedError
            if all(self._are_alike(first, at[first], k, at[k]) for k in at):
                self._go_together(at, under)
                at = {k: place + 1 for k, place in at.items()}
            else:
                at = self._part(at, stop, under)

    def _go_together(self, at: Mapping[int, int], under: Under) -> None:
        """A step that all of them take."""
        first = next(iter(at))
        kind, place = self._kinds[first], at[first]
        op = kind.ops[place]
        if under:
            _check_cheap(op)
        step = Step(kind.tokens[place], op, self._reads(at), dict(at), under if isinstance(op, Guard) else ())
        for k, place in at.items():
            self._made[k][place] = step
        self._steps.append(step)

    def _reads(self, at: Mapping[int, int]) -> tuple[Read, ...]:
        sources = ([self._read(k, x) for x in self._kinds[k].sources[place]] for k, place in at.items())
        return tuple(self._one(dict(zip(at, reads, strict=True))) for reads in zip(*sources, strict=True))

    def _part(self, at: Mapping[int, int], stop: Mapping[int, int], under: Under) -> dict[int, int]:
        """A condition that comes out otherwise, and what either side does; where they do the same again."""
        ops = {k: self._kinds[k].ops[place] for k, place in at.items()}
        if not all(isinstance(op, Guard) and op.test is bool for op in ops.values()):
            raise UnmergedError
        guards = cast("dict[int, Guard]", ops)
        if len({guard.site for guard in guards.values()}) > 1:
            raise UnmergedError
        (read,), guard = self._reads(at), next(iter(guards.values()))
        token = "truth", guard.site
        condition = Step(token, Call(np.not_equal, (guard.var, 0), {}, BOOL, guard.site), (read, ZERO))
        self._steps.append(condition)
        self._check_seen(at, guards, read)
        self._conditions.append(condition)
        for k, guard in guards.items():
            self._answers[k][condition] = guard.expected
        sides = [{k: place + 1 for k, place in at.items() if guards[k].expected is answer} for answer in (True, False)]
        ends = self._where_they_meet(sides[0], sides[1], stop)
        for side, answer in zip(sides, (True, False), strict=True):
            self._run(side, ends, (*under, (condition, answer)))
        return {k: ends[k] for k in at}

    def _check_seen(self, at: Mapping[int, int], guards: Mapping[int, Guard], read: Read) -> None:
        """After decisions that always went on in one way, another way is a decision."""
        known: dict[Under, dict[bool, int]] = {}
        for k, guard in guards.items():
            known.setdefault(tuple(self._answers[k].items()), {}).setdefault(guard.expected, k)
        for before, ways in known.items():
            if len(ways) == 1:
                ((_, k),) = ways.items()
                self._steps.append(Step(self._kinds[k].tokens[at[k]], guards[k], (read,), {k: at[k]}, before))

    def _where_they_meet(
        self, yes: Mapping[int, int], no: Mapping[int, int], stop: Mapping[int, int]
    ) -> dict[int, int]:
        """The places from which on kinds of two sides do the same again, the first ones."""
        (a, i), (b, j) = (next(iter(side.items())) for side in (yes, no))
        places = ((i + k, j + total - k) for total in range(MAX_APART) for k in range(total + 1))
        found = ((x, y) for x, y in places if x <= stop[a] and y <= stop[b] and self._go_on_alike(a, x, b, y, stop))
        i, j = next(found, (-1, -1))
        if i < 0:
            raise UnmergedError
        meeting = {a: i, b: j}
        for k, place in yes.items():
            if k != a:
                meeting[k] = self._first_like(k, place, b, j, stop)
        for k, place in no.items():
            if k != b:
                meeting[k] = self._first_like(k, place, a, i, stop)
        return meeting

    def _first_like(self, k: int, place: int, other: int, there: int, stop: Mapping[int, int]) -> int:
        for x in range(place, stop[k] + 1):
            if self._go_on_alike(k, x, other, there, stop):
                return x
        raise UnmergedError

    def _go_on_alike(self, a: int, i: int, b: int, j: int, stop: Mapping[int, int]) -> bool:
        """Whether two kinds do the same from these places on, to their ends or to where they decide otherwise."""
        while i < stop[a] and j < stop[b]:
            if not self._are_alike(a, i, b, j):
                x, y = self._kinds[a].ops[i], self._kinds[b].ops[j]
                both = isinstance(x, Guard) and isinstance(y, Guard) and x.test is y.test is bool
                return both and x.site == y.site  # type: ignore[union-attr]
            i, j = i + 1, j + 1
        return i == stop[a] and j == stop[b]

    def _are_alike(self, a: int, i: int, b: int, j: int) -> bool:
        """Whether two steps may be one: what they read that is no variable cannot be chosen."""
        x, y = self._kinds[a], self._kinds[b]
        if x.tokens[i] != y.tokens[j]:
            return False
        pairs = zip(x.sources[i], y.sources[j], strict=True)
        return all(p == q for p, q in pairs if isinstance(p, _FIXED) or isinstance(q, _FIXED))


ZERO = Number("0", int, 0)
_FIXED = (Number, Moving)


def _check_cheap(op: Operation) -> None:
    """Whether an operation may run where its result is not wanted."""
    if isinstance(op, Constant) or (isinstance(op, Guard) and op.test is bool):
        return
    entry = primitive_of(op.fn) if isinstance(op, Call) else None
    kernel = None if entry is None or entry.fails else entry.kernel
    basic = isinstance(kernel, Index) and isinstance(op, Call) and is_basic(op.args[1])
    if not basic and not isinstance(kernel, Map | View | Concatenate) and kernel != Reduce("sum"):
        raise UnmergedError
