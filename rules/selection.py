"""Elementwise functions that pass one of their arguments on: extrema, ``where``, ``clip``, ``nan_to_num``.

Those that tie share the cotangent (``docs/conventions.md``). Nothing is multiplied with it, so that the dtype
stays and a NaN of the part not taken does not leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.registry.composites import composite
from yota_py.registry.kernels import Map
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, rrule, vjps
from yota_py.registry.tangents import as_array, astype, chosen, is_inexact

from . import parts
from .elementwise import REAL
from .joining import parts_of
from .samples import arrays
from .support import NOTHING, dtype_of, operand, promoted, shape_of, strong

_pair = arrays(REAL, REAL)


def _winner(dy: Any, y: Any, mine: Any, other: Any) -> Any:
    """The cotangent of the argument that gave the result; of a tie one half each."""
    return np.where(y == mine, np.where(y == other, 0.5 * dy, dy), 0)


for _ufunc, _name in [(np.maximum, "maximum"), (np.minimum, "minimum"), (np.fmax, "fmax"), (np.fmin, "fmin")]:
    vjps(_ufunc, lambda dy, y, a, b: _winner(dy, y, a, b), lambda dy, y, a, b: _winner(dy, y, b, a),
         kernel=Map(_name, integers=True), cases=_pair)  # fmt: skip


def _heaviside(k: Any, x: Any, half: Any) -> Any:
    zero = k.const(0, x)
    side = k.select(k.gt(x, zero), k.const(1, x), k.select(k.isnan(x), x, zero))
    return k.select(k.eq(x, zero), half, side)


vjps(np.heaviside, None, lambda dy, y, x, half: np.where(x == 0, dy, 0), kernel=_heaviside, cases=_pair)
vjps(np.nextafter, lambda dy, y, x, to: dy, None, cases=_pair)


vjps(np.where, None, lambda dy, y, mask, a, b: np.where(mask, dy, 0), lambda dy, y, mask, a, b: np.where(mask, 0, dy),
     parts=parts.where, kernel=Map("select", integers=True), cases=lambda s: [
    case(s.mask(3, 4), s(3, 4), s(4)), case(s.mask(4), s(3, 1), s(1, 4)), case(s.mask(3), s(3), 0.0),
    case(s.mask(3), s.number(), s(3, dtype=np.float32)), case(True, s.number(), s.number()),
    case(s.mask(2, 3), s(3, dtype=complex), s(2, 1)), case(s.mask(0), s(0), s(1)), case(s.mask(3), s(), s(3)),
])  # fmt: skip


vjps(chosen, None, lambda dy, y, c, yes, no: np.where(c, dy, 0), lambda dy, y, c, yes, no: np.where(c, 0, dy),
     kernel=Map("select", integers=True), cases=lambda s: [
    case(True, s.number(), s.number()), case(False, s(3), s(3)), case(np.True_, s(2, 3), s(2, 3)),
])  # fmt: skip


def _where_stand_in(condition: Any, *choices: Any) -> Any:
    """With the condition alone, ``nonzero``, whose shape depends on values."""
    return np.nonzero(condition) if is_traced(condition) and not choices else np.where(condition, *choices)


patch(np, "where", _where_stand_in)


_ABOVE = np.array([True, False, True])


@composite(np.select, cases=lambda s: [
    case([_ABOVE, ~_ABOVE], [s(3), s(3)]), case([_ABOVE], [s(3)], s.number()), case([_ABOVE], [s.number()], s(3)),
    case([_ABOVE, np.ones(3, bool)], [s(3), s(2, 1)]), case([_ABOVE], [s(3, dtype=np.float32)], 0.5),
    case([_ABOVE[:, None], _ABOVE], [1.5, s(3, dtype=complex)], 2), case([_ABOVE, ~_ABOVE], s(2, 3), s(2, 1)),
    case([np.array(True)], [s()], 1.0), case((s.mask(2, 3), s.mask(3)), (s(3), s(2, 1))),
])  # fmt: skip
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The last choice first: those before it are put over it."""
    conditions, choices = parts_of(condlist)[0], parts_of(choicelist)[0]
    if len(conditions) != len(choices) or not conditions or any(dtype_of(c).kind != "b" for c in conditions):
        np.select([np.zeros(1, dtype_of(c)) for c in conditions], [0.0] * len(choices))  # raises what NumPy raises
    shapes = [*map(shape_of, choices), shape_of(default)]
    shape = np.broadcast_shapes(*map(shape_of, conditions), *shapes)
    y = astype(operand(default), promoted(*choices, default))
    for mask, choice in zip(conditions[::-1], choices[::-1], strict=True):
        y = np.where(mask, astype(choice, dtype_of(y)), y)
    return as_array(y) if shape_of(y) == shape else np.broadcast_to(y, shape)


def _bounds(a_min: Any, a_max: Any, min: Any, max: Any) -> tuple[Any, Any]:
    """The two bounds, ``None`` for none, under whichever of their names they were given."""
    first = [None if bound is NOTHING else bound for bound in (a_min, a_max)]
    second = [None if bound is NOTHING else bound for bound in (min, max)]
    lo, hi = (b if a is None else a for a, b in zip(first, second, strict=True))
    return lo, hi


def _plain(x: Any) -> bool:
    """Whether an argument of ``clip`` is one of floats or of machine words, or not given."""
    if type(x) is int:
        return x.bit_length() < 64
    return x is None or dtype_of(x).char in "fdl"


def _clipped(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None
) -> Any:
    """``np.clip`` as ``minimum(hi, maximum(lo, x))``, of which the latter arguments win ties of zeros."""
    lo, hi = _bounds(a_min, a_max, min, max)
    if not all(map(_plain, (a, lo, hi))):
        return NotImplemented  # bounds that do not fit the dtype are none for NumPy
    a = strong(a)
    if lo is None or hi is None:
        return np.positive(a) if lo is hi else np.minimum(a, hi) if lo is None else np.maximum(a, lo)
    return np.minimum(hi, np.maximum(lo, a))


def _clip_stand_in(a: Any, *bounds: Any, min: Any = NOTHING, max: Any = NOTHING, **options: Any) -> Any:
    """With the bounds by position, where cotangents can reach them."""
    if find_traced((min, max)) is None or bounds:
        options |= {key: bound for key, bound in [("min", min), ("max", max)] if bound is not NOTHING}
        return np.clip(a, *bounds, **options)
    return np.clip(a, *_bounds(None, None, min, max), **options)


def _clip_method(a: Any, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
    """Arrays' own ``clip``, which can do without bounds."""
    return _clip_stand_in(a, min, max, out=out, **options)


@rrule(np.clip, lowering=_clipped, method={"clip": _clip_method}, cases=lambda s: [
    case(s(3, 4), -0.5, 0.5), case(s(3, 4), s(4, high=-0.2), s(3, 1, low=0.2)), case(s(5, dtype=np.float32), -0.5, 0.5),
    case(s(4), None, 0.5), case(s(4), -0.5, None), case(s.number(), -0.5, 0.5), case(s(0), 0.0, 1.0),
    case(s(), s(3, high=-0.2), 0.5), case(s(4), -1, 1), case(s(4), a_min=-1, a_max=0.5), case(s(4), min=-0.5, max=0.5),
])  # fmt: skip
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None
) -> tuple[Any, Callable[[Any], Sequence[Any]]]:
    lo, hi = _bounds(a_min, a_max, min, max)
    raised = a if lo is None else np.maximum(strong(a), lo)
    y = np.clip(a, lo, hi)

    def pullback(dy: Any) -> Sequence[Any]:
        below = dy if hi is None else _winner(dy, y, raised, hi)
        dx = below if lo is None else _winner(below, raised, a, lo)
        dlo = _winner(below, raised, lo, a) if is_inexact(lo) else None
        return dx, dlo, _winner(dy, y, hi, raised) if is_inexact(hi) else None

    return y, pullback


patch(np, "clip", _clip_stand_in)


def _numbers_only(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    dtype = dtype_of(x)
    if dtype.kind != "f":
        return NotImplemented
    ends = np.finfo(dtype).max if posinf is None else posinf, np.finfo(dtype).min if neginf is None else neginf
    y = np.where(np.isnan(x), nan, x)
    for infinity, end in zip((math.inf, -math.inf), ends, strict=True):
        y = np.where(np.equal(x, infinity), end, y)
    return y if isinstance(x, np.ndarray) else y[()]


@rrule(np.nan_to_num, lowering=_numbers_only, cases=lambda s: [
    case(s(3, 4)), case(s(3, dtype=np.float32)), case(s(2, dtype=complex)),
    case(s(3), nan=1.0), case(s.number()), case(np.array([np.nan, np.inf, 1.0]), True, s.number(), s.number()),
])  # fmt: skip
def _nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    y = np.nan_to_num(x, copy=True, nan=nan, posinf=posinf, neginf=neginf)

    def pullback(dy: Any) -> Sequence[Any]:
        if not np.iscomplexobj(x):
            places = (np.isnan(x), nan), (np.equal(x, np.inf), posinf), (np.equal(x, -np.inf), neginf)
            dends = (np.where(at, dy, 0) if is_inexact(end) else None for at, end in places)
            return np.where(np.isfinite(x), dy, 0), None, *dends
        re = np.where(np.isfinite(np.real(x)), np.real(dy), 0)
        return (re + 1j * np.where(np.isfinite(np.imag(x)), np.imag(dy), 0),)

    return y, pullback
