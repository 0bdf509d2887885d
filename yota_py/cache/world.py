"""What a call can reach and change: a picture of it before, to tell what has become another afterwards.

The user's functions, objects, classes and containers are walked from the function and its arguments on; of name spaces,
the names that the code says. Nothing of the user's is run. What libraries keep to themselves is not looked into.
"""

from __future__ import annotations

import functools
import types
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..base.containers import attribute_of, dict_of, is_proxy, slots_of
from ..base.ownership import is_library, is_library_code
from ..base.records import record
from ..capture.bytecode import nested
from ..tracing.stand_ins import MEMO

MAX_HOLDERS = 20_000
MAX_BYTES = 2**27  # of arrays whose contents are compared, in all
ATOMS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, range, slice, type(Ellipsis))
_HIDDEN = frozenset(["__dict__", "__weakref__", "__doc__", "__module__", "_abc_impl", "__annotations__"])  # of classes
_FUNCTION = ("__defaults__", "__kwdefaults__")
Items = dict[Any, Any]


@record(frozen=False)
class Owner:
    """Something that holds values: how they are read, and what they were."""

    obj: Any
    path: str
    read: Callable[[], Items]
    items: Items
    named: bool  # whether keys are names, rather than positions or keys

    def place(self, key: Any) -> str:
        """An item in the user's words."""
        if isinstance(self.obj, types.CellType):
            return self.path
        return (f"{self.path}.{key}" if self.path else str(key)) if self.named else f"{self.path}[{key!r}]"


class World:
    """What is reached from a function and its arguments, as it is now."""

    def __init__(self, f: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        self.holders: dict[int, Owner] = {}
        self.arrays: dict[int, tuple[np.ndarray, str, Any]] = {}  # with paths and fingerprints
        self.known: dict[int, Any] = {}  # all objects met, by identity
        self._names: set[str] = set()
        self._namespaces: dict[int, tuple[dict[str, Any], str]] = {}
        self._bytes = 0
        self._pending: list[tuple[Any, str]] = [(f, attribute_of(f, "__name__", "f"))]
        code = attribute_of(f, "__code__")
        names = code.co_varnames if code is not None else ()
        offset = int(isinstance(f, types.MethodType))
        self._pending += ((arg, (*names[offset:], *[f"args[{i}]"] * len(args))[i]) for i, arg in enumerate(args))
        self._pending += ((arg, name) for name, arg in kwargs.items())
        self._walk()
        while self._more_names():
            self._walk()

    def _more_names(self) -> bool:
        """Look at the name spaces again, with the names that were met since."""
        for namespace, _ in self._namespaces.values():
            holder = self.holders[id(namespace)]
            for name in (found := holder.read()).keys() - holder.items.keys():
                self._pending.append((found[name], holder.place(name)))
            holder.items = found
        return bool(self._pending) and len(self.known) < MAX_HOLDERS

    def _walk(self) -> None:
        while self._pending and len(self.known) < MAX_HOLDERS:
            value, path = self._pending.pop()
            if id(value) not in self.known and not is_proxy(value) and not isinstance(value, ATOMS):
                self.known[id(value)] = value
                if isinstance(value, np.ndarray):
                    self.arrays[id(value)] = value, path, self._fingerprint(value)
                else:
                    for part, name in self._parts(value, path):
                        self._pending.append((part, name))

    def _fingerprint(self, array: np.ndarray) -> Any:
        self._bytes += array.nbytes
        return fingerprint(array) if self._bytes <= MAX_BYTES else None

    def _hold(self, obj: Any, path: str, read: Callable[[], Items], *, named: bool) -> Iterator[tuple[Any, str]]:
        holder = self.holders[id(obj)] = Owner(obj, path, read, read(), named)
        held = ((key, value) for key, value in holder.items.items() if not is_proxy(value))
        return ((value, holder.place(key)) for key, value in held if not isinstance(value, ATOMS))

    def _parts(self, value: Any, path: str) -> Iterable[tuple[Any, str]]:
        """What hangs on a value, with its names."""
        if isinstance(value, types.ModuleType):
            return () if is_library(value.__name__) else self._namespace(vars(value), path)
        if isinstance(value, type):
            return () if is_library(value.__module__) else self._class(value, path)
        if isinstance(value, types.FunctionType):
            return self._function(value, path)
        if isinstance(value, types.CellType):
            return self._hold(value, path, functools.partial(_cell, value), named=True)
        if isinstance(value, types.MethodType):
            return (value.__self__, "self"), (value.__func__, path)
        if isinstance(value, staticmethod | classmethod):
            return ((value.__func__, path),)
        if isinstance(value, property):
            return ((fn, path) for fn in (value.fget, value.fset, value.fdel) if fn is not None)
        if isinstance(value, MEMO):
            return ((value.__wrapped__, path),)
        if isinstance(value, functools.partial):
            return (value.func, path), (value.args, f"{path}.args"), (value.keywords, f"{path}.keywords")
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            return () if isinstance(owner, types.ModuleType) else ((owner, f"{path}.__self__"),)
        return self._object(value, path)

    def _object(self, value: Any, path: str) -> Iterable[tuple[Any, str]]:
        parts: list[tuple[Any, str]] = [(type(value), type(value).__name__)]
        if isinstance(value, tuple | frozenset):
            parts += ((item, f"{path}[{i}]") for i, item in enumerate(_plainly(value)))
        elif isinstance(value, list | deque | dict | set | bytearray):
            parts += self._hold(value, path, functools.partial(_contents, value), named=False)
        elif is_library(type(value).__module__) and not isinstance(value, types.SimpleNamespace):
            return parts
        parts += self._attributes(value, path)
        if not is_library(type(value).__module__) and (slots := slots_of(type(value)) - {"__dict__", "__weakref__"}):
            parts += self._hold(value, path, functools.partial(_slots, value, sorted(slots)), named=True)
        return parts

    def _attributes(self, value: Any, path: str) -> Iterable[tuple[Any, str]]:
        own = dict_of(value)
        if not isinstance(own, dict) or id(own) in self.known:
            return ()
        self.known[id(own)] = own
        return self._hold(own, path, functools.partial(dict, own), named=True)

    def _function(self, fn: types.FunctionType, path: str) -> Iterable[tuple[Any, str]]:
        if is_library_code(fn.__code__, fn.__globals__):  # one that we have made of another, perhaps
            return ((fn.__dict__["__wrapped__"], path),) if "__wrapped__" in fn.__dict__ else ()
        self._names.update(name for code in nested(fn.__code__) for name in code.co_names)
        names, cells = fn.__code__.co_freevars, fn.__closure__ or ()
        return [
            *zip(cells, names, strict=True),
            *self._attributes(fn, path),
            *self._hold(fn, path, lambda: {name: getattr(fn, name) for name in _FUNCTION}, named=True),
            *self._namespace(fn.__globals__, ""),
        ]

    def _class(self, cls: type, path: str) -> Iterable[tuple[Any, str]]:
        def read() -> Items:
            return {name: value for name, value in vars(cls).items() if name not in _HIDDEN}

        return [*self._hold(cls, path, read, named=True), *((base, base.__name__) for base in cls.__mro__[1:-1])]

    def _namespace(self, namespace: dict[str, Any], path: str) -> Iterable[tuple[Any, str]]:
        """Names that any code says which was met so far or will be."""
        if id(namespace) in self._namespaces:
            return ()
        self.known[id(namespace)] = namespace
        self._namespaces[id(namespace)] = namespace, path
        names = self._names

        def read() -> Items:
            return {name: namespace[name] for name in names & namespace.keys()}

        return self._hold(namespace, path, read, named=True)

    # -- afterwards

    def changes(self) -> Iterator[tuple[Owner, Any, Any, Any]]:
        """Items that are others than before: holder, key, old and new value (``MISSING`` where there is none)."""
        for holder in self.holders.values():
            now = holder.read()
            for key in dict.fromkeys([*holder.items, *now]):
                old, new = holder.items.get(key, MISSING), now.get(key, MISSING)
                if old is not new and not _equal(old, new):
                    yield holder, key, old, new

    def rewritten(self) -> Iterator[tuple[np.ndarray, str]]:
        """Arrays that have other contents than before."""
        for array, path, before in self.arrays.values():
            if before is not None and fingerprint(array) != before:
                yield array, path


MISSING = type("Missing", (), {"__repr__": lambda self: "nothing"})()


def fingerprint(array: np.ndarray) -> Any:
    """The same for the same contents, dtype and shape."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        return tuple(map(id, array.flat))
    return array.dtype, array.shape, zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _equal(a: Any, b: Any) -> bool:
    """Whether two numbers, strings or bytes cannot be told apart."""
    if is_proxy(a):
        return a is b
    return type(a) is type(b) and isinstance(a, ATOMS) and (a == b or (a != a and b != b)) and repr(a) == repr(b)


def _cell(cell: types.CellType) -> Items:
    try:
        return {"cell_contents": cell.cell_contents}
    except ValueError:  # empty
        return {}


def _slots(value: Any, names: list[str]) -> Items:
    held = {}
    for name in names:
        try:
            held[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return held


def _plainly(value: Any) -> Iterator[Any]:
    """Items, past what a class of the user's has to say about it."""
    base = next(cls for cls in (tuple, list, deque, set, frozenset, bytearray) if isinstance(value, cls))
    return base.__iter__(value)


def _contents(value: Any) -> Items:
    if isinstance(value, dict):
        return dict((OrderedDict if isinstance(value, OrderedDict) else dict).items(value))
    if isinstance(value, set):
        return dict.fromkeys(_plainly(value), True)
    return dict(enumerate(_plainly(value)))
