"""Constant folding: an elementwise operation on numbers that are known is a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.types import ArrayType
from ..base.unwinding import Quiet
from ..registry.kernels import Map
from ..registry.registry import primitive_of
from ..tape.operations import Call, Operation
from ..tape.tape import Tape
from .rewrite import call, number_of


def fold(tape: Tape) -> Tape:
    """``f(2, 3) = 5``, and a constant array of equal elements is that number, broadcast."""
    return tape.rewrite(_visit)


def _visit(out: Tape, op: Operation) -> Any:
    if not isinstance(op, Call) or op.kwargs or not isinstance(op.type, ArrayType):
        return out.append(op)
    entry = primitive_of(op.fn)
    if entry is None or not isinstance(entry.kernel, Map) or not op.args:
        return out.append(op)
    numbers = [number_of(out, x) for x in op.args]
    if any(n is None for n in numbers):
        return out.append(op)
    with Quiet():
        value = op.fn(*numbers)  # type: ignore[operator]
    value = value if op.type.kind == "python" else op.type.dtype.type(value)
    return value if op.type.kind != "array" else call(out, op, np.broadcast_to, value, op.type.shape)
