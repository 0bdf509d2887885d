"""A turn that is traced once, for all turns of a loop, which is one operation on the tape.

The first turn has run as it is, on the values of the traces around: whatever is read there has been heard of. Then the
step is traced in a trace of its own, with what it captures as arguments; nothing that it does there is seen outside.
Where that shows anything but a computation, all turns run as the first one did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, is_traced, shadow
from ..base.types import is_inexact, typeof
from ..base.unwinding import Apart, Quiet, state
from ..capture.closed import Closing, OpenError
from ..engine.playing import play
from ..passes.adjoint import primitive_loop
from ..passes.dce import dce
from ..passes.repeats import may_be_in_registers, pays
from ..passes.roll import roll
from ..registry.constants import as_constants
from ..tape.loop import END, MANY, MORE, TURNS, Continued, Loop, players
from ..tape.operations import Constant, Guard, Variable, substitute, user_site
from ..tape.recorder import Recorder
from ..tape.tape import Tape, turns_of
from ..tracing.traces import Trace
from .leaves import row

Turn = Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
players.append(play)  # such loops are longer than those that Python has run through


class Once:
    """One turn for all: its ``body``, and what this takes that is the same in all turns, ``captured``."""

    def __init__(self, body: Tape, captured: Sequence[Any]) -> None:
        self._body, self._captured = body, captured

    def run_until(self, carried: Sequence[Any]) -> Sequence[Any] | None:
        """What is carried when the condition of the body does not hold any more; ``None`` if a turn cannot be as the
        first."""
        most = TURNS
        while True:
            loop = primitive_loop(Loop(self._body, len(carried), 0, most, until=True))
            args = (*carried, *self._captured)
            with strict():
                results = _recorded(loop, args)
            if results is None:
                return None
            *carried, count = results
            if count < most:  # a decision, as all that is asked of traced numbers
                return carried
            most *= MORE

    def run(
        self, carried: Sequence[Any], stacked: Sequence[Any], turns: int, *, backward: bool = False,
        continues: Continued | None = None,
    ) -> Sequence[Any] | None:  # fmt: skip
        """What is carried after so many turns, and what they give; ``None`` if a turn cannot be as the first. The loop
        may be one that ``continues`` turns on the tape."""
        every, body, captured = turns_of(state.every, turns), self._body, self._captured
        if continues is None:  # no turns on the tape, which a turn is to be like
            with state.unwatched, Quiet(warnings=False):  # the first turn has warned of it
                body, captured = in_front(body, len(carried) + len(stacked), captured)
        loop = primitive_loop(Loop(body, len(carried), len(stacked), turns, backward, every, continues=continues))
        return _recorded(loop, (*carried, *stacked, *captured))


def in_front(body: Tape, first: int, captured: Sequence[Any]) -> tuple[Tape, Sequence[Any]]:
    """A body without what is the same in all turns, which is computed in front of the loop, and what it takes then.

    Traced inputs from the ``first`` on are the same, and what calls make of them and of constants alone.
    """
    values: dict[Variable, Any] = dict(zip(body.inputs[first:], captured, strict=True))
    hoist = import_module("..passes.hoist", __package__)  # with the first loop
    parts = hoist.split(body, first, {var for var, value in values.items() if is_traced(value)})
    if parts is None:
        return body, captured
    for var in parts.before:
        values[var] = _computed(body[var], values)
    return parts.body, [values[var] for var in parts.given]


def _computed(op: Any, values: Mapping[Variable, Any]) -> Any:
    """The value of a constant or call, in the traces around."""
    if isinstance(op, Constant):
        return as_constants(op.value)
    args, kwargs = substitute(op.args, values.__getitem__), substitute(dict(op.kwargs), values.__getitem__)
    traced = find_traced((args, kwargs))
    return as_constants(op.fn(*args, **kwargs)) if traced is None else traced.__yota_record__(op.fn, args, kwargs)


def strict() -> np.errstate:
    """A block in which overflow and the like raise an exception where NumPy would warn: the turn that has it is to warn
    at its own line."""
    kinds: Any = {kind: "raise" for kind, does in np.geterr().items() if does in ("warn", "print")}
    return np.errstate(**kinds)


def _recorded(loop: Loop, args: Sequence[Any]) -> Sequence[Any] | None:
    """The results of a loop of traced values; ``None`` if it raises an exception, which comes again in the turn that
    raises it."""
    traced = find_traced(args)
    known = [*traced._ledger.problems]
    try:
        return traced.__yota_record__(loop, args, {})  # type: ignore[no-any-return]
    except Exception:  # any: as it says
        traced._ledger.problems[:] = known
        return None


def traced_once(
    turn: Turn, step: Any, trees: Sequence[Any], carried: Sequence[Any], stacked: Sequence[Any], k: int,
    turns: int, *, until: bool = False,
) -> Once | None:  # fmt: skip
    """``turn(step, carried, elements)`` traced for what is carried and the elements ``k`` of arrays; ``None`` if
    another turn may be another one, or if so many do not pay.

    ``step`` is the function, or a list of it and what else it is given; ``trees`` are containers that it is given. A
    loop that goes on ``until`` a condition does not hold any more hands that to what it finds as the only element.
    """
    if not (until or pays(turns, MANY, among=0)):  # however long they are
        return None
    trace = Trace(Tape("turn"))
    trace.derived = any(other.derived for other in state.traces)
    captured: dict[int, tuple[Any, Any]] = {}

    def take(value: Any) -> Any:
        plain = shadow(value)
        return trace.tracer(trace.input(plain, "", active=is_inexact(plain)))

    def capture(value: Any) -> Any:
        if id(value) not in captured:
            captured[id(value)] = value, take(value)
        return captured[id(value)][1]

    def go_on(holds: Any) -> None:
        if not is_traced(holds) or np.shape(holds) != ():
            raise OpenError
        trace.settle()
        var = _variable(trace, holds)
        Recorder.append(trace, Guard(var, True, bool, typeof(True), user_site(), number=END), True)

    given = [take(x) for x in carried], [take(row(shadow(x), k)) for x in stacked]
    try:
        closing = Closing(capture)
        closing.see(*trees)
        closed = closing.value(step)
        closing.check()
        if not any(map(is_traced, (*carried, *stacked, *(value for value, _ in captured.values())))):
            return None
        with state.unwatched, Apart([trace]), Quiet(warnings=False):
            results = turn(closed, given[0], [go_on]) if until else turn(closed, *given)
            variables = [_variable(trace, x) for x in results]
            trace.settle()
            trace.alive = False
    except OpenError:
        return None
    except Exception:  # any: the turn itself raises it again
        return None
    guarded = sum(isinstance(op, Guard) for op in trace.tape.ops) > until
    written = any(root._is_written() for _, root in captured.values())
    if does_more(trace) or guarded or closing.has_changed() or written or not variables:
        return None
    if not (until or pays(turns, len(trace.tape), among=0)) or (until and not _are_short(trace.tape)):
        return None
    trace.tape.results = variables
    body = dce(roll(trace).tape)
    return Once(body, [value for value, _ in captured.values()])


def does_more(trace: Trace) -> bool:
    """Whether what was traced by itself has done more than to compute, or nobody can tell."""
    return bool(trace.problems or trace.refused or trace.lost or trace.draws or trace.strangers or trace.matrices)


def _are_short(tape: Tape) -> bool:
    """Whether all values may be in registers."""
    return all(may_be_in_registers(op.type) for op in tape.ops if not isinstance(op, Guard))


def _variable(trace: Trace, x: Any) -> Variable:
    """The variable of a result."""
    if is_traced(x):
        return x._current()[0]  # type: ignore[no-any-return]
    return trace.append(Constant(x, typeof(x)), x)
