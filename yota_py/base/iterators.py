"""The iterators of ``for`` loops that are running: Python has them on the stack of its interpreter, and shows them to
nobody."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

_VERSIONS = range(11, 14)  # of Python 3, in which frames lie in memory as it is said here
_FRAME, _LOCALS = 24, 72  # bytes: where an object of a frame has the frame, and this its variables, then the stack
_WORD = ctypes.sizeof(ctypes.c_void_p)


def no_frames(frame: FrameType, event: str, arg: Any) -> None:
    """A trace function that follows no other frames than those that have one of their own."""


def on_stack(frame: FrameType, index: int, cls: type) -> Any:
    """What a frame has on its stack, whose trace function is running; ``None`` if that is not of a class, or if this
    is not known of this Python."""
    return _read(frame, _count(frame.f_code) + index, cls) if _is_known() else None


@lru_cache(maxsize=1024)
def _count(code: CodeType) -> int:
    """How many variables code has in its frames."""
    return len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)


def _read(frame: FrameType, index: int, cls: type) -> Any:
    inner = ctypes.c_void_p.from_address(id(frame) + _FRAME).value
    address = None if inner is None else ctypes.c_void_p.from_address(inner + _LOCALS + _WORD * index).value
    if address is None or ctypes.c_void_p.from_address(address + _WORD).value != id(cls):
        return None
    return ctypes.cast(address, ctypes.py_object).value


@lru_cache(maxsize=1)
def _is_known() -> bool:
    """Whether frames are as expected, which is tried with one of which all is known."""
    if sys.implementation.name != "cpython" or sys.version_info.minor not in _VERSIONS or _WORD != 8:
        return False
    if "free-threading" in sys.version or hasattr(sys, "gettotalrefcount"):  # builds whose objects begin otherwise
        return False
    outer, inner = iter((1,)), iter((2,))
    found = []
    for _ in outer:
        for _ in inner:
            found = [*_tuple_iterators(sys._getframe())]
    return len(found) == 2 and found[0] is outer and found[1] is inner


def _tuple_iterators(frame: FrameType) -> Iterator[Any]:
    for index in range(2):
        yield _read(frame, _count(frame.f_code) + index, type(iter(())))
