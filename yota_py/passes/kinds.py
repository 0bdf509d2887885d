"""Turns of a loop that decide otherwise, and what they have in common.

Where Python has begun some turns, the local variables of its frame were noted (``Noted``). So it is known of each kind
of turn what it makes of them, whatever the names of its variables on the tape; by that, turns in front of those and
behind them are found as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import getitem
from typing import Any, TypeAlias

import numpy as np

from ..tape.loop import Noted
from ..tape.operations import Call, Constant, Operation, Variable
from ..tape.tape import Tape
from .align import Invariant, Local, leaves_in

MAX_KINDS = 16
NOBODY = Variable(0)  # in a slot that no turn reads before it is assigned


class UnmergedError(Exception):
    """Turns cannot be told as one."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot has when the turn begins."""

    slot: int


@dataclass(frozen=True, slots=True)
class Number:
    """A leaf that is no variable; ``text`` and ``cls`` tell it from others."""

    text: str
    cls: type
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class Moving:
    """A position, so far from the turn's."""

    distance: int


Source: TypeAlias = Local | Slot | Invariant | Number | Moving


@dataclass(slots=True)
class Kind:
    """Turns that consist of the same operations, known by these ``tokens``: what each of them reads, what the slots
    have in the end, and what is given to arrays."""

    tokens: tuple[Hashable, ...]
    ops: Sequence[Operation]  # of one turn
    sources: list[list[Source]] = field(default_factory=list)
    ends: list[Source] = field(default_factory=list)
    given: list[Source] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
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
    sizes = {(len(turn.before), len(turn.after), len(turn.given)) for turn in noted}
    if len(sizes) > 1:
        raise UnmergedError
    changing = {i for turn in noted for i, (x, y) in enumerate(zip(turn.before, turn.after, strict=True)) if x != y}
    first = noted[0].start
    return [_kind(tape, key, turns, changing, first) for key, turns in groups.items()]


def _kind(
    tape: Tape, tokens: tuple[Hashable, ...], turns: Sequence[Noted], changing: set[int], first: int
) -> Kind:
    kind = Kind(tokens, tape.ops[turns[0].start : turns[0].stop])
    for place in range(len(tokens)):
        columns = zip(*(leaves_in(tape.ops[turn.start + place]) for turn in turns), strict=True)
        sources: list[Source] = []
        for k, column in enumerate(columns):
            moves = k == 1 and is_element(kind.ops[place])
            ways = [_ways(x, turn, first, moves=moves) for x, turn in zip(column, turns, strict=True)]
            sources.append(_source(ways, changing))
        kind.sources.append(sources)
        _check_position(kind, place, turns)
        _check_constants([tape.ops[turn.start + place] for turn in turns])
    for i in range(len(turns[0].after)):
        ways = [_ways(turn.after[i], turn, first) for turn in turns]
        same = all(Slot(i) in way for way in ways) and i not in changing
        kind.ends.append(Slot(i) if same else _source(ways, changing))
    for i in range(len(turns[0].given)):
        kind.given.append(_source([_ways(turn.given[i], turn, first) for turn in turns], changing))
    return kind


def is_element(op: Operation) -> bool:
    """Whether an operation takes one element, or row, of an array."""
    return isinstance(op, Call) and op.fn is getitem and not op.kwargs and type(op.args[1]) is int


def _ways(x: Any, turn: Noted, first: int, *, moves: bool = False) -> set[Source]:
    """What a leaf may be."""
    if not isinstance(x, Variable):
        number: set[Source] = {Number(repr(x), type(x), x)}
        return number | {Moving(x - turn.position)} if moves and turn.position is not None else number
    if turn.start < x.id <= turn.stop:
        return {Local(x.id - turn.start - 1)}
    found: set[Source] = {Slot(i) for i, y in enumerate(turn.before) if y == x}
    return found | {Invariant(x)} if x.id <= first else found


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
    """Turns that follow each other, but for ``gaps``: found from those that are noted, on and back."""

    def __init__(
        self, tape: Tape, tokens: Sequence[Hashable], kinds: Sequence[Kind], noted: Sequence[Noted],
        gaps: Mapping[int, int],
    ) -> None:  # fmt: skip
        self._tape, self._tokens, self.kinds = tape, tokens, kinds
        self._by_tokens = {kind.tokens: i for i, kind in enumerate(kinds)}
        self._lengths = sorted({len(kind.tokens) for kind in kinds}, reverse=True)
        self.until = noted[0].until
        self._step = (noted[1].position or 0) - (noted[0].position or 0)
        self._outer = {x.var for kind in kinds for sources in (*kind.sources, kind.ends, kind.given) for x in sources
                       if isinstance(x, Invariant)}  # fmt: skip
        self._gaps, self._back = gaps, {start: stop for stop, start in gaps.items()}
        self.turns = [self._known(noted[0])]
        self.end = noted[0].after
        self.stop = noted[0].stop
        while self._go_on():
            pass
        if self.stop < noted[-1].stop or (noted[-1].stop == self.stop and self.end != noted[-1].after):
            raise UnmergedError
        while noted[0].certain and self._go_back():
            pass

    @property
    def start(self) -> int:
        """The index of the first operation."""
        return self.turns[0].start

    def overlaps(self, other: Chain) -> bool:
        """Whether two have operations in common."""
        return self.start < other.stop and other.start < self.stop

    def ops_of(self, turn: Turn) -> Sequence[Operation]:
        """The operations of a turn."""
        return self._tape.ops[turn.start : turn.start + len(self.kinds[turn.kind].tokens)]

    def _known(self, turn: Noted) -> Turn:
        kind = self._by_tokens[tuple(self._tokens[turn.start : turn.stop])]
        return Turn(kind, turn.start, turn.before, turn.position or 0)

    def _candidates(self, at: int, *, before: bool) -> Iterator[tuple[int, int]]:
        """Kinds, and where they begin, of which operations from an index on, or ``before`` it, may be turns."""
        for length in self._lengths:
            begin = at - length if before else at
            kind = self._by_tokens.get(tuple(self._tokens[begin : begin + length])) if begin >= 0 else None
            if kind is not None:
                yield kind, begin

    def _go_on(self) -> bool:
        position = self.turns[-1].position + self._step
        for kind, start in self._candidates(self._gaps.get(self.stop, self.stop), before=False):
            turn = Turn(kind, start, self.end, position)
            if self._fits(turn):
                self.turns.append(turn)
                self.end = tuple(self.resolve(turn, x) for x in self.kinds[kind].ends)
                self.stop = start + len(self.kinds[kind].tokens)
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

    def _go_back(self) -> bool:
        after = self.turns[0]
        for kind, start in self._candidates(self._back.get(after.start, after.start), before=True):
            before = self._before(kind, start, after)
            if before is None:
                continue
            turn = Turn(kind, start, before, after.position - self._step)
            ends = zip((self.resolve(turn, x) for x in self.kinds[kind].ends), after.before, strict=True)
            agree = all(x == y or y == NOBODY for x, y in ends) and all(x.id <= start for x in (*before, *self._outer))
            if agree and self._fits(turn):
                self.turns.insert(0, turn)
                return True
        return False

    def _before(self, kind: int, start: int, after: Turn) -> tuple[Variable, ...] | None:
        """The slots when a turn began, by what it has read and left; ``None`` if that is not known of one."""
        found: dict[int, Variable] = {}
        for place, sources in enumerate(self.kinds[kind].sources):
            for source, x in zip(sources, leaves_in(self._tape.ops[start + place]), strict=False):
                if isinstance(source, Slot) and isinstance(x, Variable):
                    found.setdefault(source.slot, x)
        for source, x in zip(self.kinds[kind].ends, after.before, strict=True):
            if isinstance(source, Slot):
                found.setdefault(source.slot, x)
        n = len(after.before)
        unknown = [i for i in range(n) if i not in found]
        if any(self._is_read(i) for i in unknown):
            return None
        return tuple(found.get(i, NOBODY) for i in range(n))

    def _is_read(self, slot: int) -> bool:
        """Whether a turn reads a slot, other than to leave it as it is."""
        others = ([x for i, x in enumerate(kind.ends) if i != slot] for kind in self.kinds)
        read = (sources for kind in self.kinds for sources in (*kind.sources, kind.given))
        return any(Slot(slot) in sources for sources in (*others, *read))
