"""A lowered tape in two: what does not depend on some of its inputs, and what does, of which the first puts by what the
second reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..base.records import record
from ..base.types import ArrayType, is_basic
from ..registry import kernels
from ..registry.registry import primitive_of
from ..tape.operations import Call, Constant, Guard, Input, Variable, operands, renamed, substitute, variable
from ..tape.tape import Tape
from .dce import dce


class UncutError(Exception):
    """A tape cannot be cut there; the text says why."""


@record()
class Halves:
    """Both tapes. Results of the ``first`` are the early ones, then what is ``kept``, by its number, and what outputs
    tell; inputs of the ``second`` are what is kept, and those that the tape was cut at."""

    first: Tape
    second: Tape
    kept: int


def dependent(tape: Tape, late: Iterable[Variable]) -> set[Variable]:
    """These variables, and all that is computed from them."""
    found = set(late)
    for var, op in tape:
        if not found.isdisjoint(operands(op)):
            found.add(var)
    return found


def recomputed(tape: Tape, read: set[Variable]) -> set[Variable]:
    """What is better computed again than put by, of what is ``read`` later: views, and cheap functions of what is read
    anyway. What these are computed from is added to ``read``."""
    again: set[Variable] = set()
    for i in range(len(tape), 0, -1):
        if (var := variable(i)) not in read or not isinstance(op := tape[var], Call):
            continue
        below = [x for x in operands(op) if isinstance(tape[x], Call)]
        entry = primitive_of(op.fn)
        kernel = None if entry is None else entry.kernel
        looks = isinstance(kernel, kernels.View) or (isinstance(kernel, kernels.Index) and is_basic(op.args[1]))
        cheap = isinstance(kernel, kernels.Map) and kernel.cost == 1 and read.issuperset(below)
        if looks or cheap:
            again.add(var)
            read.update(operands(op))
    return again


def cut(tape: Tape, late: Sequence[Variable], early: int, told: int) -> Halves:
    """Cut a tape at some of its inputs: the first ``early`` of its results do not depend on them, nor do the last
    ``told``. Raises ``UncutError`` where they do, where a decision depends on them, and where what would be put by is
    no array or number."""
    after = dependent(tape, late)
    end = len(tape.results) - told
    first, second = [*tape.results[:early], *tape.results[end:]], tape.results[early:end]
    if any(isinstance(x, Variable) and x in after for x in first):
        raise UncutError("its value depends on a cotangent")
    if any(isinstance(tape[var], Guard) for var in after):
        raise UncutError("its derivative decides on a cotangent")
    read = {x for var in after for x in operands(tape[var])} | {x for x in second if isinstance(x, Variable)}
    read -= after
    again = recomputed(tape, read)
    again |= {x for x in read if isinstance(op := tape[x], Constant) and op.captured is None}
    kept = sorted(read - again, key=lambda x: x.id)
    for x in kept:
        if not isinstance(tape[x].type, ArrayType):
            raise UncutError(f"its derivative needs a value of type {tape[x].type}")
    return Halves(
        _first(tape, after, [*tape.results[:early], *kept, *tape.results[end:]]),
        _second(tape, after | again, [*kept, *late], second), len(kept),
    )  # fmt: skip


def _first(tape: Tape, after: set[Variable], results: Sequence[Any]) -> Tape:
    out, env = replace(tape, ops=[], leaves=[], regions=[]), dict[Variable, Variable]()
    for var, op in tape:
        if var not in after:
            env[var] = out.append(renamed(op, env))
    out.results = [substitute(x, env.__getitem__) for x in results]
    return dce(out)


def _second(tape: Tape, ops: set[Variable], given: Sequence[Variable], results: Sequence[Any]) -> Tape:
    out, env = Tape(f"{tape.name} back", tape.site), dict[Variable, Variable]()
    for x in given:
        op = tape[x]
        env[x] = out.append(Input(op.name if isinstance(op, Input) else "put by", op.type))
    for var, op in tape:
        if var in ops and var not in env:
            env[var] = out.append(renamed(op, env))
    out.results = [substitute(x, env.__getitem__) for x in results]
    return dce(out)
