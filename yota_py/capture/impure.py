"""What is impure: what gives another answer next time, or reads what cannot be followed; by name and by value."""

from __future__ import annotations

import builtins
import functools
import operator
import random
import types
from typing import Any

import numpy as np

from .kinds import module_of

# Names of builtins whose reads cannot be followed.
BUILTINS = frozenset([
    "getattr", "globals", "vars", "locals", "eval", "exec", "__import__", "setattr", "delattr", "input", "dir",
])  # fmt: skip
# Names of attributes, and what a function does that uses them.
_ATTRIBUTES = {
    **dict.fromkeys(
        ["__dict__", "__getattribute__", "attrgetter", "methodcaller", "getattr", "hasattr", "setattr", "delattr",
         "vars", "globals", "locals", "dir", "format_map"],
        "reads what cannot be followed"
    ),
    **dict.fromkeys(["random", "default_rng", "RandomState", "Generator"], "draws random numbers"),
    **dict.fromkeys(["now", "utcnow", "today"], "asks for the time"),
    **dict.fromkeys(["environ", "getenv"], "asks for the environment"),
    **dict.fromkeys(["shares_memory", "may_share_memory"], "asks who shares memory"),
}
# Attributes of ``self`` of the other names are no reason: functions among them are known by what they are.
_ANYWHERE = frozenset(
    ["__dict__", "__getattribute__", "format_map", "environ", "getenv", "shares_memory", "may_share_memory"]
)
# Modules of C functions whose answer is not a function of their arguments.
_OUTSIDE_WORLD = frozenset(
    ["time", "posix", "nt", "os", "_io", "io", "_random", "random", "secrets", "_socket", "uuid", "_warnings",
     "numpy.random.mtrand", "numpy.random._generator"]
)  # fmt: skip
_RANDOM_MODULES = ("numpy.random", "random", "secrets")
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random, np.random.BitGenerator)
_OPAQUE = (operator.attrgetter, operator.methodcaller, functools.partialmethod)
_BY_NAME = frozenset(map(id, (
    operator.attrgetter, operator.methodcaller, getattr, hasattr, setattr, delattr, vars, dir, globals, locals, eval,
    exec, __import__, object.__getattribute__, type.__getattribute__,
)))  # fmt: skip


def of_attribute(name: str, *, of_self: bool) -> str:
    """What a function does that reads or assigns an attribute of this name; empty if it is no reason."""
    return "" if of_self and name not in _ANYWHERE else _ATTRIBUTES.get(name, "")


def of_value(value: Any) -> str:
    """Why what a value gives or reads, when it is called or asked, cannot be relied on; empty if it can."""
    if isinstance(value, _RANDOM) or module_of(value) in _RANDOM_MODULES:
        return "it reads a random number generator"
    if isinstance(value, _OPAQUE):
        return f"it reads an operator.{type(value).__name__}, which cannot be followed"
    if id(value) in _BY_NAME:  # attributes, or names, by texts
        return f"it reads {value.__qualname__} as a value, whose reads cannot be followed"
    return ""


def of_call(function: Any) -> str:
    """Why a call of a C function is not the same next time; empty if it is."""
    if function is builtins.print:
        return "it prints"
    if function is builtins.input:
        return "it asks for input"
    if _is_outside(function) or function is np.fromfile:
        return f"it calls {getattr(function, '__qualname__', function)}, whose answer may differ next time"
    return ""


def _is_outside(function: Any) -> bool:
    """Whether a C function, or a method of a C class or of a class derived from it, is of the outside world."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return getattr(function, "__objclass__", function).__module__ in _OUTSIDE_WORLD
    if isinstance(owner, type) and owner.__module__ == "datetime":
        return function.__name__ in ("now", "utcnow", "today")
    return any(cls.__module__ in _OUTSIDE_WORLD for cls in type(owner).__mro__)
