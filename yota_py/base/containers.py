"""Containers, one level at a time: tuples, lists, dicts, dataclasses, and what is registered with optree.

The *keys* of a container are positions, for dicts its keys, for dataclasses the names of their fields.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FunctionType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType, MethodType
from typing import Any
from weakref import ProxyTypes

import numpy as np
import optree

from . import locks
from .ownership import is_library
from .unwinding import at_once

NAMESPACE = "yota_py"  # of containers registered with optree
LEAVES: set[type] = {  # classes that are certainly none
    type(None), bool, int, float, complex, str, bytes, slice, np.ndarray, np.float64, np.ufunc,
}  # fmt: skip
NUMBERS = frozenset([  # and what else holds nothing; arrays, in which nobody looks
    type(None), bool, int, float, complex, str, np.ndarray, *(np.dtype(code).type for code in "?bhilqBHILQefdgFDG"),
])  # fmt: skip
_HOLDERS = frozenset([FunctionType, MethodType, set, frozenset])  # which are none either, but may hold something
_dataclasses: set[type] = set()  # those registered here


def items_of(value: Any) -> Sequence[Any] | None:
    """What stands in a container; ``None`` if it is none."""
    cls = type(value)
    if cls in LEAVES or cls in _HOLDERS:
        return None
    if cls is tuple or cls is list:
        return value  # type: ignore[no-any-return]
    if issubclass(cls, tuple | list):  # past what a class of the user's has to say about it
        return list((tuple if issubclass(cls, tuple) else list).__iter__(value))
    if issubclass(cls, dict):
        if cls.__module__.startswith("scipy.sparse"):  # a matrix, by its keys
            return None
        return list(value.values() if cls is dict else base_of(cls).values(value))  # type: ignore[attr-defined]
    if not is_container(cls):
        return None
    if cls in _dataclasses:
        return [getattr(value, name) for name in _fields(value)]
    return list(optree.tree_flatten_one_level(value, none_is_leaf=True, namespace=NAMESPACE)[0])


def keys_of(value: Any) -> Sequence[Any]:
    """The keys of a container, in the order of its items."""
    if isinstance(value, tuple | list):
        return range(len(items_of(value) or ()))
    if isinstance(value, dict):
        return list(value if type(value) is dict else base_of(type(value)).__iter__(value))  # type: ignore[attr-defined]
    count = len(items_of(value) or ())  # and whoever is asked knows a dataclass from now on
    return _fields(value) if type(value) in _dataclasses else range(count)


def item(value: Any, key: Any) -> Any:
    """The item of a container at a key; raises ``LookupError`` if there is none."""
    if isinstance(value, tuple | list | dict):
        try:
            return value[key]
        except TypeError:  # a name, of a tuple
            raise LookupError(key) from None
    keys, items = keys_of(value), items_of(value)
    if items is None or key not in keys:
        raise LookupError(key)
    return items[keys.index(key)]


def with_items(like: Any, items: Iterable[Any]) -> Any:
    """A container of the kind of ``like``, with the same keys and other items."""
    cls = type(like)
    if issubclass(cls, tuple) and not hasattr(cls, "n_sequence_fields"):
        return _with_attributes(like, tuple.__new__(cls, items))
    if issubclass(cls, tuple | list):
        return cls(items)
    if cls is dict:
        return dict(zip(like, items, strict=True))
    if issubclass(cls, dict):
        new = copy.copy(like)
        for key, value in zip(like, items, strict=True):
            new[key] = value
        return new
    if cls not in _dataclasses:
        parts = optree.tree_flatten_one_level(like, none_is_leaf=True, namespace=NAMESPACE)
        return parts.unflatten_func(parts.metadata, tuple(items))
    return _with_attributes(like, _put_together(cls, _fields(like), items))


def _with_attributes(like: Any, made: Any) -> Any:
    """A container with the attributes of another one besides its own: those that are no items, as SciPy's results
    have them."""
    if own := dict_of(like):
        now: Any = dict_of(made)
        now.update({key: value for key, value in own.items() if key not in now})
    return made


def filled(like: Any, items: Sequence[Any]) -> Any:
    """``with_items``, but the same object if that is certain to stay as it is, or if nothing in it is another."""
    cls = type(like)
    if cls is tuple:
        return tuple(items)
    if cls in (list, dict) or any(a is not b for a, b in zip(items, items_of(like) or (), strict=True)):
        return with_items(like, items)
    return like


def mapped(fn: Callable[[Any], Any], value: Any) -> Any:
    """A container with ``fn`` of each item; anything else as it is."""
    items = items_of(value)
    return value if items is None else filled(value, [fn(x) for x in items])


def only(like: Any, key: Any, value: Any) -> Any:
    """The structure of ``like`` with this value at the key and ``None`` for all else; of a list, a tuple."""
    items = items_of(like) or ()
    items = [value if k == key else _nothing(x) for k, x in zip(keys_of(like), items, strict=True)]
    return tuple(items) if isinstance(like, list) else with_items(like, items)


def _nothing(like: Any) -> Any:
    items = items_of(like)
    return None if items is None else with_items(like, map(_nothing, items))


def base_of(cls: type) -> type:
    """The class of Python's that another one of lists, dicts or tuples derives from, which says nothing else about what
    it holds: matrices of SciPy are dicts, and iterate over their rows."""
    return next(base for base in cls.__mro__ if base.__module__ in ("builtins", "collections"))


def refill(container: Any, items: Any) -> None:
    """Let a list hold these items, or a dict these pairs, and no others, past what its class has to say about it; a set
    these members."""
    plain: Any = next(cls for cls in (OrderedDict, dict, deque, list, set) if isinstance(container, cls))
    fill = plain.update if isinstance(container, dict | set) else plain.extend
    at_once(partial(plain.clear, container), partial(fill, container, items))


def slots_of(cls: type) -> set[str]:
    """The attributes that objects of a class have without having a dict of them, under the names that Python gives
    them: ``__x`` in ``__slots__`` is ``_C__x``."""
    slotted = (vars(base) for base in cls.__mro__ if "__slots__" in vars(base))
    return {name for own in slotted for name, value in own.items() if isinstance(value, MemberDescriptorType)}


_mro_of: Any = vars(type)["__mro__"].__get__  # past what a metaclass has to say about it
_vars_of: Any = vars(type)["__dict__"].__get__
_SHOWN_BY_PYTHON = (GetSetDescriptorType, MemberDescriptorType)
_dict_in_c: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyObject_GenericGetDict", ctypes.pythonapi)
)


def dict_of(obj: Any) -> Mapping[str, Any] | None:
    """The dict of an object's own attributes, and the view of a class's; ``None`` without one. No code of the user's
    runs, as it may for ``obj.__dict__``: of an object without one, Python asks ``__getattr__`` for it."""
    cls = type(obj)
    if cls is FunctionType:
        return obj.__dict__  # type: ignore[no-any-return]
    shown, reader = _road_to_dict(cls)
    if (shown is None and reader is object) or cls in ProxyTypes:
        return None
    by_reader = shown is None or type(shown) in _SHOWN_BY_PYTHON
    try:
        own = reader.__getattribute__(obj, "__dict__") if by_reader else _dict_in_c(obj, None)
    except AttributeError:
        return None
    return own if issubclass(type(own), dict | MappingProxyType) else None  # type: ignore[no-any-return]


def attribute_of(obj: Any, name: str, default: Any = None) -> Any:
    """What an object has under a name, likewise: ``__getattr__`` is not asked for what it has not."""
    reader = object if type(obj) is FunctionType else _road_to_dict(type(obj))[1]
    try:
        return reader.__getattribute__(obj, name)
    except AttributeError:
        return default


def shows_dict(cls: type) -> bool:
    """Whether no code of the user's runs for ``obj.__dict__`` of an object that has one."""
    shown, reader = _road_to_dict(cls)
    return type(shown) in _SHOWN_BY_PYTHON and cls.__getattribute__ is reader.__getattribute__


def _road_to_dict(cls: type) -> tuple[Any, Any]:
    """What a class has under the name ``__dict__``, and which of its bases is Python's or a library's that reads
    attributes."""
    shown = None
    for base in _mro_of(cls):
        own = _vars_of(base)
        if shown is None:
            shown = own.get("__dict__")
        if "__getattribute__" in own and (base is object or is_library(base.__module__)):
            return shown, base
    return shown, object


def held_by(obj: Any) -> dict[str, Any]:
    """What an object holds under names: in its dict, in the order of that, and in slots."""
    held = dict(dict_of(obj) or ())
    for name in sorted(slots_of(type(obj))):
        with suppress(AttributeError):  # an empty slot
            held[name] = object.__getattribute__(obj, name)
    return held


_SHOWN = frozenset({float, complex, tuple, frozenset, np.float16, np.float32, np.float64, np.longdouble, np.complex64,
                    np.complex128, np.clongdouble})  # fmt: skip


def kinds_of(keys: Sequence[Any]) -> Hashable:
    """What equal keys of dicts may differ in: ``1`` and ``True``, ``"a"`` and a member of an ``Enum``, zeros."""
    kinds = (*map(type, keys),)
    return kinds if _SHOWN.isdisjoint(kinds) else (kinds, repr(keys))


def is_proxy(value: Any) -> bool:
    """Whether a value stands for an object that it does not keep (``weakref.proxy``): whatever it is asked is asked of
    that object, or raises ``ReferenceError`` if that has gone, as ``isinstance(value, int)`` does."""
    return type(value) in ProxyTypes


def has_gone(value: Any) -> bool:
    """Whether the object that a value stands for has gone."""
    try:
        return is_proxy(value) and value.__class__ is None
    except ReferenceError:
        return True


def is_container(cls: type) -> bool:
    """Whether optree knows a class; the user's dataclasses are made known to it."""
    if optree.register_pytree_node.get(cls, namespace=NAMESPACE) is not None:
        return True
    if dataclasses.is_dataclass(cls) and not is_library(cls.__module__):
        _register(cls)
        return True
    if cls not in _HOLDERS and cls.__module__.partition(".")[0] in ("builtins", "numpy"):
        LEAVES.add(cls)
    return False


def is_registered(cls: type) -> bool:
    """Whether the user has made a class known to optree, so that nobody knows which attributes the items are."""
    entry = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    return entry is not None and entry.kind == optree.PyTreeKind.CUSTOM and cls not in _dataclasses


def _fields(obj: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(obj)]


def _register(cls: type) -> None:
    """Make a dataclass a container; its instances are rebuilt without ``__init__``, which might reject tracers."""
    names = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]

    def take_apart(obj: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(obj, name) for name in names), None, names

    def put_together(_: Any, values: Iterable[Any]) -> Any:
        return _put_together(cls, names, values)

    with locks.tables:
        if cls not in _dataclasses:
            at_once(
                partial(optree.register_pytree_node, cls, take_apart, put_together, namespace=NAMESPACE),
                partial(_dataclasses.add, cls),
            )


def _put_together(cls: type, names: Sequence[str], values: Iterable[Any]) -> Any:
    obj: Any = object.__new__(cls)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(obj, name, value)
    return obj


# The order of a dict's keys is part of its structure: a function may iterate over it.
# In force while this object lives.
_ordered = optree.dict_insertion_ordered(True, namespace=NAMESPACE)
_ordered.__enter__()
