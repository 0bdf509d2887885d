"""Reductions: sums, products, extrema. Statistics made of them stand in ``statistics.py``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.base.dispatch import dispatching
from yota_py.base.types import resolved_dtype
from yota_py.registry.kernels import Extremum, Reduce, Scan
from yota_py.registry.registry import Case, Sample, case, nondiff, rrule
from yota_py.registry.tangents import astype, conj, is_inexact, like

from .support import (
    NOTHING,
    Axis,
    Pullback,
    axes_of,
    count_along,
    dtype_of,
    given,
    keep,
    kept_shape,
    rule_of,
    shape_of,
    spread,
)


def reduction_cases(s: Sample) -> Iterable[Case]:
    """Arguments for any function with ``axis`` and ``keepdims``."""
    return [
        case(s(3, 4)), case(s(3, 4), 0), case(s(3, 4), axis=-1), case(s(2, 3, 4), axis=(0, -1)),
        case(s(2, 3, 4), axis=1, keepdims=True), case(s(3, 4), keepdims=True), case(s(4, 3).T, axis=0),
        case(s(6, 4)[::2, ::-1], axis=1), case(np.asfortranarray(s(3, 4))), case(s(5, dtype=np.float32)), case(s(1)),
        case(s()),
    ]


def _sum_cases(s: Sample) -> Iterable[Case]:
    return [
        *reduction_cases(s), case(s(0, 3), axis=0), case(s(0)), case(s(2, 3), axis=()), case(s(3, dtype=np.complex128)),
        case(s(3, dtype=np.float32), dtype=np.float64), case(s(2, 3), axis=1, initial=2.0),
        case(s(2, 3), 1, None, None, False, s.number()), case(s(2, 3), axis=0, where=s.mask(2, 3)),
    ]


def _lowered(fn: Any, combine: Any, neutral: float | None) -> Any:
    """Masks, first values and dtypes of a reduction as operations of their own.

    Masked elements count as the ``neutral`` element, or as ``initial`` if there is none.
    """

    def lowering(
        a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING,
        initial: Any = NOTHING, where: Any = NOTHING,
    ) -> Any:  # fmt: skip
        initial = NOTHING if initial is None else initial
        if not given(dtype=dtype) and initial is NOTHING and where is NOTHING:
            return NotImplemented
        dtype = None if dtype is None else resolved_dtype(dtype)
        if dtype is not None and dtype.kind not in "fc" and dtype != np.int64:
            return NotImplemented  # NumPy sums narrow integers in wide ones, unless told otherwise
        x = a if dtype is None else astype(a, dtype)
        first = NOTHING if initial is NOTHING else astype(initial, dtype_of(x))
        if where is not NOTHING:
            x = like(np.where(where, x, first if neutral is None else neutral), x)
        shape = shape_of(x)
        if neutral is None and not count_along(shape, axis):  # nothing but the first value
            kept = tuple(n for i, n in enumerate(shape) if i not in axes_of(axis, len(shape)))
            y = fn(np.broadcast_to(first, (*kept, 1)), axis=-1)
            return np.reshape(y, kept_shape(shape, axis)) if given(keepdims=keepdims) else y
        y = fn(x, axis=axis, **given(keepdims=keepdims))
        return y if initial is NOTHING else like(combine(y, astype(initial, dtype_of(y))), y)

    return lowering


def _without_dtype(lowering: Any) -> Any:
    def shorter(a: Any, axis: Axis = None, out: None = None, *rest: Any, **options: Any) -> Any:
        return lowering(a, axis, None, out, *rest, **options)

    return shorter


@rrule(np.sum, kernel=Reduce("sum"), lowering=_lowered(np.sum, np.add, 0), method="sum",
       of_ufunc=(np.add, "reduce"), cases=_sum_cases)  # fmt: skip
def sum_rule(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING, initial: Any = NOTHING,
    where: Any = NOTHING,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``sum``: every summand gets the cotangent of its sum."""
    shape = shape_of(a)
    y = np.sum(a, axis=axis, **given(dtype=dtype, keepdims=keepdims, initial=initial, where=where))

    def pullback(dy: Any) -> tuple[Any, ...]:
        dx = spread(dy, shape, axis)
        return dx if where is NOTHING else np.where(where, dx, 0), None, None, None, None, dy

    return y, pullback


# For sums without keywords, where gradients need no pullback.
sum_rule.vjps = (lambda dy, y, a, axis=None: spread(dy, shape_of(a), axis),)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------- extrema


def _extremum_rule(fn: Any, beyond: Any) -> Any:
    """``beyond(a, y)`` holds for the elements that are not the extremum; ties share the cotangent equally."""

    def rule(
        a: Any,
        axis: Axis = None,
        out: None = None,
        keepdims: Any = NOTHING,
        initial: Any = NOTHING,
        where: Any = NOTHING,
    ) -> tuple[Any, Pullback]:
        shape = shape_of(a)
        y = fn(a, axis=axis, **given(keepdims=keepdims, initial=initial, where=where))

        def pullback(dy: Any) -> tuple[Any, ...]:
            others = beyond(a, keep(y, shape, axis))
            if where is not NOTHING:
                others = np.logical_or(others, np.logical_not(where))
            one = dtype_of(a).type(1)
            ties = np.sum(np.where(others, 0, one), axis=axis, keepdims=True)
            first = np.where(beyond(initial, y), 0, one) if initial is not NOTHING else None
            if first is not None:
                ties = np.add(ties, keep(first, shape, axis))
            share = np.divide(keep(dy, shape, axis), ties)
            dx = np.where(others, 0, share)
            if first is None:
                return (dx,)
            return dx, None, None, None, np.multiply(np.reshape(share, shape_of(y)), first)

        return y, pullback

    return rule


def _extremum_cases(s: Sample) -> Iterable[Case]:
    return [
        *reduction_cases(s), case(s(2, 3), axis=1, initial=9.0), case(s(2, 3), 1, None, False, 0.25),
        case(s(2, 3), axis=0, initial=-9.0, where=np.array([[True, False, True], [True, True, False]])),
    ]


rrule(np.max, kernel=Reduce("max"), lowering=_without_dtype(_lowered(np.max, np.maximum, None)), method="max",
      of_ufunc=(np.maximum, "reduce"), aliases=[np.amax], cases=_extremum_cases)(_extremum_rule(np.max, np.less))
rrule(np.min, kernel=Reduce("min"), lowering=_without_dtype(_lowered(np.min, np.minimum, None)), method="min",
      of_ufunc=(np.minimum, "reduce"), aliases=[np.amin], cases=_extremum_cases)(_extremum_rule(np.min, np.greater))


# ------------------------------------------------------------------------------------------ products


@dispatching
def linear_scan(a: Any, d: Any) -> Any:
    """``r[k] = d[k] + a[k] * r[k + 1]`` along the last axis, with ``r[n] = 0``, by doubling: log2(n) vector steps."""
    n = np.shape(d)[-1]
    r = np.array(d, dtype=np.result_type(a, d))
    a = np.array(a, dtype=r.dtype)
    step = 1
    while step < n:
        r[..., :-step] += a[..., :-step] * r[..., step:]
        a[..., :-step] *= a[..., step:]  # products that reach past the end are never used again
        step *= 2
    return r


@rrule(linear_scan, cases=lambda s: [case(s(5), s(5)), case(s(2, 3), s(2, 3)), case(s(1), s(1))])
def linear_scan_rule(a: Any, d: Any) -> tuple[Any, Pullback]:
    """The adjoint of a linear recurrence is the recurrence in the other direction."""
    r = linear_scan(a, d)

    def pullback(dr: Any) -> tuple[Any, ...]:
        back = np.flip(conj(a), -1)
        dd = np.flip(linear_scan(_pushed(back, 0.0), np.flip(dr, -1)), -1)
        return dd * conj(_pushed(r, 0.0)), dd

    return r, pullback


def _pushed(x: Any, last: float) -> Any:
    """The elements of the last axis moved one place forward, ``last`` at the end."""
    shape = shape_of(x)
    return np.concatenate((x[..., 1:], np.full((*shape[:-1], min(1, shape[-1])), last, dtype_of(x))), axis=-1)


def _product_before(x: Any) -> Any:
    """Along the last axis, the product of all elements before each."""
    shape = shape_of(x)
    first = np.ones((*shape[:-1], min(1, shape[-1])), dtype_of(x))
    return np.concatenate((first, np.cumprod(x[..., :-1], axis=-1)), axis=-1)


def _prod_cases(s: Sample) -> Iterable[Case]:
    return [
        *reduction_cases(s), case(s(0)), case(np.array([2.0, 0.0, 3.0])),
        case(np.array([[2.0, 0.0, 0.0], [1.0, 0.0, 4.0]]), axis=1), case(s(3, dtype=np.complex128)),
        case(s(2, 3), axis=1, initial=2.0), case(s(2, 3), 1, None, None, True, s.number()),
        case(s(2, 3), axis=0, where=s.mask(2, 3)),
    ]


def _product_of_others(x: Any) -> Any:
    return _product_before(x) * np.flip(_product_before(np.flip(x, -1)), -1)


@dispatching
def product_of_others(x: Any) -> Any:
    """For each element of the last axis the product of all others, without a division: right with zeros too."""
    return _product_of_others(x)


@rrule(
    product_of_others, lowering=_product_of_others,
    cases=lambda s: [case(s(4)), case(s(2, 3)), case(s(1)), case(np.array([[2.0, 0.0, 3.0], [0.0, 1.0, 0.0]])),
                     case(s(3, dtype=np.complex128))],
)  # fmt: skip
def product_of_others_rule(x: Any) -> tuple[Any, Pullback]:
    """A product of two products: of what stands before, and of what stands behind."""
    before, behind = _product_before(x), np.flip(_product_before(np.flip(x, -1)), -1)

    def pullback(dy: Any) -> tuple[Any, ...]:
        back = np.flip(_product_before_pullback(np.flip(x, -1), np.flip(dy * conj(before), -1)), -1)
        return (_product_before_pullback(x, dy * conj(behind)) + back,)

    return before * behind, pullback


def _product_before_pullback(x: Any, dy: Any) -> Any:
    dx = rule_of(np.cumprod, x[..., :-1], axis=-1)[1](dy[..., 1:])[0]
    return np.concatenate((dx, np.zeros_like(x[..., :1])), axis=-1)


@rrule(np.prod, kernel=Reduce("prod"), lowering=_lowered(np.prod, np.multiply, 1), method="prod",
       of_ufunc=(np.multiply, "reduce"), cases=_prod_cases)  # fmt: skip
def prod_rule(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING, initial: Any = NOTHING,
    where: Any = NOTHING,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``prod``: each factor gets the product of the others, which needs no division and so is right with zeros."""
    shape, axes = shape_of(a), axes_of(axis, len(shape_of(a)))
    y = np.prod(a, axis=axis, **given(dtype=dtype, keepdims=keepdims, initial=initial, where=where))

    def pullback(dy: Any) -> tuple[Any, ...]:
        x = a if where is NOTHING else np.where(where, a, dtype_of(a).type(1))
        last = tuple(range(len(shape) - len(axes), len(shape)))
        moved = np.moveaxis(x, axes, last)
        lines = np.reshape(moved, (*shape_of(moved)[: len(shape) - len(axes)], count_along(shape, axis)))
        others = np.moveaxis(np.reshape(product_of_others(lines), shape_of(moved)), last, axes)
        dx = spread(dy, shape, axis) * conj(others)
        if initial is not NOTHING:
            dx = dx * conj(initial)
        dx = dx if where is NOTHING else np.where(where, dx, 0)
        if not is_inexact(initial):
            return (dx,)
        return dx, None, None, None, None, dy * conj(np.prod(x, axis=axis, **given(keepdims=keepdims)))

    return y, pullback


def _cumulative_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(4)), case(s(2, 3)), case(s(2, 3), 0), case(s(2, 3, 2), axis=-2), case(s(3, 2).T, axis=1),
        case(s(3, dtype=np.float32)), case(s(3, dtype=np.complex128)), case(s(1)), case(s()), case(s(2, 0), axis=1),
    ]


def _along(fn: Any) -> Any:
    """Of all elements, as of a vector."""

    def lowering(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        flat = axis is None and dtype is None and dtype_of(a).kind in "fiub"
        return fn(np.ravel(a), axis=0) if flat and shape_of(a) else NotImplemented

    return lowering


@rrule(np.cumsum, kernel=Scan("cumsum"), lowering=_along(np.cumsum), method="cumsum", of_ufunc=(np.add, "accumulate"),
       cases=_cumulative_cases)  # fmt: skip
def cumsum_rule(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> tuple[Any, Pullback]:
    """``cumsum``: the cotangents are summed from the other end."""
    shape = shape_of(a)
    y = np.cumsum(a, axis=axis, **given(dtype=dtype))

    def pullback(dy: Any) -> tuple[Any, ...]:
        n = 0 if axis is None else axis
        dx = np.flip(np.cumsum(np.flip(dy, n), axis=n), n)
        return (np.reshape(dx, shape) if axis is None or not shape else dx,)

    return y, pullback


def _cumprod_cases(s: Sample) -> Iterable[Case]:
    return [*_cumulative_cases(s), case(np.array([2.0, 0.0, 3.0, 0.0])), case(np.array([[0.0, 2.0, 3.0]]), axis=1)]


@rrule(np.cumprod, kernel=Scan("cumprod"), lowering=_along(np.cumprod), method="cumprod",
       of_ufunc=(np.multiply, "accumulate"), cases=_cumprod_cases)  # fmt: skip
def cumprod_rule(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> tuple[Any, Pullback]:
    """``cumprod``, right with zeros: ``dx[k] = prod(x[:k]) * r[k]`` with ``r[k] = dy[k] + x[k + 1] * r[k + 1]``."""
    shape = shape_of(a)
    y = np.cumprod(a, axis=axis, **given(dtype=dtype))

    def pullback(dy: Any) -> tuple[Any, ...]:
        n = 0 if axis is None else axis
        flat = axis is None or not shape
        x = conj(np.ravel(a) if flat else np.moveaxis(a, n, -1))
        dx = _product_before(x) * linear_scan(_pushed(x, 0.0), np.moveaxis(dy, n, -1))
        return (np.reshape(dx, shape) if flat else np.moveaxis(dx, -1, n),)

    return y, pullback


# ------------------------------------------------------------------------------- truth and positions


def _masked(fn: Any, combine: Any) -> Any:
    """``where=`` as an operation of its own."""

    def lowering(a: Any, axis: Axis = None, out: None = None, keepdims: Any = NOTHING, *, where: Any = NOTHING) -> Any:
        return NotImplemented if where is NOTHING else fn(combine(a, where), axis=axis, **given(keepdims=keepdims))

    return lowering


_any = _masked(np.any, np.logical_and)
_all = _masked(np.all, lambda a, where: np.logical_or(a, np.logical_not(where)))


def _of_all(fn: Any) -> Any:
    """Of all elements, those of a vector."""

    def lowering(a: Any, axis: int | None = None, out: None = None, keepdims: Any = NOTHING) -> Any:
        return NotImplemented if axis is not None or given(keepdims=keepdims) else fn(np.ravel(a), axis=0)

    return lowering


def _truth_cases(s: Sample) -> Iterable[Case]:
    return [case(x, **options) for x in (s.mask(3, 4), s(3, 4), np.ones((3, 4)), np.zeros((3, 4)))
            for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})]  # fmt: skip


def _position_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(5)), case(s(3, 4)), case(s(3, 4), 0), case(s(3, 4), axis=-1), case(np.array([1.0, np.nan, 3.0, np.nan])),
        case(np.array([2.0, 1.0, 2.0, 1.0])), case(s.integers(5, high=3)), case(s(3, dtype=np.float32)),
        case(s(2, 3), axis=1, keepdims=True), case(s(4, 3).T, axis=0), case(s(4, 3).T, 1), case(s(2, 3), keepdims=True),
    ]  # fmt: skip


nondiff(np.any, kernel=Reduce("any"), lowering=_any, method="any", of_ufunc=(np.logical_or, "reduce"),
        cases=_truth_cases)  # fmt: skip
nondiff(np.all, kernel=Reduce("all"), lowering=_all, method="all", of_ufunc=(np.logical_and, "reduce"),
        cases=_truth_cases)  # fmt: skip
nondiff(np.argmax, kernel=Extremum("argmax"), lowering=_of_all(np.argmax), method="argmax", cases=_position_cases)
nondiff(np.argmin, kernel=Extremum("argmin"), lowering=_of_all(np.argmin), method="argmin", cases=_position_cases)
nondiff(np.count_nonzero, cases=_truth_cases)
