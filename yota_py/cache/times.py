"""What depends on the times that a program has read: of that, an audit cannot tell what is right, since the interpreter
reads its clocks later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..base.impure import Clock
from ..tape.operations import Call, Constant, Guard, Variable, operands
from ..tape.tape import Tape
from .check import Difference


def without_times(
    differences: Sequence[Difference], tape: Tape, times: Collection[int], outputs: Sequence[Any]
) -> list[Difference]:
    """Those that do not come of the times that a program reads: by its clocks, or as what it captures under these
    numbers. Where times decide on its path, anything may."""
    timed: set[Variable] = set()
    for var, op in tape:
        if isinstance(op, Constant):
            varies = op.captured in times
        else:
            varies = (isinstance(op, Call) and type(op.fn) is Clock) or any(x in timed for x in operands(op))
        if varies and isinstance(op, Guard):
            return []
        if varies:
            timed.add(var)
    if not timed:
        return [*differences]
    known = {id(value): var in timed for value, var in zip(outputs, tape.results, strict=True)}
    return [x for x in differences if x.have is None or not known.get(id(x.have), any(known.values()))]
