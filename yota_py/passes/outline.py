"""What ``checkpoint`` has run becomes one operation, of which the way back computes all again: a loop of one turn."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.impure import Impure
from ..base.types import ArrayType, TupleType
from ..registry.tangents import getfield
from ..tape.loop import Loop
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable, operands, paths, renamed, substitute
from ..tape.recorder import Recorder
from ..tape.tape import ALL, Region, Tape
from .adjoint import primitive_loop


def outlined(source: Recorder) -> Recorder:
    """The same computation; the same object if nothing is to be computed again."""
    regions = [r for r in source.tape.regions if r.every == ALL and r.stop - r.start > 1]
    if not regions:
        return source
    last = _last_uses(source.tape)
    out = Recorder(replace(source.tape, ops=[], leaves=[], results=[], regions=[]))
    env: dict[Variable, Variable] = {}
    at = 0
    for region in sorted(regions, key=lambda r: (r.start, -r.stop)):
        if region.start < at or not _can_run_again(source.tape, region, last):
            continue  # within another one, or it is more than a computation
        _copy(source, at, region.start, out, env)
        _outline(source, region, last, out, env)
        at = region.stop
    _copy(source, at, len(source.tape), out, env)
    out.tape.leaves = [substitute(leaf, env.__getitem__) for leaf in source.tape.leaves]
    out.tape.results = [substitute(result, env.__getitem__) for result in source.tape.results]
    return out


def _last_uses(tape: Tape) -> dict[Variable, int]:
    """The last operation that reads each variable; that behind the end for results."""
    last = {x: i for i, op in enumerate(tape.ops) for x in operands(op)}
    return last | {x: len(tape) for _, x in paths((tape.results, tape.leaves))}


def _can_run_again(tape: Tape, region: Region, last: dict[Variable, int]) -> bool:
    """Whether a region does nothing but compute arrays and numbers of NumPy's."""
    for i, op in enumerate(tape.ops[region.start : region.stop], region.start):
        if isinstance(op, Guard) or (isinstance(op, Call) and isinstance(op.fn, Variable | Impure)):
            return False
        if isinstance(op, Input | Constant):
            continue
        given = (tape[x] for x in operands(op) if x.id <= region.start)
        if not all(isinstance(x.type, ArrayType) or _is_constant(x) for x in given):
            return False
        is_result = last.get(Variable(i + 1), -1) >= region.stop
        if is_result and not (isinstance(op.type, ArrayType) and op.type.kind != "python"):
            return False
    return True


def _copy(source: Recorder, start: int, stop: int, out: Recorder, env: dict[Variable, Variable]) -> None:
    for i in range(start, stop):
        env[Variable(i + 1)] = out.append(renamed(source.tape.ops[i], env), source.values[i + 1])


def _outline(
    source: Recorder, region: Region, last: dict[Variable, int], out: Recorder, env: dict[Variable, Variable]
) -> None:
    """Write a region as one operation."""
    tape, body, inside = source.tape, Tape("again"), dict[Variable, Variable]()
    names = [Variable(i + 1) for i in range(region.start, region.stop)]
    ops = {x: op for x in names if not isinstance(op := tape[x], Input | Constant)}
    for x in names:
        if x not in ops:
            env[x] = out.append(tape[x], source[x])
    read = dict.fromkeys(x for op in ops.values() for x in operands(op) if x not in ops)
    given = [x for x in read if not _is_constant(tape[x])]
    inside = {x: body.append(Input("", tape[x].type, _is_inexact(tape[x].type))) for x in given}
    inside |= {x: body.append(tape[x]) for x in read if x not in inside}
    for x, op in ops.items():
        inside[x] = body.append(renamed(op, inside))
    results = [x for x in ops if last.get(x, -1) >= region.stop]
    body.results = [inside[x] for x in results]
    stacks: list[Any] = [None if source[x] is None else original(np.expand_dims)(source[x], 0) for x in results]
    loop = Loop(body, 0, 0, 1, recomputes=True)
    call = Call(primitive_loop(loop), tuple(env[x] for x in given), {}, TupleType(tuple(loop.output_types)))
    made = out.append(call, None if any(x is None for x in stacks) else tuple(stacks))
    for i, (x, t) in enumerate(zip(results, loop.output_types, strict=True)):
        stack = out.append(Call(getfield, (made, i), {}, t), stacks[i])
        index = 0 if t.ndim == 1 else (0, ...)
        env[x] = out.append(Call(operator.getitem, (stack, index), {}, tape[x].type, ops[x].site), source[x])


def _is_constant(op: Operation) -> bool:
    """Whether an operation is a value that no call changes."""
    return isinstance(op, Constant) and op.captured is None


def _is_inexact(t: Any) -> bool:
    return isinstance(t, ArrayType) and t.inexact
