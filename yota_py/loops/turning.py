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

import ctypes
import dis
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..base.dispatch import is_traced
from ..base.impure import Impure
from ..base.ownership import users_frame
from ..base.settings import config
from ..base.types import ArrayType, typeof
from ..base.unwinding import state
from ..passes.dce import dce
from ..tape.loop import END
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable, operands, renamed
from ..tape.tape import Tape
from ..tracing.tracer import make_tracer
from ..tracing.traces import Trace, ends
from .closed import Closing
from .once import LONGEST, Once

MAX_KNOWN = 4  # conditions
MAX_ELEMENTS = 512  # of plain arrays that a turn might write into
_IS_FUNCTION = 0x1  # its local variables are in the frame
_GENERATES = 0x20 | 0x80 | 0x200  # code of generators and coroutines, which others run on


class _UnlikeError(Exception):
    """A turn is not known to be as the one before."""


@dataclass(slots=True)
class Turning:
    """A condition that a trace is asked for: in which ``frame``, the answer, how often it was the same in a row, how
    long the tape was when it was asked ``first`` and last, and what the local variables were."""

    frame: FrameType
    answer: bool
    first: int
    asked: int = 0
    last: int = 0
    before: _State | None = None


def end(trace: Trace, condition: Any, answer: bool) -> bool | None:
    """What a condition is when the loop has ended that it is asked in; ``None`` if it is to be asked as ever."""
    frame = users_frame(sys._getframe(1))
    if frame is None or state.traces != [trace] or not config.roll or not _stands_alone(frame.f_code, frame.f_lasti):
        return None
    key, length = (id(frame), frame.f_lasti), len(trace.tape)
    seen = trace.turning.pop(key, None)  # it has the frame, so that no other one has its identity
    if seen is None or seen.answer != answer:
        seen = Turning(frame, answer, length)
        while len(trace.turning) >= MAX_KNOWN:
            del trace.turning[next(iter(trace.turning))]
    trace.turning[key] = seen
    seen.asked += 1
    try:
        if seen.asked == 2:
            seen.before, seen.last = _State(frame, condition), length
        elif seen.asked == 3 and seen.before is not None:
            before, seen.before = seen.before, None
            ended = _ended(trace, seen, before, _State(frame, condition))
            if ended is not None:
                del trace.turning[key]
            return ended
    except Exception:  # any: Python goes on as ever
        seen.before = None
    return None


ends.append(end)


@lru_cache(maxsize=1024)
def _stands_alone(code: CodeType, instruction: int) -> bool:
    """Whether there is nothing on the interpreter's stack at an instruction but the condition that it asks."""
    if code.co_flags & _GENERATES or not code.co_flags & _IS_FUNCTION or code.co_exceptiontable:
        return False
    steps = {step.offset: step for step in dis.get_instructions(code)}
    following = dict(zip(steps, [*steps][1:], strict=False))
    at = steps.get(instruction)
    if at is None:
        return False
    compares = at.opname == "COMPARE_OP" and steps[following[instruction]].opname.startswith("POP_JUMP")  # from 3.13 on
    if not (compares or at.opname.startswith("POP_JUMP") or at.opname == "TO_BOOL"):
        return False
    depths, pending = dict[int, int](), [(min(steps), 0)]
    while pending:
        offset, depth = pending.pop()
        if offset in depths:
            continue
        depths[offset] = depth
        step = steps[offset]
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            pending.append((step.argval, depth + dis.stack_effect(step.opcode, argument, jump=True)))
        if offset in following and step.opname not in _GO_AWAY:
            pending.append((following[offset], depth + dis.stack_effect(step.opcode, argument, jump=False)))
    return depths.get(instruction) == (2 if compares else 1)


_GO_AWAY = frozenset(["JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST",
                      "RAISE_VARARGS", "RERAISE"])  # fmt: skip


class _State:
    """The local variables of a frame and the condition that it asks: traced values, and all else."""

    def __init__(self, frame: FrameType, condition: Any) -> None:
        self.values = dict(frame.f_locals)
        self.traced: list[tuple[Any, Variable]] = [(condition, condition._current()[0])]
        self.others: list[Any] = []
        for name, value in self.values.items():
            self.others.append(name)
            self._add(value)
        # What its code reads from elsewhere, if that does nothing but compute.
        self._reached: list[Any] = []
        closing = Closing(self._array)
        closing.running(frame.f_code, frame.f_globals, self.values)
        for value in self.values.values():
            closing.see(value)
            closing.value(value)
        closing.check()
        self.elsewhere = [*map(_known, [*closing.found, *self._reached])]

    def _array(self, x: Any) -> Any:
        if not is_traced(x):  # those are local variables, too, or no turn has made them
            self._reached.append(x)
        return x

    def is_like(self, other: _State) -> bool:
        """Whether all but traced values is the same."""
        return self.others == other.others and self.elsewhere == other.elsewhere

    def _add(self, value: Any) -> None:
        if is_traced(value):
            self.traced.append((value, value._current()[0]))
            self.others.append(Variable)
        elif type(value) is tuple:
            self.others += [tuple, len(value)]
            for item in value:
                self._add(item)
        elif type(value) in (list, dict):
            items = [*value.items()] if type(value) is dict else value
            self.others += [_Same(value), len(value)]
            for item in items:
                self._add(item)
        else:
            self.others.append(_known(value))


def _known(value: Any) -> Any:
    """What tells a value from another one."""
    if is_traced(value):
        return _Same(value), value._current()[0]
    if type(value) is np.ndarray:
        if value.size > MAX_ELEMENTS or value.dtype.hasobject:
            raise _UnlikeError
        return _Same(value), value.shape, value.dtype, value.tobytes()
    if type(value) in (int, float, complex, bool, str, bytes, type(None)):
        return type(value), repr(value)
    return _Same(value)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """An object that is to be the same one."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _ended(trace: Trace, seen: Turning, before: _State, after: _State) -> bool | None:
    """Let the rest of the turns be one operation."""
    if not after.is_like(before):
        raise _UnlikeError
    carried = _carried(before, after)
    body, invariants = _body(trace, seen, carried)
    given = {var: value for value, var in after.traced}
    captured = [make_tracer(trace, x, trace[x]) for x in invariants]
    results = Once(body, captured).run_until([given[x] for x in carried.values()])
    if results is None:
        return None
    found = dict(zip(carried.values(), results, strict=True))
    _assign(seen.frame, {name: _with(value, found) for name, value in after.values.items()})
    return not seen.answer


def _carried(before: _State, after: _State) -> dict[Variable, Variable]:
    """What a turn has made of traced values, the condition first; of values that are the same, one."""
    carried: dict[Variable, Variable] = {}
    same: set[Variable] = set()
    for (value, x), (new, y) in zip(before.traced, after.traced, strict=True):
        if x == y:
            same.add(x)
        elif value is new or new._look is not None or carried.setdefault(x, y) != y:
            raise _UnlikeError  # it was written into, looks into another array, or was the same as another value
    ends = [*carried.values()]
    if len({*ends}) < len(ends) or not same.isdisjoint([*carried, *ends]):
        raise _UnlikeError
    if before.traced[0][1] not in carried:
        raise _UnlikeError
    return carried


def _body(trace: Trace, seen: Turning, carried: dict[Variable, Variable]) -> tuple[Tape, Sequence[Variable]]:
    """The turn that was recorded last, as a body that goes on while the condition is as it was; and what it reads from
    before the loop."""
    tape, out = trace.tape, Tape("turn")
    for x, y in carried.items():
        if not _is_short(tape[x].type) or tape[x].type != tape[y].type:
            raise _UnlikeError
    ops = [(Variable(i + 1), tape.ops[i]) for i in range(seen.last + 1, len(tape))]
    made = {x for x, _ in ops}
    read = dict.fromkeys(x for _, op in ops for x in operands(op) if x not in made and x not in carried)
    read |= dict.fromkeys(y for y in carried.values() if y not in made and y not in carried)
    if not all(map(_computes, (op for _, op in ops))) or any(x.id > seen.first for x in read):
        raise _UnlikeError
    invariants = [x for x in read if not (isinstance(op := tape[x], Constant) and op.captured is None)]
    if not all(_is_short(tape[x].type) for x in invariants):
        raise _UnlikeError
    inside = {x: out.append(Input("", t := tape[x].type, t.inexact)) for x in (*carried, *invariants)}  # type: ignore[union-attr]
    condition, *_ = carried
    guard = tape.ops[seen.last]
    out.append(Guard(inside[condition], seen.answer, bool, typeof(seen.answer), guard.site, number=END))
    for x in read:
        if x not in inside:
            inside[x] = out.append(tape[x])
    for x, op in ops:
        op = renamed(op, inside)
        inside[x] = out.append(replace(op, number=-1) if isinstance(op, Guard) else op)
    out.results = [inside[y] for y in carried.values()]
    return dce(out), invariants


def _is_short(t: Any) -> bool:
    return isinstance(t, ArrayType) and t.size <= LONGEST


def _computes(op: Operation) -> bool:
    """Whether an operation does the same in each turn."""
    if isinstance(op, Constant):
        return op.captured is None
    if isinstance(op, Guard):
        return not isinstance(op.expected, np.ndarray)
    return isinstance(op, Call) and not isinstance(op.fn, Variable | Impure) and _is_short(op.type)


def _with(value: Any, found: dict[Variable, Any]) -> Any:
    """The value of a local variable, with what the loop has found."""
    if is_traced(value):
        return found.get(value._current()[0], value)
    return tuple([_with(item, found) for item in value]) if type(value) is tuple else value


def _assign(frame: FrameType, values: dict[str, Any]) -> None:
    """Give local variables of a frame these values."""
    namespace = frame.f_locals
    namespace.update({name: value for name, value in values.items() if value is not namespace[name]})
    if sys.version_info < (3, 13):  # later, what has the names writes through
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
