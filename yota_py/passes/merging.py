"""Loops whose turns decide otherwise, written on a tape with turns of one kind (``branches.py``)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.settings import config
from ..base.types import ArrayType
from ..base.unwinding import Quiet
from ..registry.tangents import chosen
from ..tape.operations import Call, Constant, Guard, Variable, renamed, substitute
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .branches import BOOL, Body, Chosen, Read, Step, body_of
from .kinds import NOBODY, Chain, Kind, Moving, Noted, Number, Outer, Slot, Turn, UnmergedError, kinds_of
from .repeats import LEAST_TURNS, refilled, tokens_of


@dataclass(slots=True)
class Merged:
    """What was recorded with merged turns; ``free`` are the numbers of decisions that are none any more, each with what
    tells the merged turns from others of the same loop."""

    recorder: Recorder
    free: dict[int, Hashable] = field(default_factory=dict)


def merged(source: Recorder) -> Merged:
    """The same computation, with turns of one kind wherever that can be."""
    out = Merged(source)
    if config.roll and source.tape.turns and not source.tape.regions:
        chains = [*_chains(source.tape)]
        while chains:
            try:
                return _Writing(source, chains).run()
            except _LostError as error:  # nobody knows what is read of it
                chains = [pair for pair in chains if pair[0] is not error.chain]
    return out


def _chains(tape: Tape) -> list[tuple[Chain, Body, Sequence[Kind]]]:
    """Loops with several kinds of turns, in the order of the tape: inner ones, if those around them are none."""
    tokens = tokens_of(tape).tolist()
    groups: dict[int, list[Noted]] = {}
    for turn in tape.turns:
        groups.setdefault(turn.loop, []).append(turn)
    found: list[tuple[Chain, Body, Sequence[Kind]]] = []
    for noted in sorted(groups.values(), key=lambda turns: turns[0].start - turns[-1].stop):
        try:
            kinds = kinds_of(tape, tokens, noted)
            chain = Chain(tape, tokens, kinds, noted)
            if len(chain.turns) < LEAST_TURNS or any(chain.overlaps(other) for other, *_ in found):
                continue
            found.append((chain, body_of(kinds), kinds))
        except UnmergedError:
            continue
    return sorted(found, key=lambda each: each[0].start)


class _LostError(Exception):
    """Something is read of the turns of a chain that they do not tell."""

    def __init__(self, chain: Chain) -> None:
        super().__init__()
        self.chain = chain


class _Writing:
    """A new recording in the making."""

    def __init__(self, source: Recorder, chains: Sequence[tuple[Chain, Body, Sequence[Kind]]]) -> None:
        self._source, self._chains = source, chains
        self._out = Recorder(replace(source.tape, ops=[], leaves=[], results=[], turns=[]))
        self._env: dict[Variable, Variable | None] = {}  # None: it might be one of several
        self.free: dict[int, Hashable] = {}

    def run(self) -> Merged:
        """All operations, and results."""
        tape, at = self._source.tape, 0
        for chain, body, kinds in self._chains:
            self._copy(at, chain.start)
            try:
                self._write(chain, body, kinds)
            except UnmergedError:
                raise _LostError(chain) from None
            at = chain.stop
        self._copy(at, len(tape.ops))
        self._out.tape.leaves = [substitute(leaf, self._known) for leaf in tape.leaves]
        self._out.tape.results = [substitute(result, self._known) for result in tape.results]
        return Merged(self._out, self.free)

    def _copy(self, start: int, stop: int) -> None:
        names = _Names(self._known)
        for i in range(start, stop):
            op, value = self._source.tape.ops[i], self._source.values[i + 1]
            self._env[Variable(i + 1)] = self._out.append(renamed(op, names), value)

    def _known(self, var: Variable) -> Variable:
        if (new := self._env.get(var)) is None:
            raise _LostError(next(chain for chain, *_ in self._chains if chain.start < var.id <= chain.stop))
        return new

    # -- turns

    def _write(self, chain: Chain, body: Body, kinds: Sequence[Kind]) -> None:
        decisions = ([op for op in kind.ops if isinstance(op, Guard)] for kind in kinds)
        key = frozenset(tuple((op.site, repr(op.expected)) for op in path) for path in decisions)
        slots = [None if x is NOBODY else self._known(x) for x in chain.turns[0].before]
        found: dict[Variable, set[Variable | None]] = {}
        free: list[int] = []
        for turn in chain.turns:
            written = _Turn(self, chain, turn, slots, body, free)
            slots = [written.read(x) if written.knows(x) else None for x in body.ends]
            for source, new in zip(kinds[turn.kind].given, body.given, strict=True):
                found.setdefault(chain.resolve(turn, source), set()).add(written.read(new))
        for x, end in zip(chain.end, slots, strict=True):
            if x.id > chain.start:
                found.setdefault(x, set()).add(end)
        self.free.update(dict.fromkeys(free, key))
        self._env.update({x: new.pop() if len(new) == 1 else None for x, new in found.items()})


class _Names(dict[Variable, Any]):
    """New names of variables, which a function tells."""

    def __init__(self, known: Any) -> None:
        super().__init__()
        self._tell = known

    def __missing__(self, var: Variable) -> Any:
        return self._tell(var)


class _Turn:
    """One turn, written with the merged body."""

    def __init__(
        self, writing: _Writing, chain: Chain, turn: Turn, slots: Sequence[Variable | None], body: Body, free: list[int]
    ) -> None:  # fmt: skip
        self._writing, self._turn, self._slots = writing, turn, slots
        self._source, self._out = writing._source, writing._out
        self._new: dict[Step | Chosen, Variable] = {}
        kind = chain.kinds[turn.kind]
        guards = {i: op.number for i, op in enumerate(chain.ops_of(turn)) if isinstance(op, Guard)}
        common = {step.places[turn.kind] for step in body.steps
                  if isinstance(step.op, Guard) and not step.under and step.places.keys() == body.kinds}  # fmt: skip
        free += [number for i, number in guards.items() if i not in common]
        self._number = free[0]  # the same in each turn
        self._guards, self._site = guards, kind.ops[0].site if isinstance(kind.ops[0], Call | Guard) else None
        for step in body.steps:
            self._new[step] = self._step(step)

    def _step(self, step: Step) -> Variable:
        op, place = step.op, step.places.get(self._turn.kind)
        if isinstance(op, Constant):
            return self._out.append(op, op.value)
        reads = [self.read(x) for x in step.reads]
        if isinstance(op, Guard):
            if step.under:
                return self._decision(step, op, reads[0])
            assert place is not None
            return self._out.append(replace(op, var=reads[0], number=self._guards[place]), op.expected)
        assert isinstance(op, Call)
        rest = iter(reads)
        args = tuple(refilled(arg, rest) for arg in op.args)
        new = replace(op, args=args, kwargs={key: refilled(arg, rest) for key, arg in op.kwargs.items()})
        if place is not None:
            return self._out.append(new, self._source.values[self._turn.start + place + 1])
        return self._computed(new)

    def _computed(self, op: Call) -> Variable:
        """A call that this turn has not made."""
        with Quiet():
            var = self._out.call(op.fn, op.args, op.kwargs, site=op.site)
        if self._out.tape[var].type != op.type:
            raise UnmergedError
        return var

    def _decision(self, step: Step, op: Guard, var: Variable) -> Variable:
        """A decision that counts where this branch is taken."""
        site = op.site

        def call(fn: Any, *args: Any) -> Variable:
            return self._computed(Call(fn, args, {}, BOOL, site))

        agrees = call(np.not_equal, var, 0)
        if not op.expected:
            agrees = call(np.logical_not, agrees)
        for condition, holds in step.under:
            taken = self.read(condition)
            agrees = call(np.logical_or, agrees, call(np.logical_not, taken) if holds else taken)
        return self._out.append(replace(op, var=agrees, expected=True, number=self._number), True)

    def read(self, x: Read) -> Any:
        """What this turn reads."""
        match x:
            case Number():
                return x.value
            case Moving():
                return self._turn.position + x.distance
            case Slot():
                return self._slot(x.slot)
            case Outer():
                return self._writing._known(x.var)
            case Chosen():
                if x not in self._new:
                    self._new[x] = self._chosen(x)
                return self._new[x]
        return self._new[x]  # type: ignore[index]

    def knows(self, x: Read) -> bool:
        """Whether it is known what is read: there may be nothing in a slot before the first turn."""
        if isinstance(x, Chosen):
            return all(map(self.knows, (x.condition, x.yes, x.no)))
        return not isinstance(x, Slot) or self._slots[x.slot] is not None

    def _slot(self, i: int) -> Variable:
        if (var := self._slots[i]) is None:
            raise UnmergedError
        return var

    def _chosen(self, x: Chosen) -> Variable:
        condition, yes, no = (self.read(part) for part in (x.condition, x.yes, x.no))
        types = [self._out.tape[var].type for var in (yes, no)]
        if types[0] != types[1] or not isinstance(types[0], ArrayType) or types[0].dtype.kind not in "fiub":
            raise UnmergedError
        value = self._out[yes if self._out[condition] else no]
        return self._out.append(Call(chosen, (condition, yes, no), {}, types[0], self._site), value)
