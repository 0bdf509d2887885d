"""All passes over a lowered tape, in their order."""

from __future__ import annotations

from collections.abc import Callable

from ..base.unwinding import go_on
from ..tape.tape import Tape
from .cse import cse
from .dce import dce
from .fold import fold
from .rows import rows
from .simplify import simplify

PIPELINE: tuple[Callable[[Tape], Tape], ...] = (fold, simplify, cse, fold, simplify, cse, dce, rows)


def optimise(tape: Tape, check: Callable[[Tape], Tape] = lambda tape: tape) -> Tape:
    """All passes over a lowered tape; ``check`` sees the tape after each."""
    for step in PIPELINE:
        go_on()
        tape = check(step(tape))
    return tape
