"""Exceptions that C code raises because it has been given a traced value: what is said of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
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
from ..base.ownership import is_library, is_library_frame, is_ours
from ..errors import LostDerivativeError
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
    if not isinstance(callee, _C_FUNCTIONS | _OF_PYTHON | type):
        return ""
    owner = getattr(callee, "__self__", None) or getattr(callee, "__objclass__", None)
    cls = callee if isinstance(callee, type) else owner if isinstance(owner, type) else None
    if cls is not None and issubclass(cls, Decimal):
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
