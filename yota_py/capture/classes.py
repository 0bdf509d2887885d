"""What a function reads of the user's classes: attributes by name, and what Python asks a class for by itself."""

from __future__ import annotations

import abc
import functools
import types
from collections.abc import Callable
from typing import Any

from ..tracing.disguise import settling
from . import kinds
from .attributes import Attributes
from .guards import Guards
from .places import Attribute, Exchange
from .slots import Slot, literal

_MAKING = ("__new__", "__init__")  # entered where an object is made
_READ_BY_PYTHON = (
    types.FunctionType, types.NoneType, functools.partialmethod, staticmethod, classmethod, property,
)  # fmt: skip


class Classes:
    """The user's classes met so far, with the classes that they derive from and those that they are instances of."""

    def __init__(
        self, guards: Guards, exchange: Exchange, attributes: Attributes, value: Callable[[Any, Slot], Any]
    ) -> None:
        self._guards, self._exchange, self._attributes, self._value = guards, exchange, attributes, value
        self._met: set[int] = set()

    def read(self, cls: type) -> None:
        """A class, those that it derives from, and its metaclass, as far as they are the user's."""
        if id(cls) in self._met:
            return
        self._met.add(id(cls))
        own = [base for base in cls.__mro__[:-1] if not kinds.is_of_library(base)]
        for base in own:
            if not self._attributes.watches(base):
                self._class(base)
        guards = self._guards
        if own and len(cls.__mro__) > 2:  # no class takes the place of object
            known, bases = guards.constant(cls, cls.__name__), guards.constant(cls.__mro__)
            guards.require(f"{known}.__mro__ is {bases}", known, "a class that derives from others", minor=True)
        if isinstance(cls, abc.ABCMeta) and id(abc) not in self._met:
            self._met.add(id(abc))
            token, now = guards.constant(abc.get_cache_token), abc.get_cache_token()
            guards.require(f"{token}() == {now!r}", token, "with fewer registered classes", minor=True)
        if not kinds.is_of_library(type(cls)):
            self.read(type(cls))

    def _class(self, cls: type) -> None:
        """Attributes by name; how many there are, as special methods count from when they are there; and these."""
        known = self._guards.constant(cls, cls.__name__)
        self._attributes.watch(cls, known)
        own = self._guards.constant(vars(cls), cls.__name__)
        size = len(vars(cls))
        self._guards.require(f"len({own}) == {size}", known, f"a class of {size} attributes", minor=True)
        for name, value in list(vars(cls).items()):
            if not name.startswith("__") or name in _MAKING or name == "__doc__":
                continue
            if isinstance(value, _READ_BY_PYTHON) or not kinds.is_of_library(type(value)):
                self._value(value, self._guards.local(own.item(literal(name)), f"{cls.__name__}.{name}"))
                if isinstance(value, types.FunctionType) and (method := settling(name, value)) is not value:
                    self._exchange.put(value, method, Attribute(cls, name))

    def functions_of(self, value: property, slot: Slot) -> bool:
        """What the functions of a property read that does not show when they are called; whether it cannot be read."""
        opaque = False
        for name in ("fget", "fset", "fdel"):
            function = getattr(value, name)
            if function is not None and not kinds.holds_nothing(function):
                read = self._value(function, self._guards.local(slot.attribute(name)))
                opaque |= read is not function
        return opaque

    def function_of(self, code: types.CodeType, first: Any) -> tuple[types.FunctionType, Slot] | None:
        """The method of this code that ``first`` has, and how it is read; ``None`` if there is none."""
        for cls in (*(first.__mro__ if isinstance(first, type) else ()), *type(first).__mro__):
            found = vars(cls).get(code.co_name)
            if (inner := getattr(found, "__func__", found)) is not None and getattr(inner, "__code__", None) is code:
                slot = self._guards.constant(vars(cls), cls.__name__).item(literal(code.co_name))
                return inner, slot if inner is found else slot.attribute("__func__")
        return None
