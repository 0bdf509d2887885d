"""What is noted of turns of Python's loops, so that those that decide otherwise can be told as one
(``passes/merging.py``).

What a turn does follows from the decisions that it takes, if each begins with the same but for traced values: so turns
with the same decisions do the same, also those of which nothing is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from types import CodeType, FrameType
from typing import Any

from ..base.dispatch import is_traced
from ..tape.loop import MANY, Noted
from ..tape.operations import Variable
from ..tracing.traces import Trace
from .frames import State, UnlikeError, is_followed, memory
from .heads import Step, code_leaves_objects, only_assigns

MAX_NOTED = 200  # turns of one loop
numbers = count()  # of loops, each time that they are begun


def note(
    trace: Trace, loop: int, before: tuple[int, State], now: tuple[int, State], body: Sequence[Step],
    given: Iterable[Variable] = (), position: int | None = None, read: Iterable[Any] = (),
    again: Sequence[tuple[Variable, Variable]] = (), *, until: bool = False, left: int = MANY,
) -> None:  # fmt: skip
    """Note a turn: where it begins and ends, and the states of the frame then. ``again`` are pairs of what this turn
    has read of elements that were assigned, and what the next one reads in its place; others as in ``Noted``. Raises
    ``UnlikeError`` if the states differ in more than traced values."""
    (start, first), (stop, last) = before, now
    if not last.is_like(first):
        raise UnlikeError
    for (a, x), (b, y) in zip(first.traced, last.traced, strict=True):
        if x != y and not (is_followed(a, x) and is_followed(b, y) and memory(a) == memory(b)):
            raise UnlikeError
    slots, then = (tuple(x for _, x in state.traced) for state in (first, last))
    slots, then = (*slots, *(x for x, _ in again)), (*then, *(y for _, y in again))
    names, held = _assigned(body), first.held
    kept = frozenset(i for i, name in enumerate(first.names) if name is not None and name not in names)
    arrays = frozenset(x._current()[0] for x in read)
    written, shared = first.is_written, first.shares or last.shares
    trace.tape.turns.append(
        Noted(loop, start, stop, slots, then, kept, held, (*given,), position, arrays, until, left, written, shared)
    )


def close(trace: Trace, loop: int) -> None:
    """What follows on the turns of a loop is none of them, or nobody knows."""
    turns = trace.tape.turns
    for i in range(len(turns) - 1, -1, -1):
        if turns[i].loop == loop:
            turns[i] = replace(turns[i], left=0)
            return


def is_plain(
    frame: FrameType, body: Sequence[Step], now: State, name: str | None = None, written: Sequence[str] = ()
) -> bool:  # fmt: skip
    """Whether turns do nothing but to give traced values, or tuples of them, to variables, and values to elements of
    ``written`` arrays: all else is the same in each. ``name`` has the number of the turn."""
    assigned = _assigned(body) - {str(name)}
    codes = [*now.functions, *(code for code in frame.f_code.co_consts if isinstance(code, CodeType))]
    traced = all(_is_made_of_traced(now.values[name]) for name in assigned if name in now.values)
    return traced and only_assigns(body, written) and all(map(code_leaves_objects, codes))


def _is_made_of_traced(value: Any) -> bool:
    return all(map(_is_made_of_traced, value)) if type(value) is tuple else is_traced(value)


def _assigned(body: Sequence[Step]) -> set[str]:
    """The names that instructions assign to."""
    return {str(step.value) for step in body if step.name.startswith(("STORE_", "DELETE_"))}
