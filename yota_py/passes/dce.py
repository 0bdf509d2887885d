"""Dead code: what no result and no guard needs is dropped; inputs and captured values stay."""

from __future__ import annotations

from typing import Any

from ..operations import Constant, Guard, Input, Operation, Variable, operands, paths
from ..tape import Tape
from .rewrite import rewrite


def dce(tape: Tape) -> Tape:
    """Keep what the results and guards are computed from."""
    live = {var for _, var in paths(tape.results)}
    for i in range(len(tape), 0, -1):
        var, op = Variable(i), tape[i]
        if isinstance(op, Guard | Input) or (isinstance(op, Constant) and op.captured is not None):
            live.add(var)
        if var in live:
            live.update(operands(op))
    at = iter(range(1, len(tape) + 1))

    def visit(out: Tape, op: Operation) -> Any:
        return out.append(op) if Variable(next(at)) in live else None

    return rewrite(tape, visit)
