"""What kind of thing a value is that a function reads: how it can be watched, if it can."""

from __future__ import annotations

import abc
import collections
import dataclasses
import operator
import sys
import types
from typing import Any

import numpy as np

from ..base.containers import is_proxy, slots_of
from ..base.ownership import is_library, named_module
from ..tracing.traces import LARGE

IMMUTABLE = (
    int, float, complex, str, bytes, bool, type(None), np.number, np.bool_, np.dtype, range, slice, type(Ellipsis),
    frozenset,
)  # fmt: skip
_FINISHED = 1 << 8  # the flag of classes that are written in C (Py_TPFLAGS_IMMUTABLETYPE)
FLOATS = (float, np.float64, np.float32)
MAX_READS = 3000  # by one program, of values that it captures
TOO_MANY = f"it reads more than {MAX_READS} captured values"
PROXY = "it reads a weakref.proxy, whose object may go at any time"
_Pair = collections.namedtuple("_Pair", ["first"])
_Made = dataclasses.make_dataclass("_Made", [("items", list, dataclasses.field(default_factory=list))])
# Classes whose objects hold nothing, and only stand for something, such as the lack of an argument.
_MARKS = (object, type(dataclasses.MISSING), *map(type, vars(_Made)["__init__"].__defaults__))
BUILTIN = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType,
    types.GetSetDescriptorType, np.ufunc, types.GenericAlias, type(np.sum), operator.itemgetter, type(_Pair.first),
)  # fmt: skip


def has_state_in_c(cls: type) -> bool:
    """Whether objects of a user's class hold more than attributes, as those derived from ``deque`` or of ctypes do."""
    return any(is_library(base.__module__) and base.__flags__ & _FINISHED for base in cls.__mro__[:-1])


def is_watchable(value: Any) -> bool:
    """Whether a value is an object all of whose state are attributes."""
    if type(value) is types.SimpleNamespace:
        return True
    if is_proxy(value):
        return False
    held = hasattr(value, "__dict__") or hasattr(value, "__slots__")
    return held and not (has_state_in_c(type(value)) or is_library(type(value).__module__))


def is_plain(cls: type) -> bool:
    """Whether objects of a class are what their attributes are, and can be made of these without calling the class."""
    if cls is types.SimpleNamespace:
        return True
    if type(cls) not in (type, abc.ABCMeta) or is_of_library(cls) or has_state_in_c(cls) or hasattr(cls, "__del__"):
        return False
    assigned = has_from(cls, "__setattr__", object) or dataclasses.is_dataclass(cls)  # a frozen one
    slots = all(isinstance(getattr(cls, name), types.MemberDescriptorType) for name in slots_of(cls))  # and not hidden
    return assigned and slots and has_from(cls, "__new__", object)


def has_from(cls: type, name: str, base: type) -> bool:
    """Whether a class has what ``base`` has under a name."""
    return getattr(cls, name) is getattr(base, name)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a program can compute with, if another stands in its place next time."""
    return isinstance(value, np.floating) or type(value) is float or is_whole(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number that a program can take as an input."""
    return type(value) is int and abs(value) < LARGE


def is_float(value: Any) -> bool:
    """Whether a value is a floating-point number that a program can take as an input."""
    return type(value) in FLOATS


def holds_nothing(value: Any) -> bool:
    """Whether a value is a function that keeps nothing alive: such may be kept itself."""
    if not isinstance(value, types.FunctionType):
        return False
    return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__)


def is_mark(value: Any) -> bool:
    """Whether a value is an object that holds nothing."""
    return type(value) in _MARKS


def is_key(value: Any) -> bool:
    """Whether a value is a key of a dict that is known by what it is."""
    return all(map(is_key, value)) if type(value) is tuple else isinstance(value, IMMUTABLE)


def is_set_of_constants(value: Any) -> bool:
    """Whether a value is a set of texts and numbers."""
    return type(value) is set and all(type(item) in (str, bytes, int, float, bool, type(None)) for item in value)


def is_bound(value: Any) -> bool:
    """Whether a value is a method in C of an object that may change, such as ``table.get``."""
    owner = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
    return not isinstance(owner, (types.ModuleType, type, np.ufunc, *IMMUTABLE))


def is_builtin(value: Any) -> bool:
    """Whether a value is a function of Python's or NumPy's in C, which holds nothing."""
    return isinstance(value, BUILTIN) and not is_bound(value)


def is_class_of_library(value: Any) -> bool:
    """Whether a value is a class, and not the user's."""
    return isinstance(value, type) and is_of_library(value)


def is_of_library(cls: type) -> bool:
    """Whether a class belongs to a library, rather than to the user under a library's name (``make_dataclass``)."""
    module: Any = cls.__module__
    if isinstance(module, str) and not is_library(module):
        return False
    if not isinstance(module, str) or cls.__flags__ & _FINISHED:
        return True
    found: Any = sys.modules.get(module)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls or "<locals>" in cls.__qualname__


def is_namespace(obj: Any) -> bool:
    """Whether a value holds names: a module, a class or a function."""
    return isinstance(obj, types.ModuleType | types.FunctionType | type)


def is_of_module(value: Any) -> bool:
    """Whether a value is a library's name space itself, such as what ``exec`` puts under ``__builtins__``."""
    if type(value) is not dict or not (isinstance(name := value.get("__name__"), str) and is_library(name)):
        return False
    return getattr(sys.modules.get(name), "__dict__", None) is value


def module_of(value: Any) -> str:
    """The module of a function, class or module, or that of the object a method is bound to."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    module = named_module(value)
    return module if isinstance(module, str) else type(getattr(value, "__self__", None)).__module__
