"""Which functions run while a function is traced: the hook that tells ``Captures`` about each of them."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .captures import Captures, module_of
from .patching import state

# Modules of C functions whose answer is not a function of their arguments.
_OUTSIDE_WORLD = frozenset(
    ["time", "posix", "nt", "os", "_io", "io", "_random", "random", "secrets", "_socket", "uuid"]
)


@contextmanager
def watched(captures: Captures) -> Iterator[None]:
    """Follow what a function reads while it is traced in the block."""
    if sys.getprofile() is not None:
        captures.problems.append("a profiler is active")
        yield
        return

    def profile(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            captures.enter(frame)
        elif event == "c_call" and module_of(arg) in _OUTSIDE_WORLD:
            name = getattr(arg, "__qualname__", arg)
            captures.problems.append(f"it calls {name}, whose answer may differ next time")

    try:
        captures.start()
        state.hook = profile
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            state.hook = None
    finally:
        captures.exchange.restore()
