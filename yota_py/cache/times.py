"""What depends on the times that a program has read: of that, an audit cannot tell what is right, since the interpreter
reads its clocks later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..base.impure import Clock
from ..tape.operations import Call, Constant, Guard, Variable, operands
from ..tape.tape import Tape
from .check import Difference


def timed_in(tape: Tape, times: Collection[int]) -> set[Variable]:
    """What depends on times that a program reads: by its clocks, or as what it captures under these numbers."""
    timed: set[Variable] = set()
    for var, op in tape:
        if isinstance(op, Constant):
            varies = op.captured in times
        else:
            varies = (isinstance(op, Call) and type(op.fn) is Clock) or any(x in timed for x in operands(op))
        if varies:
            timed.add(var)
    return timed


def without_times(
    differences: Sequence[Difference], tape: Tape, timed: Collection[Variable], outputs: Sequence[Any]
) -> list[Difference]:
    """Those that do not come of times. Where times decide on a program's path, anything may."""
    if not timed:
        return [*differences]
    if any(isinstance(tape[var], Guard) for var in timed):
        return []
    known = {id(value): isinstance(x, Variable) and x in timed for value, x in zip(outputs, tape.results, strict=True)}
    return [x for x in differences if x.have is None or not known.get(id(x.have), any(known.values()))]
