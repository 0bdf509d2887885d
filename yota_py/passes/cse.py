"""Common subexpressions: equal calls are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..registry.registry import primitive_of
from ..tape.operations import Call, Constant, Guard, Operation, Variable
from ..tape.tape import Tape


def cse(tape: Tape) -> Tape:
    """``f(x); f(x)`` is one call, for all registered functions (they are pure)."""
    known: dict[Any, Variable] = {}

    def visit(out: Tape, op: Operation) -> Any:
        key: tuple[Any, ...]
        if isinstance(op, Call) and primitive_of(op.fn) is not None:
            key = (op.fn, _key(op.args), _key(dict(op.kwargs)), op.type)
        elif isinstance(op, Constant):
            value = id(op.value) if isinstance(op.value, np.ndarray) else _key(op.value)
            key = ("constant", op.captured, op.type, value)
        elif isinstance(op, Guard):
            key = ("guard", op.var, op.test, _key(op.expected))
        else:
            return out.append(op)
        if key not in known:
            known[key] = out.append(op)
        elif isinstance(op, Guard) and out[known[key]].number < 0:  # type: ignore[union-attr]  # a rule took it as well
            out.ops[known[key].id - 1] = op
        return known[key]

    return tape.rewrite(visit)


def _key(x: Any) -> Any:
    """A hashable stand-in, equal only for interchangeable arguments (1, 1.0 and True are not; nor 0.0 and -0.0)."""
    if isinstance(x, Variable):
        return x
    if isinstance(x, tuple | list):
        return type(x), tuple(map(_key, x))
    if isinstance(x, dict):
        return dict, tuple((k, _key(v)) for k, v in x.items())
    if isinstance(x, slice):
        return slice, _key((x.start, x.stop, x.step))
    if isinstance(x, bool | int | float | complex | str | np.generic | np.dtype | type(None) | type(Ellipsis)):
        return type(x), repr(x)
    return id(x)
