"""Where loops of Python over ``range`` begin a turn, and what their code does with the turn's number."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from .frames import depths, is_function

_ADDING = ("LIST_APPEND", "SET_ADD", "MAP_ADD")  # to what is so far down on the stack
_LOADS = ("LOAD_FAST", "LOAD_DEREF")


@dataclass(frozen=True, slots=True)
class Head:
    """Where a loop begins a turn: the place of its iterator on the stack, and the variable that has the turn's number
    when it ends, if it has. Turns read elements of ``read`` arrays at that position, or so far from it, and assign such
    of ``written`` ones; these are the names of variables, and for each assignment, how far."""

    offset: int
    depth: int
    name: str | None
    read: frozenset[str]
    written: tuple[tuple[str, int], ...]


class _Step(NamedTuple):
    name: str
    value: object  # what it is about
    offset: int


@lru_cache(maxsize=1024)
def heads(code: CodeType) -> dict[int, Head]:
    """The loops of code that use the turn's number as a position and for nothing else, by the instructions at which
    Python may be seen to go on with them."""
    if not is_function(code):
        return {}
    steps, found = _steps(code), {}
    for i, step in enumerate(steps):
        if step.name != "FOR_ITER" or steps[i + 1].name != "STORE_FAST" or step.offset not in depths(code):
            continue
        body = [s for s in steps[i + 2 :] if s.offset < step.value]  # type: ignore[operator]
        head = _head(code, step.offset, str(steps[i + 1].value), body)
        if head is not None:
            jumps = [s.offset for s in steps if s.name.startswith("JUMP_BACKWARD") and s.value == step.offset]
            found.update(dict.fromkeys([step.offset, *jumps], head))
    return found


def _steps(code: CodeType) -> list[_Step]:
    """Instructions, one for each variable."""
    out = []
    for step in dis.get_instructions(code):
        names = step.argval if isinstance(step.argval, tuple) and "_FAST" in step.opname else None
        if names is None:
            value = step.argrepr if step.opname == "BINARY_OP" else step.argval
            out.append(_Step(step.opname.replace("_CHECK", ""), value, step.offset))
            continue
        kinds = [kind for kind in step.opname.split("_") if kind in ("LOAD", "STORE")]
        out += [_Step(f"{kind}_FAST", name, step.offset) for kind, name in zip(kinds, names, strict=True)]
    return out


def _head(code: CodeType, offset: int, name: str, body: Sequence[_Step]) -> Head | None:
    """What a loop does with its variable; ``None`` if that is more than to read and to assign elements."""
    uses = [i for i, step in enumerate(body) if step.value == name and "_FAST" in step.name]
    depth = depths(code)[offset] - 1
    added = (depths(code).get(step.offset, 0) - 1 - int(str(step.value)) for step in body if step.name in _ADDING)
    if any(place <= depth for place in added):
        return None  # that of a comprehension, which has what it makes on the stack
    if name in code.co_cellvars or any(step.value == name and "_FAST" not in step.name for step in body):
        return None
    if uses and all(body[i].name == "STORE_FAST" for i in uses):
        return Head(offset, depth, None, frozenset(), ())
    read, written, seen = set[str](), list[tuple[str, int]](), set[int]()
    for i in uses:
        base = body[i - 1] if i else None
        if base is None or body[i].name != "LOAD_FAST" or base.name not in _LOADS or base.value == name:
            return None
        distance, then = _moved(body[i + 1 : i + 4])
        if then == "STORE_SUBSCR":
            written.append((str(base.value), distance))
            seen.add(i - 1)
        elif then == "BINARY_SUBSCR":
            read.add(str(base.value))
        else:
            return None
    kept = {array for array, _ in written}
    for i, step in enumerate(body):
        changes = step.name.startswith(("STORE_", "DELETE_")) and step.value in read | kept
        if changes or (step.value in kept and i not in seen and step.name in _LOADS):
            return None
    if kept & {*code.co_cellvars, *code.co_freevars}:  # others may read it
        return None
    written = [*dict.fromkeys(written)]  # perhaps in several branches
    if len(kept) < len(written):
        return None
    return Head(offset, depth, name, frozenset(read), tuple(written))


def _moved(steps: Sequence[_Step]) -> tuple[int, str]:
    """How far from the turn's number a position is, and the instruction that takes it."""
    if len(steps) == 3 and steps[0].name in ("LOAD_CONST", "LOAD_SMALL_INT") and steps[1].name == "BINARY_OP":
        if type(steps[0].value) is int and steps[1].value in ("+", "-"):
            return steps[0].value if steps[1].value == "+" else -steps[0].value, steps[2].name
        return 0, ""
    return 0, steps[0].name if steps else ""
