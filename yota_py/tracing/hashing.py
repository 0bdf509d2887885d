"""Who asks for the hash of a traced value: tables, for their keys and members."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any

MAX_FRAMES = 8  # of one object's ``__hash__`` in that of another


def askers() -> Iterator[Any]:
    """The objects whose own ``__hash__`` asks, as that of a dataclass does for its fields: these are keys, then."""
    for frame in _frames():
        code = frame.f_code
        if "hash" in code.co_name and code.co_argcount:
            obj = frame.f_locals.get(code.co_varnames[0])
            if type(type(obj).__hash__) is FunctionType:
                yield obj


def is_taken_apart() -> bool:
    """Whether optree asks, which does not expect an exception: the process would end."""
    return any(frame.f_globals.get("__name__") == "optree.ops" for frame in _frames())


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(3)  # the caller's of what has called this
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        yield frame
        frame = frame.f_back
