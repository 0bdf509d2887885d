"""Lowering is replay: playing a tape on tracers inlines every rule into primitives.

A lowering needs no values but those that a rule takes decisions on, which is rare. So large arrays are replaced by
stand-ins without memory, of the same type; where something decides on what is computed from them, or fails on it, the
replay starts again with the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import original
from ..base.impure import Clock, Impure, Output
from ..base.types import ArrayType, Type, order_in_memory, typeof
from ..base.unwinding import go_on, quietly
from ..registry.applied import written_out
from ..registry.kernels import Map
from ..registry.registry import primitive_of
from ..reverse.verbs import differentiate
from ..tape.loop import Loop, as_loop
from ..tape.operations import Call, Constant, Guard, Input, Operation, Site, Variable, operands, renamed, substitute
from ..tape.recorder import Recorder, is_large
from ..tape.show import name_of, text_of
from ..tape.tape import Tape
from ..tracing.tracer import Status, Tracer
from ..tracing.traces import Trace
from .parts import by_parts

T = TypeVar("T")


class _UnknownValueError(Exception):
    """A rule takes a decision on a value that is not known."""


class _Lowering(Trace):
    """A trace that opens compositions: what has a ``lowering`` is written out.

    Its guards bear the number of the ``decision`` that is played; those that rules take have none. ``unknown`` are the
    variables that stand-ins have taken part in; with ``exact`` there are none. With ``closed``, compositions stay.
    """

    __slots__ = ("closed", "decision", "exact", "unknown")
    keeps_loops = opens = True

    def __init__(self, tape: Tape, *, exact: bool, closed: bool) -> None:
        super().__init__(tape)
        self.decision = -1
        self.exact, self.closed = exact, closed
        self.unknown: set[Variable] = set()

    def next_decision(self) -> int:
        return self.decision

    def record(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        entry = None if self.closed else primitive_of(fn)
        written = NotImplemented if entry is None else written_out(entry, args, kwargs)
        if written is NotImplemented and entry is not None:
            written = by_parts(entry, args, kwargs)
        return super().record(fn, args, kwargs) if written is NotImplemented else written

    def compute(
        self, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], frame: FrameType | None = None
    ) -> Any:
        if type(fn) is Loop and not self.exact:
            return fn.outcome()
        if self.exact or not any(map(is_large, args)):
            return super().compute(fn, args, kwargs, frame)
        entry = primitive_of(fn)
        if entry is None or not isinstance(entry.kernel, Map):
            return _without_memory(super().compute(fn, args, kwargs))
        arrays = [x for x in args if isinstance(x, np.ndarray)]
        first = super().compute(fn, tuple(_first(x) if isinstance(x, np.ndarray) else x for x in args), kwargs)
        return np.broadcast_to(first, np.broadcast_shapes(*[x.shape for x in arrays]))

    def append(self, op: Operation, value: Any) -> Variable:
        if self.exact:
            return super().append(op, value)
        var = super().append(op, _without_memory(value))
        if is_large(value) or as_loop(op) is not None or any(x in self.unknown for x in operands(op)):
            self.unknown.add(var)
        return var

    def guard(self, tracer: Tracer, test: Callable[[Any], T]) -> T:
        if tracer._current()[0] in self.unknown:
            raise _UnknownValueError
        return super().guard(tracer, test)

    def expect(self, tracer: Tracer, op: Guard) -> None:
        """A decision as it was taken; one on an array is that all its elements are as expected."""
        test, expected = op.test, op.expected
        if isinstance(expected, np.ndarray):
            agreement: Any = _agreement(tracer, expected)
            if not isinstance(agreement, Tracer):
                return
            tracer, test, expected = agreement, original(np.all), np.True_
        var = tracer._current()[0]
        Recorder.append(self, Guard(var, expected, test, typeof(expected), op.site, number=op.number), expected)


def _agreement(x: Any, expected: np.ndarray) -> Any:
    """Where elements are equal, and of the same sign: that of zeros counts."""
    parts = {"f": (np.positive,), "c": (np.real, np.imag)}.get(expected.dtype.kind, ())
    same: Any = np.equal(x, expected)
    for part in parts:
        same = np.logical_and(same, np.equal(np.signbit(part(x)), np.signbit(part(expected))))
    return same


def _first(array: np.ndarray) -> np.ndarray:
    """The first element, with all dimensions."""
    return array[(slice(0, 1),) * array.ndim]


def _without_memory(value: Any) -> Any:
    """A large array as one of its elements, repeated."""
    if is_large(value):
        return np.broadcast_to(_first(value).copy(), value.shape)
    return mapped(_without_memory, value)


class _Replay(Recorder):
    """A tape that is played on tracers while it is written."""

    __slots__ = ("_captured", "trace")

    def __init__(self, like: Tape, *, exact: bool, closed: bool) -> None:
        super().__init__(Tape(like.name, like.site, in_spec=like.in_spec))
        self.trace = _Lowering(Tape(like.name, like.site, in_spec=like.in_spec), exact=exact, closed=closed)
        self._captured = sum(isinstance(op, Constant) and op.captured is not None for op in like.ops)

    def take(self, op: Operation, value: Any) -> Variable:
        go_on()
        if isinstance(op, Call) and isinstance(op.fn, Impure):
            return self._impure(op, op.fn, value)
        if isinstance(op, Call):
            var = self.call(op.fn, op.args, op.kwargs, site=op.site, note=op.note)
            if not _is_of(self[var], op.type):  # written out, it is another function for these operands
                self.values[var.id] = self._as_it_is(op)
                self.tape.ops[var.id - 1] = op
            return var
        if isinstance(op, Guard):
            if isinstance(decided := self[op.var], Tracer):
                self.trace.expect(decided, op)
            return self.append(op, op.expected)
        if isinstance(op, Constant) and op.captured is None and isinstance(op.value, np.ndarray):
            return self.append(op, op.value)  # what is computed from it alone is computed now
        return self.append(op, self.trace.tracer(self.trace.append(op, value)))

    def _impure(self, op: Call, fn: Impure, value: Any) -> Variable:
        """What is drawn, or read of a clock at first, is given to a program at each call, after all that the function
        has captured. A program does nothing else: it gives out what outputs want."""
        if not isinstance(op.type, ArrayType):  # an output, or a generator is made or seeded
            return self.append(op, value)
        if type(fn) is Clock and not fn.first:
            after = [x._current()[0] for var in op.kwargs["after"] if isinstance(x := self[var], Tracer)]
            low = self.trace.append(Call(fn, (), {"after": after}, op.type, op.site), value)
            return self.append(op, self.trace.wrap(low, value, Status.INACTIVE))
        given = Constant(value, op.type, name_of(op.fn), op.site, self._captured)
        self._captured += 1
        return self.append(op, self.trace.tracer(self.trace.append(given, value)))

    def _as_it_is(self, op: Call) -> Any:
        """A call of a primitive that is not written out."""
        entry = primitive_of(op.fn)
        if isinstance(op.fn, Variable) or entry is None or entry.lowering is None:
            raise TypeError(f"{text_of(op)} of {op.site} has another dtype or shape when it is lowered")
        args, kwargs = substitute((op.args, dict(op.kwargs)), self.__getitem__)
        return Trace.record(self.trace, op.fn, args, kwargs)

    def call(
        self,
        fn: Callable[..., Any] | Variable,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        *,
        site: Site | None = None,
        note: str = "",
    ) -> Variable:
        self.trace.site = site or self.trace.site
        try:
            return super().call(fn, args, kwargs, site=site, note=note)
        except Exception as error:
            var, op = Variable(len(self.tape) + 1), Call(fn, args, kwargs or {}, typeof(None))
            error.add_note(f"while {var} {text_of(op)} of {self.trace.site} was lowered")
            raise

    def constant(self, value: Any, note: str = "") -> Variable:
        return self.take(Constant(value, typeof(value), note), value)

    def input(self, value: Any, name: str, *, active: bool = True, note: str = "") -> Variable:
        return self.take(Input(name, typeof(value), active, None, note, order_in_memory(value)), value)


def lower(source: Recorder) -> Recorder:
    """The same computation in primitives only: no rules, no pullbacks, no tuples of them.

    Captured arrays and the seed become tracers too, so that nothing computed from them is baked in: captured arrays
    are read again at every call, and the seed stays a variable until it is folded.
    """

    def play(out: _Replay) -> None:
        env: dict[Variable, Variable] = {}
        for var, op in source.tape:
            env[var] = out.take(renamed(op, env), source[var])
        out.tape.leaves = [substitute(leaf, env.__getitem__) for leaf in source.tape.leaves]
        out.tape.results = [substitute(result, env.__getitem__) for result in source.tape.results]
        out.tape.out_spec = source.tape.out_spec

    return replayed(source.tape, play)[1]


def lower_gradient(
    source: Recorder, seed: Any = None, argnums: int | Sequence[int] | None = None, *, has_aux: bool = False,
    by_rows: Collection[int] = (), closed: bool = False,
) -> tuple[Recorder, Recorder]:  # fmt: skip
    """The gradient tape of a recorded call, and the same lowered; ``closed`` as in ``replayed``."""

    def play(out: _Replay) -> None:
        differentiate(source, seed, argnums, has_aux=has_aux, out=out, by_rows=by_rows)

    return replayed(source.tape, play, closed=closed)


@quietly  # tracing has warned already
def replayed(tape: Tape, play: Callable[[_Replay], Any], *, closed: bool = False) -> tuple[Recorder, Recorder]:
    """What ``play`` writes, and what is computed on the way in primitives; in those that users know, if compositions
    are to stay ``closed``: it is to be differentiated again."""
    out = _Replay(tape, exact=False, closed=closed)
    try:
        play(out)
    except Exception:  # any: rules that decide on values say so in ways of their own
        if not out.trace.unknown:
            raise
        out = _Replay(tape, exact=True, closed=closed)
        play(out)
    out.trace.alive = False
    low = out.trace.tape
    low.out_spec = out.tape.out_spec
    low.leaves = [_untraced(substitute(leaf, out.__getitem__)) for leaf in out.tape.leaves]
    results = (*out.tape.results, *told_by(out.tape))
    low.results = [_untraced(substitute(result, out.__getitem__)) for result in results]
    for op in low.ops:
        if isinstance(op, Call) and type(op.fn) is Loop:
            op.fn.values = None
    return out, out.trace


def told_by(tape: Tape) -> list[Variable]:
    """What outputs want of a program, besides its results: the values of these variables."""
    return [x for op in tape.ops if isinstance(op, Call) and type(op.fn) is Output for x in operands(op)]


def _is_of(value: Any, t: Type) -> bool:
    """Whether a value has the dtype and shape of a type, if it is one of numbers."""
    have = typeof(value)
    if not isinstance(t, ArrayType):
        return True
    return isinstance(have, ArrayType) and (have.dtype, have.shape) == (t.dtype, t.shape)


def _untraced(value: Any) -> Any:
    return value._current()[0] if isinstance(value, Tracer) else value
