"""What loops of Python go over whose turns may be known: a ``range``, or rows of traced arrays, one or several beside
each other (``zip``)."""

from __future__ import annotations

import gc
import operator
from collections import deque
from copy import copy
from dataclasses import dataclass
from types import CodeType, FrameType, GeneratorType
from typing import Any

from ..base.dispatch import is_traced
from ..base.iterators import on_stack
from ..tracing.tracer import ArrayTracer
from .heads import Head

_RANGE = type(iter(range(0)))
_OF_TRACERS = [code for code in ArrayTracer.__iter__.__code__.co_consts if isinstance(code, CodeType)]


@dataclass(frozen=True, slots=True, eq=False)
class Over:
    """The iterators that count the turns of a loop, and the ``arrays`` of which it takes a row in each."""

    iterators: tuple[Any, ...]
    arrays: tuple[Any, ...] = ()

    @property
    def left(self) -> int:
        """So many turns are to come."""
        return min(map(operator.length_hint, self.iterators))

    def is_like(self, other: Over) -> bool:
        """Whether it is the same loop."""
        pairs = zip(self.iterators, other.iterators, strict=False)
        return len(self.iterators) == len(other.iterators) and all(a is b for a, b in pairs)

    def positions(self) -> tuple[int, int] | None:
        """The next two, which all have in common; ``None`` if they differ."""
        ahead = {(next(x), next(x)) for x in map(copy, self.iterators)}
        return ahead.pop() if len(ahead) == 1 else None

    def end(self) -> int:
        """Let the loop be at its end; returns the last position."""
        last = [deque(x, maxlen=1)[0] for x in self.iterators]
        return int(last[0])


def over(frame: FrameType, head: Head) -> Over | None:
    """What a loop of a running frame, whose trace function is running, goes over."""
    if head.counts and (counter := on_stack(frame, head.depth, _RANGE)) is not None:
        return Over((counter,))
    rows = on_stack(frame, head.depth, GeneratorType)
    if rows is None and (beside := on_stack(frame, head.depth, zip)) is not None:
        (parts,) = [x for x in gc.get_referents(beside) if type(x) is tuple and {*map(type, x)} <= {GeneratorType}]
        found = [*map(_rows, parts)]
    else:
        found = [] if rows is None else [_rows(rows)]
    known = [pair for pair in found if pair is not None]
    if not known or len(known) < len(found):
        return None
    counters, arrays = zip(*known, strict=True)
    return Over(counters, arrays)


def _rows(generator: Any) -> tuple[Any, Any] | None:
    """The positions to come and the array, of a generator that ``iter`` gives for a traced one."""
    frame = generator.gi_frame
    if frame is None or generator.gi_code not in _OF_TRACERS:
        return None
    array, counter = frame.f_locals["self"], frame.f_locals[".0"]
    return (counter, array) if is_traced(array) and type(counter) is _RANGE else None
