"""Contents of SciPy's objects, compared bit by bit: objects of a library that can be watched nevertheless."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from ..base.containers import held_by, items_of
from ..base.ownership import is_library

_PARTS = {
    "csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "coords"), "dia": ("data", "offsets"),
}  # fmt: skip
_copies: dict[int, tuple[weakref.ref[Any], Any]] = {}


def is_sparse_class(cls: type) -> bool:
    """Whether this is one of SciPy's classes of sparse matrices and arrays."""
    return any(base.__module__.startswith("scipy.sparse") and base.__name__ == "_spbase" for base in cls.__mro__)


def parts_of(matrix: Any) -> list[np.ndarray]:
    """The arrays that a sparse matrix consists of; none if its format keeps something else."""
    parts: list[np.ndarray] = []
    for name in _PARTS.get(matrix.format, ()):
        part = getattr(matrix, name)
        parts.extend(part if isinstance(part, tuple) else (part,))
    return parts


def unchanged(matrix: Any, copy: Any) -> bool:
    """Whether a sparse matrix is still what its copy was made of."""
    if type(matrix) is not type(copy) or matrix.shape != copy.shape:
        return False
    return all(_same_bits(a, b) for a, b in zip(parts_of(matrix), parts_of(copy), strict=True))


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    word = np.dtype(f"u{np.gcd(a.itemsize, 8)}")
    return bool(np.array_equal(np.ascontiguousarray(a).view(word), np.ascontiguousarray(b).view(word)))


# What all answers of an object of a library depend on, by its class: of those whose methods have stand-ins, what its
# attributes are, unless it is said otherwise.
states: dict[type, Callable[[Any], Any]] = {}
MAX_PARTS = 500  # numbers, texts, arrays and the like in one object that is compared
MAX_BYTES = 1 << 20  # of its arrays
_ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, slice, range)

_OTHER_CONTAINERS = (set, frozenset, bytearray, memoryview, array)


class _Itself:
    """What is compared by identity."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _Itself and other.value is self.value


_MADE = 1 << 9  # the flag of classes that were made when the program ran (Py_TPFLAGS_HEAPTYPE), such as all of Python's


def own_attributes(value: Any) -> Any:
    """The attributes of an object; ``None`` of one that has something else in C."""
    in_c = any(not base.__flags__ & _MADE for base in type(value).__mro__[:-1])
    return None if in_c else held_by(value)


def is_known(cls: type) -> bool:
    """Whether what objects of a class depend on can be compared."""
    return any(base in states for base in cls.__mro__)


def fingerprint(value: Any) -> list[Any] | None:
    """What an object of a known class depends on; ``None`` if it is too much to compare, or the user's in part."""
    found: list[Any] = []
    room, seen, pending = MAX_BYTES, set[int](), [value]
    while pending:
        item = pending.pop()
        cls = type(item)
        found.append(cls)
        if issubclass(cls, np.ndarray):
            if item.dtype.hasobject:
                return None
            room -= item.nbytes
            found += (item.shape, item.dtype, item.tobytes()) if room >= 0 else ()
        elif (items := items_of(item)) is not None:
            found.append(len(items))
            pending += [*item, *items] if isinstance(item, dict) else items
        elif issubclass(cls, _OTHER_CONTAINERS):
            return None
        elif issubclass(cls, _ATOMS):
            found.append(repr(item) if issubclass(cls, float | complex | np.inexact) else item)
        elif id(item) in seen:
            found.append(item is value)
        elif is_known(cls):
            if (state := _state_of(item)) is None:
                return None
            seen.add(id(item))
            pending.append(state)
        elif issubclass(cls, MethodType):
            found.append(_Itself(item.__func__))
        elif is_library(getattr(item, "__module__", None) or cls.__module__):
            found.append(_Itself(item))
        else:  # a function or an object of the user's
            return None
        if len(found) > MAX_PARTS or room < 0:
            return None
    return found


def _state_of(value: Any) -> Any:
    return next(states[cls] for cls in type(value).__mro__ if cls in states)(value)


def others_of(value: Any, watched: frozenset[str]) -> list[Any]:
    """The attributes of an object but for some, and what they are: numbers, texts and arrays by what is in them, all
    else by identity."""
    return [(name, type(x), _content(x)) for name, x in held_by(value).items() if name not in watched]


def _content(x: Any) -> Any:
    if isinstance(x, np.ndarray) and not x.dtype.hasobject and x.nbytes <= MAX_BYTES:
        return x.shape, x.dtype, x.tobytes()
    return repr(x) if isinstance(x, _ATOMS) else _Itself(x.__func__ if isinstance(x, MethodType) else x)


def is_still(value: Any, before: list[Any]) -> bool:
    """Whether a value consists of what it has consisted of."""
    return fingerprint(value) == before


def copy_of(matrix: Any) -> Any:
    """A copy that nobody else has, the same for the same contents."""
    key = id(matrix)
    known = _copies.get(key)
    if known is not None and known[0]() is matrix and parts_of(matrix) and unchanged(matrix, known[1]):
        return known[1]
    copy = matrix.copy()
    _copies[key] = weakref.ref(matrix, lambda gone: _forget(key, gone)), copy
    return copy


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    known = _copies.get(key)
    if known is not None and known[0] is gone:
        _copies.pop(key, None)
