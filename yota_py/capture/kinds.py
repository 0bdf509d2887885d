"""What kind of thing a value is that a function reads: how it can be watched, if it can.

What is impure gives another answer next time, or reads what cannot be followed.
"""

from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import functools
import operator
import random
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base.callsites import handed_on
from ..base.containers import dict_of, is_proxy, slots_of
from ..base.ownership import is_library, named_module
from ..base.types import LARGE
from ..registry.contents import is_known
from ..registry.patches import patched

IMMUTABLE = (
    int, float, complex, str, bytes, bool, type(None), np.number, np.bool_, np.dtype, range, slice, type(Ellipsis),
    frozenset,
)  # fmt: skip
_FINISHED = 1 << 8  # the flag of classes that are written in C (Py_TPFLAGS_IMMUTABLETYPE)
ABSENT = object()  # what is not there
FLOATS = (float, np.float64, np.float32)
MAX_READS = 3000  # by one program, of values that it captures
MAX_TABLE = 1_000_000  # numbers and texts in one table
TOO_MANY = f"it reads more than {MAX_READS} captured values"
PROXY = "it reads a weakref.proxy, whose object may go at any time"
_Pair = collections.namedtuple("_Pair", ["first"])
_Made = dataclasses.make_dataclass("_Made", [("items", list, dataclasses.field(default_factory=list))])
# Classes whose objects hold nothing, and only stand for something, such as the lack of an argument.
MARKS = (object, type(dataclasses.MISSING), *map(type, vars(_Made)["__init__"].__defaults__))
BUILTIN = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType,
    types.GetSetDescriptorType, np.ufunc, types.GenericAlias, type(np.sum), operator.itemgetter, type(_Pair.first),
)  # fmt: skip


def has_state_in_c(cls: type) -> bool:
    """Whether objects of a user's class hold more than attributes, as those derived from ``deque`` or of ctypes do."""
    return any(is_library(base.__module__) and base.__flags__ & _FINISHED for base in cls.__mro__[:-1])


def is_watchable(value: Any) -> bool:
    """Whether a value is an object all of whose state are attributes."""
    if type(value) in (types.SimpleNamespace, np.vectorize):
        return True
    if is_proxy(value):
        return False
    held = dict_of(value) is not None or hasattr(type(value), "__slots__")
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


def is_immutable(value: Any) -> bool:
    """Whether a value is known by what it is, and not of a class of the user's."""
    return isinstance(value, IMMUTABLE) and is_of_library(type(value))


def holds_nothing(value: Any) -> bool:
    """Whether a value is a function that keeps nothing alive: such may be kept itself."""
    if not isinstance(value, types.FunctionType):
        return False
    return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__)


def is_key(value: Any) -> bool:
    """Whether a value is a key of a dict that is known by what it is."""
    return all(map(is_key, value)) if type(value) is tuple else isinstance(value, IMMUTABLE)


def is_set_of_constants(value: Any) -> bool:
    """Whether a value is a set of texts and numbers."""
    return type(value) is set and all(type(item) in (str, bytes, int, float, bool, type(None)) for item in value)


def problems_of_frozenset(value: Any) -> list[str]:
    """Why a frozenset cannot be relied on, if there is a reason; there is none for other values."""
    if isinstance(value, frozenset) and not all(is_of_library(type(item)) for item in value):
        return ["it reads a frozenset of objects, which cannot be watched"]
    return []


def is_bound(value: Any) -> bool:
    """Whether a value is a method in C of an object that may change, such as ``table.get``."""
    owner = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
    return not isinstance(owner, (types.ModuleType, type, np.ufunc, *IMMUTABLE))


def is_builtin(value: Any) -> bool:
    """Whether a value is a function of Python's or NumPy's in C, which holds nothing."""
    return isinstance(value, BUILTIN) and not is_bound(value)


def is_standard(value: Any) -> bool:
    """Whether a value may be one that Python itself has under a name everywhere."""
    itself = value is NotImplemented or type(value).__module__ == "_sitebuiltins"
    return itself or is_builtin(value) or is_class_of_library(value)


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
    return found is cls or ("<locals>" in cls.__qualname__ and module != "builtins")  # as ``exec`` says of the user's


def is_namespace(obj: Any) -> bool:
    """Whether a value holds names: a module, a class or a function."""
    return isinstance(obj, types.ModuleType | types.FunctionType | type)


def is_of_module(value: Any) -> bool:
    """Whether a value is a library's name space itself, such as what ``exec`` puts under ``__builtins__``."""
    if type(value) is not dict or not (isinstance(name := value.get("__name__"), str) and is_library(name)):
        return False
    return getattr(sys.modules.get(name), "__dict__", None) is value


def is_shown(value: Any) -> bool:
    """Whether a value is a library's name space, or an object that a module of SciPy shows, such as
    ``scipy.stats.norm``: it is taken to be what it was, as functions there are."""
    if is_of_module(value):
        return True
    name = type(value).__module__
    if not (isinstance(name, str) and name.startswith("scipy.") and name in sys.modules):
        return False
    return any(shown is value for shown in vars(sys.modules[name]).values())


def module_of(value: Any) -> str:
    """The module of a function, class or module, or that of the object a method is bound to."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    module = named_module(value)
    return module if isinstance(module, str) else type(getattr(value, "__self__", None)).__module__


# -- what is impure, by name and by value

# Names of builtins whose reads cannot be followed.
OPAQUE_BUILTINS = frozenset([
    "getattr", "globals", "vars", "locals", "eval", "exec", "__import__", "setattr", "delattr", "input", "dir",
])  # fmt: skip
# Names of attributes, and what a function does that uses them.
_ATTRIBUTES = {
    **dict.fromkeys(
        ["__dict__", "__getattribute__", "attrgetter", "methodcaller", "getattr", "hasattr", "setattr", "delattr",
         "vars", "globals", "locals", "dir", "format_map"],
        "reads what cannot be followed"
    ),
    **dict.fromkeys(
        ["RandomState", "Generator", "BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SystemRandom",
         "get_bit_generator", "set_bit_generator"],
        "makes random number generators"
    ),
    **dict.fromkeys(["now", "utcnow", "today"], "asks for the time"),
    **dict.fromkeys(["environ", "environb", "getenv", "getenvb"], "asks for the environment"),
    **dict.fromkeys(["shares_memory", "may_share_memory"], "asks who shares memory"),
}
# Attributes of ``self`` of the other names are no reason: functions among them are known by what they are.
_ANYWHERE = frozenset(
    ["__dict__", "__getattribute__", "format_map", "environ", "environb", "getenv", "getenvb", "shares_memory",
     "may_share_memory"]
)
# Modules of C functions whose answer is not a function of their arguments.
_OUTSIDE_WORLD = frozenset(
    ["time", "posix", "nt", "os", "_io", "io", "_random", "random", "secrets", "_socket", "uuid", "_warnings",
     "numpy.random.mtrand", "numpy.random._generator"]
)  # fmt: skip
_OF_TEXT = frozenset(["fspath", "_path_normpath", "_path_splitroot_ex"])  # of these modules, that look at names only
_RANDOM_MODULES = ("numpy.random", "random", "secrets")
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random, np.random.BitGenerator)
_OPAQUE = (operator.attrgetter, operator.methodcaller, functools.partialmethod)
_BY_NAME = frozenset(map(id, (
    operator.attrgetter, operator.methodcaller, getattr, hasattr, setattr, delattr, vars, dir, globals, locals, eval,
    exec, __import__, object.__getattribute__, type.__getattribute__,
)))  # fmt: skip


def problem_of_attribute(name: str, *, of_self: bool) -> str:
    """What a function does that reads or assigns an attribute of this name; empty if it is no reason."""
    return "" if of_self and name not in _ANYWHERE else _ATTRIBUTES.get(name, "")


def problem_of_value(value: Any) -> str:
    """Why what a value gives or reads, when it is called or asked, cannot be relied on; empty if it can."""
    if isinstance(value, _RANDOM) or (module_of(value) in _RANDOM_MODULES and not isinstance(value, types.ModuleType)):
        return "it reads a random number generator"
    if isinstance(value, _OPAQUE):
        return f"it reads an operator.{type(value).__name__}, which cannot be followed"
    if id(value) in _BY_NAME:  # attributes, or names, by texts
        return f"it reads {value.__qualname__} as a value, whose reads cannot be followed"
    return ""


def problem_of_call(function: Any) -> str:
    """Why a call of a C function is not the same next time; empty if it is."""
    if function is builtins.print:
        return "it prints"
    if function is builtins.input:
        return "it asks for input"
    if _is_outside(function) or function is np.fromfile:
        return f"it calls {getattr(function, '__qualname__', function)}, whose answer may differ next time"
    return ""


def problem_if_called(value: Any) -> str:
    """Why a value cannot be relied on if C code calls it; empty for all else than C functions of the outside world."""
    return problem_of_call(value) if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType) else ""


def problems_of_code(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[str]:
    """Those of what code hands on to others: what C code calls, nobody hears of."""
    return filter(None, map(problem_if_called, handed_on(code, namespace)))


def _is_outside(function: Any) -> bool:
    """Whether a C function, or a method of a C class or of a class derived from it, is of the outside world."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        is_outside = getattr(function, "__objclass__", function).__module__ in _OUTSIDE_WORLD
        return is_outside and function.__name__ not in _OF_TEXT
    if isinstance(owner, type) and owner.__module__ == "datetime":
        return function.__name__ in ("now", "utcnow", "today")
    return any(cls.__module__ in _OUTSIDE_WORLD for cls in type(owner).__mro__)


_DENSITIES = frozenset("pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf".split())  # and other functions, of no state

# -- objects and modules of the user's, of which attributes are looked up where no code runs to do so


def is_users_space(value: Any) -> bool:
    """Whether this is a module or an object of the user's, of which attributes are read as they stand."""
    cls = type(value)  # the object itself is not asked, which may hear of it
    if cls is types.ModuleType:
        return not is_library(value.__name__)
    if cls is types.SimpleNamespace:
        return True
    if issubclass(cls, type) or is_of_library(cls):
        return False
    return hasattr(cls, "__weakref__") and not hasattr(cls, "__getattr__") and reads_plainly(cls)


def is_density(value: Any, path: Sequence[str]) -> bool:
    """Whether this is a distribution of SciPy's, of which a method is read that computes: one that has a stand-in."""
    cls = type(value)
    if len(path) != 1 or path[0] not in _DENSITIES or not (is_of_library(cls) and is_known(cls)):
        return False
    return any((base, path[0]) in patched for base in cls.__mro__)


def reads_plainly(cls: type) -> bool:
    """Whether no code of the user's runs where an attribute is read."""
    reads: Any = cls.__getattribute__
    return reads is object.__getattribute__ or is_of_library(cls)


def look_up(space: Any, name: str) -> tuple[Any, bool]:
    """What stands there, and whether it is a function that is called with the object: ``ABSENT`` if there is nothing
    that could be told without running code, as that of a property."""
    if issubclass(type(space), types.ModuleType):
        is_plain = type(space) is types.ModuleType or is_library(space.__name__)  # another class may have properties
        return vars(space).get(name, ABSENT) if is_plain else ABSENT, False
    of_class = next((vars(base)[name] for base in type(space).__mro__ if name in vars(base)), ABSENT)
    own = dict_of(space)
    is_data = hasattr(type(of_class), "__set__") or hasattr(type(of_class), "__delete__")
    if is_data or type(own) is not dict or not reads_plainly(type(space)):
        return ABSENT, False
    if name in own:
        return own[name], False
    if type(of_class) is types.FunctionType:
        return of_class, True
    if type(of_class) is staticmethod:
        return of_class.__func__, False
    return ABSENT if hasattr(type(of_class), "__get__") else of_class, False
