"""How our own functions notice traced arguments, as NumPy's do through ``__array_function__``."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from functools import wraps
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from .containers import LEAVES, NUMBERS, attribute_of, held_by, items_of, mapped
from .ownership import is_library

F = TypeVar("F", bound=Callable[..., Any])

MAX_HELD = 8  # how deep functions and objects are looked into
_EMPTY = CellType()

originals: dict[int, Any] = {}  # by the identities of their stand-ins (patching.py), which live as long as the process


def is_traced(value: Any) -> bool:
    """Whether a value is a tracer (tracers say so by their class, which is defined further up)."""
    return getattr(type(value), "__yota_record__", None) is not None


def are_plain(args: tuple[Any, ...]) -> bool:
    """Whether these are traced values, arrays, numbers and the like, into which nobody has to look."""
    for x in args:
        cls = type(x)
        if cls not in NUMBERS and getattr(cls, "__yota_tracer__", None) is None:
            return False
    return True


def original(fn: Any) -> Any:
    """The function in whose place a stand-in is found while any thread traces; every other function is itself.

    Whoever asks which function it is that a module has under a name, rather than to call it, asks this.
    """
    return originals.get(id(fn), fn)


def mode_of(fn: Any) -> Any:
    """What ``value_and_grad``, ``gradient`` or ``jit`` has made of a function, if ``fn`` is its result; else ``None``.

    A function that wraps such a result with ``functools.wraps`` has all its attributes, but not its code.
    """
    namespace = attribute_of(fn, "__globals__")
    if namespace is None or not str(namespace.get("__name__")).startswith("yota_py."):
        return None
    return getattr(getattr(fn, "__yota_cache__", None), "mode", None)


def find_traced(values: Iterable[Any], inside: tuple[int, ...] = ()) -> Any:
    """A traced value among these or in containers and slices in them; ``None`` if there is none.

    ``inside`` are the identities of the containers around them: one may contain itself.
    """
    for value in values:
        if is_traced(value):
            return value
        items = (value.start, value.stop, value.step) if type(value) is slice else items_of(value)
        if items and id(value) not in inside and (found := find_traced(items, (*inside, id(value)))) is not None:
            return found
    return None


def find_held(values: Iterable[Any], held: bool = False, inside: tuple[int, ...] = ()) -> Any:
    """A traced value with a derivative that a function or object among these keeps to itself; ``None`` without one.

    Looked into are cells and defaults of the user's functions, bound arguments, and attributes of the user's objects.
    """
    for value in values:
        if type(value) in LEAVES:
            continue
        if is_traced(value):
            if held and value._carries():
                return value
        elif id(value) not in inside and len(inside) < MAX_HELD:
            items = items_of(value)
            parts = kept_by(value) if items is None else items
            if (found := find_held(parts, held or items is None, (*inside, id(value)))) is not None:
                return found
    return None


def kept_by(value: Any) -> Iterable[Any]:
    """What a function or object holds by itself."""
    if isinstance(value, FunctionType):
        if is_library(value.__module__):
            return ()
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, set | frozenset):
        return value
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if is_library(type(value).__module__) or isinstance(value, type | ModuleType):
        return ()
    return held_by(value).values()


def decided(value: Any) -> Any:
    """The plain value behind a traced one, remembered on the tape as a decision: for what determines a shape."""
    if is_traced(value):
        return value._decide(decided)
    if isinstance(value, np.ndarray):
        return np.array(value)  # a copy: the array may change later
    return mapped(decided, value)


def shadow(structure: Any) -> Any:
    """The plain values behind traced ones, for functions that look at shapes and dtypes only."""
    while is_traced(structure):
        structure = structure._current()[1]
    return structure if type(structure) in LEAVES else mapped(shadow, structure)


_INDEXING = frozenset([operator.getitem, np.take])  # which ask only what is indexed whether it is traced


def call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``fn(*args, **kwargs)``, also of a plain array that is indexed by a traced value: it would convert that."""
    if fn in _INDEXING and not is_traced(args[0]) and (traced := find_traced(args[1:])) is not None:
        return traced.__yota_record__(fn, args, kwargs)
    return fn(*args, **kwargs)


def dispatching(fn: F) -> F:
    """Makes a function record itself as one operation when an argument is traced."""

    @wraps(fn)
    def primitive(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and NUMBERS.issuperset(map(type, args)):
            return fn(*args)
        traced = find_traced(args)
        if traced is None and kwargs:
            traced = find_traced(kwargs.values())
        if traced is None:
            traced = find_held((*args, *kwargs.values()))
        if traced is None:
            return fn(*args, **kwargs)
        return traced.__yota_record__(primitive, args, kwargs)

    primitive.__yota_plain__ = primitive, fn  # type: ignore[attr-defined]
    _dispatching[id(fn)] = primitive
    return primitive  # type: ignore[return-value]


# By the identities of functions, which they hold, those that look for traced arguments.
_dispatching: WeakValueDictionary[int, Callable[..., Any]] = WeakValueDictionary()


def plain(fn: Any) -> Any:
    """The function itself behind one that looks for traced arguments: for who gives it none."""
    primitive, function = getattr(fn, "__yota_plain__", (None, None))
    return function if primitive is fn else fn  # functools.wraps copies attributes


def not_plain(fn: Any) -> Any:
    """The function that looks for traced arguments for this one, if there is one."""
    return _dispatching.get(id(fn), fn)
