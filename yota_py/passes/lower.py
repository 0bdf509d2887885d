"""Lowering is replay: playing a gradient tape on tracers inlines every rule into primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dispatch import original
from ..operations import Call, Constant, Guard, Variable, substitute
from ..recorder import Recorder
from ..registry import primitive_of
from ..show import text_of
from ..tape import Tape
from ..trace import Trace
from ..tracer import Tracer
from ..types import ArrayType, Type, typeof


class _Lowering(Trace):
    """A trace that opens compositions: what has a ``lowering`` is written out.

    Its guards bear the number of the ``decision`` that is played; those that rules take have none.
    """

    __slots__ = ("decision",)
    decision: int

    def next_decision(self) -> int:
        return self.decision

    def record(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        entry = primitive_of(fn)
        if entry is None or entry.lowering is None:
            return super().record(fn, args, kwargs)
        written = entry.lowering(*args, **kwargs)
        return super().record(fn, args, kwargs) if written is NotImplemented else written  # not for these arguments


@np.errstate(all="ignore")  # tracing has warned already
def lower(source: Recorder) -> Recorder:
    """The same computation in primitives only: no rules, no pullbacks, no tuples of them.

    Captured arrays and the seed become tracers too, so that nothing computed from them is baked in: captured arrays
    are read again at every call, and the seed stays a variable until it is folded.
    """
    trace = _Lowering(
        Tape(source.tape.name, source.tape.site, in_spec=source.tape.in_spec, out_spec=source.tape.out_spec)
    )
    env: dict[Variable, Any] = {}
    for var, op in source.tape:
        trace.site = op.site or trace.site
        trace.decision = op.number if isinstance(op, Guard) else -1
        if isinstance(op, Call):
            fn = env[op.fn] if isinstance(op.fn, Variable) else op.fn
            args, kwargs = substitute((op.args, dict(op.kwargs)), env.__getitem__)
            try:
                env[var] = fn(*args, **kwargs)
                if not _is_of(env[var], op.type):  # written out, it is another function for these operands
                    env[var] = _as_it_is(trace, fn, args, kwargs)
            except Exception as error:
                error.add_note(f"while {var} {text_of(op)} of {trace.site} was lowered")
                raise
        elif isinstance(op, Guard):
            env[var] = _guard(trace, env[op.var], op)
        elif isinstance(op, Constant) and op.captured is None and isinstance(op.value, np.ndarray):
            env[var] = op.value  # what is computed from it alone is computed now
        else:
            env[var] = trace.tracer(trace.append(op, source[var]))
    trace.alive = False
    tape = trace.tape
    tape.leaves = [_untraced(substitute(leaf, env.__getitem__)) for leaf in source.tape.leaves]
    tape.results = [_untraced(substitute(result, env.__getitem__)) for result in source.tape.results]
    return trace


def _as_it_is(trace: _Lowering, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A call of a primitive that is not written out."""
    if (entry := primitive_of(fn)) is None or entry.lowering is None:
        raise TypeError("its rule gives another dtype or shape when it is lowered")
    return Trace.record(trace, fn, args, kwargs)


def _is_of(value: Any, t: Type) -> bool:
    """Whether a value has the dtype and shape of a type, if it is one of numbers."""
    have = typeof(value)
    if not isinstance(t, ArrayType):
        return True
    return isinstance(have, ArrayType) and (have.dtype, have.shape) == (t.dtype, t.shape)


def _guard(trace: _Lowering, value: Any, op: Guard) -> Any:
    """A decision; one on an array is that all its elements are as expected."""
    if not isinstance(value, Tracer):
        return op.expected
    if isinstance(op.expected, np.ndarray):
        agreement: Any = np.equal(value, op.expected)
        return trace.guard(agreement, original(np.all))
    return trace.guard(value, op.test)


def _untraced(value: Any) -> Any:
    return value.current()[0] if isinstance(value, Tracer) else value
