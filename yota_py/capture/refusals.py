"""Exceptions that plain numbers would not have raised: what is said of those that C code raises of a traced value, and
how those are heard of that the function catches."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from ..base.callsites import called_with
from ..base.dispatch import original
from ..base.iterators import no_frames
from ..base.ownership import is_decimal, is_library, is_library_frame, is_ours
from ..base.unwinding import Passing, state
from ..errors import LostDerivativeError, YotaError, listeners
from ..tape.operations import site_of, user_site
from ..tracing.hints import PLAIN, RULE, itself
from ..tracing.tracer import tracers_in
from ..tracing.traces import Trace

_WANTING_MEMORY = (np.frombuffer, np.from_dlpack, memoryview, bytes, bytearray)
_C_FUNCTIONS = BuiltinFunctionType | ClassMethodDescriptorType
_OF_PYTHON = FunctionType | MethodType
_SLOTS = (WrapperDescriptorType, MethodDescriptorType)
_WITH_NUMBERS = (int, float, complex, np.generic, np.ndarray)
# They take whatever they are given, or know of traced values: their exceptions are the function's own.
_OF_ANY_OBJECTS = frozenset(
    ["yota_py", "numpy", "scipy", "builtins", "operator", "_operator", "itertools", "functools", "_functools",
     "collections", "_collections", "heapq", "_heapq", "bisect", "_bisect", "copy", "math", "cmath", "contextlib",
     "typing", "types", "dataclasses", "abc", "inspect", "warnings", "threading", "_thread", "unittest"]
)  # fmt: skip
_OF_PLAIN_VALUES = (Trace.compute.__code__, Trace.guard.__code__)  # what is raised in there, plain code raises
_PLAIN_TYPES = ("where no derivative is wanted, give it plain values: stop_gradient(x).__array__() of an array, "
                "stop_gradient(x).__float__() or stop_gradient(x).__index__() of a number")
_SAME = re.compile(r"expected (\S+), got \1\b")  # of plain values nobody says so
_OF_TEXTS = ("json", "csv", "struct", "string")  # modules that make texts or bytes of numbers


def translated(error: BaseException, traceback: TracebackType | None, fn: Any = None) -> LostDerivativeError | None:
    """What to raise for an exception in a traced function, ``fn``; ``None`` for one that is the function's own.

    Of another class than what Python or NumPy raises it is only if it comes from C code that knows nothing of traced
    values and was given one: it would not have been raised of plain numbers.
    """
    frames = [*_frames(traceback)]
    if any(tb.tb_frame.f_code in _OF_PLAIN_VALUES for tb in frames):
        return None
    frames = [tb for tb in frames if not is_ours(tb.tb_frame)]
    if not frames:
        return None
    users = next((tb for tb in reversed(frames) if not is_library_frame(tb.tb_frame)), None)
    if users is None and (name := itself(fn)) and (instead := _way_out(fn, error)):  # grad(json.dumps, 2.0)
        return _given(f"{user_site()}: {name}", error, instead)
    users = users or frames[-1]
    call = called_with(users.tb_frame, users.tb_lasti)
    if call is None or not (traced := tracers_in(call.values)):
        return None
    instead = _PLAIN_TYPES if _SAME.search(str(error)) else _way_out(original(call.callee), error)
    if not instead:
        return None
    callee = f"{site_of(users.tb_frame.f_code, users.tb_lineno)}: {call.name}"
    if any(tracer._carries() for tracer in traced):
        return _given(callee, error, instead)
    return _given(callee, error, _PLAIN_TYPES, "which it cannot read")


def _given(
    callee: str, error: BaseException, instead: str, why: str = "whose derivative would be lost there"
) -> LostDerivativeError:
    return LostDerivativeError(f"{callee}(...) gets a traced value, {why} ({type(error).__name__}: {error}). "
                               f"Instead: {instead}.")  # fmt: skip


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _way_out(callee: Any, error: BaseException) -> str:
    """What to do instead of calling what knows nothing of traced values; empty for any other callable."""
    if isinstance(callee, _SLOTS):
        of_numbers = issubclass(callee.__objclass__, _WITH_NUMBERS)
        return "use the operator or method of the value itself" if of_numbers else ""
    if any(callee is fn for fn in _WANTING_MEMORY):
        return "compute with the array itself, which needs no other view of its memory"
    if not isinstance(callee, _C_FUNCTIONS | _OF_PYTHON | type):  # an object of a library, which C code calls
        root = type(callee).__module__.partition(".")[0]
        is_in_c = isinstance(getattr(type(callee), "__call__", None), WrapperDescriptorType)  # noqa: B004
        return RULE if is_in_c and is_library(root) and root not in _OF_ANY_OBJECTS else ""
    owner = getattr(callee, "__self__", None) or getattr(callee, "__objclass__", None)
    cls = callee if isinstance(callee, type) else owner if isinstance(owner, type) else None
    if cls is not None and is_decimal(cls):
        return f"compute with floats, or make the line a function with a rule: see yota_py.primitive; {_PLAIN_TYPES}"
    root = str(getattr(callee, "__module__", None) or getattr(owner, "__module__", None)).partition(".")[0]
    if root in _OF_ANY_OBJECTS:
        return ""
    if root in sys.stdlib_module_names:
        if root in _OF_TEXTS:
            return PLAIN
        return f"{RULE}; {_PLAIN_TYPES}" if isinstance(error, TypeError) and is_library(root) else ""
    if isinstance(callee, _OF_PYTHON) or (isinstance(callee, type) and _is_written_in_python(callee)):
        return ""
    if isinstance(callee, type) and not is_library(root):
        return ""
    return RULE if isinstance(sys.modules.get(root), ModuleType) else ""


def _is_written_in_python(cls: type) -> bool:
    return any(isinstance(getattr(cls, name), FunctionType) for name in ("__init__", "__new__"))


# -- exceptions that may be caught, and comparisons of objects by identity


class Hearing(Passing):
    """The block in which exceptions are heard of when they come into frames of the user's that may catch them, and what
    others do before they do it.

    It is the trace function that hears of them (``sys.settrace``). One that a debugger has set stays, and both hear.
    (It may be one of C code, which asks no frame: then ``Trace.lost`` tells of what is lost.)
    """

    def __init__(self) -> None:
        self._is_free = sys.gettrace() is None
        self._heard = state.hears
        self.hears = False  # whether it has ever followed a frame

    def follow(self, frame: FrameType, compares: bool) -> bool:
        """Hear of exceptions in a frame, if its code may catch any, and of each step if it ``compares``. Returns
        whether nothing of that will be missed."""
        if (compares or frame.f_code.co_exceptiontable) and not is_library_frame(frame):
            if self._is_free:
                frame.f_trace_lines = False
            if frame.f_trace is None:
                frame.f_trace = _hear
            elif getattr(frame.f_trace, "__module__", "") != __name__:  # a generator's frame comes again
                frame.f_trace = _both(frame.f_trace)
            self.hears = state.hears = True
            self.go_on()
            frame.f_trace_opcodes |= compares
        return not compares or isinstance(sys.gettrace(), FunctionType | MethodType)

    def pause(self) -> None:
        """Hear of nothing until ``go_on``."""
        if sys.gettrace() is no_frames:
            sys.settrace(None)

    def go_on(self) -> None:
        """Hear of exceptions in the frames that are followed."""
        if sys.gettrace() is None:
            sys.settrace(no_frames)

    def end(self) -> None:
        self.pause()
        state.hears = self._heard


def _hear(frame: FrameType, event: str, arg: Any) -> Any:
    if event == "opcode" and state.traces:
        state.traces[0].comparisons.meet(frame)
    elif event == "exception" and state.traces and not state.suspended:
        _, error, traceback = arg
        ours = [cause for cause in _causes(error) if isinstance(cause, YotaError)]
        if not ours:
            translated(error, traceback)  # an error for it is made, and noted
        for cause in ours:
            for trace in state.traces:
                if trace.level == cause.level and trace.refused is None:
                    trace.refused = cause
    return _hear


def _both(other: Callable[..., Any]) -> Callable[..., Any]:
    """Hear of exceptions, and let a debugger's local trace function do what it does."""

    def both(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal other
        _hear(frame, event, arg)
        other = (event != "opcode" and other(frame, event, arg)) or other  # as Python has it: None changes nothing
        return both

    return both


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that were being handled when it was raised: a library may raise another one of ours."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _note(error: YotaError) -> None:
    """An error is made: for a line of the user's, or for a library's or C code's, which may not heed it, or raise
    another one. Whether it is caught or not, it refuses the trace, as plain numbers would not have raised it."""
    if not state.traces or state.suspended:
        return
    trace, frame = state.traces[-1], sys._getframe(1)
    error.level = trace.level
    trace.lost = error
    while frame is not None and is_ours(frame):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None and not is_library_frame(frame) and trace.refused is None:
        trace.refused = error


listeners.append(_note)
