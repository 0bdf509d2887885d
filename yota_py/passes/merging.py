"""Loops whose turns decide otherwise, written on a tape with turns of one kind (``branches.py``)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from ..base.records import record
from ..base.settings import config
from ..tape.loop import Noted
from ..tape.operations import Guard, Variable, renamed, substitute
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .branches import body_of
from .kinds import Chain, UnmergedError, gaps_between, kinds_of
from .one_turn import Merging, OneTurn, until
from .repeats import LEAST_TURNS, tokens_of


@record(frozen=False)
class Merged:
    """What was recorded with merged turns; ``free`` are the numbers of decisions that are none any more, each with what
    tells the merged turns from others of the same loop."""

    recorder: Recorder
    free: dict[int, Hashable] = field(default_factory=dict)


def merged(source: Recorder) -> Merged:
    """The same computation, with turns of one kind wherever that can be."""
    out = Merged(source)
    if config.roll and source.tape.turns and not source.tape.regions:
        loops = _loops(source.tape)
        while loops:
            try:
                return _Writing(source, loops).run()
            except _LostError as error:  # nobody knows what is read of it
                loops.remove(error.loop)
    return out


def _loops(tape: Tape) -> list[Merging]:
    """Loops with several kinds of turns, in the order of the tape: those with an end of their own, and then inner ones,
    if those around them are none."""
    tokens = tokens_of(tape).tolist()
    groups: dict[int, list[Noted]] = {}
    for turn in tape.turns:
        groups.setdefault(turn.loop, []).append(turn)
    gaps = {stop: start for noted in groups.values() for stop, start in gaps_between(noted).items()}
    found: list[Merging] = []
    for noted in groups.values():
        with suppress(UnmergedError):
            kinds = kinds_of(tape, tokens, noted)
            loop = Merging(Chain(tape, tokens, kinds, noted, gaps), body_of(kinds))
            if loop.until or len(loop.chain.turns) >= LEAST_TURNS:
                found.append(loop)
    chosen: list[Merging] = []
    for loop in sorted(found, key=lambda loop: (not loop.until, loop.chain.start - loop.chain.stop)):
        if not any(loop.chain.overlaps(other.chain) for other in chosen):
            chosen.append(loop)
    return sorted(chosen, key=lambda loop: loop.chain.start)


class _LostError(Exception):
    """Something is read of the turns of a chain that they do not tell."""

    def __init__(self, loop: Merging) -> None:
        super().__init__()
        self.loop = loop


class _Writing:
    """A new recording in the making."""

    def __init__(self, source: Recorder, loops: Sequence[Merging]) -> None:
        self.source, self._loops = source, loops
        self.out = Recorder(replace(source.tape, ops=[], leaves=[], results=[], turns=[]))
        self._env: dict[Variable, Variable | Merging] = {}  # a loop: it might be one of several things that this leaves
        self._free: dict[int, Hashable] = {}

    def run(self) -> Merged:
        """All operations, and results."""
        tape, at = self.source.tape, 0
        for loop in self._loops:
            self._copy(at, loop.chain.start)
            try:
                self._write(loop)
            except UnmergedError:
                raise _LostError(loop) from None
            at = loop.chain.stop
        self._copy(at, len(tape.ops))
        self.out.tape.leaves = [substitute(leaf, self.known) for leaf in tape.leaves]
        self.out.tape.results = [substitute(result, self.known) for result in tape.results]
        return Merged(self.out, self._free)

    def _copy(self, start: int, stop: int) -> None:
        names = _Names(self.known)
        for i in range(start, stop):
            op, value = self.source.tape.ops[i], self.source.values[i + 1]
            self._env[Variable(i + 1)] = self.out.append(renamed(op, names), value)

    def known(self, var: Variable) -> Variable:
        """The new name of a variable."""
        if isinstance(new := self._env.get(var), Variable):
            return new
        inside = (loop for loop in self._loops if loop.chain.start < var.id <= loop.chain.stop)
        raise _LostError(new or next(inside))

    def _write(self, loop: Merging) -> None:
        """Write all turns, and say where everything is found that is read of them."""
        chain, free = loop.chain, list[int]()
        slots = [*map(self.known, chain.turns[0].before)]
        found: dict[Variable, set[Variable]] = {}

        def leave(x: Variable, new: Variable) -> None:
            """What follows reads ``new``; or what was there before the loop, which turns have only passed on."""
            found.setdefault(x, set()).update([new] if x.id > chain.start else [new, self.known(x)])

        if loop.until:
            slots = until(self.out, self.known, self.source.values, loop, slots)
            free += [op.number for turn in chain.turns for op in chain.ops_of(turn) if isinstance(op, Guard)]
        else:
            for turn in chain.turns:
                written = OneTurn(self.out, self.known, self.source.values, loop, turn, slots)
                free += written.free
                slots = written.ends(range(len(slots)))
                for source, new in zip(loop.kinds[turn.kind].given, loop.body.given, strict=True):
                    leave(chain.resolve(turn, source), written.read(new))
        for x, end in zip(chain.end, slots, strict=True):
            leave(x, end)
        self._free.update(dict.fromkeys(free, loop.key))
        for x, names in found.items():
            name, *others = names
            self._env[x] = loop if others else name


class _Names(dict[Variable, Any]):
    """New names of variables, which a function tells."""

    def __init__(self, known: Any) -> None:
        super().__init__()
        self._tell = known

    def __missing__(self, var: Variable) -> Any:
        return self._tell(var)
