"""Cotangents by the formulas of a rule, without a pullback: of numbers and arrays of real floating-point numbers.

They are those that the rule's pullback gives. Whoever asks has seen to it that NumPy does not warn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from ..base.types import is_basic
from ..registry.registry import Primitive
from ..registry.tangents import MISSING, fitted_to, outline, scaled, unbroadcast

NUMBERS = frozenset([np.float64, float])
_ARGUMENTS = NUMBERS | {int}
_PLAIN = NUMBERS | {ndarray}
_FLOAT = np.dtype(float)

# ``(dy, y, args, sources, cotangents)`` adds what flows to each source to its cotangent; or it does nothing and returns
# False, where values are of other kinds.
Way: TypeAlias = Callable[[Any, Any, Sequence[Any], Sequence[Any], list[Any]], bool]

# What flows to one of a function's one or two numbers: a constant times ``dy``, a function ``(y, *args)`` times ``dy``,
# or nothing; or a function ``(dy, y, *args)``, as the third item tells.
Slope: TypeAlias = "float | Callable[..., Any] | None"
Slopes: TypeAlias = tuple[Slope, Slope, bool]


def slopes_of(entry: Primitive) -> Slopes | None:
    """Those of an elementwise function; of one number, the second is ``None``."""
    slopes, fn, of_dy = getattr(entry.rule, "partials", ()), entry.fn, False
    if not slopes and isinstance(fn, np.ufunc) and fn.signature is None:
        slopes, of_dy = getattr(entry.rule, "vjps", ()), True
    if len(slopes) not in (1, 2) or MISSING in slopes:
        return None
    first, second = [x if x is None or callable(x) else float(x) for x in (*slopes, None)][:2]
    return first, second, of_dy


def flow_to_numbers(
    dy: float, y: Any, slopes: Slopes, args: tuple[Any, ...], i: int, j: int, cotangents: list[Any]
) -> None:
    """Add what flows to one or two numbers, ``i`` and ``j``, to their cotangents; to none where the number is -1."""
    first, second, of_dy = slopes
    if i >= 0 and first is not None and (dx := _times(dy, y, first, args, of_dy)) is not None:
        known = cotangents[i]
        cotangents[i] = dx if known is None else known + dx
    if j >= 0 and second is not None and (dx := _times(dy, y, second, args, of_dy)) is not None:
        known = cotangents[j]
        cotangents[j] = dx if known is None else known + dx


def _times(dy: float, y: Any, slope: Any, args: tuple[Any, ...], of_dy: bool) -> float | None:
    """``dy`` times a slope, if there is one; a ``dy`` of zero gives zero, as with ``strong_multiply``."""
    if of_dy:
        dx = slope(np.float64(dy), y, *args)
        return None if dx is None else float(dx)
    if not dy:
        return 0.0
    return dy * (slope if type(slope) is float else float(slope(y, *args)))


def into_view(x: Any, index: Any, j: int, dy: Any, cotangents: list[Any], owned: set[int]) -> bool:
    """Add the cotangent of what an index takes to that of the array, number ``j``; whether both are plain. ``owned``
    are the cotangents that are arrays of our own."""
    if type(dy) not in _PLAIN or not (type(index) is int or is_basic(index)):
        return False
    if type(x) is not ndarray or x.ndim == 0 or x.dtype != np.float64:  # sums of 0-d arrays are numbers
        return False
    known = cotangents[j]
    if j not in owned:
        if known is not None and type(known) is not ndarray:
            return False
        known = cotangents[j] = np.zeros(x.shape) if known is None else np.array(known)
        owned.add(j)
    known[index] += dy
    return True


def way_of(entry: Primitive) -> Way:
    """How cotangents come of the rule of a function of the library."""
    rule: Any = entry.rule
    if (partials := getattr(rule, "partials", None)) is not None:
        return partial(_by_partials, partials)
    if (vjps := getattr(rule, "vjps", None)) is not None:
        return partial(_by_vjps, vjps[: vjps.index(MISSING)] if MISSING in vjps else vjps)
    return by_rows if getattr(rule, "rows", False) else _nowhere


def _nowhere(*given: Any) -> bool:
    return False


def _by_partials(
    partials: Sequence[Any], dy: Any, y: Any, args: Sequence[Any], sources: Sequence[Any], cotangents: list[Any]
) -> bool:
    """Of an elementwise function."""
    numbers = True
    for x in args:
        if (cls := type(x)) is ndarray:
            if x.dtype is not _FLOAT and x.dtype.kind != "f":
                return False
            numbers = False
        elif cls not in _ARGUMENTS:
            return False
    if len(partials) != len(args):
        return False
    if numbers:
        return _of_numbers(partials, dy, y, args, sources, cotangents)
    if type(y) is not ndarray or type(dy) is not ndarray or y.ndim == 0:
        return False
    for k, _, j in sources:
        if (slope := partials[k]) is None:
            continue
        if callable(slope):
            dx = scaled(dy, slope(y, *args))
        else:
            dx = dy if slope == 1 else -dy if slope == -1 else scaled(dy, slope)
        x = args[k]
        if type(x) is not ndarray or dx.shape != x.shape or dx.dtype is not x.dtype:
            dx = unbroadcast(dx, x)
        known = cotangents[j]
        cotangents[j] = dx if known is None else known + dx
    return True


def _of_numbers(
    partials: Sequence[Any], dy: Any, y: Any, args: Sequence[Any], sources: Sequence[Any], cotangents: list[Any]
) -> bool:
    if type(y) not in NUMBERS or type(dy) not in NUMBERS:
        return False
    slopes = [partials[k](y, *args) if callable(partials[k]) else partials[k] for k, _, _ in sources]
    for slope in slopes:
        if slope is not None and type(slope) not in _ARGUMENTS:
            return False
    for (_, _, j), slope in zip(sources, slopes, strict=True):
        if slope is not None:
            dx = np.float64(0.0 if dy == 0 else float(dy) * float(slope))
            known = cotangents[j]
            cotangents[j] = dx if known is None else known + dx
    return True


def _by_vjps(
    vjps: Sequence[Any], dy: Any, y: Any, args: Sequence[Any], sources: Sequence[Any], cotangents: list[Any]
) -> bool:
    """Of a function with a formula per argument."""
    if sources[-1][0] >= len(vjps) or (type(y) is not ndarray and type(y) not in NUMBERS):
        return False
    for x in args:
        if type(x) is ndarray:
            if x.dtype is not _FLOAT and x.dtype.kind != "f":
                return False
        elif type(x) not in _ARGUMENTS:
            return False
    for k, _, j in sources:
        if (vjp := vjps[k]) is None:
            continue
        dx, x = vjp(dy, y, *args), args[k]
        if type(dx) is not ndarray or type(x) is not ndarray or dx.shape != x.shape or dx.dtype is not x.dtype:
            dx = fitted_to(dx, outline(x))
        if dx is not None:
            known = cotangents[j]
            cotangents[j] = dx if known is None else known + dx
    return True


def by_rows(dy: Any, y: Any, args: Sequence[Any], sources: Sequence[Any], cotangents: list[Any]) -> bool:
    """Of a function of a list, of whose items it makes rows."""
    if len(args) != 1 or type(args[0]) not in (tuple, list) or type(dy) is not ndarray or dy.dtype is not _FLOAT:
        return False
    for _, (i,), j in sources:
        known = cotangents[j]
        cotangents[j] = dy[i] if known is None else known + dy[i]
    return True
