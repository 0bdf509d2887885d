"""Loops of Python over ``range``, or over rows of arrays: once a turn is known, those that are left are one operation.

When a tape has become long, the frames that record it are looked at where their ``for`` loops begin a turn. If a turn
has changed nothing but traced values, and the turn's number is the position of elements that are read or assigned and
nothing else (``heads.py``), or it takes the next rows too, all others do the same: the one that was recorded
last becomes the body of a loop, whose results become the values of the local variables, and the iterator is run
through. Otherwise Python goes on as ever.
"""

from __future__ import annotations

import operator
import sys
from _thread import get_ident
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np

from ..base.dispatch import is_traced
from ..base.floating import raises_errors
from ..base.iterators import no_frames
from ..base.ownership import is_library_frame, is_ours, users_frame
from ..base.records import record
from ..base.settings import config
from ..base.unwinding import state
from ..capture.closed import OpenError
from ..capture.hooks import entered
from ..capture.recording import ahead
from ..passes.repeats import LEAST_TURNS, are_alike, is_of_numbers, leaves_of, pays
from ..tape.loop import Continued, decisions
from ..tape.operations import Call, Variable
from ..tracing.elements import put_rows
from ..tracing.tracer import make_tracer
from ..tracing.traces import LONG, Trace, long_tapes
from .frames import State, Turn, UnlikeError, View, assign, carried_by, check_code, is_followed
from .heads import Head, Over, alive, heads, lines_of_heads, over
from .noting import MAX_NOTED, close, is_plain, note, numbers
from .once import Once, strict

MAX_TRIES = 3  # at one loop that is not as it should be
MAX_LOOKS = 1000  # at lines that begin
MAX_FRAMES = 16
MAX_DECISIONS = 20_000  # of turns that are not recorded, which paths are told by


def look(trace: Trace) -> None:
    """Look at the frames that record a trace, until loops of theirs have been ended or nothing comes of it."""
    if not _may_watch(trace):
        return
    if trace.watch is not None:
        trace.watch.look_again()
        return
    with suppress(Exception):  # any: Python goes on as ever
        if frames := _frames():
            trace.watch = Watch(trace, frames)


def enter(trace: Trace, frame: FrameType) -> None:
    """A function of the user's begins: turns of its loops may decide otherwise, and are noted from the first one on."""
    if not config.merge or len(trace.tape) >= LONG or frame.f_trace is not None or not _may_watch(trace):
        return
    if not is_library_frame(frame) and heads(frame.f_code) and _only_computes(frame):
        if trace.watch is None:
            trace.watch = Watch(trace, [frame])
        else:
            trace.watch.follow(frame)


def _may_watch(trace: Trace) -> bool:
    if not config.roll or state.traces != [trace] or trace.thread != get_ident():
        return False
    return sys.gettrace() in (None, no_frames) and not trace.sets_errors and not raises_errors()


long_tapes.append(look)
entered.append(enter)
ahead.append(lambda f, args, kwargs: import_module(".ahead", __package__).with_loops(f, args, kwargs))


def _frames() -> list[FrameType]:
    """The running frames of the user's in which there are loops and that nobody else follows."""
    found: list[FrameType] = []
    frame = users_frame(sys._getframe(1))
    while frame is not None and len(found) < MAX_FRAMES and not is_ours(frame):
        if not is_library_frame(frame) and frame.f_trace is None and heads(frame.f_code) and _only_computes(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def _only_computes(frame: FrameType) -> bool:
    try:
        check_code(frame)
    except OpenError:
        return False
    return True


@record()
class Moment:
    """A turn begins: what the loop goes over, turns that are ``left``, the length of the tape, the frame's state."""

    over: Over
    left: int
    length: int
    state: State

    def follows(self, before: Moment) -> bool:
        """Whether there was one turn of one loop in between."""
        return self.over.is_like(before.over) and self.left == before.left - 1 and self.length > before.length


class Watch:
    """What is seen of frames at the heads of their loops, until they return."""

    def __init__(self, trace: Trace, frames: list[FrameType]) -> None:
        self._trace, self._frames = trace, list[FrameType]()
        self._looks = 0
        self._seen: dict[tuple[int, int], Moment] = {}
        self._tries: Counter[tuple[int, int]] = Counter()
        self._opaque: Counter[tuple[int, int]] = Counter()  # turns that begin with what is not understood
        self._noted: Counter[tuple[int, int]] = Counter()
        self._failed: Counter[tuple[int, int]] = Counter()  # turns one after the other of which nothing was told
        self._rests: Counter[tuple[int, int]] = Counter()  # turns that are left until one is looked at again
        self._met: dict[tuple[int, int], int] = {}  # the numbers of loops, each time that they are begun
        self._decided: dict[tuple[int, int], int] = {}  # how many decisions there were, when they began a turn
        for frame in frames:
            self.follow(frame)

    def follow(self, frame: FrameType) -> None:
        """Hear of a frame."""
        frame.f_trace = self._hear
        self._frames.append(frame)
        if sys.gettrace() is None:
            sys.settrace(no_frames)

    def look_again(self) -> None:
        """The tape has become long since."""
        self._looks = 0

    def _hear(self, frame: FrameType, event: str, arg: Any) -> None:
        """The trace function of the frames; what it returns has no meaning but at a call."""
        if event == "return":
            self._leave(frame)
        elif event in ("line", "opcode"):
            self._looks += 1
            if self._looks > MAX_LOOKS or state.traces != [self._trace]:
                for other in self._frames:
                    self._leave(other)
            elif (head := heads(frame.f_code).get(frame.f_lasti)) is not None:
                frame.f_trace_opcodes = False
                self._meet(frame, head)
            elif config.merge and frame.f_lineno in lines_of_heads(frame.f_code):
                frame.f_trace_opcodes = True  # the first turn begins in the midst of a line

    def _leave(self, frame: FrameType) -> None:
        """Hear of a frame no more."""
        frame.f_trace = None
        self._frames = [other for other in self._frames if other is not frame]
        if not self._frames:
            self._seen.clear()
            self._trace.watch = None
            if sys.gettrace() is no_frames and not state.hears:
                sys.settrace(None)

    def _meet(self, frame: FrameType, head: Head) -> None:
        """A turn begins."""
        key, trace = (id(frame), head.offset), self._trace
        before = self._seen.pop(key, None)
        if self._opaque[key] >= MAX_TRIES or self._noted[key] >= MAX_NOTED:
            return
        decided, is_long = self._decided.get(key), len(trace.tape) >= LONG
        self._decided[key] = trace.decisions
        if decided == trace.decisions and not is_long:  # there is nothing to be told
            if before is not None and before.length == len(trace.tape):
                self._seen[key] = before  # another line of the same turn
            return
        if self._rests[key]:
            self._rests[key] -= 1
            return
        try:
            if (what := over(frame, head)) is None or what.left < LEAST_TURNS:
                return
            if before is not None and what.left == before.left and what.is_like(before.over):
                self._seen[key] = before  # two lines begin with the way back: continue, and for
                return
            if what.arrays:  # whose rows are no positions
                head = Head(head.offset, head.depth, counts=False, body=head.body)
            live = alive(frame.f_code)[head.offset]
            now_state = State(frame, live=live, but=head.name, written=[name for name, _ in head.written])
            now = Moment(what, what.left, len(self._trace.tape), now_state)
        except Exception:  # any: Python goes on as ever
            self._opaque[key] += 1
            self._close(key)
            return
        if before is not None and now.follows(before):
            if is_long and self._tries[key] < MAX_TRIES:
                try:
                    if self._end(frame, head, before, now):
                        trace.look_at = len(trace.tape) + LONG
                        return
                except Exception:  # any: Python goes on as ever
                    self._tries[key] += 1
            try:
                self._note(frame, head, before, now, key)
                self._noted[key] += 1
                self._failed[key] = 0
            except Exception:  # any: it is not noted
                self._close(key)
                self._failed[key] += 1
                self._rests[key] = max(2 ** (self._failed[key] - 1) - 2, 0)  # so that it is not slowed down for long
                if self._rests[key]:
                    if all(self._rests[id(frame), other.offset] for other in heads(frame.f_code).values()):
                        self._leave(frame)  # until a long tape is looked at again, and no other is heard of
                    return
        else:
            self._close(key)
        self._seen[key] = replace(now, length=len(trace.tape))  # behind what was tried

    def _close(self, key: tuple[int, int]) -> None:
        """What follows belongs to other turns than those that are noted."""
        if key in self._met:
            close(self._trace, self._met[key])
        self._met[key] = next(numbers)

    def _note(self, frame: FrameType, head: Head, before: Moment, now: Moment, key: tuple[int, int]) -> None:
        """Note what is known of a turn that is over."""
        written = [name for name, _ in head.written]
        if not is_plain(frame, head.body, now.state, head.name, written):
            raise UnlikeError
        positions = Positions(now.over, now.left)
        given = positions.written(before.state, now.state, head.written)
        turn = (before.length, before.state), (now.length, now.state)
        read = read_at_positions(frame, head, now)
        again = [(old, new) for old, new, _ in positions.assigned(now.state, head)]
        left = now.left
        note(self._trace, self._met[key], *turn, head.body, given.values(), positions.before, read, again, left=left)

    def _end(self, frame: FrameType, head: Head, before: Moment, now: Moment) -> bool:
        """Let the turns that are left be one operation. Returns whether they are."""
        trace, turns, start = self._trace, now.left, before.length
        period = len(trace.tape) - start
        if not pays(turns, period, len(trace.tape)) or not are_alike(trace.tape, start):
            return False
        positions = Positions(now.over, turns)
        arrays = read_at_positions(frame, head, now)
        rows = positions.rows(trace, start, {x._current()[0]: x for x in arrays})
        again, views = positions.again(now.state, head), dict[Variable, View]()
        carried = carried_by(before.state, now.state, rows, {x: y for x, (y, _) in again.items()}, views)
        outputs = positions.written(before.state, now.state, head.written)
        cuts = [positions.cut(distance, len(now.state.values[name])) for name, distance in head.written]
        turn = Turn(trace, start, carried, rows, [*outputs.values()], first=start - period)
        if not (carried or outputs) or not all(map(is_of_numbers, turn.types)):
            raise UnlikeError
        decided = turns * sum(1 for _ in decisions(op for _, op in turn.ops))
        if decided > MAX_DECISIONS or any(trace[x] is None for x in turn.invariants):
            raise UnlikeError
        given = {var: value for value, var in now.state.traced} | dict(again.values())
        given |= {view.root._var: view.root for view in views.values()}
        captured = [make_tracer(trace, x, trace[x]) for x in turn.invariants]
        length = len(trace.tape)
        stacked = [row.stack() for row in rows.values()]
        places = tuple(x.id - 1 - start for x in outputs.values())
        continued = Continued(period, len(trace.tape) - length, places)
        once = Once(turn.body(), captured)
        with strict():
            results = once.run([given[x] for x in carried.values()], stacked, turns, continues=continued)
        if results is None:
            raise UnlikeError
        trace.decisions += decided
        try:
            found = dict(zip(carried.values(), results, strict=False))
            for name, cut, stack in zip(outputs, cuts, results[len(carried) :], strict=True):
                put_rows(now.state.values[name], cut, stack)
            found |= {x: view.again(found[view.root._var]) for x, view in views.items()}
            found |= {x: row.last() for x, row in rows.items() if x in now.state.variables}
            last = now.over.end()
            assign(frame, now.state.values, found, {} if head.name is None else {head.name: last})
        except Exception:  # any: the frame is neither in this turn nor behind the last
            trace.refuse("a loop whose end has failed")
            raise
        return True


def read_at_positions(frame: FrameType, head: Head, now: Moment) -> list[Any]:
    """The arrays of which turns read elements at their positions."""
    arrays: list[Any] = [now.state.values.get(name, frame.f_globals.get(name)) for name in head.read]
    arrays += now.over.arrays
    if not all(is_traced(x) and isinstance(x, np.ndarray) and is_followed(x) for x in arrays):
        raise UnlikeError  # of others, elements are plain numbers, of which nobody knows where they come from
    return arrays


class Positions:
    """The positions of elements in the turns that are left: the turn's number, and so far from it."""

    def __init__(self, what: Over, turns: int) -> None:
        if (ahead := what.positions()) is None:
            raise UnlikeError
        self._first, second = ahead
        self._step = second - self._first
        self._last = self._first + self._step * (turns - 1)
        self._now = self._first - self._step

    @property
    def before(self) -> int:
        """The position of the turn that is over."""
        return self._now

    def rows(self, trace: Trace, start: int, arrays: Mapping[Variable, Any]) -> dict[Variable, Rows]:
        """The operations of the turn from ``start`` on that take an element out of ``arrays``, another one than in the
        turn before. Raises ``UnlikeError`` if turns differ in other numbers."""
        tape, found, period = trace.tape, {}, len(trace.tape) - start
        for i, (op, before) in enumerate(zip(tape.ops[start:], tape.ops[start - period : start], strict=True), start):
            if not isinstance(op, Call) or not isinstance(before, Call):
                continue
            now, then = (leaves_of([*x.args, *x.kwargs.values()], []) for x in (op, before))
            others = [(a, b) for a, b in zip(now, then, strict=True) if not isinstance(a, Variable)]
            if all(type(a) is type(b) and (a is b or repr(a) == repr(b)) for a, b in others):
                continue
            base, *index = op.args
            is_row = op.fn is operator.getitem and not op.kwargs and len(index) == 1 and type(index[0]) is int
            if not is_row or base not in arrays or base != before.args[0] or index[0] - before.args[1] != self._step:
                raise UnlikeError
            distance, array = index[0] - self._now, arrays[base]
            found[Variable(i + 1)] = Rows(array, self.cut(distance, array.shape[0]), self._last + distance)
        return found

    def cut(self, distance: int, extent: int) -> slice:
        """A slice of as many elements. Raises ``UnlikeError`` if there are not so many."""
        first, last = self._first + distance, self._last + distance
        if not (0 <= first < extent and 0 <= last < extent):
            raise UnlikeError
        stop = last + (1 if self._step > 0 else -1)
        return slice(first, None if stop < 0 else stop, None if self._step == 1 else self._step)

    def again(self, now: State, head: Head) -> dict[Variable, tuple[Variable, Any]]:
        """What the next turn reads of elements that turns have assigned, by what the last one has read in its place:
        the variable and the value."""
        found: dict[Variable, tuple[Variable, Any]] = {}
        for old, new, value in self.assigned(now, head):
            if found.setdefault(old, (new, value))[0] != new:
                raise UnlikeError  # the same by chance
        return found

    def assigned(self, now: State, head: Head) -> list[tuple[Variable, Variable, Any]]:
        """Of each element that turns have assigned and the next one reads: what the last one has read in its place, and
        what is read then, the variable and the value."""
        found, assigned = dict[tuple[str, int], tuple[Variable, Variable, Any]](), dict(head.written)
        for name, distance in head.again:
            behind = assigned[name] - distance
            if behind * self._step <= 0 or behind % self._step:
                raise UnlikeError  # of another array, or of a turn to come
            for back in range(behind // self._step):
                first = self._now + distance + back * self._step
                old, new = (now.notes[name].get((key,)) for key in (first, first + self._step))
                if not (is_traced(old) and is_traced(new) and is_followed(old) and is_followed(new)):
                    raise UnlikeError
                found[name, first] = old._current()[0], new._current()[0], new  # type: ignore[union-attr]
        return [*found.values()]

    def written(self, before: State, now: State, assignments: Sequence[tuple[str, int]]) -> dict[str, Variable]:
        """The variables that the last turn has assigned to elements of arrays, by their names."""
        found = {}
        for name, distance in assignments:
            array, known = now.values[name], before.notes[name]
            (key,) = now.notes[name].keys() - known.keys() or ((),)
            if len(now.notes[name]) != len(known) + 1 or key != (self._now + distance,):
                raise UnlikeError
            value = array._noted[key]
            if not is_traced(value):
                raise UnlikeError
            found[name] = value._current()[0]
        if len({*found.values()}) < len(found):
            raise UnlikeError
        return found


@record()
class Rows:
    """Elements of an array, one for each turn that is left."""

    array: Any
    cut: slice
    position: int  # of the last one

    def stack(self) -> Any:
        """All of them."""
        array: Any = make_tracer(self.array._ledger, *self.array._current())
        return array[self.cut]

    def last(self) -> Any:
        """That of the last turn, which may be a view."""
        return self.array[self.position]
