"""What is noted of turns of Python's loops, so that those that decide otherwise can be told as one
(``passes/merging.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from types import CodeType, FrameType
from typing import Any

from ..base.dispatch import is_traced
from ..tape.loop import Noted
from ..tape.operations import Variable
from ..tracing.traces import Trace
from .frames import State, UnlikeError, is_followed
from .heads import Step, code_leaves_objects, only_assigns

MAX_NOTED = 200  # turns of one loop
numbers = count()  # of loops, each time that they are begun


def note(
    trace: Trace, loop: int, before: tuple[int, State], now: tuple[int, State], given: Iterable[Variable] = (),
    position: int | None = None, read: Iterable[Any] = (), again: Sequence[tuple[Variable, Variable]] = (), *,
    until: bool = False,
) -> bool:  # fmt: skip
    """Note a turn: where it begins and ends, and the states of the frame then, which differ in traced values alone.
    Returns whether they do. ``again`` are pairs of what this turn has read of elements that were assigned, and what the
    next one reads in its place; others as in ``Noted``."""
    (start, first), (stop, last) = before, now
    if not last.is_like(first):
        return False
    pairs = zip(first.traced, last.traced, strict=True)
    if not all(x == y or (is_followed(a, x) and is_followed(b, y)) for (a, x), (b, y) in pairs):
        raise UnlikeError
    slots, then = (tuple(x for _, x in state.traced) for state in (first, last))
    arrays, certain = frozenset(x._current()[0] for x in read), not last.has_objects
    slots, then = (*slots, *(x for x, _ in again)), (*then, *(y for _, y in again))
    trace.tape.turns.append(Noted(loop, start, stop, slots, then, (*given,), position, arrays, until, certain))
    return True


def is_plain(
    frame: FrameType, body: Sequence[Step], now: State, name: str | None = None, written: Sequence[str] = ()
) -> bool:  # fmt: skip
    """Whether turns do nothing but to give traced values to variables, and to elements of ``written`` arrays: all else
    is the same in each. ``name`` has the number of the turn."""
    assigned = {str(step.value) for step in body if step.name.startswith("STORE_")} - {str(name)}
    codes = [*now.functions, *(code for code in frame.f_code.co_consts if isinstance(code, CodeType))]
    traced = all(is_traced(now.values[name]) for name in assigned if name in now.values)
    return traced and only_assigns(body, written) and all(map(code_leaves_objects, codes))
