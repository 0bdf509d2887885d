"""What to write instead of a line that asks a traced value for a plain one."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import Any

import numpy as np

from ..base.callsites import Called, called_name, called_with, calls
from ..base.dispatch import original
from ..base.ownership import is_library, is_library_frame, is_ours, users_frame
from ..registry.registry import primitive_of

PLAIN = "where only the number is wanted, to print or save it, write float(stop_gradient(x)): see yota_py.stop_gradient"
RULE = "compute with NumPy's functions, or make the line a function with a rule of its own: see yota_py.primitive"
_TRACING = "Recording._call"  # what calls the function that is traced
_OF_PLAIN_NUMBERS = ("as_integer_ratio", "hex", "is_integer", "tobytes")
_NUMPYS = type(np.reshape)  # of NumPy's other functions
_CONVERSIONS = ("__array__", "__float__", "__complex__", "__reduce_ex__")  # that C code asks for


def of_number(frame: FrameType | None) -> tuple[str, str]:
    """What asks for a number of Python's, and the way out."""
    if frame is not None and not is_library_frame(frame) and calls(frame, complex, "complex"):
        return "complex(a, b)", "write a + 1j*b, or x + 0j"
    if _library_call()[0]:
        return "float(x)", f"{RULE}; {PLAIN}"
    return "float(x)", (f"use x itself: it works wherever a number does; {PLAIN}. If the call is math.f imported by "
                        "name in another module, write math.f or np.f")  # fmt: skip


def of_conversion(of_array: bool) -> str:
    """The way out of a conversion to a plain array, of an array or of a number in a list, by what the line calls."""
    if _library_call()[0] == "numpy.vectorize":
        return ("write the function with NumPy's functions and call it with the array itself, or with each number: "
                "np.array([f(t) for t in x])")  # fmt: skip
    frame = users_frame(sys._getframe(1))
    call = called_with(frame, frame.f_lasti) if frame is not None else None
    if call is not None and (isinstance(call.callee, np.ufunc) or type(call.callee) is _NUMPYS):
        return f"make an array of the list that {call.name} is given: {call.name}(np.array([...]), ...)"
    lists = "" if of_array else "make arrays of lists first (np.array([...])), "
    return (f"call NumPy functions through `np.` in your own code, {lists}or give the function that converts a rule: "
            "see yota_py.primitive; where only numbers are wanted, write stop_gradient(x): see yota_py.stop_gradient")


def of_attribute(name: str) -> str:
    """The way out of asking for an attribute that nobody follows."""
    if name in _OF_PLAIN_NUMBERS:
        return f"Where only the number is wanted, write stop_gradient(x).{name}: see yota_py.stop_gradient"
    if name in ("dump", "dumps", "tofile"):
        return "Save the value alone: np.save(file, stop_gradient(x))"
    return "Rewrite the line as a function of values: y = f(x)"


def without_rule() -> str:
    """The beginning of a message: which library's function the user's line calls that knows nothing of traced values;
    empty if it calls none."""
    name, callee = _library_call()
    known = callee is not None and primitive_of(original(callee)) is not None
    return f"{name} computes on plain values{' here' if known else ' and has no rule yet'}: " if name else ""


def _library_call() -> tuple[str, Any]:
    """The full name of the library's function that the user's line is calling at the moment, as one imports it, and the
    function, if it is known; the name is empty if the line calls none, or one of ours."""
    frame: Any = sys._getframe(1)
    inner = outer = None
    while frame is not None and is_library_frame(frame):
        if not is_ours(frame):
            inner = frame
        elif frame.f_code.co_qualname == _TRACING:  # no code of the user's so far: grad(scipy.linalg.logm, A)
            return itself(frame.f_locals["self"].f), None
        outer, frame = frame, frame.f_back
    if frame is None:
        return "", None
    if (call := called_with(frame, frame.f_lasti)) is not None:
        return _called(call, inner)
    if inner is not None and _is_operator(frame):
        return f"an operator of {str(inner.f_globals['__name__']).partition('.')[0]} objects", None
    if inner is not None:
        return _running(inner, called_name(frame))
    return (called_name(frame) if outer is not None and outer.f_code.co_name in _CONVERSIONS else ""), None


def _called(call: Called, inner: FrameType | None) -> tuple[str, Any]:
    """The name of what a line calls, and itself."""
    callee, (path, _, last) = call.callee, call.name.rpartition(".")
    owned = path.rpartition(".")[2]
    if isinstance(callee, functools.partial):
        return ("", None) if inner is None else _running(inner, "")
    if type(callee).__module__ == "numpy" and not isinstance(callee, np.vectorize):
        return "", None  # a ufunc, or one of the functions that have rules or say so
    module = getattr(callee, "__module__", None) or type(callee).__module__
    if not is_library(module):
        return ("", None) if inner is None else _running(inner, last)
    if isinstance(owner := call.owner, ModuleType) and is_library(owner.__name__):
        return ("", None) if _takes_anything(owner.__name__) else (f"{_shown(owner.__name__)}.{last}", callee)
    at = _home(type(owner).__module__, owned, lambda value: value is owner)  # scipy.stats.norm, which has methods
    return (f"{at}.{owned}.{last}" if at else itself(callee)), callee


def _running(inner: FrameType, name: str) -> tuple[str, Any]:
    """The name of the function or method of a library that the user has called by a name, and itself."""
    code, module = inner.f_code, str(inner.f_globals["__name__"])
    first = inner.f_locals.get(code.co_varnames[0]) if code.co_varnames else None
    first = first[0] if isinstance(first, tuple) and first and not code.co_argcount else first
    cls, name = type(first), name or code.co_name
    if is_library(cls.__module__) and cls.__module__ != "builtins" and hasattr(cls, name):
        return itself(cls) + (f".{name}" if name != "__call__" else ""), None
    found: list[Any] = []

    def is_it(value: Any) -> bool:
        found[:] = [value]
        return code in [getattr(fn, "__code__", None) for fn in (value, inspect.unwrap(value))]

    at = _home(module, name, is_it)
    return (f"{at}.{name}", found[0]) if at else (f"{_shown(module)}.{name}", None)


def _is_operator(frame: FrameType) -> bool:
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("BINARY_", "COMPARE_"))


def itself(fn: Any) -> str:
    """The full name of a library's function, method, class or callable object; empty of others."""
    owner = getattr(fn, "__self__", None)
    if isinstance(fn, BuiltinFunctionType) and not isinstance(owner, ModuleType | None):  # a method in C
        cls = owner if isinstance(owner, type) else type(owner)
        return f"{name}.{fn.__name__}" if (name := itself(cls)) else ""
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    at = named if hasattr(named, "__module__") else named.__objclass__  # of a method in C
    module, qualified = str(at.__module__), str(named.__qualname__)
    if not is_library(module) or _takes_anything(module):
        return ""
    first = qualified.partition(".")[0]
    same = (named, original(named)) if first == qualified else ()
    home = _home(module, first, lambda value: not same or any(value is one for one in (*same, original(value))))
    return f"{home or _shown(module)}.{qualified}"


def _home(module: str, name: str, is_it: Callable[[Any], bool]) -> str:
    """The public module, as far up as possible, that has something of this module under a name; empty if none has."""
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        at = ".".join([parts[0].lstrip("_"), *parts[1:n]])
        value = vars(sys.modules[at]).get(name) if at in sys.modules else None
        if value is not None and not isinstance(value, ModuleType) and "._" not in at and is_it(value):
            return at
    return ""


def _takes_anything(module: str) -> bool:
    return module.partition(".")[0] in ("yota_py", "builtins", "functools", "_functools", "itertools", "operator")


def _shown(module: str) -> str:
    """A module's name without private parts."""
    return ".".join(part for part in module.split(".") if not part.startswith("_")) or module.lstrip("_")
