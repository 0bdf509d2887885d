"""Traced values where Python looks at classes and objects themselves: ``type(x)``, ``id(x)``, ``hash(x)``, and methods
that must return Python's own types."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ..base.dispatch import is_traced, originals
from ..errors import YotaError
from ..tape.operations import user_site

MAX_FRAMES = 8  # of one object's ``__hash__`` in that of another


class _TypeOfTypes(type):
    """Makes ``Type`` look like ``type`` to those who call it or ask for instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not Type:  # a metaclass that derives from it
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and hasattr(type(args[0]), "__yota_open__"):  # it stands for a list
            args = (args[0].__yota_open__(),)
        found = args[0].__class__ if len(args) == 1 and is_traced(args[0]) else type(*args, **kwargs)
        return Type if found in (type, _TypeOfTypes) else found

    def __getitem__(cls, item: Any) -> Any:
        return type[item]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type) if cls is Type else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type) if cls is Type else super().__subclasscheck__(subclass)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (cls is Type and other is type)

    def __hash__(cls) -> int:
        return hash(type) if cls is Type else super().__hash__()


class Type(type, metaclass=_TypeOfTypes):
    """The stand-in for ``type``: the class of a traced value is that of the value."""

    __module__, __qualname__ = "builtins", "type"  # which it prints as


Type.__name__ = "type"


def identity(obj: Any) -> int:
    """The stand-in for ``id``: a traced value is not the object that it stands for."""
    if is_traced(obj):
        raise YotaError(f"{user_site()}: id(x) of a traced value tells nothing about x. Compare with `is`, or use "
                        "names as keys")
    return id(obj.__yota_open__() if hasattr(type(obj), "__yota_open__") else obj)


def has_attribute(obj: Any, name: str, /) -> bool:
    """The stand-in for ``hasattr``: of special methods, a traced value has those of what it stands for."""
    if is_traced(obj) and isinstance(name, str) and name.startswith("__"):
        return any(name in vars(base) for base in obj.__class__.__mro__)  # not in the metaclass
    return hasattr(obj, name)


def iterate(*args: Any) -> Iterator[Any]:
    """The stand-in for ``iter``, which asks the class whether there are items; a NumPy scalar has an index only."""
    if len(args) == 1 and is_traced(args[0]) and not hasattr(cls := args[0].__class__, "__iter__"):
        raise TypeError(f"'{cls.__name__}' object is not iterable")
    return iter(*args)


_STAND_INS: dict[str, Any] = {"type": Type, "id": identity, "hasattr": has_attribute, "iter": iterate}
_ORIGINALS = {name: getattr(builtins, name) for name in _STAND_INS}
originals.update({id(stand_in): _ORIGINALS[name] for name, stand_in in _STAND_INS.items()})

Builtins = ModuleType("builtins", builtins.__doc__)  # for builtins.type(x)
vars(Builtins).update(vars(builtins), **_STAND_INS)
originals[id(Builtins)] = builtins
BY_ORIGINAL = {id(original): _STAND_INS[name] for name, original in _ORIGINALS.items()} | {id(builtins): Builtins}

# What Python wants of special methods: results of this class, which a test takes from a traced value.
_RESULTS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "__bool__": (bool, bool), "__index__": (int, operator.index), "__int__": (int, int), "__float__": (float, float),
    "__complex__": (complex, complex), "__hash__": (int, operator.index), "__len__": (int, operator.index),
    "__length_hint__": (int, operator.index),
}  # fmt: skip


def settling(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A special method whose traced results, if they are of the class that Python wants, become decisions."""
    if name not in _RESULTS:
        return method
    cls, test = _RESULTS[name]

    @wraps(method)
    def settled(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        return test(result) if is_traced(result) and isinstance(result, cls) else result

    return settled


def askers() -> Iterator[Any]:
    """The objects whose own ``__hash__`` asks, as that of a dataclass does for its fields: these are keys, then, also
    in tables to which no road is known."""
    for frame in _frames():
        code = frame.f_code
        if "hash" in code.co_name and code.co_argcount:
            obj = frame.f_locals.get(code.co_varnames[0])
            if type(type(obj).__hash__) is FunctionType:
                yield obj


def is_taken_apart() -> bool:
    """Whether one asks who takes containers apart; optree does not expect an exception: the process would end."""
    return any(frame.f_globals.get("__name__") in ("optree.ops", "yota_py.tape.trees") for frame in _frames())


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(3)  # the caller's of what has called this
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        yield frame
        frame = frame.f_back
