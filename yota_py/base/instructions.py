"""Instructions of code, which several passes read one after the other."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

from . import locks

T = TypeVar("T")
MAX_KNOWN = 16  # code objects; an instruction has 300 bytes
MAX_REMEMBERED = 4096  # code objects of which is remembered what was read of each, and which are kept alive

_known: dict[int, tuple[CodeType, tuple[dis.Instruction, ...]]] = {}  # by identity, those that were read last behind


def instructions_of(code: CodeType) -> tuple[dis.Instruction, ...]:
    """All instructions of a code object, as ``dis`` tells them."""
    with locks.tables:
        known = _known.pop(id(code), None) or (code, tuple(dis.get_instructions(code)))
        _known[id(code)] = known
        while len(_known) > MAX_KNOWN:
            del _known[next(iter(_known))]
    return known[1]


def by_code(read: Callable[[CodeType], T]) -> Callable[[CodeType], T]:
    """A function of a code object that is called once for each, by identity: equal code may stand in several files. The
    oldest of too many are forgotten."""
    known_codes: dict[int, tuple[CodeType, T]] = {}

    @functools.wraps(read)
    def remembered(code: CodeType) -> T:
        known = known_codes.get(id(code))
        if known is None:
            while len(known_codes) >= MAX_REMEMBERED:
                known_codes.pop(next(iter(known_codes)), None)
            known = known_codes[id(code)] = code, read(code)
        return known[1]

    return remembered
