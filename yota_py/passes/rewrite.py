"""What the passes share besides ``Tape.rewrite``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.types import ArrayType
from ..tape.operations import Call, Constant, Variable
from ..tape.tape import Tape


def number_of(tape: Tape, x: Any) -> Any:
    """The number that an argument is in every element, or ``None`` if it is not known to be one."""
    value = x
    while isinstance(value, Variable):
        op = tape[value]
        if isinstance(op, Call) and op.fn in _UNIFORM:
            value = op.args[0]
        elif isinstance(op, Constant) and op.captured is None:
            value = op.value[()] if isinstance(op.value, np.ndarray) and op.value.shape == () else op.value
        else:
            return None
    if not isinstance(value, bool | int | float | complex | np.generic):
        return None
    t = tape.type_of(x)  # in an array a number is not weak
    return t.dtype.type(value) if isinstance(t, ArrayType) and t.kind != "python" else value


_UNIFORM = (np.broadcast_to, np.reshape, np.expand_dims, np.squeeze, np.transpose, np.ravel)


def call(out: Tape, like: Call, fn: Any, *args: Any) -> Variable:
    """Append ``fn(*args)`` with the type, site and note of another call."""
    return out.append(replace(like, fn=fn, args=args, kwargs={}))
