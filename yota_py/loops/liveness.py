"""Which local variables code may still read: others have values of which nothing depends.

Liveness, as compilers know it: from the last instruction to the first, until nothing changes (A. V. Aho et al.,
*Compilers*, 2nd edition, section 9.2.5).
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType

from .heads import Step, steps_of

_AWAY = ("RETURN_", "RAISE_", "RERAISE")
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


@lru_cache(maxsize=1024)
def alive(code: CodeType) -> dict[int, frozenset[str]]:
    """The names of variables that may be read from each instruction on; those in cells always may."""
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
            step, after = steps[i], frozenset[str]().union(*(found[k] for k in following[i]))
            name = frozenset([str(step.value)] if "_FAST" in step.name else ())
            now = after - name if step.name.startswith("STORE") else after | name
            if now != found[i]:
                found[i], changed = now, True
    return {offset: found[i] | cells for offset, i in at.items()}


def _following(steps: list[Step], i: int, at: dict[int, int]) -> list[int]:
    """The steps that may come next."""
    step, out = steps[i], list[int]()
    opcode = dis.opmap.get(step.name)
    if opcode is not None and (opcode in dis.hasjrel or opcode in dis.hasjabs) and isinstance(step.value, int):
        out.append(at[step.value])
    if i + 1 < len(steps) and not step.name.startswith(_AWAY) and step.name not in _ALWAYS:
        out.append(i + 1)
    return out
