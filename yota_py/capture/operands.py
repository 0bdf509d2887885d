"""What the instructions of a function compare by identity (``x is y``), as far as they tell that.

Of most comparisons they tell of one side that it is nothing that is traced: ``x is None``, ``type(x) is cls``,
``get(key) is MISSING``. Names, attributes and items can be looked up in the moment of the comparison.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum, EnumMeta, auto
from inspect import getattr_static
from itertools import accumulate
from types import MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

from ..base.dispatch import is_traced


class Origin(Enum):
    """What a side of a comparison begins with."""

    ANYHOW, CONSTANT, LOCAL, CELL, GLOBAL, TYPE = (auto() for _ in range(6))


LOCAL = frozenset(["LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"])
_CONSTANTS = frozenset(["LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_SMALL_INT"])
_KINDS = {"LOAD_DEREF": Origin.CELL, "LOAD_GLOBAL": Origin.GLOBAL}
_ORDINARY: tuple[Any, ...] = (object.__getattribute__, type.__getattribute__, ModuleType.__getattribute__)
_JUMPS = frozenset([*dis.hasjrel, *dis.hasjabs])


class Side(NamedTuple):
    """One side of a comparison: the ``value`` of a constant, what a ``name`` stands for, or what ``name``, which should
    be ``type``, gives. ``path`` are attributes (texts) and items (tuples of a key) of what a name stands for."""

    kind: Origin = Origin.ANYHOW
    name: str = ""
    value: Any = None
    path: tuple[str | tuple[Any], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing that is traced can be the same object."""
        return self.kind is Origin.CONSTANT and type(self.value) not in (int, float, complex)

    def found(self, namespace: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
        """What this is now, or an object that is no less: some class for a class; ``UNKNOWN`` if that cannot be told
        without running code of the user's."""
        value = UNKNOWN
        if self.kind is Origin.CONSTANT:
            value = self.value
        elif self.kind is Origin.LOCAL or self.kind is Origin.CELL:
            value = local.get(self.name, UNKNOWN)
        elif self.kind is not Origin.ANYHOW:
            value = namespace.get(self.name, getattr(builtins, self.name, UNKNOWN))
        if self.kind is Origin.TYPE:
            return value if isinstance(value, type) and issubclass(value, type) else UNKNOWN
        for key in self.path:
            value = _attribute(value, key) if isinstance(key, str) else _item(value, *key)
        return value


Pair = tuple[Side, Side]
UNKNOWN = object()
ANYTHING: Pair = Side(), Side()
A_CLASS = Side(Origin.CONSTANT, value=type)


def _attribute(value: Any, name: str) -> Any:
    if value is UNKNOWN or is_traced(value) or type(value).__getattribute__ not in _ORDINARY:
        return UNKNOWN
    if isinstance(value, ModuleType):
        return vars(value).get(name, UNKNOWN)
    if isinstance(value, EnumMeta) and name in value.__members__:
        return value.__members__[name]
    found = getattr_static(value, name, UNKNOWN)
    if isinstance(found, MemberDescriptorType) and not isinstance(value, type):
        with suppress(AttributeError):
            return found.__get__(value)
    return UNKNOWN if hasattr(type(found), "__get__") else found


def _item(value: Any, key: Any) -> Any:
    is_in = type(key) is int and -len(value) <= key < len(value) if type(value) in (list, tuple) else (
        type(value) is dict and type(key) in (int, str) and key in value
    )
    return value[key] if is_in else UNKNOWN


def compared(instructions: Sequence[dis.Instruction], i: int) -> Pair:
    """What the instruction with this number compares."""
    middle = _start(instructions, i)
    first = _start(instructions, middle)
    right = instructions[middle:i] if middle >= 0 else ()
    left = _side(instructions[first:middle]) if first >= 0 else Side()
    if (left.path or left.kind in (Origin.CELL, Origin.GLOBAL)) and not all(map(_only_loads, right)):
        left = Side()  # it may be something else by now
    elif left.kind is Origin.LOCAL and any(x.argval == left.name and not _only_loads(x) for x in right):
        left = Side()
    return left, _side(right) if right else Side()


def _only_loads(instruction: dis.Instruction) -> bool:
    return instruction.opname.startswith("LOAD_") or is_subscript(instruction)


def is_subscript(instruction: dis.Instruction) -> bool:
    """Whether an instruction gives an item of a container."""
    return instruction.opname == "BINARY_SUBSCR" or instruction.argrepr == "[]"


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


def _side(instructions: Sequence[dis.Instruction]) -> Side:
    """What these instructions leave on the stack, the last one of which makes it."""
    first, *others = [x for x in instructions if x.opname != "EXTENDED_ARG"]
    last = others[-1] if others else first
    if last.opname == "LOAD_ATTR" and last.argval == "__class__":
        return A_CLASS
    if last.opname == "CALL" and first.opname == "LOAD_GLOBAL" and first.argval == "type" and _is_call(first, others):
        return Side(Origin.TYPE, "type")
    if first.opname in _CONSTANTS and not others:
        return Side(Origin.CONSTANT, value=first.argval)
    kind = Origin.LOCAL if first.opname in LOCAL else _KINDS.get(first.opname)
    path = list[str | tuple[Any]]()
    while others:
        attribute = others.pop(0)
        if attribute.opname in _CONSTANTS and others and is_subscript(others.pop(0)):
            path.append((attribute.argval,))
        elif attribute.opname == "LOAD_ATTR":
            path.append(attribute.argval)
        else:
            return Side()
    return Side(kind, first.argval, path=tuple(path)) if kind is not None else Side()


def _is_call(first: dis.Instruction, others: Sequence[dis.Instruction]) -> bool:
    """Whether the last of some instructions calls what the first one has loaded: in ``type(x)(y)`` it does not."""
    depths = [*accumulate(map(_effect, others[:-1]), initial=_effect(first))]
    return min(depths) == 2  # the function, and the place for an object whose method it might have been
