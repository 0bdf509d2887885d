"""Medians and quantiles by every method, with weights, and of what is not NaN.

Places among the sorted elements: Hyndman & Fan, Sample quantiles in statistical packages (1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib._function_base_impl import _QuantileMethods  # type: ignore[attr-defined]

from yota_py.base.dispatch import dispatching
from yota_py.registry.registry import Case, Sample, case, nondiff, rrule
from yota_py.registry.tangents import astype, is_inexact

from .indexing import take_along_axis
from .indices import getitem
from .support import (
    NOTHING,
    Axis,
    Pullback,
    axes_of,
    count_along,
    dtype_of,
    given,
    kept_shape,
    operand,
    shape_of,
)  # fmt: skip


def _lines(a: Any, axis: Axis) -> tuple[Any, Pullback]:
    """The array with the axes that are reduced as one last axis, and the way back."""
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    last = tuple(range(len(shape) - len(axes), len(shape)))
    moved = np.moveaxis(a, axes, last)
    lines = np.reshape(moved, (*shape_of(moved)[: len(shape) - len(axes)], count_along(shape, axes)))
    return lines, lambda dx: (np.moveaxis(np.reshape(dx, shape_of(moved)), last, axes),)


# Of the methods that lie on a line between elements, alpha and beta.
_BETWEEN: dict[str, tuple[float, float]] = {
    "linear": (1, 1), "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
METHODS = tuple(_QuantileMethods)


@dispatching
def fixed_place(method: str, n: Any, q: Any) -> Any:
    """Where the quantile stands by a method that takes an element, or the middle between two."""
    known: Any = _QuantileMethods[method]
    place = np.asarray(known["get_virtual_index"](n, np.asarray(q)), float)
    below = np.floor(place)
    return place if known["fix_gamma"] is None else below + known["fix_gamma"](place - below, place)


nondiff(fixed_place, cases=lambda s: [
    case(method, 5, np.array([0.0, 0.2, 0.45, 0.5, 1.0])) for method in METHODS if method not in _BETWEEN
])  # fmt: skip


def _place(method: str, n: Any, q: Any) -> tuple[Any, Any]:
    """Where among ``n`` sorted elements the quantile stands, and how many places a level of one makes."""
    if method not in _BETWEEN:
        return fixed_place(method, n, q), 0.0
    alpha, beta = _BETWEEN[method]
    slope = n + 1 - alpha - beta
    place = np.multiply(slope, q) + (alpha - 1)
    return place, np.where(np.logical_or(place < 0, place > n - 1), 0.0, slope)


def _shared(dy: Any, y: Any, lines: Any) -> Any:
    """The cotangents of elements ``y`` of each line, shared equally by all elements that are equal to them."""
    same = np.equal(lines[..., None, :], y[..., None])
    ties = np.sum(np.where(same, 1.0, 0.0), axis=-1)
    return np.sum(np.where(same, np.divide(dy, np.maximum(ties, 1))[..., None], 0), axis=-2)


def _picked(ordered: Any, i: Any) -> Any:
    return getitem(ordered, (Ellipsis, i)) if len(shape_of(i)) == 1 else take_along_axis(ordered, i, -1)


def _sorted(lines: Any) -> Any:
    return np.sort(lines, -1)


def _halved(lines: Any) -> Any:
    """Lines with the elements in the middle, and behind it, in their places; the last one, too, which is NaN if one
    is."""
    n = shape_of(lines)[-1]
    return np.partition(lines, sorted({(n - 1) // 2, n // 2, min((n + 1) // 2, n - 1), n - 1}), -1)


def _pullback(
    a: Any, q: Any, axis: Axis, method: str, dy: Any, *, gaps: bool = False, weighted: Any = None,
    sort: Callable[[Any], Any] = _sorted,
) -> tuple[Any, Any]:  # fmt: skip
    """Cotangents of ``a`` and ``q``; with ``gaps``, of the elements that are not NaN. The value ``weighted``, which is
    an element, tells where it comes from. ``sort`` puts at least the elements into their places that are asked for."""
    lines, from_lines = _lines(a, axis)
    *rest, size = shape_of(lines)
    if not size:
        return np.zeros(shape_of(a), dtype_of(a)), None
    levels = np.ravel(operand(q))
    by_level = (shape_of(levels)[0], *rest)
    each = np.moveaxis(np.reshape(dy, by_level), 0, -1)
    if weighted is not None:
        return from_lines(_shared(each, np.moveaxis(np.reshape(weighted, by_level), 0, -1), lines))[0], None
    n = np.sum(np.logical_not(np.isnan(lines)), axis=-1, keepdims=True) if gaps else size
    place, slope = _place(method, n, levels)
    last = np.maximum(n - 1, 0)
    place = np.minimum(np.maximum(place, 0), last)
    below = astype(np.minimum(np.floor(place), np.maximum(last - 1, 0)), np.dtype(np.intp))
    part = np.subtract(place, below)
    ordered = sort(lines)
    low, high = _picked(ordered, below), _picked(ordered, np.minimum(below + 1, last))
    dlines = _shared(each * (1 - part), low, lines) + _shared(each * part, high, lines)
    da = from_lines(dlines)[0]
    if not is_inexact(q):
        return da, None
    dlevels = np.multiply(each, np.subtract(high, low)) * slope
    return da, np.reshape(np.sum(dlevels, axis=tuple(range(len(rest)))), shape_of(q))


def _cases(s: Sample, scale: float) -> Iterable[Case]:
    yield from (
        case(s(5), 0.3 * scale), case(s(3, 4), 0.55 * scale, 1), case(s(3, 4), np.array([0.3, 0.85]) * scale, axis=0),
        case(s(2, 3, 2), 0.6 * scale, axis=(0, 2), keepdims=True), case(s(1), 0.5 * scale),
        case(s(3, 2), np.array([[0.3], [0.9]]) * scale, axis=-1), case(s(4), s.number(0.05 * scale, 0.3 * scale)),
        case(s(4, dtype=np.float32), np.float32(0.3 * scale)),
    )  # fmt: skip
    yield from (case(s(2, 4), 0.37 * scale, axis=1, method=method) for method in METHODS)
    yield from (case(s(4), np.array([0.1, 0.9]) * scale, method=method) for method in ("hazen", "weibull"))
    weights = np.array([1.0, 2.0, 0.0, 3.0])
    yield from (case(s(4), 0.4 * scale, method="inverted_cdf", weights=weights),
                case(s(2, 4), np.array([0.3, 0.8]) * scale, 1, method="inverted_cdf", weights=weights))  # fmt: skip


def _gap_cases(s: Sample, scale: float) -> Iterable[Case]:
    x = np.where(np.array([[True, False, True, True], [True, True, False, True]]), s(2, 4), np.nan)
    yield from (case(x, 0.37 * scale, 1), case(x, np.array([0.2, 0.7]) * scale, axis=0), case(x, 0.3 * scale),
                case(s(3), s.number(0.2 * scale, 0.4 * scale)))  # fmt: skip
    yield from (case(x, 0.6 * scale, axis=1, method=method, keepdims=True) for method in ("hazen", "lower", "midpoint"))


def _quantile(fn: Any, scale: float, gaps: bool) -> None:
    @rrule(fn, fails=True, cases=lambda s: (_gap_cases if gaps else _cases)(s, scale))
    def rule(
        a: Any, q: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = NOTHING, weights: Any = None, **options: Any,
    ) -> tuple[Any, Pullback]:  # fmt: skip
        """Differentiable in the array, and in the level where that moves along a line."""
        y = fn(a, q, axis, method=method, **given(keepdims=keepdims, weights=weights), **options)

        def pullback(dy: Any) -> tuple[Any, ...]:
            level = np.divide(operand(q), scale)
            by_weight = None if weights is None else y
            da, dq = _pullback(operand(a), level, axis, method, dy, gaps=gaps, weighted=by_weight)
            dq = None if dq is None or not is_inexact(q) else np.divide(dq, scale)
            return (da, dq, *(None,) * 6)

        return y, pullback


for _fn, _scale, _gaps in (
    (np.quantile, 1.0, False), (np.percentile, 100.0, False), (np.nanquantile, 1.0, True),
    (np.nanpercentile, 100.0, True),
):  # fmt: skip
    _quantile(_fn, _scale, _gaps)


def _median(
    a: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The mean of the two in the middle; NaN if there is one, which stands last."""
    if dtype_of(a).char not in "fd" or not shape_of(a):
        return NotImplemented
    lines = _lines(a, axis)[0]
    n = shape_of(lines)[-1]
    if not n:
        return NotImplemented
    ordered = _halved(lines)
    y = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2 + 0.0  # the mean of -0.0 is 0.0
    y = np.where(np.isnan(ordered[..., -1]), np.nan, y)[()]
    return np.reshape(y, kept_shape(shape_of(a), axis)) if keepdims else y


@rrule(np.median, lowering=_median, cases=lambda s: [
    case(s(5)), case(s(4)), case(s(3, 4)), case(s(3, 4), 0), case(s(2, 3, 4), axis=(0, -1)),
    case(s(3, 4), axis=1, keepdims=True), case(s(4, 3).T, axis=-1), case(s(4, dtype=np.float32)), case(s(1)),
])  # fmt: skip
def median_rule(
    a: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> tuple[Any, Pullback]:
    """``median``: the middle element, or half each for the two in the middle; equal elements share."""
    y = np.median(a, axis, **given(keepdims=keepdims))
    return y, lambda dy: _pullback(operand(a), 0.5, axis, "linear", dy, sort=_halved)[:1]


@rrule(np.nanmedian, cases=lambda s: [
    case(s(4)), case(np.where(np.arange(4) == 1, np.nan, s(2, 4)), 1), case(s(2, 3), axis=(0, 1), keepdims=True),
    case(np.where(np.arange(3) == 1, np.nan, s(2, 3))), case(s(3, dtype=np.float32), 0),
])  # fmt: skip
def _nanmedian(
    a: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: Any = NOTHING
) -> tuple[Any, Pullback]:
    y = np.nanmedian(a, axis, **given(keepdims=keepdims))
    return y, lambda dy: _pullback(operand(a), 0.5, axis, "linear", dy, gaps=True)[:1]
