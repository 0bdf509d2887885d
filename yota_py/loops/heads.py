"""Loops of Python over ``range``: once a turn is known, those that are left are one operation.

When a tape has become long, the frames that record it are looked at where their ``for`` loops begin a turn. If a turn
has changed nothing but traced values, and does not read which turn it is, all others do the same: the one that was
recorded last becomes the body of a loop, whose results become the values of the local variables, and the iterator is
run through. Otherwise Python goes on as ever.
"""

from __future__ import annotations

import dis
import operator
import sys
from _thread import get_ident
from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from ..base.iterators import no_frames, on_stack
from ..base.ownership import is_library_frame, is_ours, users_frame
from ..base.settings import config
from ..base.unwinding import state
from ..passes.repeats import LEAST_TURNS, are_alike, is_of_numbers, pays
from ..tape.loop import decisions
from ..tracing.tracer import make_tracer
from ..tracing.traces import LONG, Trace, long_tapes
from .closed import OpenError
from .frames import State, Turn, UnlikeError, assign, carried_by, check_code, depths, is_function
from .once import Once

MAX_TRIES = 3  # at one loop that is not as it should be
MAX_LOOKS = 1000  # at lines that begin
MAX_FRAMES = 16
MAX_DECISIONS = 20_000  # of turns that are not recorded, which paths are told by
_RANGE = type(iter(range(0)))


@dataclass(frozen=True, slots=True)
class Head:
    """Where a loop begins a turn: the place of its iterator on the stack, and the variable that has the turn's number
    when it ends, if it has."""

    offset: int
    depth: int
    name: str | None


@lru_cache(maxsize=1024)
def heads(code: CodeType) -> dict[int, Head]:
    """The loops of code that do not read which turn it is, by the instructions at which Python may be seen to go on
    with them."""
    if not is_function(code):
        return {}
    steps, found = [*dis.get_instructions(code)], {}
    at = {step.offset: i for i, step in enumerate(steps)}
    for i, step in enumerate(steps):
        if step.opname != "FOR_ITER" or steps[i + 1].opname != "STORE_FAST" or step.offset not in depths(code):
            continue
        name = steps[i + 1].argval
        uses = [other.opname for other in steps[i + 2 : at[step.argval]] if _names(other, name)]
        if any(use != "STORE_FAST" for use in uses):
            continue
        head = Head(step.offset, depths(code)[step.offset] - 1, None if uses else name)
        jumps = [s.offset for s in steps if s.opname.startswith("JUMP_BACKWARD") and s.argval == step.offset]
        found.update(dict.fromkeys([step.offset, *jumps], head))
    return found


def _names(step: dis.Instruction, name: str) -> bool:
    return step.argval == name or (isinstance(step.argval, tuple) and name in step.argval)


def look(trace: Trace) -> None:
    """Look at the frames that record a trace, until loops of theirs have been ended or nothing comes of it."""
    if trace.watched or not config.roll or state.traces != [trace] or trace.thread != get_ident():
        return
    if sys.gettrace() in (None, no_frames) and (frames := _frames()):
        trace.watched = True
        Watch(trace, frames)


long_tapes.append(look)


def _frames() -> list[FrameType]:
    """The running frames of the user's in which there are loops and that nobody else follows."""
    found: list[FrameType] = []
    frame = users_frame(sys._getframe(1))
    while frame is not None and len(found) < MAX_FRAMES and not is_ours(frame):
        if not is_library_frame(frame) and frame.f_trace is None and heads(frame.f_code) and _computes(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def _computes(frame: FrameType) -> bool:
    try:
        check_code(frame)
    except OpenError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Moment:
    """A turn begins: the loop's iterator, how many turns are ``left``, the length of the tape, the frame's state."""

    iterator: Any
    left: int
    length: int
    state: State

    def follows(self, before: Moment) -> bool:
        """Whether there was one turn of one loop in between."""
        return self.iterator is before.iterator and self.left == before.left - 1 and self.length > before.length


class Watch:
    """What is seen of frames at the heads of their loops, until they return."""

    def __init__(self, trace: Trace, frames: list[FrameType]) -> None:
        self._trace, self._frames = trace, frames
        self._looks = 0
        self._seen: dict[tuple[int, int], Moment] = {}
        self._tries: Counter[tuple[int, int]] = Counter()
        for frame in frames:
            frame.f_trace = self._hear
        if sys.gettrace() is None:
            sys.settrace(no_frames)

    def _hear(self, frame: FrameType, event: str, arg: Any) -> None:
        """The trace function of the frames; what it returns has no meaning but at a call."""
        if event == "return":
            self._leave(frame)
        elif event == "line":
            self._looks += 1
            if self._looks > MAX_LOOKS or state.traces != [self._trace]:
                for other in [*self._frames]:
                    self._leave(other)
            elif (head := heads(frame.f_code).get(frame.f_lasti)) is not None:
                self._meet(frame, head)

    def _leave(self, frame: FrameType) -> None:
        """Hear of a frame no more."""
        frame.f_trace = None
        self._frames.remove(frame)
        if not self._frames:
            self._seen.clear()
            self._trace.watched = False
            if sys.gettrace() is no_frames and not state.hears:
                sys.settrace(None)

    def _meet(self, frame: FrameType, head: Head) -> None:
        """A turn begins."""
        key, iterator = (id(frame), head.offset), on_stack(frame, head.depth, _RANGE)
        before = self._seen.pop(key, None)
        if iterator is None or operator.length_hint(iterator) < LEAST_TURNS or self._tries[key] >= MAX_TRIES:
            return
        try:
            now = Moment(iterator, operator.length_hint(iterator), len(self._trace.tape), State(frame, but=head.name))
            if before is not None and now.follows(before) and self._end(frame, head, before, now):
                self._trace.look_at = len(self._trace.tape) + LONG
            else:
                self._seen[key] = now
        except Exception:  # any: Python goes on as ever
            self._tries[key] += 1

    def _end(self, frame: FrameType, head: Head, before: Moment, now: Moment) -> bool:
        """Let the turns that are left be one operation. Returns whether they are."""
        trace, turns, start = self._trace, now.left, before.length
        if not pays(turns, len(trace.tape) - start) or not are_alike(trace.tape, start):
            return False
        carried = carried_by(before.state, now.state)
        turn = Turn(trace, start, carried)
        if not carried or not all(map(is_of_numbers, turn.types)) or any(trace[x] is None for x in turn.invariants):
            raise UnlikeError
        given = {var: value for value, var in now.state.traced}
        captured = [make_tracer(trace, x, trace[x]) for x in turn.invariants]
        decided = turns * sum(1 for _ in decisions(op for _, op in turn.ops))
        if decided > MAX_DECISIONS:
            raise UnlikeError
        begin, once = [given[x] for x in carried.values()], Once(turn.body(), captured)
        results = once.run(begin, [], turns, continues=len(turn.ops))
        if results is None:
            raise UnlikeError
        trace.decisions += decided
        (last,) = deque(now.iterator, maxlen=1)
        assign(frame, now.state.values, dict(zip(carried.values(), results, strict=True)),
               {} if head.name is None else {head.name: last})  # fmt: skip
        return True
