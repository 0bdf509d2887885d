"""Statistics and differences: compositions of sums, extrema and arithmetic, which they lower to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.base.types import resolved_dtype
from yota_py.registry.composites import composite
from yota_py.registry.registry import Case, Cases, Sample, case, rrule
from yota_py.registry.tangents import astype, like

from .reductions import reduction_cases
from .support import (
    NOTHING,
    Axis,
    Pullback,
    along,
    axes_of,
    axis_of,
    count_along,
    dtype_of,
    given,
    keep,
    operand,
    rule_of_primitives,
    shape_of,
    spread,
    unsupported,
    zero_over_zero,
)  # fmt: skip


def _two_or_more(s: Sample) -> Iterable[Case]:
    return [c for c in reduction_cases(s) if np.size(c.args[0]) > 1]


# ------------------------------------------------------------------------------------- mean and variance
# No composites: their formulas have fewer passes over the array, and the deviation of equal elements has no derivative.


def _inexact(a: Any, dtype: Any = None) -> Any:
    """The array in which a mean is computed: integers and bools as float64."""
    if dtype is None:
        dtype = dtype_of(a) if dtype_of(a).kind in "fc" else np.float64
    return a if dtype_of(a) == dtype else astype(a, np.dtype(dtype))


def _count(x: Any, axis: Axis, where: Any, **options: Any) -> Any:
    """How many elements go into a mean: a Python number, or an array if there is a mask."""
    if where is NOTHING:
        return count_along(shape_of(x), axis)
    n = np.sum(np.broadcast_to(where, shape_of(x)), axis=axis, **options)
    return astype(n, np.promote_types(np.finfo(dtype_of(x)).dtype, np.float32))  # not all counts fit into float16


_MASK = np.array([[True, False, True], [True, True, True]])


@rule_of_primitives(np.mean, method="mean", cases=lambda s: [
    *reduction_cases(s), case(s(3, dtype=np.complex128)), case(s(3, dtype=np.float32), dtype=np.float64),
    case(s(0, 2), axis=1), case(s(2, 3), axis=0, where=_MASK),
])  # fmt: skip
def mean_rule(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING, *, where: Any = NOTHING
) -> tuple[Any, Pullback]:
    """``mean``: the sum over the number of elements."""
    a = operand(a)
    half = dtype is None and dtype_of(a) == np.float16  # NumPy sums these in single precision
    dtype = None if dtype is None else resolved_dtype(dtype)
    if dtype is not None and dtype.kind not in "fciub":
        raise unsupported(f"a mean in dtype={dtype}", "Convert the array with astype")
    whole = dtype is not None and dtype.kind not in "fc"  # then sums and quotients are whole numbers
    x = _inexact(a, np.float32 if half else None if whole else dtype)
    n = _count(x, axis, where, **given(keepdims=keepdims))
    if whole:
        total = np.sum(a, axis=axis, **given(dtype=dtype, keepdims=keepdims, where=where))
        return astype(np.divide(total, n), dtype), lambda dy: (None,)
    y = np.divide(_wide(np.sum(x, axis=axis, **given(keepdims=keepdims, where=where))), n)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dx = spread(np.divide(_wide(dy), n), shape_of(a), axis)
        return (dx if where is NOTHING else np.where(where, dx, 0),)

    return astype(y, np.dtype(np.float16)) if half else _narrow(y, x), pullback


def _wide(x: Any) -> Any:
    """Numbers of half precision in single: there may be more elements than its largest number."""
    return astype(x, np.dtype(np.float32)) if dtype_of(x) == np.float16 else x


def _narrow(y: Any, x: Any) -> Any:
    """A mean or deviation in the precision of the elements."""
    return astype(y, np.dtype(np.float16)) if dtype_of(x) == np.float16 else y


def _deviations(x: Any, axis: Axis, where: Any, mean: Any) -> Any:
    """The elements minus their mean; zero where a mask leaves them out."""
    d = np.subtract(x, mean_rule(x, axis, keepdims=True, where=where)[0] if mean is NOTHING else mean)
    return d if where is NOTHING else np.where(where, d, 0)


def _squares(d: Any) -> Any:
    if dtype_of(d).kind != "c":
        return np.multiply(d, d)
    return np.add(np.multiply(np.real(d), np.real(d)), np.multiply(np.imag(d), np.imag(d)))


def _variance(
    a: Any, axis: Axis, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, correction: Any
) -> tuple[Any, Any, Any]:
    """The variance, the deviations and the degrees of freedom (the last two as the pullbacks need them)."""
    a = operand(a)
    dtype = None if dtype is None else resolved_dtype(dtype)
    if dtype is not None and (dtype.kind != "f" or dtype_of(a).kind == "c"):
        raise unsupported(f"a variance of {dtype_of(a)} in dtype={dtype}", "Convert the array with astype")
    x = _inexact(a, dtype)
    d = _deviations(x, axis, where, mean)
    n = np.maximum(
        _count(x, axis, where, **given(keepdims=keepdims)) - (ddof if correction is NOTHING else correction), 0
    )
    n = n if where is not NOTHING else n.item()
    y = np.divide(_wide(np.sum(_squares(d), axis=axis, **given(keepdims=keepdims))), n)
    return y, d, n


_variance_cases: Cases = lambda s: [  # noqa: E731
    *_two_or_more(s), case(s(4), ddof=1), case(s(3, 4), axis=1, ddof=1), case(s(4), correction=1),
    case(s(3, dtype=np.complex128)), case(s(2, 3), axis=1, where=_MASK), case(s(3, dtype=np.float32), dtype=np.float64),
]  # fmt: skip


def _from_mean(fn: Any, root: bool) -> Any:
    """Written out where the mean that is given has a derivative of its own."""

    def written(
        a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = NOTHING, *,
        where: Any = NOTHING, mean: Any = NOTHING, correction: Any = NOTHING,
    ) -> Any:  # fmt: skip
        if not (is_traced(mean) and mean._carries()):
            return NotImplemented
        options = given(keepdims=keepdims, correction=correction)  # raises what NumPy raises
        fn(np.ones(shape_of(a)), axis, ddof=ddof, mean=np.zeros(shape_of(mean)), **options)
        y, d, _ = _variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
        if not root:
            return _narrow(y, d)
        nowhere = np.equal(y, 0)
        return _narrow(np.where(nowhere, 0, np.sqrt(np.where(nowhere, 1, y)))[()], d)

    return written


@rule_of_primitives(np.var, instead=_from_mean(np.var, root=False), method="var", cases=_variance_cases)
def var_rule(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = NOTHING, *,
    where: Any = NOTHING, mean: Any = NOTHING, correction: Any = NOTHING,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``var``: ``dx = 2 dy (x - mean) / n``; the mean's own part sums to zero."""
    y, d, n = _variance(a, axis, dtype, ddof, keepdims, where, mean, correction)

    def pullback(dy: Any) -> tuple[Any, ...]:
        return (np.multiply(spread(np.divide(np.multiply(_wide(dy), 2), n), shape_of(a), axis), d),)

    return _narrow(y, d), pullback


@rule_of_primitives(np.std, instead=_from_mean(np.std, root=True), method="std", cases=_variance_cases)
def std_rule(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = NOTHING, *,
    where: Any = NOTHING, mean: Any = NOTHING, correction: Any = NOTHING,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``std``: ``dx = dy (x - mean) / (n std)``, zero where all elements are equal, also if they differ from their
    mean, which is rounded."""
    variance, d, n = _variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
    y = np.sqrt(variance)
    has_own_mean = mean is NOTHING and dtype_of(d).kind == "f" and 0 not in shape_of(d)

    def pullback(dy: Any) -> tuple[Any, ...]:
        scale = y
        if has_own_mean:
            low, high = (d, d) if where is NOTHING else (np.where(where, d, limit) for limit in (-np.inf, np.inf))
            options = {"axis": axis, **given(keepdims=keepdims)}
            scale = np.where(np.equal(np.max(low, **options), np.min(high, **options)), 0, y)
        return (np.multiply(spread(zero_over_zero(np.divide(_wide(dy), n), scale), shape_of(a), axis), d),)

    return _narrow(y, d), pullback


def _aligned(weights: Any, shape: tuple[int, ...], axis: Axis) -> Any:
    """The weights with the axes of the array."""
    have = shape_of(weights)
    if have == shape or not have:
        return weights
    axes = axes_of(axis, len(shape))
    if axis is None or have != tuple(shape[i] for i in axes):
        raise TypeError(f"np.average: weights of shape {have} do not fit an array of shape {shape} and axis={axis}")
    turned = np.transpose(weights, tuple(int(i) for i in np.argsort(axes)))
    return np.reshape(turned, tuple(n if i in axes else 1 for i, n in enumerate(shape)))


@composite(np.average, cases=lambda s: [
    *reduction_cases(s), case(s(4), weights=s(4, low=0.5)), case(s(2, 3), weights=s(2, 3, low=0.5)),
    case(s(2, 3), 1, s(3, low=0.5)), case(s(2, 3), axis=0, weights=s(2, low=0.5)),
    case(s(2, 3, 4), axis=(2, 0), weights=s(4, 2, low=0.5)), case(s(2, 3), 1, s(3, low=0.5), keepdims=True),
    case(s(2, 3), 1, s(3, low=0.5), True), case(s(3), returned=True), case(s(3), None, s(3, low=0.5), True),
    case(s(3), None, [1.0, 2.0, 1.0]),
    case(s(3), 0, np.array([1, 2, 1])), case(s(3, dtype=np.complex128), 0, s(3, low=0.5)),
])  # fmt: skip
def _average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: Any = NOTHING) -> Any:
    a, shape = operand(a), shape_of(operand(a))
    options = given(keepdims=keepdims)
    if weights is None:
        y = np.mean(a, axis, **options)
        return (y, np.full(shape_of(y), count_along(shape, axis), dtype_of(y))[()]) if returned else y
    a, w = _inexact(a), _aligned(operand(weights), shape, axis)
    dtype = np.result_type(dtype_of(a), dtype_of(w))
    a, w = astype(a, dtype), astype(w, dtype)
    total = np.sum(w, axis=axis, **options)
    y = np.divide(np.sum(np.multiply(a, w), axis=axis, **options), total)
    return (y, total if shape_of(total) == shape_of(y) else np.broadcast_to(total, shape_of(y))) if returned else y


@composite(np.ptp, cases=_two_or_more)
def _ptp(a: Any, axis: Axis = None, out: None = None, keepdims: Any = NOTHING) -> Any:
    options = {"axis": axis, **given(keepdims=keepdims)}
    return np.subtract(np.max(a, **options), np.min(a, **options))


# ------------------------------------------------------------------------------------------ without NaNs


_with_nans: Cases = lambda s: [  # noqa: E731
    *_two_or_more(s), case(np.where(np.arange(6).reshape(2, 3) == 2, np.nan, s(2, 3)), axis=1),
]  # fmt: skip


def _sum(*args: Any) -> Any:
    """``np.sum``, also where the first value alone has a derivative, which NumPy does not look at."""
    traced = find_traced(args)
    return np.sum(*args) if traced is None else traced.__yota_record__(np.sum, args, {})


@composite(np.nansum, cases=lambda s: [*_with_nans(s), case(s(3), None, None, None, False, s.number())])
def _nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING, initial: Any = NOTHING,
    where: Any = NOTHING,
) -> Any:  # fmt: skip
    """NaN counts as zero."""
    return _sum(np.where(np.isnan(a), 0, a), axis, dtype, None, keepdims, initial, where)


@composite(np.nanmean, cases=_with_nans)
def _nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: Any = NOTHING, *, where: Any = NOTHING
) -> Any:
    """The mean of what is not NaN."""
    x, present = _inexact(a, dtype), np.logical_not(np.isnan(a))
    present = present if where is NOTHING else np.logical_and(present, where)
    n = _count(x, axis, present, **given(keepdims=keepdims))
    total = np.nansum(x, axis, **given(keepdims=keepdims, where=where))
    return _narrow(np.divide(_wide(total), n), total)


def _nan_deviation(fn: Any, deviation: Any) -> None:
    @composite(fn, cases=lambda s: [
        *_with_nans(s), case(s(4), ddof=1), case(s(2, 3), 1, where=_MASK), case(s(3), correction=1),
    ])  # fmt: skip
    def body(
        a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = NOTHING, *,
        where: Any = NOTHING, correction: Any = NOTHING,
    ) -> Any:  # fmt: skip
        """Of what is not NaN; NaN without degrees of freedom."""
        present, options = np.logical_not(np.isnan(a)), given(keepdims=keepdims)
        present = present if where is NOTHING else np.logical_and(present, where)
        ddof = ddof if correction is NOTHING else correction
        y = deviation(np.where(present, a, 0), axis, dtype, None, ddof, where=present, **options)
        return np.where(np.sum(present, axis=axis, **options) > ddof, y, np.nan)[()]


_nan_deviation(np.nanvar, np.var)
_nan_deviation(np.nanstd, np.std)


def _nan_extremum(fn: Any, extremum: Any, worst: float) -> None:
    def lowering(
        a: Any, axis: Axis = None, out: None = None, keepdims: Any = NOTHING, initial: Any = NOTHING,
        where: Any = NOTHING,
    ) -> Any:  # fmt: skip
        """NaN where there is nothing else."""
        options = {"axis": axis, **given(keepdims=keepdims, where=where)}
        if dtype_of(a).kind in "biu":
            return extremum(a, **options, **given(initial=initial))
        if dtype_of(a).kind != "f":
            return NotImplemented
        absent, first = np.isnan(a), initial
        empty = np.all(absent, **options)
        if initial is not NOTHING:
            empty, first = np.logical_and(empty, np.isnan(initial)), np.where(np.isnan(initial), worst, initial)
        y = extremum(np.where(absent, worst, a), **options, **given(initial=first))
        return like(np.where(empty, np.nan, y)[()], y)

    @rrule(fn, lowering=lowering, cases=_with_nans)
    def rule(
        a: Any, axis: Axis = None, out: None = None, keepdims: Any = NOTHING, initial: Any = NOTHING,
        where: Any = NOTHING,
    ) -> tuple[Any, Pullback]:  # fmt: skip
        """The extremum of what is not NaN; ties share the cotangent equally."""
        shape = shape_of(a)
        options = {"axis": axis, "initial": initial, **given(keepdims=keepdims, where=where)}
        y = lowering(a, **options)  # without another warning of what is nothing but NaN
        y = fn(a, **options) if y is NotImplemented else y

        def pullback(dy: Any) -> tuple[Any, ...]:
            one = dtype_of(a).type(1)
            ties = np.equal(a, keep(y, shape, axis))
            ties = ties if where is NOTHING else np.logical_and(ties, where)
            n = np.sum(np.where(ties, one, 0), axis=axis, keepdims=True)
            first = None if initial is NOTHING else np.where(np.equal(initial, y), one, 0)
            n = n if first is None else np.add(n, keep(first, shape, axis))
            share = zero_over_zero(keep(dy, shape, axis), n)
            dx = np.where(ties, share, 0)
            if first is None:
                return (dx,)
            return dx, None, None, None, np.multiply(np.reshape(share, shape_of(y)), first)

        return y, pullback


_nan_extremum(np.nanmax, np.max, -np.inf)
_nan_extremum(np.nanmin, np.min, np.inf)


# ---------------------------------------------------- differences along an axis, the area under a line


def _difference(a: Any, axis: int) -> Any:
    n = len(shape_of(a))
    minus = np.not_equal if dtype_of(a).kind == "b" else np.subtract  # as NumPy has it
    return minus(a[along(axis, n, slice(1, None))], a[along(axis, n, slice(None, -1))])


@composite(np.diff, cases=lambda s: [
    case(s(4)), case(s(4), 2), case(s(3, 4), axis=0), case(s(3, 4), 1, 1), case(s(4), n=0), case(s(1)),
    case(s(3), prepend=0.5), case(s(2, 3), axis=0, append=s(1, 3)), case(s(3), 1, -1, s.number(), s(2)),
    case(s(4, dtype=np.float32)), case(s(4, 3).T),
])  # fmt: skip
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NOTHING, append: Any = NOTHING) -> Any:
    y, shape = operand(a), shape_of(operand(a))
    if n < 0:
        raise ValueError(f"np.diff: the order must not be negative, it is {n}")
    if n == 0:  # whatever the ends and the axis are
        return y
    at = axis_of(axis, len(shape))
    line = (*shape[:at], 1, *shape[at + 1 :])
    first, last = (
        () if e is NOTHING or e is None else (e if shape_of(e) else np.broadcast_to(e, line),)
        for e in (prepend, append)
    )
    if first or last:
        y = np.concatenate((*first, y, *last), at)
    for _ in range(n):
        y = _difference(y, at)
    return y


@composite(np.trapezoid, cases=lambda s: [
    case(s(4)), case(s(2, 3)), case(s(2, 3), axis=0), case(s(4), s(4)), case(s(4), dx=0.5),
    case(s(3), None, s.number()), case(s(2, 3), s(3)), case(s(3, 2), s(3), axis=0), case(s(2, 3), s(2, 3)),
    case(s(4, dtype=np.float32)), case(s(3), s(2, 3)), case(s(3), None, s(4, 1)), case(s(2, 3), s(2, 2, 3), axis=-2),
])  # fmt: skip
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Means of neighbours times widths, summed."""
    y, shape = operand(y), shape_of(operand(y))
    at = axis_of(axis, len(shape))
    width = dx
    if x is not None:
        x = operand(x)
        in_line = len(shape_of(x)) == 1
        places = np.reshape(x, (-1, *(1,) * (len(shape) - at - 1))) if in_line else x
        width = _difference(places, 0 if in_line else axis_of(axis, len(shape_of(x))))
    upper, lower = along(at, len(shape), slice(1, None)), along(at, len(shape), slice(None, -1))
    area = np.multiply(width, np.divide(np.add(y[upper], y[lower]), 2))
    return np.sum(area, axis=axis_of(axis, len(shape_of(area))))  # which may have more dimensions than y
