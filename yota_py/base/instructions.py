"""Instructions of code, which several passes read one after the other."""

from __future__ import annotations

import dis
from types import CodeType

from . import locks

MAX_KNOWN = 16  # code objects; an instruction has 300 bytes

_known: dict[int, tuple[CodeType, tuple[dis.Instruction, ...]]] = {}  # by identity, those that were read last behind


def instructions_of(code: CodeType) -> tuple[dis.Instruction, ...]:
    """All instructions of a code object, as ``dis`` tells them."""
    with locks.tables:
        known = _known.pop(id(code), None) or (code, tuple(dis.get_instructions(code)))
        _known[id(code)] = known
        while len(_known) > MAX_KNOWN:
            del _known[next(iter(_known))]
    return known[1]
