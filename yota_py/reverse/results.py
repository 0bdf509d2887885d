"""A gradient tape played with NumPy while it is made: its results, as users get them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import is_traced
from ..base.types import ArrayType, Type
from ..registry.constants import as_constant
from ..tape.operations import Input, Variable
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from ..tape.trees import unflatten
from ..tracing.mutation import traced_result

_COPIED = (np.ndarray, np.memmap)


def result_types(tape: Tape) -> list[Type]:
    """The type in which each result is handed out.

    A gradient has the type of its argument; a value the type that the function returns, except that Python numbers
    in give Python numbers out.
    """
    numbers = of_numbers(tape)
    assert tape.out_spec is not None
    values = tape.out_spec.child(0).num_leaves
    out: list[Type] = []
    for i, result in enumerate(tape.results):
        t = tape.type_of(result)
        is_gradient = i >= values and isinstance(result, Variable)
        out.append(tape.gradient_types[i - values] if is_gradient else of_value(t, numbers))
    return out


def of_numbers(tape: Tape) -> bool:
    """Whether all that is differentiated in are Python's numbers."""
    inputs = (op.type for op in tape.ops if isinstance(op, Input) and op.active)
    return all(isinstance(t, ArrayType) and t.kind == "python" for t in inputs)


def of_value(t: Type, numbers: bool) -> Type:
    """The type in which a value is handed out: of functions of Python's ``numbers``, it is one of them."""
    if numbers and isinstance(t, ArrayType) and t.kind == "scalar" and t.dtype.name in ("float64", "complex128"):
        return replace(t, kind="python")
    return t


def collect(gradient: Recorder) -> Any:
    """Value and gradients of an interpreted tape: fresh arrays and numbers in their containers."""
    tape = gradient.tape
    results = [
        settle(gradient[result] if isinstance(result, Variable) else result, t)
        for result, t in zip(tape.results, result_types(tape), strict=True)
    ]
    assert tape.out_spec is not None
    return unflatten(tape.out_spec, results)


def settle(value: Any, t: Type) -> Any:
    """A result as its type says, sharing no memory with anything; an array of another class, as one with a mask, is
    handed out itself. To the trace of a function around it, an array that nothing traced went into is a constant."""
    if not isinstance(t, ArrayType) or (issubclass(type(value), np.ndarray) and type(value) not in _COPIED):
        return value
    if is_traced(value):
        return traced_result(value, t)
    if t.kind == "array":
        return as_constant(np.array(value, dtype=t.dtype, order="C"))
    if t.kind == "scalar":
        return t.dtype.type(value)
    return np.asarray(value).item() if isinstance(value, np.ndarray | np.generic) else value
