"""Loops as their turns, one after the other: where a kernel is missing for something in a body."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.unwinding import go_on, quietly
from ..registry.tangents import getfield
from ..tape.loop import END, Loop, UnrolledError, as_loop
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable, renamed, substitute
from ..tape.recorder import Recorder

MAX_OPERATIONS = 50_000  # of all turns


@quietly
def unrolled(source: Recorder) -> Recorder:
    """The same computation without loops; the same object if there are none. Raises ``UnrolledError`` if there would
    be very many operations."""
    found = [(loop, value) for op, value in zip(source.tape.ops, source.values[1:], strict=True)
             if (loop := as_loop(op)) is not None]  # fmt: skip
    if not found:
        return source
    if sum(loop.work * _turns_of(loop, value) // max(loop.turns, 1) for loop, value in found) > MAX_OPERATIONS:
        raise UnrolledError
    out = Recorder(replace(source.tape, ops=[], leaves=[], results=[]))
    env: dict[Variable, Any] = {}
    for i, op in enumerate(source.tape.ops, 1):
        env[Variable(i)] = _taken(out, op, env, source.values[i])
    out.tape.leaves = [substitute(leaf, env.__getitem__) for leaf in source.tape.leaves]
    out.tape.results = [substitute(result, env.__getitem__) for result in source.tape.results]
    return out


def _taken(out: Recorder, op: Operation, env: dict[Variable, Any], value: Any) -> Any:
    """An operation on the new tape: its variable, or, of a loop, a tuple of those of its results."""
    if isinstance(op, Call) and op.fn is getfield and type(results := env[op.args[0]]) is tuple:
        return results[op.args[1]]
    if (loop := as_loop(op)) is not None and isinstance(op, Call):
        turns = _turns_of(loop, value)
        return _turns(out, loop, turns, [env[x] if isinstance(x, Variable) else x for x in op.args], op)
    return out.take(renamed(op, env), value)


def _turns_of(loop: Loop, value: Any) -> int:
    """How many turns a loop with these results has taken."""
    if not loop.until:
        return loop.turns
    if value is None:
        raise UnrolledError
    return int(value[-1])


def _turns(out: Recorder, loop: Loop, turns: int, args: Sequence[Any], like: Call) -> tuple[Any, ...]:
    carry, (xs, invariants) = list(args[: loop.carried]), loop.parted(args[loop.carried :])
    outputs: list[list[Any]] = [[] for _ in loop.body.results[loop.carried :]]
    order = slice(None, None, -1 if loop.backward else 1)
    for k in range(turns)[order]:
        go_on()
        env = _turn(out, loop, [*carry, *(_element(out, x, k, like) for x in xs), *invariants])
        results = [substitute(x, env.__getitem__) for x in loop.body.results]
        carry = results[: loop.carried]
        for output, result in zip(outputs, results[loop.carried :], strict=True):
            output.append(result)
    if loop.until:
        assert not outputs, "a loop with an end of its own gives no stacks before it is differentiated"
        _turn(out, loop, [*carry, *invariants], ends=True)
        return (*carry, out.constant(np.int64(turns)))
    stacks = [out.call(original(np.stack), (output[order],), site=like.site) for output in outputs]
    return (*carry, *stacks)


def _turn(out: Recorder, loop: Loop, args: Sequence[Any], *, ends: bool = False) -> dict[Variable, Any]:
    """One turn; or, where the loop ``ends``, as much of one as there is."""
    given, env = iter(args), dict[Variable, Any]()
    for var, op in loop.body:
        if isinstance(op, Input):
            env[var] = next(given)
        elif isinstance(op, Constant):
            env[var] = out.append(op, op.value)
        elif isinstance(op, Guard):
            expected = not op.expected if ends and op.number == END else op.expected
            env[var] = out.append(replace(op, var=env[op.var], expected=expected), expected)
            if ends and op.number == END:
                break
        else:
            env[var] = _taken(out, op, env, None)
    return env


def _element(out: Recorder, x: Any, k: int, like: Call) -> Variable:
    """One element of a stack."""
    ndim = out.tape.type_of(x).ndim
    return out.call(operator.getitem, (x, k if ndim == 1 else (k, ...)), site=like.site)
