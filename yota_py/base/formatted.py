"""F-strings that are arguments of calls, as code has them: what they are made of, and which call gets them."""

from __future__ import annotations

import dis
from bisect import bisect_right
from dataclasses import field
from types import CodeType
from typing import Any, NamedTuple

from .instructions import by_code, instructions_of
from .records import record

_PUSHES = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLOSURE", "LOAD_SMALL_INT", "PUSH_NULL")
_OPERANDS = {"LOAD_ATTR": 1, "LOAD_METHOD": 1, "BINARY_OP": 2, "BINARY_SUBSCR": 2, "COMPARE_OP": 2, "BUILD_SLICE": 2}
_SILENT = ("CACHE", "RESUME", "NOP", "PRECALL", "EXTENDED_ARG", "COPY_FREE_VARS", "NOT_TAKEN")
_UNARY = ("UNARY_", "TO_BOOL")


class Formatted(NamedTuple):
    """An f-string: its parts are texts, and offsets of instructions that format a value. The call at the offset
    ``call`` gets it as its argument with the number ``position``."""

    parts: tuple[str | int, ...]
    call: int
    position: int


@record()
class FStrings:
    """Those of a code object, by the offsets of the instructions that format values for them."""

    offsets: list[int]
    by_format: dict[int, Formatted] = field(default_factory=dict)

    def at(self, offset: int) -> Formatted | None:
        """For which f-string a value is formatted by the instruction at an offset."""
        return self.by_format.get(self.instruction(offset))

    def instruction(self, offset: int) -> int:
        """The offset of the instruction itself, where it may be that of an inline cache."""
        return self.offsets[bisect_right(self.offsets, offset) - 1]


@by_code
def f_strings(code: CodeType) -> FStrings:
    """The f-strings that a code object hands to calls, and to nobody else."""
    return _read(code)


class _Format(NamedTuple):
    """A text on the stack that is made by formatting a value."""

    offset: int


def _read(code: CodeType) -> FStrings:
    """Follow what is on the stack, from one instruction to the next, as far as that is certain."""
    instructions = instructions_of(code)
    found = FStrings([instruction.offset for instruction in instructions])
    stack: list[Any] = []  # texts, formats, tuples of these; None for all else
    keywords = 0

    def pop(count: int) -> list[Any]:
        taken = [None] * max(0, count - len(stack)) + stack[max(0, len(stack) - count) :]
        del stack[max(0, len(stack) - count) :]
        return taken

    for at in instructions:
        kind, arg = at.opname, at.arg or 0
        if at.is_jump_target:
            stack.clear()
        if kind in _SILENT:
            continue
        if kind == "KW_NAMES":
            keywords = len(code.co_consts[arg])
        elif kind == "LOAD_CONST":
            stack.append(at.argval if type(at.argval) in (str, tuple) else None)
        elif kind.startswith(_PUSHES):
            stack += [None] * dis.stack_effect(at.opcode, at.arg)
        elif kind == "FORMAT_VALUE":
            has_spec, converts = bool(arg & 4), bool(arg & 3)
            pop(1 + has_spec)
            stack.append(_Format(-1 if has_spec and converts else at.offset))
        elif kind == "CONVERT_VALUE":
            pop(1)
            stack.append(_Format(at.offset))
        elif kind == "FORMAT_SIMPLE":
            (value,) = pop(1)
            stack.append(value if type(value) is _Format else _Format(at.offset))
        elif kind == "FORMAT_WITH_SPEC":
            value, _ = pop(2)
            stack.append(_Format(-1 if type(value) is _Format else at.offset))
        elif kind == "BUILD_STRING":
            stack.append(tuple(pop(arg)))
        elif kind in ("CALL", "CALL_KW"):
            if kind == "CALL_KW":
                keywords = len(pop(1)[0] or ())
            given = pop(arg)
            pop(2)
            _note(found, given[: len(given) - keywords], at.offset)
            stack.append(None)
            keywords = 0
        elif kind in _OPERANDS or kind.startswith((*_UNARY, "BUILD_TUPLE", "BUILD_LIST")):
            count = _OPERANDS.get(kind, arg if kind.startswith("BUILD") else 1)
            effect = dis.stack_effect(at.opcode, at.arg)
            pop(count)
            stack += [None] * (effect + count)
        else:
            stack.clear()
    return found


def _note(found: FStrings, given: list[Any], call: int) -> None:
    """Note the f-strings among the arguments of a call."""
    for position, value in enumerate(given):
        parts = (value,) if type(value) is _Format else value if type(value) is tuple else ()
        if not parts or not all(type(part) in (_Format, str) for part in parts):
            continue
        text = Formatted(tuple([part.offset if type(part) is _Format else part for part in parts]), call, position)
        found.by_format.update({part: text for part in text.parts if type(part) is int and part >= 0})
