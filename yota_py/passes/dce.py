"""Dead code: what no result and no guard needs is dropped; inputs, captured values and what may raise stay."""

from __future__ import annotations

from typing import Any

from ..registry.kernels import Index
from ..registry.registry import primitive_of
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable, operands, paths
from ..tape.tape import Tape


def dce(tape: Tape) -> Tape:
    """Keep what the results and guards are computed from, and calls that the function may try."""
    live = {var for _, var in paths(tape.results)}
    for i in range(len(tape), 0, -1):
        var, op = Variable(i), tape[i]
        if isinstance(op, Guard | Input) or (isinstance(op, Constant) and op.captured is not None) or may_raise(op):
            live.add(var)
        if var in live:
            live.update(operands(op))
    at = iter(range(1, len(tape) + 1))

    def visit(out: Tape, op: Operation) -> Any:
        return out.append(op) if Variable(next(at)) in live else None

    return tape.rewrite(visit)


def may_raise(op: Operation) -> bool:
    """Whether an exception depends on values: of a function that says so, or an index that is computed."""
    if not isinstance(op, Call) or isinstance(op.fn, Variable):
        return False
    entry = primitive_of(op.fn)
    if entry is None or entry.fails:
        return True
    return isinstance(entry.kernel, Index) and any(True for _ in paths(op.args[1:]))
