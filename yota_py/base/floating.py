"""Where NumPy warns of overflow, division by zero and the like: at the user's line, as it does of a plain call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from .ownership import users_frame
from .unwinding import state

RAISES_ERRORS = "NumPy is to raise FloatingPointError (np.errstate), which compiled code does not"


def raises_errors() -> bool:
    """Whether NumPy does more about overflow, division by zero and the like than to warn."""
    return not {"ignore", "warn", "print"}.issuperset(np.geterr().values())


def _silence() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    said: Any = np._core.umath  # type: ignore[attr-defined]
    if hasattr(said, "_extobj_contextvar") and hasattr(said, "_make_extobj"):
        say = said._extobj_contextvar
        return partial(say.set, said._make_extobj(all="ignore")), say.reset
    return partial(np.seterr, all="ignore"), lambda before: np.seterr(**before)


# From a call of the first on NumPy warns of nothing, until the second is given what that has returned; ``np.errstate``
# takes a microsecond for it.
silence, unsilence = _silence()


def at_users_line(
    fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] = MappingProxyType({}), frame: FrameType | None = None
) -> Any:
    """``fn(*args, **kwargs)``, called from a frame with the file, the line and the global names of the user's: there
    C code looks when it warns, and notes what it has warned of. Where nothing is traced it is called from here."""
    if not state.traces:
        return fn(*args, **kwargs)
    if frame is None and (frame := users_frame(sys._getframe(1))) is None:
        return fn(*args, **kwargs)
    return FunctionType(code_of_calls(frame), frame.f_globals)(fn, args, kwargs)


def code_of_calls(frame: FrameType) -> CodeType:
    """The code of ``(fn, args, kwargs) -> fn(*args, **kwargs)`` in the file and at the line of a frame."""
    line: int | None = frame.f_lineno  # code that was made without lines has none
    return _code(frame.f_code.co_filename, frame.f_code.co_firstlineno if line is None else line)


@lru_cache(maxsize=4096)
def _code(filename: str, line: int) -> CodeType:
    return _call.__code__.replace(co_filename=filename, co_firstlineno=line, co_name="<yota_py>")


_call = lambda fn, args, kwargs: fn(*args, **kwargs)  # noqa: E731 - all of it on one line
