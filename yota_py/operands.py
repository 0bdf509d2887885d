"""What the instructions of a function compare by identity (``x is y``), as far as they tell that.

Of most comparisons they tell of one side that it is nothing that is traced: ``x is None``, ``type(x) is cls``,
``get(key) is MISSING``. A local name that is assigned nowhere is what the function was called with.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from itertools import accumulate
from types import ModuleType
from typing import Any, NamedTuple

LOCAL = frozenset(["LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"])
_CONSTANTS = frozenset(["LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_SMALL_INT"])
_JUMPS = frozenset([*dis.hasjrel, *dis.hasjabs])


class Kind(Enum):
    """How a side of a comparison is loaded."""

    ANYHOW, CONSTANT, LOCAL, GLOBAL, TYPE = (auto() for _ in range(5))


class Side(NamedTuple):
    """One side of a comparison: the ``value`` of a constant, what a ``name`` stands for, or what ``name``, which should
    be ``type``, gives. The ``value`` of a global name is the attribute of it that is loaded, or empty."""

    kind: Kind = Kind.ANYHOW
    name: str = ""
    value: Any = ""

    @property
    def is_plain(self) -> bool:
        """Whether nothing that is traced can be the same object."""
        return self.kind is Kind.CONSTANT and type(self.value) not in (int, float, complex)

    def found(self, namespace: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
        """What this is, or an object that is no less: some class for a class; ``UNKNOWN`` if that cannot be told."""
        if self.kind is Kind.CONSTANT:
            return self.value
        if self.kind is Kind.LOCAL:
            return local.get(self.name, UNKNOWN)
        if self.kind is Kind.ANYHOW:
            return UNKNOWN
        value = namespace.get(self.name, getattr(builtins, self.name, UNKNOWN))
        if self.kind is Kind.TYPE:
            return value if isinstance(value, type) and issubclass(value, type) else UNKNOWN
        if self.value:
            return getattr(value, self.value, UNKNOWN) if isinstance(value, type | ModuleType) else UNKNOWN
        return value


Pair = tuple[Side, Side]
UNKNOWN = object()
ANYTHING: Pair = Side(), Side()
A_CLASS = Side(Kind.CONSTANT, value=type)


def compared(instructions: Sequence[dis.Instruction], i: int, assigned: Collection[str]) -> Pair:
    """What the instruction with this number compares, where these local names are assigned."""
    middle = _start(instructions, i)
    first = _start(instructions, middle)
    left, right = instructions[max(first, 0) : max(middle, 0)], instructions[max(middle, 0) : i]
    return (_side(left, assigned) if first >= 0 else Side(), _side(right, assigned) if middle >= 0 else Side())


def _start(instructions: Sequence[dis.Instruction], end: int) -> int:
    """The number of the first of the instructions that leave one value to the one with number ``end``; -1 if they stand
    in no straight line: the value of ``x if c else y`` is made by one of two."""
    depth = 0
    while depth < 1:
        if end < 1 or instructions[end].is_jump_target or instructions[end - 1].opcode in _JUMPS:
            return -1
        end -= 1
        depth += _effect(instructions[end])
    return end if depth == 1 else -1


def _effect(instruction: dis.Instruction) -> int:
    argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, argument, jump=False)


def _side(instructions: Sequence[dis.Instruction], assigned: Collection[str]) -> Side:
    """What these instructions leave on the stack, the last one of which makes it."""
    first, *others = [x for x in instructions if x.opname != "EXTENDED_ARG"]
    last = others[-1] if others else first
    if last.opname == "LOAD_ATTR" and last.argval == "__class__":
        return A_CLASS
    if last.opname == "CALL" and first.opname == "LOAD_GLOBAL" and first.argval == "type" and _is_call(first, others):
        return Side(Kind.TYPE, "type")
    if len(others) == 1 and (first.opname, last.opname) == ("LOAD_GLOBAL", "LOAD_ATTR"):
        return Side(Kind.GLOBAL, first.argval, last.argval)
    if others:
        return Side()
    if first.opname in _CONSTANTS:
        return Side(Kind.CONSTANT, value=first.argval)
    if first.opname == "LOAD_GLOBAL":
        return Side(Kind.GLOBAL, first.argval)
    is_kept = first.opname in LOCAL | {"LOAD_DEREF"} and first.argval not in assigned
    return Side(Kind.LOCAL, first.argval) if is_kept else Side()


def _is_call(first: dis.Instruction, others: Sequence[dis.Instruction]) -> bool:
    """Whether the last of some instructions calls what the first one has loaded: in ``type(x)(y)`` it does not."""
    depths = [*accumulate(map(_effect, others[:-1]), initial=_effect(first))]
    return min(depths) == 2  # the function, and the place for an object whose method it might have been
