"""Which operation a wrong result comes from, in the user's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..base.refusal import Refusal
from ..base.types import ArrayType
from ..engine.compile import compile_tape
from ..tape.operations import Call, Variable
from ..tape.show import name_of
from ..tape.tape import Tape
from .check import Difference, differences, with_captured


def origin(tape: Tape, inputs: Sequence[Any], outputs: Sequence[Any], found: Sequence[Difference]) -> str:
    """The operation that the first wrong number comes from; empty if it comes from none.

    That is the first operation which is computed otherwise than NumPy does. If there is none, the program does what was
    recorded, and what was recorded is not what the function does now: then it is the operation whose result is wrong.
    """
    results = {id(value): var for value, var in zip(outputs, tape.results, strict=True)}
    variables = (results.get(id(difference.have)) for difference in found if difference.have is not None)
    wrong = next((var for var in variables if isinstance(var, Variable)), None)
    if wrong is None:
        return ""
    try:
        miscomputed = _miscomputed(tape, inputs, wrong)
    except Exception:  # any: what is wrong may fail in any way, and the finding stands without it
        miscomputed = None
    if miscomputed is not None:
        return f"; compiled, {_said(miscomputed)} has another result than NumPy's"
    return f"; it comes from {_said(made)}" if isinstance(made := tape[wrong], Call) else ""


def _miscomputed(tape: Tape, inputs: Sequence[Any], wrong: Variable) -> Call | None:
    """The first operation up to this one that machine code computes otherwise than NumPy."""
    calls = [var for var, op in tape if isinstance(op, Call) and isinstance(op.type, ArrayType) and var.id <= wrong.id]
    every = replace(tape, results=calls)
    have = compile_tape(every, [tape[var].type for var in calls]).run(*inputs)
    if isinstance(have, Refusal):
        return None
    want = with_captured(every, inputs).play_flat(inputs[: len(tape.inputs)])
    for var, x, y in zip(calls, have, want, strict=True):
        if differences(x, y):
            op = tape[var]
            assert isinstance(op, Call)
            return op
    return None


def _said(op: Call) -> str:
    return f"{name_of(op.fn)} ({op.site})" if op.site is not None else name_of(op.fn)
