"""Constant folding: an elementwise operation on numbers that are known is a number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.types import ArrayType, is_basic
from ..base.unwinding import Quiet
from ..registry.kernels import Map, Unindex, View
from ..registry.registry import primitive_of
from ..tape.operations import Call, Operation, Variable, operands
from ..tape.tape import Tape
from .rewrite import call, number_of


def fold(tape: Tape) -> Tape:
    """``f(2, 3) = 5``, and an array of equal elements that are known is that number, broadcast."""
    return tape.rewrite(_visit)


def _visit(out: Tape, op: Operation) -> Any:
    if not isinstance(op, Call) or not isinstance(op.type, ArrayType) or not op.args:
        return out.append(op)
    entry = primitive_of(op.fn)
    kernel = None if entry is None else entry.kernel
    if isinstance(kernel, Unindex) and not isinstance(op.args[0], Variable):
        return _filled(out, op)
    if isinstance(kernel, View) and op.fn is not np.broadcast_to:
        return _viewed(out, op)
    if op.kwargs or not isinstance(kernel, Map):
        return out.append(op)
    numbers = [number_of(out, x) for x in op.args]
    if any(n is None for n in numbers):
        return out.append(op)
    with Quiet():
        value = op.fn(*numbers)  # type: ignore[operator]
    value = value if op.type.kind == "python" else op.type.dtype.type(value)
    return value if op.type.kind != "array" else call(out, op, np.broadcast_to, value, op.type.shape)


def _viewed(out: Tape, op: Call) -> Any:
    """A view of equal elements. Of views in views each is seen to be one when it comes."""
    assert isinstance(op.type, ArrayType)
    x = op.args[0]
    before = out[x] if isinstance(x, Variable) else None
    if isinstance(before, Call) and before.fn is not np.broadcast_to:
        return out.append(op)
    n, others = number_of(out, x), [y for y in operands(op) if y != x]
    known = n is not None and not others and op.type.kind == "array" and out.type_of(x).dtype == op.type.dtype
    return call(out, op, np.broadcast_to, op.type.dtype.type(n), op.type.shape) if known else out.append(op)


def _filled(out: Tape, op: Call) -> Any:
    """What is added into zeros is an array: a kernel reads it."""
    assert isinstance(op.type, ArrayType)
    number, index, shape = op.args
    if op.kwargs or not is_basic(index) or not all(type(n) is int for n in shape):
        return out.append(op)
    extent = np.broadcast_to(0, shape)[index].shape
    t = replace(op.type, shape=extent)
    filled = replace(op, fn=np.broadcast_to, args=(t.dtype.type(number), extent), type=t)
    return out.append(replace(op, args=(out.append(filled), index, shape)))
