"""Turns of a loop that decide otherwise as turns of one kind: what each branch computes is computed, and one is chosen.

An ``if`` in a loop is a decision in each turn, and there are more paths than anybody compiles. Where both branches are
made of operations that are cheap and cannot fail, their results are chosen by the condition, which is no decision then:
one program serves all paths, and its turns are a loop. Branches that a call has not taken stay decisions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

import numpy as np

from ..base.types import ArrayType, is_basic
from ..registry.kernels import Concatenate, Index, Map, Reduce, View
from ..registry.registry import primitive_of
from ..tape.operations import Call, Constant, Guard, Operation
from .align import Local
from .kinds import Kind, Moving, Number, Source, UnmergedError

BOOL = ArrayType(np.dtype(bool), (), "scalar")


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An operation of merged turns. ``places`` are those that it has in turns of kinds; a decision ``under`` conditions
    is one where all of them are as is said here."""

    token: Hashable
    op: Operation
    reads: tuple[Read, ...]
    places: dict[int, int] = field(default_factory=dict)
    under: tuple[tuple[Read, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of two, by a condition."""

    condition: Read
    yes: Read
    no: Read


Read: TypeAlias = "Source | Step | Chosen"


@dataclass(frozen=True, slots=True)
class Body:
    """Turns of some kinds as one: the steps, what slots have in the end, and what is given to arrays."""

    kinds: frozenset[int]
    steps: Sequence[Step]
    ends: Sequence[Read]
    given: Sequence[Read]


def body_of(kinds: Sequence[Kind]) -> Body:
    """One body for turns of all kinds; raises ``UnmergedError``. Those that part last are merged first."""
    bodies = [_alone(i, kind) for i, kind in enumerate(kinds)]
    while len(bodies) > 1:
        a, b = max(combinations(bodies, 2), key=lambda pair: _in_common(*pair))
        bodies = [body for body in bodies if body is not a and body is not b] + [_Merging(a, b).body()]
    return bodies[0]


def _alone(number: int, kind: Kind) -> Body:
    """The turns of one kind."""
    steps: list[Step] = []

    def known(source: Source) -> Read:
        return steps[source.place] if isinstance(source, Local) else source

    for place, (token, op, sources) in enumerate(zip(kind.tokens, kind.ops, kind.sources, strict=True)):
        steps.append(Step(token, op, tuple(map(known, sources)), {number: place}))
    return Body(frozenset([number]), steps, [*map(known, kind.ends)], [*map(known, kind.given)])


def _in_common(a: Body, b: Body) -> int:
    """How many steps two bodies begin with alike."""
    pairs = zip(a.steps, b.steps, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x.token != y.token), min(len(a.steps), len(b.steps)))


class _Merging:
    """Two bodies on the way to one: what they begin with, a condition, two branches, and what they end with."""

    def __init__(self, a: Body, b: Body) -> None:
        self._a, self._b = a, b
        self._new: dict[Step, Step] = {}  # of the one, in the place of steps of the two
        self._steps: list[Step] = []
        self._condition: Read | None = None

    def body(self) -> Body:
        """The one body."""
        a, b = self._a, self._b
        n = self._begin()
        self._decide(a.steps[n : n + 1], b.steps[n : n + 1])
        alike, most = 0, min(len(a.steps), len(b.steps)) - n - 1
        while alike < most and _are_alike(a.steps[-1 - alike], b.steps[-1 - alike]):
            alike += 1
        for body in (a, b):
            for step in body.steps[n + 1 : len(body.steps) - alike]:
                self._branch(step, holds=body is self._yes)
        for x, y in zip(a.steps[len(a.steps) - alike :], b.steps[len(b.steps) - alike :], strict=True):
            self._both(x, y, tuple(map(self._one, x.reads, y.reads)))
        ends = [*map(self._one, a.ends, b.ends)]
        return Body(a.kinds | b.kinds, self._steps, ends, [*map(self._one, a.given, b.given)])

    def _read(self, x: Read) -> Read:
        """What is read, in the one body."""
        if isinstance(x, Chosen):
            return Chosen(self._read(x.condition), self._read(x.yes), self._read(x.no))
        return self._new.get(x, x) if isinstance(x, Step) else x

    def _one(self, x: Read, y: Read) -> Read:
        """What the first body reads or what the second does, by the condition."""
        x, y = self._read(x), self._read(y)
        if x == y:
            return x
        if isinstance(x, _FIXED) or isinstance(y, _FIXED):
            raise UnmergedError
        assert self._condition is not None
        return Chosen(self._condition, x, y) if self._yes is self._a else Chosen(self._condition, y, x)

    def _begin(self) -> int:
        """The steps that the two begin with."""
        for n, (x, y) in enumerate(zip(self._a.steps, self._b.steps, strict=False)):
            reads = tuple(map(self._read, x.reads))
            if x.token != y.token or reads != tuple(map(self._read, y.reads)) or x.under or y.under:
                return n
            self._both(x, y, reads)
        raise UnmergedError

    def _both(self, x: Step, y: Step, reads: tuple[Read, ...]) -> None:
        under = tuple((self._read(condition), holds) for condition, holds in x.under)
        if under != tuple((self._read(condition), holds) for condition, holds in y.under):
            raise UnmergedError
        self._new[x] = self._new[y] = step = Step(x.token, x.op, reads, {**x.places, **y.places}, under)
        self._steps.append(step)

    def _decide(self, first: Sequence[Step], second: Sequence[Step]) -> None:
        """Where the two part: a condition that comes out otherwise."""
        for x, y in zip(first, second, strict=True):
            if not isinstance(x.op, Guard) or not isinstance(y.op, Guard) or not x.op.test is y.op.test is bool:
                raise UnmergedError
            reads = tuple(map(self._read, x.reads))
            if reads != tuple(map(self._read, y.reads)) or x.op.expected is y.op.expected or x.under or y.under:
                raise UnmergedError
            step = Step(("truth", x.op.site), Call(np.not_equal, (x.op.var, 0), {}, BOOL, x.op.site), (*reads, ZERO))
            self._steps.append(step)
            self._condition, self._yes = step, self._a if x.op.expected else self._b

    def _branch(self, step: Step, *, holds: bool) -> None:
        """A step of one of the two, which the other does not have."""
        _check_cheap(step.op)
        reads, under = tuple(map(self._read, step.reads)), step.under
        if isinstance(step.op, Guard):
            assert self._condition is not None
            under = (*((self._read(condition), held) for condition, held in under), (self._condition, holds))
        self._new[step] = new = Step(step.token, step.op, reads, step.places, under)
        self._steps.append(new)


ZERO = Number("0", int, 0)
_FIXED = (Number, Moving)


def _are_alike(x: Step, y: Step) -> bool:
    """Whether two steps may be one: what they read that is no variable cannot be chosen."""
    fixed = ((a, b) for a, b in zip(x.reads, y.reads, strict=False) if isinstance(a, _FIXED) or isinstance(b, _FIXED))
    return x.token == y.token and all(a == b for a, b in fixed)


def _check_cheap(op: Operation) -> None:
    """Whether an operation may run where its result is not wanted."""
    if isinstance(op, Constant) or (isinstance(op, Guard) and op.test is bool):
        return
    entry = primitive_of(op.fn) if isinstance(op, Call) else None
    kernel = None if entry is None or entry.fails else entry.kernel
    basic = isinstance(kernel, Index) and isinstance(op, Call) and is_basic(op.args[1])
    if not basic and not isinstance(kernel, Map | View | Concatenate) and kernel != Reduce("sum"):
        raise UnmergedError
