"""``print`` in a traced function: an operation of the outermost trace, which runs again at each call.

It is done at once, with plain values; where the trace has effects, with these, when the function has ended
(``capture/effects.py``). What is no number, text or container of such is printed as well, and is a reason not to cache.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import find_traced, is_traced, originals, shadow
from ..base.impure import STREAMS, Output, Text, printing
from ..base.types import ArrayType, typeof
from ..base.unwinding import state
from ..tape.operations import Call, substitute, user_site
from .disguise import BY_ORIGINAL, Builtins
from .shells import may_have_started
from .stand_ins import Installed, suspended
from .texts import tellers, texts_known, with_texts
from .tracer import Tracer

_LEAVES = frozenset([str, bytes, int, float, complex, bool, NoneType, range, type, type(Ellipsis)])
_CONTAINERS = (tuple, list, dict)
_OTHER_STREAMS = frozenset(f"__{name}__" for name in STREAMS)  # which may be the same, and stay


def _print(*args: Any, **kwargs: Any) -> None:
    """The stand-in for ``print``."""
    if not state.traces:
        for trace in [user._trace for user in [*Installed._users]]:
            if may_have_started(trace):
                trace.problems.append("a thread prints that it has started")
        print(*args, **kwargs)
        return
    if state.suspended or (to := _stream(kwargs)) is None:
        _unrecorded(args, kwargs, "it prints")
        return
    args = with_texts(args, sys._getframe(1))
    options = {key: value for key, value in kwargs.items() if key != "file"}
    if problem := problem_of(args, options.values(), "prints"):
        _unrecorded(args, kwargs, f"{user_site()}: {problem}")
        return
    with state.unwatched:
        record(Output("print", printing, to), args, options)


def _stream(kwargs: Mapping[str, Any]) -> Any:
    """The name of the stream that is printed to, empty for that of ``print``; ``None`` if nobody knows."""
    if (file := kwargs.get("file")) is None:
        return ""
    names = [name for name in STREAMS if getattr(sys, name) is file]
    is_certain = len(names) == 1 and _OTHER_STREAMS.isdisjoint(sys._getframe(2).f_code.co_names)
    return names[0] if is_certain else None


def problem_of(args: Collection[Any], options: Collection[Any], does: str) -> str:
    """Why another call cannot tell this, as this one ``does``; empty if it can."""
    wrong = [x for x in args if not _is_followed(x)] + [x for x in options if find_traced((x,)) or not _is_followed(x)]
    if wrong:
        return f"it {does} a {type(wrong[0]).__name__}, which cannot be followed"
    if any(text in x for x in args if type(x) is str for text in texts_known()):
        instead = 'print("x is", x)' if does == "prints" else 'logger.info("x is %s", x)'
        return f"it {does} a text that is made of traced values, another one each time. Give it the values: {instead}"
    return ""


def _is_followed(value: Any) -> bool:
    """Whether it is known of a value how it is made in another call."""
    if is_traced(value):
        return isinstance(value, Tracer) and isinstance(typeof(value._current()[1]), ArrayType)
    if type(value) is dict and not all(type(key) in _LEAVES for key in value):
        return False
    if type(value) is Text:
        return all(map(_is_followed, value.values))
    if type(value) in _CONTAINERS:
        return all(map(_is_followed, value.values() if type(value) is dict else value))
    return type(value) in _LEAVES or isinstance(value, np.generic | np.dtype) or type(value) is np.ndarray


_UNRECORDED = Output("print", lambda to, *args, **kwargs: print(*args, **kwargs))


def _unrecorded(args: tuple[Any, ...], kwargs: Mapping[str, Any], problem: str) -> None:
    trace = state.traces[0]
    if trace.effects and trace.give_up is not None:
        trace.give_up(problem)
    trace.problems.append(problem)
    args = tuple(str(_changed(shadow, x)) if type(x) is Text else x for x in args)
    _UNRECORDED.tell("", _changed(_labelled if trace.labels else shadow, args), kwargs)


def record(fn: Output, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Append an output to the outermost tape; it happens now, unless the trace has effects."""
    trace = state.traces[0]
    shown = _changed(_labelled if trace.labels and fn.do is printing else shadow, args)
    names, _ = trace.split(_changed(lambda tracer: _of(trace, tracer), args))
    trace.append(Call(fn, names, dict(kwargs), typeof(None), trace.origin()), None)
    if not trace.effects:
        try:
            with suspended:
                fn.tell(fn.of, shown, kwargs)
        except Exception:  # any: the function may catch it, as in ``Trace.record``
            trace.problems.append(f"{fn.name} raised an exception")
            raise


def tell(trace: Any, op: Call) -> None:
    """Let an output of a trace with effects happen, when it has ended."""
    assert isinstance(op.fn, Output)
    op.fn.tell(op.fn.of, *substitute((op.args, dict(op.kwargs)), trace.__getitem__))


def _changed(change: Any, structure: Any) -> Any:
    """The same containers with each traced value changed."""
    if is_traced(structure):
        return change(structure)
    return mapped(lambda item: _changed(change, item), structure)


def _of(trace: Any, tracer: Tracer) -> Any:
    """What a value is to the outermost trace, if it is one of a trace inside."""
    value: Any = tracer
    while isinstance(value, Tracer) and value._ledger is not trace:
        value = value._current()[1]
    return value


class _Labelled:
    """A traced value that prints with its variable."""

    def __init__(self, value: Any, label: str) -> None:
        self._value, self._label = value, label

    def __str__(self) -> str:
        return f"{self._value} ({self._label})"

    def __format__(self, spec: str) -> str:
        return f"{self._value:{spec}} ({self._label})"

    def __repr__(self) -> str:
        return f"{self._value!r} ({self._label})"


def _labelled(tracer: Tracer) -> Any:
    return _Labelled(shadow(tracer), str(tracer._current()[0])) if tracer._carries() else shadow(tracer)


vars(Builtins)["print"] = _print
originals[id(_print)] = print
tellers.add(id(print))
BY_ORIGINAL[id(print)] = _print
