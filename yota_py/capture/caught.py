"""What happens within a function that is traced: exceptions that it may catch, although plain numbers would not have
raised them, and comparisons of objects by identity."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, MethodType
from typing import Any

from ..base.ownership import is_library_frame, is_ours
from ..base.unwinding import Passing, state
from ..errors import YotaError, listeners
from .refusals import translated


class Hearing(Passing):
    """The block in which exceptions are heard of when they come into frames of the user's that may catch them, and what
    others do before they do it.

    It is the trace function that hears of them (``sys.settrace``). One that a debugger has set stays, and both hear.
    (It may be one of C code, which asks no frame: then ``Trace.lost`` tells of what is lost.)
    """

    def __init__(self) -> None:
        self._is_free = sys.gettrace() is None

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
            self.go_on()
            frame.f_trace_opcodes |= compares
        return not compares or isinstance(sys.gettrace(), FunctionType | MethodType)

    def pause(self) -> None:
        """Hear of nothing until ``go_on``."""
        if sys.gettrace() is _nothing:
            sys.settrace(None)

    def go_on(self) -> None:
        """Hear of exceptions in the frames that are followed."""
        if sys.gettrace() is None:
            sys.settrace(_nothing)

    end = pause


def _nothing(frame: FrameType, event: str, arg: Any) -> None:
    """Follow no other frames."""


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
