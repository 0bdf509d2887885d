"""Sorting and what is read off sorted values: interpolation, searches. Quantiles stand in ``quantiles.py``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.base.dispatch import decided, dispatching
from yota_py.registry.composites import composite
from yota_py.registry.kernels import Search, Sort
from yota_py.registry.registry import Case, Sample, case, describe, nondiff, rrule
from yota_py.registry.tangents import astype, conj

from .indexing import take_along_axis
from .indices import getitem, unindex
from .support import (
    Pullback,
    dtype_of,
    given,
    operand,
    promoted,
    shape_of,
)  # fmt: skip


def _order_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(5)), case(s(3, 4)), case(s(3, 4), 0), case(s(2, 3, 2), axis=1), case(s(2, 3), None),
        case(s(4, 3).T, axis=1), case(s(1)), case(s(0)), case(s(4, dtype=np.float32)),
    ]  # fmt: skip


_GRID = np.array([-1.0, 0.0, 0.7, 1.5])

nondiff(np.argsort, method="argsort", kernel=Sort(places=True), cases=lambda s: [
    *_order_cases(s), case(s(5), stable=True), case(s(3, 4), 0, kind="stable"),
])  # fmt: skip
nondiff(np.argpartition, method="argpartition", cases=lambda s: [
    case(s(5), 2), case(s(3, 4), 1, axis=0), case(s(5), (1, 3)),
])  # fmt: skip
nondiff(np.lexsort, cases=lambda s: [case((s(4), s(4))), case(s(2, 3)), case((s(2, 3), s(2, 3)), axis=0)])
nondiff(np.searchsorted, method="searchsorted", kernel=Search(), cases=lambda s: [
    case(_GRID, s(3)), case(_GRID, s.number(), side="right"), case(np.sort(s(4)), s(2, 3)),
    case(_GRID[::-1], s(3), "left", np.arange(4)[::-1]),
])  # fmt: skip
nondiff(np.digitize, cases=lambda s: [case(s(3), _GRID), case(s(2, 3), _GRID, right=True), case(s(3), _GRID[::-1])])
for _fn in (np.nanargmax, np.nanargmin):
    nondiff(_fn, cases=lambda s: [
        case(s(5)), case(s(3, 4)), case(s(3, 4), 1), case(s(3, 4), axis=0, keepdims=True),
        case(np.array([np.nan, 1.0])),
    ])  # fmt: skip
nondiff(np.isin, cases=lambda s: [case(s(3), s(2)), case(_GRID, _GRID[:2]), case(s(3), s(2), invert=True)])


@composite(np.sort, kernel=Sort(), lowering=None, cases=lambda s: [
    *_order_cases(s), case(s(5), stable=True), case(s(3, 4), 0, "stable"),
])  # fmt: skip
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: bool | None = None) -> Any:
    """The elements in the order that ``argsort`` of the same kind has."""
    x, axis = (np.ravel(operand(a)), 0) if axis is None else (operand(a), axis)
    return take_along_axis(x, np.argsort(x, axis, **given(kind=kind, stable=stable)), axis)


@composite(np.partition, lowering=None, cases=lambda s: [case(s(5), 2), case(s(3, 4), 1, axis=0), case(s(2, 3), 0)])
def _partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Any:
    x, axis = (np.ravel(operand(a)), 0) if axis is None else (operand(a), axis)
    return take_along_axis(x, np.argpartition(x, kth, axis), axis)


# ---------------------------------------------------------------------------------- edges of histograms


@dispatching
def count_of_bins(a: Any, bins: Any, range: Any, weights: Any) -> int:
    """How many bins a histogram has."""
    return len(np.histogram_bin_edges(a, bins, range, weights)) - 1


nondiff(count_of_bins, cases=lambda s: [case(s(9), 4, None, None), case(s(30), "fd", (-1.0, 1.0), None)])


def _bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Evenly spaced between the extrema, or the ends of the range; their number is a decision."""
    n = decided(count_of_bins(a, bins, range, weights))
    if not isinstance(bins, str) and np.ndim(bins):
        return operand(bins)
    first, last = (0, 1) if not np.size(a) else (np.min(a), np.max(a)) if range is None else range
    if first == last:
        first, last = first - 0.5, last + 0.5
    dtype = promoted(first, last, a)
    return np.linspace(first, last, n + 1, dtype=dtype if dtype.kind in "fc" else np.result_type(dtype, float))


describe(np.histogram_bin_edges, lowering=_bin_edges, inline=True, cases=lambda s: [
    case(s(9)), case(s(3, 4), 4), case(s(9), bins=3, range=(-1.0, 2.0)), case(s(30), "sturges"), case(s(5), _GRID),
    case(np.ones(3), 2), case(s(5, dtype=np.float32), 3), case(s(30), "fd", (-1.0, 1.0)), case(s(0), 2),
])  # fmt: skip


# -------------------------------------------------------------------------------------- interpolation


def _interp_cases(s: Sample) -> Iterable[Case]:
    grid = np.array([-1.0, 0.0, 0.7, 2.0])
    return [
        case(s(5, low=-0.9), grid, s(4)), case(s(2, 3, low=-3.0, high=3.0), grid, s(4)), case(s.number(), grid, s(4)),
        case(np.array([-2.0, 0.5, 3.0]), grid, s(4), 0.25, 0.75), case(np.array([-2.0, 0.5]), grid, s(4), left=0.5),
        case(s(3), grid, [1.0, 2.0, 0.0, 1.0]), case(s(3), grid, s(4, dtype=np.complex128)),
    ]  # fmt: skip


def _periodic(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """One period of the line, with a neighbour of the next on either side."""
    if period is None:
        return NotImplemented
    if np.ndim(xp) != 1 or np.ndim(fp) != 1 or np.shape(xp) != np.shape(fp) or np.equal(period, 0):
        np.interp([0.0], np.zeros(np.shape(xp)), np.zeros(np.shape(fp)), period=decided(period))  # raises as NumPy does
    width = np.abs(period)
    places = np.remainder(operand(xp), width)
    order = np.argsort(places)
    places, values = places[order], getitem(operand(fp), order)
    places = np.concatenate((places[-1:] - width, places, places[:1] + width))
    return np.interp(np.remainder(operand(x), width), places, np.concatenate((values[-1:], values, values[:1])))


def _brackets(x: Any, xp: Any, n: int) -> tuple[Any, Any]:
    """Between which points each ``x`` lies; outside, the nearest two."""
    i = np.minimum(np.maximum(np.searchsorted(xp, x, side="right") - 1, 0), max(n - 2, 0))
    return i, np.minimum(i + 1, n - 1)


def _interpolated(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As NumPy computes it, in double precision: at a point its value, and where the line from the left is NaN, that
    from the right."""
    if period is not None or any(dtype_of(v).kind not in "fiu" for v in (x, xp, fp)):
        return NotImplemented
    x, xp, fp = (astype(operand(v), np.dtype(float)) for v in (x, xp, fp))
    if type(xp) is np.ndarray and not np.all(xp[:-1] <= xp[1:]):  # nobody knows what NumPy makes of these
        return NotImplemented
    n = shape_of(xp)[0]
    i, j = _brackets(x, xp, n)
    x0, x1, y0, y1 = getitem(xp, i), getitem(xp, j), getitem(fp, i), getitem(fp, j)
    slope = (y1 - y0) / np.where(np.equal(x0, x1), 1.0, x1 - x0)
    y = slope * (x - x0) + y0
    y = np.where(np.isnan(y), slope * (x - x1) + y1, y)
    y = np.where(np.logical_and(np.isnan(y), np.equal(y0, y1)), y0, y)
    y = np.where(np.equal(x, x1), y1, np.where(np.equal(x, x0), y0, y))
    if n > 1:
        y = np.where(np.isnan(x), x, y)
    outer = np.where(np.less(x, xp[0]), fp[0] if left is None else left, fp[n - 1] if right is None else right)
    y = np.where(np.logical_or(np.less(x, xp[0]), np.greater(x, xp[n - 1])), outer, y)
    return y if shape_of(x) else y[()]


@rrule(np.interp, instead=_periodic, lowering=_interpolated, cases=_interp_cases)
def interp_rule(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> tuple[Any, Pullback]:
    """``interp``: piecewise linear, with the right-hand slope at a grid point; outside, the ends are constant."""
    x, xp, fp = operand(x), operand(xp), operand(fp)
    n = shape_of(xp)[0]

    def pullback(dy: Any) -> tuple[Any, ...]:
        lower, upper = np.less(x, xp[0]), np.greater(x, xp[n - 1])
        i, j = _brackets(x, xp, n)
        width = np.subtract(getitem(xp, j), getitem(xp, i))
        part = np.clip(np.divide(np.subtract(x, getitem(xp, i)), np.where(np.equal(width, 0), 1, width)), 0, 1)
        slope = np.divide(np.subtract(getitem(fp, j), getitem(fp, i)), np.where(np.equal(width, 0), 1, width))
        inside = np.where(np.logical_or(lower, upper), 0, np.multiply(dy, conj(slope)))
        ends = np.where(
            np.logical_or(lower if left is not None else False, upper if right is not None else False), 0, dy
        )
        dfp = unindex(ends * (1 - part), i, (n,)) + unindex(ends * part, j, (n,))
        dxp = unindex(inside * (1 - part), i, (n,)) + unindex(inside * part, j, (n,))
        return inside, np.negative(dxp), dfp, np.where(lower, dy, 0), np.where(upper, dy, 0)

    return np.interp(x, xp, fp, left, right), pullback
