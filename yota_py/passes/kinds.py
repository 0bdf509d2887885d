"""Turns of a loop that decide otherwise, and what they have in common.

Where Python has begun some turns, the local variables of its frame were noted (``Noted``). So it is known of each kind
of turn what it makes of them, whatever the names of its variables on the tape; by that, turns that follow are found as
well.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from operator import getitem
from typing import Any, TypeAlias

import numpy as np

from ..base.records import record
from ..tape.loop import Noted
from ..tape.operations import Call, Constant, Guard, Operation, Variable
from ..tape.tape import Tape
from .align import Invariant, Local, leaves_in

MAX_KINDS = 16


class UnmergedError(Exception):
    """Turns cannot be told as one."""


@record()
class Slot:
    """What a slot has when the turn begins."""

    slot: int


@record()
class Number:
    """A leaf that is no variable; ``text`` and ``cls`` tell it from others."""

    text: str
    cls: type
    value: Any = field(compare=False)


@record()
class Moving:
    """A position, so far from the turn's."""

    distance: int


Source: TypeAlias = Local | Slot | Invariant | Number | Moving


@record(frozen=False)
class Kind:
    """Turns that consist of the same operations, known by these ``tokens``: what each of them reads, what the slots
    have in the end, and what is given to arrays."""

    tokens: tuple[Hashable, ...]
    ops: Sequence[Operation]  # of one turn
    sources: list[list[Source]] = field(default_factory=list)
    ends: list[Source] = field(default_factory=list)
    given: list[Source] = field(default_factory=list)


@record()
class Turn:
    """A turn of this kind from ``start`` on, and its slots when it begins."""

    kind: int
    start: int
    before: tuple[Variable, ...]
    position: int


def kinds_of(tape: Tape, tokens: Sequence[Hashable], noted: Sequence[Noted]) -> list[Kind]:
    """The kinds of some turns of a loop; raises ``UnmergedError`` if it is not known what they read."""
    groups: dict[tuple[Hashable, ...], list[Noted]] = {}
    for turn in noted:
        groups.setdefault(tuple(tokens[turn.start : turn.stop]), []).append(turn)
    if not 1 < len(groups) <= MAX_KINDS:
        raise UnmergedError
    if any(turn.written for turn in noted) and any(turn.shared for turn in noted):
        raise UnmergedError  # what is written into may be known by another name in other turns
    sizes = {(len(turn.before), len(turn.after), len(turn.given)) for turn in noted}
    if len(sizes) > 1:
        raise UnmergedError
    changing = {i for turn in noted for i, (x, y) in enumerate(zip(turn.before, turn.after, strict=True)) if x != y}
    return [_kind(tape, tokens, noted, key, turns, changing) for key, turns in groups.items()]


def _kind(
    tape: Tape, all_tokens: Sequence[Hashable], noted: Sequence[Noted], tokens: tuple[Hashable, ...],
    turns: Sequence[Noted], changing: set[int],
) -> Kind:  # fmt: skip
    first = noted[0].start
    kind = Kind(tokens, tape.ops[turns[0].start : turns[0].stop])
    same = noted  # turns that have done the same so far: code is where it was, and reads what it did
    for place, token in enumerate(tokens):
        same = [turn for turn in same if turn.start + place < turn.stop and all_tokens[turn.start + place] == token]
        columns = zip(*(leaves_in(tape.ops[turn.start + place]) for turn in same), strict=True)
        sources: list[Source] = []
        for k, column in enumerate(columns):
            moves = k == 1 and is_element(kind.ops[place])
            ways = [_ways(tape, x, turn, first, moves=moves) for x, turn in zip(column, same, strict=True)]
            sources.append(_source(ways, changing))
        kind.sources.append(sources)
        _check_position(kind, place, same)
        _check_constants([tape.ops[turn.start + place] for turn in same])
    for i in range(len(turns[0].after)):
        stays = all(i in turn.kept and turn.before[i] == turn.after[i] for turn in turns)
        ways = [_ways(tape, turn.after[i], turn, first) for turn in turns]
        kind.ends.append(Slot(i) if stays else _source(ways, changing))
    for i in range(len(turns[0].given)):
        kind.given.append(_source([_ways(tape, turn.given[i], turn, first) for turn in turns], changing))
    return kind


def is_element(op: Operation) -> bool:
    """Whether an operation takes one element, or row, of an array."""
    return isinstance(op, Call) and op.fn is getitem and not op.kwargs and type(op.args[1]) is int


def _ways(tape: Tape, x: Any, turn: Noted, first: int, *, moves: bool = False) -> set[Source]:
    """What a leaf may be: nobody reads what was computed before the loop but from slots, or where it is held."""
    if not isinstance(x, Variable):
        number: set[Source] = {Number(repr(x), type(x), x)}
        return number | {Moving(x - turn.position)} if moves and turn.position is not None else number
    if turn.start < x.id <= turn.stop:
        return {Local(x.id - turn.start - 1)}
    found: set[Source] = {Slot(i) for i, y in enumerate(turn.before) if y == x}
    elsewhere = x.id <= first and (not found or x in turn.held or not isinstance(tape[x], Call))
    return found | {Invariant(x)} if elsewhere else found


def _source(ways: Sequence[set[Source]], changing: set[int]) -> Source:
    """What a leaf is in all these turns; raises ``UnmergedError`` where that is not certain."""
    found = set.intersection(*ways)
    moving = {x for x in found if isinstance(x, Moving) or (isinstance(x, Slot) and x.slot in changing)}
    fixed = found - moving
    if len(moving) > 1 or not found or (moving and fixed):
        raise UnmergedError
    return next(iter(moving or sorted(fixed, key=lambda x: (isinstance(x, Invariant), repr(x)))))


def _check_position(kind: Kind, place: int, turns: Sequence[Noted]) -> None:
    """Only of arrays that are said to be read so, elements are taken at positions."""
    if any(isinstance(x, Moving) for x in kind.sources[place]):
        array = kind.ops[place].args[0]  # type: ignore[union-attr]
        if not all(array in turn.read for turn in turns):
            raise UnmergedError


def _check_constants(ops: Sequence[Operation]) -> None:
    first = ops[0]
    if isinstance(first, Constant) and any(
        np.asarray(op.value).tobytes() != np.asarray(first.value).tobytes() for op in ops if isinstance(op, Constant)
    ):
        raise UnmergedError


def gaps_between(turns: Sequence[Noted]) -> dict[int, int]:
    """Where turns begin behind what was tried between them, and nothing came of; by where those before end."""
    return {before.stop: after.start for before, after in pairwise(turns)
            if before.loop == after.loop and before.stop < after.start}  # fmt: skip


class Chain:
    """Turns that follow each other, but for ``gaps``: those that are noted, and those that follow on them."""

    def __init__(
        self, tape: Tape, tokens: Sequence[Hashable], kinds: Sequence[Kind], noted: Sequence[Noted],
        gaps: Mapping[int, int],
    ) -> None:  # fmt: skip
        self._tape, self._tokens, self.kinds = tape, tokens, kinds
        self._by_tokens = {kind.tokens: i for i, kind in enumerate(kinds)}
        self._lengths = sorted({len(kind.tokens) for kind in kinds}, reverse=True)
        self.until = noted[0].until
        self._step = (noted[1].position or 0) - (noted[0].position or 0)
        self._gaps = gaps
        self.turns = [self._known(noted[0])]
        self.end = noted[0].after
        self.stop = noted[0].stop
        for turn in noted[1:]:
            if not self._go_on() or self.turns[-1].start != turn.start or self.turns[-1].before != turn.before:
                raise UnmergedError
        if self.end != noted[-1].after:
            raise UnmergedError
        left = noted[-1].left
        while left and self._go_on():
            left -= 1

    @property
    def start(self) -> int:
        """The index of the first operation."""
        return self.turns[0].start

    @property
    def has_ended(self) -> bool:
        """Whether the condition that the turns begin with is another one behind them."""
        first, last = self._tape.ops[self.start], self._tape.ops[self.stop] if self.stop < len(self._tape) else None
        both = isinstance(first, Guard) and isinstance(last, Guard) and last.site == first.site
        return both and last.var == self.end[0] and last.expected is not first.expected  # type: ignore[union-attr]

    def overlaps(self, other: Chain) -> bool:
        """Whether two have operations in common."""
        return self.start < other.stop and other.start < self.stop

    def ops_of(self, turn: Turn) -> Sequence[Operation]:
        """The operations of a turn."""
        return self._tape.ops[turn.start : turn.start + len(self.kinds[turn.kind].tokens)]

    def _known(self, turn: Noted) -> Turn:
        kind = self._by_tokens[tuple(self._tokens[turn.start : turn.stop])]
        return Turn(kind, turn.start, turn.before, turn.position or 0)

    def _go_on(self) -> bool:
        position = self.turns[-1].position + self._step
        start = self._gaps.get(self.stop, self.stop)
        for length in self._lengths:
            kind = self._by_tokens.get(tuple(self._tokens[start : start + length]))
            turn = None if kind is None else Turn(kind, start, self.end, position)
            if turn is not None and self._fits(turn):
                self.turns.append(turn)
                self.end = tuple(self.resolve(turn, x) for x in self.kinds[turn.kind].ends)
                self.stop = start + length
                return True
        return False

    def _fits(self, turn: Turn) -> bool:
        """Whether all is read that the kind reads."""
        for place, sources in enumerate(self.kinds[turn.kind].sources):
            have = leaves_in(self._tape.ops[turn.start + place])
            if len(have) != len(sources) or not all(map(self._is, [turn] * len(have), sources, have)):
                return False
        try:
            for op, known in zip(self.ops_of(turn), self.kinds[turn.kind].ops, strict=True):
                _check_constants([op, known])
        except UnmergedError:
            return False
        return True

    def _is(self, turn: Turn, source: Source, x: Any) -> bool:
        if isinstance(source, Number):
            return type(x) is source.cls and repr(x) == source.text
        if isinstance(source, Moving):
            return bool(x == turn.position + source.distance)
        return bool(self.resolve(turn, source) == x)

    def resolve(self, turn: Turn, source: Source) -> Any:
        """The variable that a source is in a turn."""
        if isinstance(source, Local):
            return Variable(turn.start + source.place + 1)
        if isinstance(source, Slot):
            return turn.before[source.slot]
        assert isinstance(source, Invariant)
        return source.var
