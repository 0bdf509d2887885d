"""What to write instead of a line that asks a traced value for a plain one."""

from __future__ import annotations

import sys
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from .callsites import called_name, called_with
from .ownership import is_library, is_library_frame

PLAIN = "where only the number is wanted, to print or save it, write float(stop_gradient(x)): see yota_py.stop_gradient"
_TRACING = "Recording._call"  # what calls the function that is traced
_NUMPYS = type(np.reshape)  # of NumPy's other functions


def of_number(frame: FrameType | None) -> tuple[str, str]:
    """What asks for a number of Python's, and the way out."""
    if frame is not None and called_name(frame) == "complex":
        return "complex(a, b)", "write a + 1j*b, or x + 0j"
    return "float(x)", (f"use x itself: it works wherever a number does; {PLAIN}. If the call is math.f imported by "
                        "name in another module, write math.f or np.f")  # fmt: skip


def of_conversion(of_array: bool) -> str:
    """The way out of a conversion to a plain array, of an array or of a number in a list, by what the line calls."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_frame(frame):
        frame = frame.f_back
    call = called_with(frame, frame.f_lasti) if frame is not None else None
    if call is not None and (isinstance(call.callee, np.ufunc) or type(call.callee) is _NUMPYS):
        return f"make an array of the list that {call.name} is given: {call.name}(np.array([...]), ...)"
    lists = "" if of_array else "make arrays of lists first (np.array([...])), "
    return (f"call NumPy functions through `np.` in your own code, {lists}or give the function that converts a rule: "
            "see yota_py.primitive; where only numbers are wanted, write stop_gradient(x): see yota_py.stop_gradient")


def without_rule() -> str:
    """The beginning of a message: which library's function the user's line calls that knows nothing of traced values;
    empty if it calls none."""
    name = _library_call()
    return f"{name} computes on plain values and has no rule yet: " if name else ""


def _library_call() -> str:
    """The full name of the library's function that the user's line is calling at the moment, without the private parts
    of its module; empty if it calls none, or one of ours."""
    frame: Any = sys._getframe(1)
    inner = None
    while frame is not None and is_library_frame(frame):
        if not str(frame.f_globals.get("__name__")).startswith("yota_py"):
            inner = frame
        elif frame.f_code.co_qualname == _TRACING:  # no code of the user's so far: grad(scipy.linalg.logm, A)
            return _itself(frame.f_locals["self"].f)
        frame = frame.f_back
    call = called_with(frame, frame.f_lasti) if frame is not None else None
    if call is None:
        if frame is None or inner is None:
            return ""
        return f"{_public(inner.f_globals['__name__'])}.{called_name(frame) or inner.f_code.co_qualname}"
    module = getattr(call.callee, "__module__", None) or type(call.callee).__module__
    if not is_library(module) and inner is not None:
        module = inner.f_globals["__name__"]
    if not is_library(module) or module.partition(".")[0] in ("yota_py", "builtins"):
        return ""
    if type(call.callee).__module__ == "numpy":  # a ufunc, or one of the functions that have rules or say so
        return ""
    path, qualified = call.name.split("."), str(getattr(call.callee, "__qualname__", ""))
    if not isinstance(call.callee, FunctionType) or "." not in qualified:
        return f"{_public(module)}.{getattr(call.callee, '__name__', path[-1])}"
    known = vars(sys.modules[_public(module)]) if _public(module) in sys.modules else {}  # a method, perhaps of
    return f"{_public(module)}.{'.'.join(path[-2:]) if path[-2:-1] and path[-2] in known else qualified}"


def _itself(fn: Any) -> str:
    """The full name of a library's function, method or callable object; empty of others."""
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    module = str(named.__module__)
    ours = module.partition(".")[0] in ("yota_py", "builtins")
    return f"{_public(module)}.{named.__qualname__}" if is_library(module) and not ours else ""


def _public(module: str) -> str:
    return ".".join(part for part in module.split(".") if not part.startswith("_"))
