"""Long loops that are interpreted: kernels run them, some turns at a time, if they give what NumPy gives.

Whoever interprets a loop of many turns would wait for NumPy in each of them. The first turns are computed by both, and
compared; what is left over at the end, less than is run at a time, is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.floating import raises_errors
from ..base.refusal import Refusal
from ..base.settings import config
from ..base.types import ArrayType, TupleType, typeof
from ..base.unwinding import Apart, Quiet, state
from ..passes.adjoint import primitive_loop
from ..registry.tangents import getfield
from ..tape.loop import Loop
from ..tape.operations import Call, Guard
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .compile import compile_loop

TURNS = 256  # that are run at a time; fewer where each is long
LONG = 100  # operations in such a turn
LEAST = 50_000  # operations in all turns, from which on kernels are made
TOLERANCE = 1e-6  # of double precision; what rounding does to a sum in another order


def is_long(loop: Loop) -> bool:
    """Whether kernels may run a loop that is interpreted, which it takes time to make."""
    if loop.turns < (8 * TURNS if loop.until or loop.counted else 2 * _at_once(loop)) or loop.work < LEAST:
        return False
    return config.compile != "never" and sum(isinstance(op, Guard) for op in loop.body.ops) <= loop.until


def _at_once(loop: Loop) -> int:
    """How many turns are run at a time."""
    return max(1, min(TURNS, TURNS * LONG * loop.turns // max(loop.work, 1)))


def play(loop: Loop, args: Sequence[Any]) -> tuple[Any, ...] | None:
    """The results of a loop, for plain values; ``None`` if NumPy is to compute them."""
    known = loop.played_by[1] if loop.played_by is not None and loop.played_by[0] is loop.body else None
    if known is False or not is_long(loop) or raises_errors():
        return None
    turns, some = loop.turns, replace(loop, turns=_at_once(loop), entry=None, values=None, played_by=None)
    if loop.until or loop.counted:
        return _in_one_go(loop, args, known)
    carry, (xs, invariants) = list(args[: loop.carried]), loop.parted(args[loop.carried :])
    outputs: list[list[Any]] = [[] for _ in loop.body.results[loop.carried :]]
    for number in range(turns // some.turns):
        start = turns - (number + 1) * some.turns if loop.backward else number * some.turns
        given = [*carry, *(x[start : start + some.turns] for x in xs), *invariants]
        program = _program(some, given) if known is None else known
        results = None if program is None else _run(program, given)
        agrees = results is not None and (number > 0 or _agree(results, some.turn_by_turn(*given)))
        known = program if agrees else False
        loop.played_by = loop.body, known
        if results is None or not agrees:
            return None
        carry = list(results[: loop.carried])
        for output, value in zip(outputs, results[loop.carried :], strict=True):
            output.append(value)
    if rest := turns % some.turns:
        part = slice(0, rest) if loop.backward else slice(turns - rest, None)
        given = [*carry, *(x[part] for x in xs), *invariants]
        results = replace(some, turns=rest).turn_by_turn(*given)
        carry = list(results[: loop.carried])
        for output, value in zip(outputs, results[loop.carried :], strict=True):
            output.append(value)
    order = slice(None, None, -1 if loop.backward else 1)
    return (*carry, *(original(np.concatenate)(output[order]) for output in outputs))


def _in_one_go(loop: Loop, args: Sequence[Any], known: Any) -> tuple[Any, ...] | None:
    """The results of a loop that ends by itself, or is told when: some turns are compared, and then all are run."""
    if loop.counted and int(args[-1]) < 2 * TURNS:
        return None
    if known is None:
        some = loop if loop.counted else replace(loop, turns=TURNS, entry=None, values=None, played_by=None)
        given = [*args[:-1], np.int64(TURNS)] if loop.counted else args
        want = some.turn_by_turn(*given)
        if loop.until and want[-1] < TURNS:
            return loop.turn_by_turn(*args)
        program = _program(some, given)
        results = None if program is None else _run(program, given)
        stacks = slice(loop.carried, len(loop.body.results))
        agrees = results is not None and _agree(
            [*results[: loop.carried], *(x[:TURNS] for x in results[stacks])],
            [*want[: loop.carried], *(x[:TURNS] for x in want[stacks])],
        )
        known = (program if loop.counted else _program(loop, args)) if agrees else False
        loop.played_by = loop.body, known
    results = _run(known, args) if known else None
    return None if results is None else tuple(results)


def _program(loop: Loop, args: Sequence[Any]) -> Any:
    """A program that runs a loop; ``None`` if there are no kernels for something in it."""
    recorder = Recorder(Tape("loop"))
    with state.unwatched, Apart([]), Quiet(warnings=False):
        try:
            variables = [recorder.input(x, "") for x in args]
            values = loop.outcome()
            call = Call(primitive_loop(loop), tuple(variables), {}, TupleType(tuple(map(typeof, values))))
            result = recorder.append(call, values)
            recorder.tape.results = [
                recorder.append(Call(getfield, (result, i), {}, typeof(value)), value) for i, value in enumerate(values)
            ]
            recorder.tape.leaves = [*variables]
            return compile_loop(recorder)
        except Exception:  # any: NumPy computes it
            return None


def _run(program: Any, args: Sequence[Any]) -> Sequence[Any] | None:
    with state.unwatched, Apart([]):
        results = program(*args)
    return None if isinstance(results, Refusal) else results


def _agree(have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Whether values are those that NumPy has computed, but for rounding."""
    for x, y in zip(have, want, strict=True):
        t = typeof(y)
        if not isinstance(t, ArrayType) or typeof(x) != t:
            return False
        if not t.inexact:
            if not original(np.array_equal)(x, y):
                return False
            continue
        tolerance = TOLERANCE * float(np.finfo(t.dtype).eps / np.finfo(np.float64).eps) ** 0.5
        size = np.max(np.abs(y), initial=0.0, where=np.isfinite(y))
        if not np.allclose(x, y, tolerance, tolerance * size, equal_nan=True):
            return False
    return True
