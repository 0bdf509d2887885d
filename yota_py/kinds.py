"""What kind of thing a value is that a function reads: how it can be watched, if it can."""

from __future__ import annotations

import functools
import operator
import random
import sys
import types
from typing import Any

import numpy as np

from .ownership import is_library
from .trace import LARGE

IMMUTABLE = (
    int, float, complex, str, bytes, bool, type(None), np.number, np.bool_, np.dtype, range, slice, type(Ellipsis),
    frozenset,
)  # fmt: skip
_RANDOM_MODULES = ("numpy.random", "random", "secrets")
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random, np.random.BitGenerator)
OPAQUE = (operator.attrgetter, operator.methodcaller, functools.partialmethod)
BUILTIN = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType,
    types.GetSetDescriptorType, np.ufunc, types.GenericAlias, type(np.sum),
)  # fmt: skip


def has_state_in_c(cls: type) -> bool:
    """Whether objects of a user's class hold more than attributes, as those derived from ``deque`` or of ctypes do."""
    heap_type = 1 << 9
    return any(
        is_library(base.__module__) and (base.__module__ == "array" or not base.__flags__ & heap_type)
        for base in cls.__mro__[:-1]
    )


def is_number(value: Any) -> bool:
    """Whether a value is a number that a program can compute with, if another stands in its place next time."""
    return isinstance(value, np.floating) or type(value) is float or (type(value) is int and abs(value) < LARGE)


def is_float(value: Any) -> bool:
    """Whether a value is a floating-point number that a program can take as an input."""
    return type(value) in (float, np.float64, np.float32)


def holds_nothing(value: Any) -> bool:
    """Whether a value is a function that keeps nothing alive: such may be kept itself."""
    if not isinstance(value, types.FunctionType):
        return False
    return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__)


def is_bound(value: Any) -> bool:
    """Whether a value is a method in C of an object that may change, such as ``table.get``."""
    owner = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
    return not isinstance(owner, (types.ModuleType, type, np.ufunc, *IMMUTABLE))


def is_of_library(cls: type) -> bool:
    """Whether a class belongs to a library, rather than to the user under a library's name (``make_dataclass``)."""
    if not is_library(cls.__module__):
        return False
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls or "<locals>" in cls.__qualname__


def slots_of(cls: type) -> set[str]:
    """The attributes that objects of a class have without having a dict of them."""
    listed = [vars(base).get("__slots__", ()) for base in cls.__mro__]
    return {name for names in listed for name in ((names,) if isinstance(names, str) else names)}


def is_namespace(obj: Any) -> bool:
    """Whether a value holds names: a module, a class or a function."""
    return isinstance(obj, types.ModuleType | types.FunctionType | type)


def is_random(value: Any) -> bool:
    """Whether a value is a random number generator, or one of its methods."""
    return isinstance(value, _RANDOM) or module_of(value) in _RANDOM_MODULES


def module_of(value: Any) -> str:
    """The module of a function, class or module, or that of the object a method is bound to."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__
