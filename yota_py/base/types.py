"""Types of the values on a tape: what a kernel, a printed tape and a cache key need to know of a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy import ndarray

from .containers import items_of, keys_of
from .ownership import is_library
from .records import record

LARGE = 2.0**53  # whole numbers below it are computed exactly
Kind = Literal["array", "scalar", "python"]


@lru_cache(maxsize=1024)
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name


@record()
class ArrayType:
    """Dtype and shape of an array or number.

    ``kind`` tells an ``ndarray`` ("array") from a NumPy scalar ("scalar") and a Python number ("python"):
    NumPy promotes the three differently (a Python float never widens a float32 array).
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    kind: Kind = "array"

    def __yota_type__(self) -> ArrayType:
        """A type stands for its values where nothing else is asked of them."""
        return self

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def name(self) -> str:
        """The name of the dtype, which NumPy puts together each time."""
        return _name_of(self.dtype)

    @property
    def inexact(self) -> bool:
        """Whether a derivative can flow through: floating or complex."""
        return self.dtype.kind in "fc"

    def __str__(self) -> str:
        dims = f"[{','.join(map(str, self.shape))}]" if self.kind == "array" else ""
        return f"{self.name}{dims}"


@record()
class TupleType:
    """A tuple or list of typed values, such as what ``numpy.split`` returns."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@record()
class StructType:
    """A dict, a dataclass, or what else is a container, of typed values."""

    name: str
    keys: tuple[Any, ...]
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}: {item}' for key, item in zip(self.keys, self.items, strict=True))})"


@record()
class OpaqueType:
    """Anything else: a pullback, ``None``, a string."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = ArrayType | TupleType | StructType | OpaqueType

_PYTHON: dict[type, ArrayType] = {
    t: ArrayType(np.dtype(t), (), "python") for t in (bool, int, float, complex)
}
_NUMBERS = _PYTHON | {np.dtype(code).type: ArrayType(np.dtype(code), (), "scalar") for code in "?bhilqBHILQefdgFDG"}


@lru_cache(maxsize=4096)
def _array_type(dtype: np.dtype[Any], shape: tuple[int, ...], kind: Kind) -> ArrayType:
    return ArrayType(dtype, shape, kind)


def resolved_dtype(said: Any) -> np.dtype[Any]:
    """The dtype that is meant by ``dtype=said``, which can be a class of ``numpy.dtypes``, too.

    >>> resolved_dtype(np.dtypes.Float32DType), np.dtype(np.dtypes.Float32DType)  # the latter: any class at all
    (dtype('float32'), dtype('O'))
    """
    scalar: Any = said.type if isinstance(said, type) and issubclass(said, np.dtype) else said
    dtype: np.dtype[Any] = np.dtype(scalar)
    return dtype


def typeof(value: Any) -> Type:
    """The type of a value as it stands on a tape.

    >>> str(typeof(np.zeros((3, 4))))
    'float64[3,4]'
    >>> str(typeof(2.0)), str(typeof(np.float32(1)))
    ('float64', 'float32')
    """
    cls = type(value)
    if cls is ndarray:
        return _array_type(value.dtype, value.shape, "array")
    if (known := _NUMBERS.get(cls)) is not None:
        return known
    if (own := getattr(cls, "__yota_type__", None)) is not None:
        return own(value)  # type: ignore[no-any-return]  # a tracer's, which this module does not know
    if isinstance(value, np.ndarray):
        return _array_type(value.dtype, value.shape, "array")
    if isinstance(value, np.generic):
        return _array_type(value.dtype, (), "scalar")
    if isinstance(value, (tuple, list)):
        return TupleType(tuple(typeof(item) for item in value))
    if isinstance(value, bool | int | float | complex):  # subclasses of Python's numbers
        return next(t for py, t in _PYTHON.items() if isinstance(value, py))
    if (items := items_of(value)) is not None:
        return StructType(cls.__name__, tuple(keys_of(value)), tuple(map(typeof, items)))
    return OpaqueType(cls.__name__)


Order: TypeAlias = Literal["C", "F"]


def order_in_memory(value: Any) -> Order:
    """That of an array without gaps; "C" for all others."""
    return "F" if issubclass(type(value), np.ndarray) and value.flags.fnc else "C"  # not a traced one


_SAYING = ("__array__", "__array_interface__", "__array_struct__", "__torch_function__", "__buffer__")


def says_array(cls: type) -> bool:
    """Whether objects of a class say themselves which array they stand for."""
    return any(hasattr(cls, name) for name in _SAYING)


def _is_sequence(cls: type) -> bool:
    """Whether NumPy takes objects of this class for lists, which they are not: a ``deque``, a ``UserList``."""
    if issubclass(cls, (np.ndarray, np.generic, tuple, list, dict, str, bytes, type)) or says_array(cls):
        return False
    has = {name for base in cls.__mro__ for name in vars(base)}  # not what its metaclass has, as of enumerations
    users = cls.__module__ == "collections" or not is_library(cls.__module__)
    return users and {"__len__", "__getitem__"} <= has and "keys" not in has


is_sequence: Callable[[type], bool] = lru_cache(maxsize=4096)(_is_sequence)


def is_basic(index: Any) -> bool:
    """Whether an index takes a view: made of integers, slices, ``None`` and ``...`` only."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, slice) or is_integer(part) for part in parts)


def is_integer(part: Any) -> bool:
    """Whether a part of an index is a whole number."""
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


_OPERATORS = "add sub mul truediv floordiv mod pow".split()
ARITHMETIC = tuple(f"__{r}{name}__" for r in ("", "r") for name in _OPERATORS)


def overrides(cls: type, *names: str) -> bool:
    """Whether a class derived from one of Python's or NumPy's numbers has one of these methods of its own."""
    if cls in _PYTHON or not issubclass(cls, int | float | complex | np.generic):
        return False
    own = takewhile(lambda base: base not in _PYTHON and base.__module__ != "numpy", cls.__mro__)
    return any(name in vars(base) for base in own for name in names)


def native_type(value: Any) -> Type:
    """The type under which a value is traced: in native byte order."""
    t = typeof(value)
    return t if not isinstance(t, ArrayType) or t.dtype.isnative else replace(t, dtype=t.dtype.newbyteorder("="))


def is_inexact(value: Any) -> bool:
    """Whether a derivative can flow through this value (a float or complex number or array)."""
    t = typeof(value)
    return isinstance(t, ArrayType) and t.inexact
