"""Where loops of Python begin a turn, and what they go over whose turns may be known: a ``range``, with whose numbers
code does little, or rows of traced arrays, one or several beside each other (``zip``)."""

from __future__ import annotations

import dis
import gc
import operator
from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from types import CodeType, FrameType, GeneratorType
from typing import Any, NamedTuple

from ..base.dispatch import is_traced
from ..base.instructions import instructions_of
from ..base.iterators import on_stack
from ..base.records import record
from ..tracing.tracer import ArrayTracer
from .frames import depths, is_function

_ADDING = ("LIST_APPEND", "SET_ADD", "MAP_ADD")  # to what is so far down on the stack
_RANGE = type(iter(range(0)))
_OF_TRACERS = [code for code in ArrayTracer.__iter__.__code__.co_consts if isinstance(code, CodeType)]
_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL")
_AWAY = ("RETURN_", "RAISE_", "RERAISE")
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


@record()
class Head:
    """Where a loop begins a turn: the place of its iterator on the stack, and the variable that has the turn's number
    when it ends, if it has. Turns read elements of ``read`` arrays at that position, or so far from it, and assign such
    of ``written`` ones; these are the names of variables, and for each assignment, how far. Of these arrays, they read
    elements ``again`` that other turns have assigned, so far from the position. Loops that do more with what they go
    over ``count`` nothing: they may be over something else."""

    offset: int
    depth: int
    name: str | None = None
    read: frozenset[str] = frozenset()
    written: tuple[tuple[str, int], ...] = ()
    again: frozenset[tuple[str, int]] = frozenset()
    counts: bool = True
    body: tuple[Step, ...] = ()


class Step(NamedTuple):
    """An instruction."""

    name: str
    value: object  # what it is about
    offset: int


# Methods of lists, dicts, sets and arrays that change them.
_CHANGING = frozenset("""
    append appendleft extend extendleft insert pop popleft popitem remove clear update setdefault add discard sort
    reverse rotate fill put itemset resize partition setfield byteswap difference_update intersection_update
    symmetric_difference_update
""".split())


_ASKING = frozenset(["STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "IS_OP", "CONTAINS_OP"])


def only_assigns(body: Sequence[Step], written: Sequence[str] = ()) -> bool:
    """Whether instructions leave objects as they are, but for elements of ``written`` arrays, and ask for no
    identity."""
    for i, step in enumerate(body):
        if step.name == "STORE_SUBSCR" and i >= 4:
            base = body[i - 4] if body[i - 1].name == "BINARY_OP" else body[i - 2]
            if base.value in written:
                continue
        if step.name in _ASKING or step.value in _CHANGING:
            return False
    return True


@lru_cache(maxsize=1024)
def code_leaves_objects(code: CodeType) -> bool:
    """Whether all instructions of code do, and those of code in it, and leave the variables of others as they are."""
    inner, steps = (part for part in code.co_consts if isinstance(part, CodeType)), steps_of(code)
    rebinds = any(step.name in ("STORE_DEREF", "DELETE_DEREF") and step.value in code.co_freevars for step in steps)
    return not rebinds and only_assigns(steps) and all(map(code_leaves_objects, inner))


@lru_cache(maxsize=1024)
def around(code: CodeType, instruction: int) -> tuple[Step, ...]:
    """The instructions of the innermost loop around one; none, if there is no loop."""
    loops = [(end - begin, begin, end) for begin, end in _loops(code) if begin <= instruction <= end]
    _, first, last = min(loops, default=(0, 0, -1))
    return tuple(step for step in steps_of(code) if first <= step.offset <= last)


@lru_cache(maxsize=1024)
def _loops(code: CodeType) -> list[tuple[int, int]]:
    """The first and the last instruction of each loop, to whose begin several ways may lead back."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((int(str(s.value)), s.offset) for s in steps_of(code) if "JUMP_BACKWARD" in s.name):
        while found and (found[-1][0] == begin or begin <= found[-1][1] < end):  # the same one, or `continue` in it
            first, last = found.pop()
            begin, end = min(first, begin), max(last, end)
        found.append((begin, end))
    return found


def has_loops(code: CodeType) -> bool:
    """Whether there are any."""
    return bool(_loops(code))


@lru_cache(maxsize=1024)
def may_end(code: CodeType, instruction: int) -> bool:
    """Whether the innermost loop around a condition may be left by one of its answers."""
    if not (body := around(code, instruction)):
        return True
    at = {step.offset: i for i, step in reversed([*enumerate(body)])}
    ways = [_following(body, i, at) for i in range(len(body))]
    i = at[instruction]
    while len(ways[i]) < 2 and i + 1 < len(body):  # a comparison, behind which Python jumps
        i += 1
    return any(not _comes_back(ways, k) for k in ways[i])


def _comes_back(ways: Sequence[Sequence[int]], start: int) -> bool:
    """Whether there is a way to where the loop begins."""
    seen, pending = set[int](), [start]
    while pending:
        i = pending.pop()
        if i == 0:
            return True
        if i > 0 and i not in seen:
            seen.add(i)
            pending += ways[i]
    return False


def _following(steps: Sequence[Step], i: int, at: Mapping[int, int]) -> list[int]:
    """The steps that may come next, by their numbers; -1 for those that are none of these."""
    step, out = steps[i], list[int]()
    opcode = dis.opmap.get(step.name)
    if opcode is not None and (opcode in dis.hasjrel or opcode in dis.hasjabs) and isinstance(step.value, int):
        out.append(at.get(step.value, -1))
    if not step.name.startswith(_AWAY) and step.name not in _ALWAYS:
        out.append(i + 1 if i + 1 < len(steps) else -1)
    return out


@lru_cache(maxsize=1024)
def asked_again(code: CodeType) -> dict[int, int]:
    """For instructions of the condition of a ``while`` that is asked before the loop begins, which Python writes twice,
    those that ask it behind each turn."""
    steps, found = steps_of(code), dict[int, int]()
    at = {step.offset: i for i, step in reversed([*enumerate(steps)])}
    for last, step in enumerate(steps):
        if "JUMP_BACKWARD" not in step.name or step.value not in at:
            continue
        before, behind = at[step.value] - 1, last  # type: ignore[index]
        if not steps[behind].name.startswith("POP_JUMP"):
            behind -= 1
        while 0 <= before < behind and _asks_the_same(steps[before], steps[behind]):
            found[steps[before].offset] = steps[behind].offset
            before, behind = before - 1, behind - 1
    return found


def _asks_the_same(x: Step, y: Step) -> bool:
    """Whether two instructions do the same, if they are jumps to other places."""
    if x.name.startswith("POP_JUMP") and y.name.startswith("POP_JUMP"):
        return True
    return x.name == y.name and x.value == y.value and "JUMP" not in x.name


@lru_cache(maxsize=1024)
def heads(code: CodeType) -> dict[int, Head]:
    """The loops of code, by the instructions at which Python may be seen to go on with them."""
    if not is_function(code):
        return {}
    steps, found = steps_of(code), {}
    for i, step in enumerate(steps):
        if step.name != "FOR_ITER" or step.offset not in depths(code):
            continue
        body, depth = [s for s in steps[i + 1 :] if s.offset < step.value], depths(code)[step.offset] - 1  # type: ignore[operator]
        added = (depths(code).get(s.offset, 0) - 1 - int(str(s.value)) for s in body if s.name in _ADDING)
        if any(place <= depth for place in added):
            continue  # that of a comprehension, which has what it makes on the stack
        head = Head(step.offset, depth, counts=False, body=tuple(body))
        if body[0].name == "STORE_FAST":
            head = _head(code, head, str(body[0].value), body[1:]) or head
        starts = [step.offset]
        while steps[i - len(starts)].name == "EXTENDED_ARG":  # of a long loop
            starts.append(steps[i - len(starts)].offset)
        jumps = [s.offset for s in steps if s.name.startswith("JUMP_BACKWARD") and s.value in starts]
        found.update(dict.fromkeys([*starts, *jumps], head))
    return found


@lru_cache(maxsize=1024)
def lines_of_heads(code: CodeType) -> frozenset[int | None]:
    """The lines in which loops begin."""
    found = heads(code)
    return frozenset(line for begin, end, line in code.co_lines() if any(begin <= offset < end for offset in found))


def steps_of(code: CodeType) -> list[Step]:
    """Instructions, one for each variable."""
    out = []
    for step in instructions_of(code):
        names = step.argval if isinstance(step.argval, tuple) and "_FAST" in step.opname else None
        if names is None:
            value = step.argrepr if step.opname == "BINARY_OP" else step.argval
            out.append(Step(step.opname.replace("_CHECK", ""), value, step.offset))
            continue
        kinds = [kind for kind in step.opname.split("_") if kind in ("LOAD", "STORE")]
        out += [Step(f"{kind}_FAST", name, step.offset) for kind, name in zip(kinds, names, strict=True)]
    return out


def _head(code: CodeType, loop: Head, name: str, body: Sequence[Step]) -> Head | None:
    """What a loop does with its variable; ``None`` if that is more than to read and to assign elements."""
    uses = [i for i, step in enumerate(body) if step.value == name and "_FAST" in step.name]
    if name in code.co_cellvars or any(step.value == name and "_FAST" not in step.name for step in body):
        return None
    if uses and all(body[i].name == "STORE_FAST" for i in uses):
        return replace(loop, counts=True)
    read, written, seen = list[tuple[str, int]](), list[tuple[str, int]](), set[int]()
    for i in uses:
        base = body[i - 1] if i else None
        if base is None or body[i].name != "LOAD_FAST" or base.name not in _LOADS or base.value == name:
            return None
        distance, then = _moved(body[i + 1 : i + 4])
        if then == "STORE_SUBSCR":
            written.append((str(base.value), distance))
        elif then == "BINARY_SUBSCR":
            read.append((str(base.value), distance))
        else:
            return None
        seen.add(i - 1)
    kept, known = {array for array, _ in written}, {array for array, _ in read}
    for i, step in enumerate(body):
        changes = step.name.startswith(("STORE_", "DELETE_")) and step.value in known | kept
        if changes or (step.value in kept and i not in seen and step.name in _LOADS):
            return None
    if kept & {*code.co_cellvars, *code.co_freevars, *code.co_names}:  # others may read it
        return None
    written = [*dict.fromkeys(written)]  # perhaps in several branches
    if len(kept) < len(written):
        return None
    again = frozenset((array, distance) for array, distance in read if array in kept)
    return Head(loop.offset, loop.depth, name, frozenset(known - kept), tuple(written), again, body=loop.body)


def _moved(steps: Sequence[Step]) -> tuple[int, str]:
    """How far from the turn's number a position is, and the instruction that takes it."""
    if len(steps) == 3 and steps[0].name in ("LOAD_CONST", "LOAD_SMALL_INT") and steps[1].name == "BINARY_OP":
        if type(steps[0].value) is int and steps[1].value in ("+", "-"):
            return steps[0].value if steps[1].value == "+" else -steps[0].value, steps[2].name
        return 0, ""
    return 0, steps[0].name if steps else ""


# ---------------------------------------------------------------------------------------- what variables may be read

@lru_cache(maxsize=1024)
def alive(code: CodeType) -> dict[int, frozenset[str]]:
    """The names of variables that may be read from each instruction on; those in cells always may. What others have
    makes no difference.

    Liveness, from the last instruction to the first, until nothing changes (A. V. Aho et al., *Compilers*, 2nd edition,
    section 9.2.5).
    """
    steps = steps_of(code)
    cells = frozenset((*code.co_cellvars, *code.co_freevars))
    if code.co_exceptiontable:  # it may go on anywhere
        return {step.offset: frozenset(code.co_varnames) | cells for step in steps}
    at = {step.offset: i for i, step in reversed([*enumerate(steps)])}
    following = [_following(steps, i, at) for i in range(len(steps))]
    found = [frozenset[str]() for _ in steps]
    changed = True
    while changed:
        changed = False
        for i in range(len(steps) - 1, -1, -1):
            step, after = steps[i], frozenset[str]().union(*(found[k] for k in following[i] if k >= 0))
            name = frozenset([str(step.value)] if "_FAST" in step.name else ())
            now = after - name if step.name.startswith("STORE") else after | name
            if now != found[i]:
                found[i], changed = now, True
    return {offset: found[i] | cells for offset, i in at.items()}


# ------------------------------------------------------------------------------------------------ what they go over


@record(eq=False)
class Over:
    """The iterators that count the turns of a loop, and the ``arrays`` of which it takes a row in each."""

    iterators: tuple[Any, ...]
    arrays: tuple[Any, ...] = ()

    @property
    def left(self) -> int:
        """So many turns are to come."""
        return operator.length_hint(self.iterators[0])

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
    if len({*map(operator.length_hint, counters)}) > 1:  # somebody may go on with what is left, or is told of it
        return None
    return Over(counters, arrays)


def _rows(generator: Any) -> tuple[Any, Any] | None:
    """The positions to come and the array, of a generator that ``iter`` gives for a traced one."""
    frame = generator.gi_frame
    if frame is None or generator.gi_code not in _OF_TRACERS:
        return None
    array, counter = frame.f_locals["self"], frame.f_locals[".0"]
    return (counter, array) if is_traced(array) and type(counter) is _RANGE else None
