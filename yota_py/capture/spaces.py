"""Where names are looked up with a dot: modules, and objects, where no code runs to look one up."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from ..base.containers import dict_of
from ..base.ownership import is_library

ABSENT = object()
_MADE = 1 << 9  # the flag of classes that a class statement has made


def is_users_space(value: Any) -> bool:
    """Whether this is a module or an object of the user's, of which attributes are read as they stand."""
    cls = type(value)  # the object itself is not asked, which may hear of it
    if cls is ModuleType:
        return not is_library(value.__name__)
    if issubclass(cls, type) or is_of_library(cls):
        return False
    return hasattr(cls, "__weakref__") and not hasattr(cls, "__getattr__") and reads_plainly(cls)


def reads_plainly(cls: type) -> bool:
    """Whether no code of the user's runs where an attribute is read."""
    reads: Any = cls.__getattribute__
    return reads is object.__getattribute__ or is_of_library(cls)


def is_of_library(cls: type) -> bool:
    """Whether a class is Python's or a library's: where code has no name (``exec``), its classes are said to be of
    ``builtins``."""
    return is_library(cls.__module__) and not (cls.__module__ == "builtins" and cls.__flags__ & _MADE)


def look_up(space: Any, name: str) -> tuple[Any, bool]:
    """What stands there, and whether it is a function that is called with the object: ``ABSENT`` if there is nothing
    that could be told without running code, as that of a property."""
    if issubclass(type(space), ModuleType):
        is_plain = type(space) is ModuleType or is_library(space.__name__)  # another class may have properties
        return vars(space).get(name, ABSENT) if is_plain else ABSENT, False
    of_class = next((vars(base)[name] for base in type(space).__mro__ if name in vars(base)), ABSENT)
    own = dict_of(space)
    is_data = hasattr(type(of_class), "__set__") or hasattr(type(of_class), "__delete__")
    if is_data or type(own) is not dict or not reads_plainly(type(space)):
        return ABSENT, False
    if name in own:
        return own[name], False
    if type(of_class) is FunctionType:
        return of_class, True
    if type(of_class) is staticmethod:
        return of_class.__func__, False
    return ABSENT if hasattr(type(of_class), "__get__") else of_class, False
