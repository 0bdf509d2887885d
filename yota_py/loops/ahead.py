"""Functions with loops of Python that are differentiated inside of other differentiations.

There, what a turn does belongs to several traces at once, and nobody could let the turns that are left be one operation
of each. So a function that does nothing but compute (``capture/closed.py``) is traced ahead, by itself, where its loops
become operations; in its place, the traces around follow what is on that tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ..base.containers import NUMBERS, items_of
from ..base.dispatch import is_traced, shadow
from ..base.instructions import by_code
from ..base.settings import config
from ..base.types import is_inexact
from ..base.unwinding import Apart, Quiet, Warned, state
from ..capture.bytecode import nested
from ..capture.closed import Closing, is_tuple_or_dataclass
from ..capture.recording import code_of
from ..passes.dce import dce
from ..passes.repeats import LEAST_SAVED
from ..passes.roll import roll
from ..registry.constants import as_constants
from ..tape.loop import as_loop
from ..tape.operations import Constant, Guard, Input, Operation
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import flatten, unflatten
from ..tracing.traces import Trace
from .heads import has_loops
from .once import does_more

MAX_VAIN = 3  # times that a function is traced ahead for nothing


def with_loops(f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """What is called in the place of ``f`` with these arguments, inside of other traces: itself, or what computes the
    same by loops."""
    code = code_of(f)
    if code is None or len(_vain(code)) > MAX_VAIN or not config.roll or state.every is not None:
        return f
    try:
        ahead = _traced(f, args, kwargs)
    except Exception:  # any: it is called itself, and raises it again
        ahead = None
    if ahead is None:
        _vain(code).append(name_of(f))
        return f
    return ahead


@by_code
def _vain(code: CodeType) -> list[str]:
    """Has an item for each time that a function of this code was traced ahead for nothing."""
    return []


def _traced(f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What replays a tape of the function; itself, if it is short this time; ``None`` if it has no loops, or may do
    more than to compute."""
    trace = Trace(Tape(name_of(f)))
    trace.derived = any(other.derived for other in state.traces)
    taken: dict[int, tuple[Any, Any]] = {}  # by identity, values of the traces around, with what stands for them here

    def take(value: Any) -> Any:
        if id(value) not in taken:
            plain = shadow(value)
            taken[id(value)] = value, trace.tracer(trace.input(plain, "", active=is_inexact(plain)))
        return taken[id(value)][1]

    closing = Closing(take)
    closing.see(args, dict(kwargs))
    closed = closing.function(f)
    leaves, spec = flatten((args, dict(kwargs)))
    inputs = [closing.value(x) for x in leaves]
    closing.check()
    if not (any(map(_has_loops, closing.codes)) and all(map(_is_followed, closing.originals))):
        return None
    given = unflatten(spec, inputs)
    with state.unwatched, Apart([trace]), Warned() as warned:
        result = closed(*given[0], **given[1])
        results, out_spec = flatten(result)
        found = [x._current()[0] if is_traced(x) else x for x in results]
        trace.settle()
        trace.alive = False
    if not (_is_plain(result) and _are_same(given, inputs, spec)):
        return None
    if does_more(trace) or warned or closing.has_changed() or any(root._is_written() for _, root in taken.values()):
        return None  # or it is to warn at its own line
    trace.tape.results = found
    tape = dce(roll(trace).tape)
    loops = [loop for op in tape.ops if (loop := as_loop(op)) is not None]
    if not loops and len(trace.tape) < LEAST_SAVED:
        return f
    if not loops or any(_decides(loop.body.ops, loop.until) for loop in loops):
        return None
    values, held, ops = iter([value for value, _ in taken.values()]), list[Any](), list[Operation]()
    for op in tape.ops:
        if isinstance(op, Constant) and isinstance(op.value, np.ndarray):
            held.append(as_constants(op.value))  # the traces are to know that it is one
            op = Input("", op.type)
        elif isinstance(op, Input):
            held.append(next(values))
        ops.append(op)
    body = replace(tape, ops=ops)
    return lambda *_, **__: unflatten(out_spec, _played(body, held))


def _is_plain(x: Any) -> bool:
    """Whether a result has nothing in it but traced values, numbers, texts and arrays: no copies of functions."""
    if is_traced(x) or type(x) in NUMBERS:
        return True
    known = type(x) in (tuple, list) or is_tuple_or_dataclass(type(x))
    if type(x) is dict:
        known = NUMBERS.issuperset(map(type, x))
    return known and all(map(_is_plain, items_of(x) or ()))


def _are_same(given: Any, leaves: Sequence[Any], spec: Any) -> bool:
    """Whether the containers that a function was given have in them what they had."""
    now, structure = flatten(given)
    return structure == spec and all(a is b for a, b in zip(now, leaves, strict=True))


def _played(tape: Tape, inputs: Sequence[Any]) -> list[Any]:
    """The results of a tape in the present traces, whose operations come from the same lines."""
    traces = {trace: trace.site for trace in state.traces}

    def at(op: Operation) -> None:
        for trace, site in traces.items():
            trace.site = site or op.site

    try:
        with Quiet():  # it has warned of nothing
            return tape.play_flat(inputs, at)
    finally:
        for trace, site in traces.items():
            trace.site = site


def _is_followed(fn: FunctionType) -> bool:
    """Whether the outermost trace knows what a function reads: it does not see this call. One of a single turn does."""
    walk = state.traces[0].walk
    return walk is None or id(fn) in walk.functions or (id(fn.__code__), id(fn.__globals__)) in walk.codes


def _has_loops(code: CodeType) -> bool:
    return any(map(has_loops, nested(code)))


def _decides(ops: Iterable[Operation], ends: int = 0) -> bool:
    """Whether turns of a loop take decisions, besides those that end it."""
    inner = (as_loop(op) for op in ops)
    decisions = sum(isinstance(op, Guard) for op in ops)
    return decisions > ends or any(_decides(loop.body.ops, loop.until) for loop in inner if loop is not None)
