"""A turn of merged kinds, as operations of a tape: one behind the other, or as the body of a loop that has an end of
its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.records import record
from ..base.types import ArrayType, typeof
from ..base.unwinding import Quiet
from ..registry.tangents import chosen, getfield
from ..tape.loop import END, MORE, TURNS, Loop
from ..tape.operations import Call, Constant, Guard, Input, Variable
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .adjoint import primitive_loop
from .align import Invariant
from .branches import BOOL, Body, Chosen, Read, Step
from .dce import dce
from .kinds import Chain, Kind, Moving, Number, Slot, Turn, UnmergedError
from .repeats import may_be_in_registers, with_leaves


@record(eq=False)
class Merging:
    """Turns that follow each other, and what they are as one."""

    chain: Chain
    body: Body

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of the turns."""
        return self.chain.kinds

    @property
    def until(self) -> bool:
        """Whether a condition is asked when a turn begins, and its turns are as many as hold."""
        first = self.body.steps[0]
        asked = isinstance(first.op, Guard) and not first.under and first.reads == (Slot(0),)
        return asked and self.chain.until and self.chain.has_ended

    @property
    def key(self) -> Hashable:
        """What tells it from other loops, and from the same one with other kinds of turns."""
        decisions = ([op for op in kind.ops if isinstance(op, Guard)] for kind in self.kinds)
        return frozenset(tuple((op.site, repr(op.expected)) for op in path) for path in decisions)


class OneTurn:
    """A turn on a tape in the making, where ``known`` tells the names of variables from before the loop; ``values`` are
    those of the tape as it was. The numbers of its decisions that are none any more are ``free``."""

    def __init__(
        self, out: Recorder, known: Callable[[Variable], Variable], values: Sequence[Any], merging: Merging, turn: Turn,
        slots: Sequence[Variable], *, inside: bool = False,
    ) -> None:  # fmt: skip
        self._out, self._known, self._values, self._turn, self._slots = out, known, values, turn, slots
        self._body, self._inside = merging.body, inside
        self._new: dict[Step | Chosen, Variable] = {}
        self._site = merging.kinds[0].ops[0].site  # type: ignore[union-attr]
        self._guards = _guards(merging, turn)
        self.free = _free(merging, turn)
        self._number = _free(merging, merging.chain.turns[0])[0]  # of decisions in branches: the same in each turn
        for step in self._body.steps:
            self._new[step] = self._step(step)

    def ends(self, slots: Sequence[int]) -> list[Variable]:
        """What some slots have in the end."""
        return [self.read(self._body.ends[i]) for i in slots]

    def _step(self, step: Step) -> Variable:
        op, place = step.op, step.places.get(self._turn.kind)
        if isinstance(op, Constant):
            return self._out.append(op, op.value)
        reads = [self.read(x) for x in step.reads]
        if isinstance(op, Guard):
            if step.under:
                return self._decision(step, op, reads[0])
            assert place is not None
            number = self._guards[place]
            if self._inside:
                number = END if step is self._body.steps[0] else -1
            return self._out.append(replace(op, var=reads[0], number=number), op.expected)
        assert isinstance(op, Call)
        new = with_leaves(op, iter(reads))
        assert isinstance(new, Call)
        if place is not None:
            return self._out.append(new, self._values[self._turn.start + place + 1])
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
        number = -1 if self._inside else self._number
        return self._out.append(replace(op, var=agrees, expected=True, number=number), True)

    def read(self, x: Read) -> Any:
        """What this turn reads."""
        match x:
            case Number():
                return x.value
            case Moving():
                return self._turn.position + x.distance
            case Slot():
                return self._slots[x.slot]
            case Invariant():
                return self._known(x.var)
            case Chosen():
                if x not in self._new:
                    self._new[x] = self._chosen(x)
                return self._new[x]
        return self._new[x]  # type: ignore[index]

    def _chosen(self, x: Chosen) -> Variable:
        condition, yes, no = (self.read(part) for part in (x.condition, x.yes, x.no))
        types = [self._out.tape[var].type for var in (yes, no)]
        if types[0] != types[1] or not isinstance(types[0], ArrayType) or types[0].dtype.kind not in "fiub":
            raise UnmergedError
        value = self._out[yes if self._out[condition] else no]
        return self._out.append(Call(chosen, (condition, yes, no), {}, types[0], self._site), value)


def _guards(merging: Merging, turn: Turn) -> dict[int, int]:
    """The numbers of a turn's decisions, by their places."""
    return {i: op.number for i, op in enumerate(merging.chain.ops_of(turn)) if isinstance(op, Guard)}


def _free(merging: Merging, turn: Turn) -> list[int]:
    """The numbers of those that are none any more: other kinds do not take them, or otherwise."""
    steps = [step for step in merging.body.steps if isinstance(step.op, Guard) and not step.under]
    common = {step.places[turn.kind] for step in steps if step.places.keys() == merging.body.kinds}
    return [number for place, number in _guards(merging, turn).items() if place not in common]


def until(
    out: Recorder, known: Callable[[Variable], Variable], values: Sequence[Any], merging: Merging,
    before: Sequence[Variable],
) -> list[Variable]:  # fmt: skip
    """Write a loop that goes on until its condition is another one; what slots have in the end. Raises
    ``UnmergedError``."""
    chain, turn = merging.chain, merging.chain.turns[-1]
    types = [op.type for t in chain.turns for op in chain.ops_of(t) if not isinstance(op, Guard)]
    if not all(map(may_be_in_registers, types)):
        raise UnmergedError
    changing = [i for i in range(len(before)) if any(kind.ends[i] != Slot(i) for kind in merging.kinds)]
    ends = ([kind.ends[i] for i in changing] for kind in merging.kinds)
    read = {source for sources in (*ends, *(s for kind in merging.kinds for s in kind.sources)) for source in sources}
    inner, given = Recorder(Tape("turn")), list[Variable]()
    slots = [*before]  # those that nothing reads stay
    invariants: dict[Variable, Variable] = {}

    def take(var: Variable, value: Any) -> Variable:
        given.append(var)
        t = out.tape[var].type
        return inner.append(Input("", t, isinstance(t, ArrayType) and t.inexact), value)

    for i in changing:
        slots[i] = take(before[i], values[turn.before[i].id])
    for source in sorted(read, key=repr):
        if isinstance(source, Invariant):
            invariants[source.var] = take(known(source.var), values[source.var.id])
        elif isinstance(source, Slot) and source.slot not in changing:
            slots[source.slot] = take(before[source.slot], values[turn.before[source.slot].id])
    one = OneTurn(inner, invariants.__getitem__, values, merging, turn, slots, inside=True)
    inner.tape.results = one.ends(changing)
    if any(inner.tape[slots[i]].type != inner.tape[x].type for i, x in zip(changing, inner.tape.results, strict=True)):
        raise UnmergedError
    return _looped(out, dce(inner.tape), given, before, changing, merging, values)


def _looped(
    out: Recorder, body: Tape, given: Sequence[Variable], before: Sequence[Variable], changing: Sequence[int],
    merging: Merging, values: Sequence[Any],
) -> list[Variable]:  # fmt: skip
    """Write the loop, and that it has not taken more turns than it can."""
    chain, most = merging.chain, TURNS
    while most <= len(chain.turns):
        most *= MORE
    loop = primitive_loop(Loop(body, len(changing), 0, most, until=True))
    results = (*(values[chain.end[i].id] for i in changing), np.int64(len(chain.turns)))
    site = merging.kinds[0].ops[0].site  # type: ignore[union-attr]
    made = out.append(Call(loop, tuple(given), {}, typeof(results), site), results)

    def result(i: int) -> Variable:
        return out.append(Call(getfield, (made, i), {}, typeof(results[i]), site), results[i])

    found = [*before]
    for k, i in enumerate(changing):
        found[i] = result(k)
    fits = out.call(np.less, (result(len(changing)), most), site=site)
    number = next(op.number for op in chain.ops_of(chain.turns[0]) if isinstance(op, Guard))
    out.append(Guard(fits, True, bool, typeof(True), site, number=number), True)
    return found
