"""Loops of Python whose end depends on traced values: once their turns are known, the rest of them is one operation.

``while`` and ``if ...: break`` ask a traced condition in each turn. Where nothing but traced values is other than it
was a turn before, Python will do the same again, until the condition is another one: the turn that was recorded last
becomes the body of a loop, whose results become the values of the local variables, and the condition is answered as it
is when the loop ends.

What Python does next depends on the local variables, on what is on the stack of its interpreter, and on what else its
code may reach. The first are compared; the second is empty but for the condition; of the third the code is looked
through, as that of the steps of scans is (``closed.py``), and what it holds is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from ..base.floating import raises_errors
from ..base.instructions import instructions_of
from ..base.ownership import users_frame
from ..base.records import record
from ..base.settings import config
from ..base.unwinding import state
from ..passes.repeats import may_be_in_registers
from ..tape.loop import END
from ..tape.operations import Guard
from ..tracing.tracer import make_tracer
from ..tracing.traces import Trace, ends
from .frames import State, Turn, UnlikeError, assign, carried_by, depths, is_function
from .heads import Step, alive, around, asked_again, may_end
from .noting import close, is_plain, note, numbers
from .once import Once

MAX_KNOWN = 4  # conditions
MAX_STATES = 1000  # of a frame that are noted at a condition


@record(frozen=False)
class Turning:
    """A condition that a trace is asked for: in which ``frame``, the answer, how often it was the same in a row, how
    long the tape was when it was asked ``first`` and last, and what the local variables were."""

    frame: FrameType
    answer: bool
    first: int
    asked: int = 0
    last: int = 0
    before: State | None = None


@record(frozen=False)
class Asking:
    """A condition that is asked in each turn of a loop: its number for what is noted, how often it was asked, and the
    length of the tape and the state of the frame when it was asked last, if the loop leaves objects as they are."""

    frame: FrameType
    loop: int
    times: int = 0
    last: tuple[int, State] | None = None


@record(frozen=False)
class Conditions:
    """What is known of conditions in loops: by frame and instruction, the first that were asked; the loops whose turns
    ``decide_otherwise``, by frame and first instruction, with the frames; and whether one is ``ending``, which asks
    for conditions of its own."""

    asked: dict[tuple[int, int], Asking] = field(default_factory=dict)
    decide_otherwise: dict[tuple[int, int], FrameType] = field(default_factory=dict)
    ending: bool = False


def end(trace: Trace, condition: Any, answer: bool) -> bool | None:
    """What a condition is when the loop has ended that it is asked in; ``None`` if it is to be asked as ever."""
    frame = users_frame(sys._getframe(1))
    if frame is None or state.traces != [trace] or not config.roll or not _stands_alone(frame.f_code, frame.f_lasti):
        return None
    conditions: Conditions = trace.asking or Conditions()
    if trace.sets_errors or raises_errors() or conditions.ending:
        return None
    trace.asking = conditions
    key, length = (id(frame), frame.f_lasti), len(trace.tape)
    seen = trace.turning.pop(key, None)  # it has the frame, so that no other one has its identity
    instruction = asked_again(frame.f_code).get(frame.f_lasti, frame.f_lasti)
    if inside := around(frame.f_code, instruction):
        _notice(trace, conditions, (id(frame), instruction), frame, inside, condition)
        loop = id(frame), inside[0].offset
        if seen is not None and seen.answer != answer:
            conditions.decide_otherwise[loop] = frame
        if loop in conditions.decide_otherwise:  # its turns are told as one later
            return None
    if seen is None or seen.answer != answer:
        seen = Turning(frame, answer, length)
        while len(trace.turning) >= MAX_KNOWN:
            del trace.turning[next(iter(trace.turning))]
    trace.turning[key] = seen
    seen.asked += 1
    if not may_end(frame.f_code, instruction):
        return None
    try:
        if seen.asked == 2:
            seen.before, seen.last = _state(frame, condition, frame.f_lasti), length
        elif seen.asked == 3 and seen.before is not None:
            before, seen.before = seen.before, None
            conditions.ending = True
            try:
                ended = _ended(trace, seen, before, _state(frame, condition, frame.f_lasti))
            finally:
                conditions.ending = False
            if ended is not None:
                trace.turning.pop(key, None)
            return ended
    except Exception:  # any: Python goes on as ever
        seen.before = None
    return None


ends.append(end)


def _state(frame: FrameType, condition: Any, instruction: int, earlier: State | None = None) -> State:
    """The state of a frame that asks for a condition, as if it were at this instruction."""
    return State(frame, condition, live=alive(frame.f_code)[instruction], earlier=earlier)


def _notice(
    trace: Trace, conditions: Conditions, key: tuple[int, int], frame: FrameType, body: Sequence[Step], condition: Any
) -> None:  # fmt: skip
    """Note the turn that is over, if the condition has been asked before in this loop."""
    known = conditions.asked.get(key)
    if known is None:
        if len(conditions.asked) >= MAX_KNOWN:
            return
        known = conditions.asked[key] = Asking(frame, next(numbers))
    known.times += 1
    if known.times > MAX_STATES:
        known.last = None
        return
    before, known.last = known.last, None
    try:
        now = len(trace.tape), _state(frame, condition, key[1], None if before is None else before[1])
        if not is_plain(frame, body, now[1]):
            known.times = MAX_STATES
        else:
            known.last = now
            if before is not None:
                note(trace, known.loop, before, now, body, until=True)
            return
    except Exception:  # any: it is not noted
        pass
    close(trace, known.loop)
    known.loop = next(numbers)


@lru_cache(maxsize=1024)
def _stands_alone(code: CodeType, instruction: int) -> bool:
    """Whether there is nothing on the interpreter's stack at an instruction but the condition that it asks."""
    if not is_function(code) or code.co_exceptiontable:
        return False
    steps = instructions_of(code)
    at = next((i for i, step in enumerate(steps) if step.offset == instruction), None)
    if at is None:
        return False
    name = steps[at].opname
    compares = name == "COMPARE_OP" and steps[at + 1].opname.startswith("POP_JUMP")  # from 3.13 on
    if not (compares or name.startswith("POP_JUMP") or name == "TO_BOOL"):
        return False
    return depths(code).get(instruction) == (2 if compares else 1)


def _ended(trace: Trace, seen: Turning, before: State, after: State) -> bool | None:
    """Let the rest of the turns be one operation."""
    carried = carried_by(before, after)
    if before.traced[0][1] not in carried:
        raise UnlikeError
    turn = Turn(trace, seen.last + 1, carried, first=seen.first)
    if not all(map(may_be_in_registers, turn.types)):
        raise UnlikeError
    guard = trace.tape.ops[seen.last]
    assert isinstance(guard, Guard)
    given = {var: value for value, var in after.traced}
    captured = [make_tracer(trace, x, trace[x]) for x in turn.invariants]
    results = Once(turn.body(replace(guard, number=END)), captured).run_until([given[x] for x in carried.values()])
    if results is None:
        return None
    try:
        assign(seen.frame, after.values, dict(zip(carried.values(), results, strict=True)), {})
    except Exception:  # any: the frame is neither in this turn nor behind the last
        trace.refuse("a loop whose end has failed")
        raise
    return not seen.answer
