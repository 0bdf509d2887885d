"""Arithmetic of cotangents: what every rule needs and no rule should write by itself.

All functions work on NumPy values and on traced values alike.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain, repeat
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy import count_nonzero

from ..base import types
from ..base.containers import item, items_of, keys_of, with_items
from ..base.dispatch import dispatching, find_traced
from ..base.floating import at_users_line
from ..base.ownership import is_library
from ..base.types import ArrayType, is_sequence, typeof
from ..errors import RuleError


class Parts(NamedTuple):
    """The real and the imaginary part of a complex value."""

    re: Any
    im: Any


class _Missing:
    """The cotangent of an argument whose derivative exists, but has no rule; an error if it is asked for."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
FEW = 256  # elements, of which it is soon counted how many are zero


@dispatching
def strong_multiply(dy: Any, partial: Any) -> Any:
    """``dy * partial``, where a cotangent of exactly zero gives zero even if the partial is inf or NaN.

    So the branch that ``where`` did not take, or a sum of weights zero, contributes nothing.
    """
    if type(dy) is np.float64 and type(partial) in (np.float64, float):  # as below, without arrays
        return np.float64(0.0 if dy == 0 else float(dy) * float(partial))
    with np.errstate(all="ignore"):
        if type(dy) is np.ndarray and dy.ndim:
            return scaled(dy, partial)
        return np.where(np.equal(dy, 0), 0, np.multiply(dy, partial))[()]


def scaled(dy: np.ndarray, partial: Any) -> Any:
    """``strong_multiply`` of an array that has dimensions, where NumPy does not warn."""
    dx = np.multiply(dy, partial)
    if dy.size <= FEW:
        return dx if count_nonzero(dy) == dy.size else np.where(np.equal(dy, 0), 0, dx)
    zeros = np.equal(dy, 0)
    return np.where(zeros, 0, dx) if zeros.any() else dx


@dispatching
def chosen(condition: Any, yes: Any, no: Any) -> Any:
    """One of two values of the same type, by a truth value."""
    return yes if condition else no


def is_inexact(x: Any) -> bool:
    """Whether a derivative can flow through a value, or through one in a container."""
    items = items_of(x)
    return types.is_inexact(x) if items is None else any(map(is_inexact, items))


def says(x: Any) -> bool:
    """Whether an object is of a user's class that says itself which array it stands for."""
    cls = type(x)
    if cls is np.ndarray or not isinstance(getattr(cls, "__array__", None), FunctionType):
        return False
    return not (is_library(cls.__module__) or issubclass(cls, np.ndarray))


def said(x: Any) -> Any:
    """The array that an object says it is; all else as it is. NumPy's C code asks for it, too, but takes no traced
    one."""
    array = x.__array__() if says(x) else x
    return array if isinstance(array, np.ndarray) else x


def listed(x: Any, inside: tuple[int, ...] = ()) -> Any:
    """Sequences of other classes as lists, which NumPy takes them for, also in lists; all else as it is.

    ``inside`` are the identities of the sequences around it: one may contain itself.
    """
    cls = type(x)
    if issubclass(cls, (tuple, list)) and id(x) not in inside:
        items = [listed(item, (*inside, id(x))) for item in x]
        return x if all(map(operator.is_, items, x)) else items
    if not is_sequence(cls) or hasattr(cls, "__array_function__") or hasattr(cls, "__array_ufunc__") or id(x) in inside:
        return x
    try:
        items = list(x)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # any: it is no sequence then, to NumPy either
        return x
    return [listed(item, (*inside, id(x))) for item in items]


def operand(x: Any) -> Any:
    """An argument as an array or number: a list becomes an array."""
    x = listed(x)
    if isinstance(x, list | tuple):
        return np.asarray(x) if find_traced(x) is None else stacked([operand(item) for item in x])
    return x


def stacked(rows: Sequence[Any]) -> Any:
    """The array that NumPy makes of a list: in C order, whatever order its rows lie in."""
    y = np.stack(rows)
    return np.copy(y, order="C") if any(isinstance(row, np.ndarray) and row.ndim > 1 for row in rows) else y


def conj(x: Any) -> Any:
    """Complex conjugate; the value itself if it is real."""
    dtype = x.dtype if type(x) is np.ndarray else typeof(x).dtype  # type: ignore[union-attr]
    return np.conj(x) if dtype.kind == "c" else x


def unbroadcast(dx: Any, x: Any) -> Any:
    """The cotangent ``dx`` of a broadcast ``x``, brought back to the shape, dtype and realness of ``x``."""
    if isinstance(x, list | tuple):
        return fitted_to(dx, outline(x))
    have, want = typeof(dx), typeof(x)
    if have is want:
        return dx
    assert isinstance(have, ArrayType) and isinstance(want, ArrayType)
    if have.shape != want.shape:
        lead = have.ndim - want.ndim
        ones = (i + lead for i, n in enumerate(want.shape) if n == 1 and i + lead >= 0 and have.shape[i + lead] != 1)
        axes = (*range(lead), *ones)
        if axes:
            dx = np.sum(dx, axis=axes, keepdims=want.ndim > 0)
            dx = np.reshape(dx, want.shape) if lead and want.ndim else dx
        if typeof(dx).shape != want.shape:  # type: ignore[union-attr]
            dx = np.broadcast_to(dx, want.shape)
    return like(dx, x)


def fitted(name: str, dxs: Sequence[Any], args: Sequence[Any]) -> Sequence[Any]:
    """The cotangents of positional arguments, each fitted to the argument's ``outline``.

    A rule has no formula for those that it leaves out.
    """
    try:
        return tuple([fitted_to(dx, x) for dx, x in zip(chain(dxs, repeat(MISSING)), args, strict=False)])
    except ValueError as error:
        raise RuleError(f"a cotangent that the pullback of {name} gave does not fit its argument: {error}") from None


def outline(x: Any) -> Any:
    """What a cotangent is fitted to: the type of a number or array, a container, or ``None`` if it can have none."""
    if isinstance(x, list | tuple):
        return x if any(outline(item) is not None for item in x) else None
    t = typeof(x)
    if isinstance(t, ArrayType):
        return t if t.inexact else None
    return x if items_of(x) is not None else None


def fitted_to(dx: Any, x: Any) -> Any:
    """A cotangent as its argument, of this ``outline``, is: the real part, the dtype, broadcasting undone."""
    if dx is None or x is None:
        return None
    if isinstance(x, ArrayType):
        have = x if dx is MISSING else typeof(dx)
        if have is x:
            return dx
        assert isinstance(have, ArrayType)
        return dx if have.dtype == x.dtype and have.shape == x.shape else unbroadcast(dx, x)
    if not isinstance(x, list | tuple):
        return None if dx is MISSING else dx
    if isinstance(typeof(dx), ArrayType):  # of a list that was used as an array
        dx = unbroadcast(dx, operand(x))
    return tuple([fitted_to(MISSING if dx is MISSING else dx[i], outline(item)) for i, item in enumerate(x)])


def like(dx: Any, x: Any) -> Any:
    """``dx`` with the dtype of ``x``: the real part if ``x`` is real, float32 if ``x`` is."""
    have, want = typeof(dx), typeof(x)
    assert isinstance(have, ArrayType) and isinstance(want, ArrayType)
    if have.dtype.kind == "c" and want.dtype.kind != "c":
        dx, have = np.real(dx), ArrayType(np.empty(0, have.dtype).real.dtype, have.shape, have.kind)
    return dx if have.dtype == want.dtype else astype(dx, want.dtype)


def cast(dx: Any, x: Any) -> Any:
    """A cotangent as ``like`` its argument, also in lists and dicts; of what is no number or has another structure, as
    it is."""
    if isinstance(x, dict) and isinstance(dx, dict):
        return {key: cast(value, x.get(key)) for key, value in dx.items()}
    has_items = isinstance(dx, list | tuple) or (isinstance(dx, np.ndarray) and dx.ndim)
    if isinstance(x, list | tuple) and has_items and len(x) == len(dx):
        return tuple(map(cast, dx, x))
    have, want = typeof(dx), typeof(x)
    fits = isinstance(have, ArrayType) and have.dtype.kind in "fciub" and isinstance(want, ArrayType) and want.inexact
    return like(dx, x) if fits else dx


@dispatching
def astype(x: Any, dtype: Any) -> Any:
    """``x`` as another dtype (NumPy's ``astype`` for arrays and numbers)."""
    y = at_users_line(np.ndarray.astype, (np.asarray(x), dtype))
    return y if isinstance(x, np.ndarray) else y[()]


@dispatching
def as_array(x: Any) -> Any:
    """A number as a 0-d array; an array as it is."""
    return np.asarray(x)


@dispatching
def joined(re: Any, im: Any) -> Any:
    """The complex number or array with these parts, which are broadcast; Python's own of Python's."""
    if type(re) in (int, float) and type(im) in (int, float):
        return complex(re, im)
    strong = [x.dtype for x in (re, im) if isinstance(x, np.ndarray | np.generic)] or [np.dtype(np.float64)]
    y = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.result_type(*strong, np.complex64))
    y.real, y.imag = re, im
    return y if isinstance(re, np.ndarray) or isinstance(im, np.ndarray) else y[()]


def getfield(structure: Any, key: Any) -> Any:
    """One item of a container on the tape."""
    return item(structure, key)


def as_cotangent(given: Any, dtype: np.dtype[Any], is_array: bool) -> Any:
    """A number, an array, or numbers in nested lists as a cotangent of this dtype."""
    if isinstance(given, list | tuple):
        given = np.stack([as_cotangent(x, dtype, is_array) for x in given])
    given = astype(given, dtype)
    return as_array(given) if is_array else given


def zeros_like(x: Any) -> Any:
    """Zeros of the same shape and dtype, as a plain array or NumPy scalar."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    return np.zeros(t.shape, t.dtype) if t.kind == "array" else t.dtype.type(0)


def filled(dy: Any, y: Any) -> Any:
    """The cotangent of a structure, with zeros for the items that nothing flows back to."""
    items = items_of(y)
    if items is None:
        if dy is not None or not is_inexact(y):
            return dy
        return np.zeros_like(y) if isinstance(y, np.ndarray) else zeros_like(y)
    parts = [
        filled(None if dy is None else item(dy, key), x) for key, x in zip(keys_of(y), items, strict=True)
    ]
    return tuple(parts) if isinstance(y, list) else with_items(y, parts)


def add(a: Any, b: Any) -> Any:
    """Sum of two cotangents; ``None`` is zero, containers are added item by item."""
    if a is None:
        return b
    if b is None:
        return a
    if isinstance(typeof(a), ArrayType):
        return np.add(a, b)
    keys = list(keys_of(a))
    if not keys or keys != list(keys_of(b)):
        raise RuleError(f"two cotangents of one value do not have the same structure: {typeof(a)} and {typeof(b)}")
    return with_items(a, [add(item(a, key), item(b, key)) for key in keys])


__all__ = [
    "MISSING", "add", "as_array", "astype", "conj", "getfield", "is_inexact", "like", "strong_multiply", "unbroadcast",
    "zeros_like",
]  # fmt: skip
