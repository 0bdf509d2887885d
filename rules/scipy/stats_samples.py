"""Functions of samples in ``scipy.stats``: scores, moments, means."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import stats

from yota_py.base.dispatch import find_traced, is_traced
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Cases, Sample, case, nondiff
from yota_py.registry.tangents import astype

from ..support import count_along, dtype_of, inexact, shape_of, unsupported


def sampled(name: str, cases: Cases | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of the body of a function of samples: its arguments are those of SciPy's by name, those with
    values only; missing values are taken as they come. One that gives an object has no cases."""
    plain = getattr(stats, name)
    takes = inspect.signature(plain)

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def whole(*args: Any, **kwargs: Any) -> Any:
            given = takes.bind(*args, **kwargs).arguments
            if given.pop("nan_policy", "propagate") != "propagate":
                raise unsupported(f"scipy.stats.{name} with nan_policy=", "Take the missing values out before")
            with np.errstate(all="ignore"):
                return body(**given)

        @wraps(plain)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return (plain if find_traced((args, kwargs)) is None else whole)(*args, **kwargs)

        if cases is None:
            patch(stats, name, stand_in)
        else:
            expanded(patch(stats, name), cases=cases)(whole)
        return body

    return register


_SAMPLES: Cases = lambda s: [  # noqa: E731
    case(s(5)), case(s(5, 2).T, -1), case(s(2, 3, dtype=np.float32), axis=None), case([0.5, 1.0, 2.5, 3.2]),
]  # fmt: skip


def _also(*more: Callable[[Sample], Any], base: Cases = _SAMPLES) -> Cases:
    return lambda s: [*base(s), *(draw(s) for draw in more)]


def _positive(s: Sample) -> Any:
    """Positive samples, with the keyword of weights."""
    yield from (case(abs(c.args[0]) + 0.1, *c.args[1:], **c.kwargs) for c in _SAMPLES(s) if type(c.args[0]) is not list)
    yield case(s(4, low=0.5), weights=s(4, low=0.5))
    yield case(s(2, 3, low=0.5), axis=1, keepdims=True)


def _eps(x: Any) -> float:
    return float(np.finfo(dtype_of(x)).eps)


def _about(a: Any, order: int, axis: Any, center: Any = None, keepdims: bool = True) -> Any:
    center = np.mean(a, axis=axis, keepdims=True) if center is None else center
    return np.mean((a - center) ** order, axis=axis, keepdims=keepdims)


# ------------------------------------------------------------------------------------------------------------- scores


def _scores(scores: Any, compare: Any, axis: Any, ddof: int, same: bool) -> Any:
    mean = np.mean(compare, axis=axis, keepdims=True)
    std = np.std(compare, axis=axis, ddof=ddof, keepdims=True)
    z = (scores - mean) / std
    return np.where(std <= np.abs(_eps(z) * mean), np.nan, z) if same else z


@sampled("zscore", _also(lambda s: case(s(4), ddof=1)))
def _zscore(a: Any, axis: Any = 0, ddof: int = 0) -> Any:
    a = inexact(a)
    return _scores(a, a, axis, ddof, same=True)


@sampled("zmap", lambda s: [case(s(3), s(5)), case(s(2, 3), s(4, 3), 0, 1), case(s(3), s(3, 4), axis=None)])
def _zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0) -> Any:
    return _scores(inexact(scores), inexact(compare), axis, ddof, same=scores is compare)


@sampled("gzscore", lambda s: [case(s(5, low=0.5)), case(s(2, 3, low=0.5), axis=1, ddof=1)])
def _gzscore(a: Any, axis: Any = 0, ddof: int = 0) -> Any:
    a = np.log(inexact(a))
    return _scores(a, a, axis, ddof, same=True)


# ------------------------------------------------------------------------------------------------------------ moments


@sampled("moment", lambda s: [
    case(s(5), 3), case(s(5), 2, center=0.5), case(s(5), [2, 3]), case(s(2, 3), 4, axis=1, keepdims=True), case(s(4)),
])  # fmt: skip
def _moment(a: Any, order: Any = 1, axis: Any = 0, center: Any = None, keepdims: bool = False) -> Any:
    a = inexact(a)
    if np.ndim(order):
        return np.stack([_moment(a, n, axis, center, keepdims) for n in order])
    if order == 1 and center is None:
        return 0.0 * np.mean(a, axis=axis, keepdims=keepdims)
    return _about(a, order, axis, center, keepdims)


def _standardized(a: Any, n: int, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    """The standardized n-th moment, and where it is defined."""
    m2 = _about(a, 2, axis, keepdims=keepdims)
    zero = m2 <= (_eps(m2) * np.mean(a, axis=axis, keepdims=keepdims)) ** 2
    return np.where(zero, np.nan, _about(a, n, axis, keepdims=keepdims) / m2 ** (n / 2)), zero


@sampled("skew", lambda s: [
    case(s(5)), case(s(2, 4), 1, bias=False, keepdims=True), case(s(2, 3, dtype=np.float32), axis=None),
])  # fmt: skip
def _skew(a: Any, axis: Any = 0, bias: bool = True, keepdims: bool = False) -> Any:
    a = inexact(a)
    y, n = _standardized(a, 3, axis, keepdims)[0], count_along(shape_of(a), axis)
    return (y if bias or n <= 2 else math.sqrt((n - 1.0) * n) / (n - 2.0) * y)[()]


@sampled("kurtosis", lambda s: [
    case(s(5), fisher=False), case(s(2, 5), 1, True, False), case(s(2, 3, dtype=np.float32), axis=None),
])  # fmt: skip
def _kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, keepdims: bool = False) -> Any:
    a = inexact(a)
    y, n = _standardized(a, 4, axis, keepdims)[0], count_along(shape_of(a), axis)
    if not bias and n > 3:
        y = 1.0 / (n - 2) / (n - 3) * ((n**2 - 1.0) * y - 3 * (n - 1) ** 2.0) + 3.0
    return (y - 3 if fisher else y)[()]


@sampled("sem", _also(lambda s: case(s(5), ddof=0)))
def _sem(a: Any, axis: Any = 0, ddof: int = 1, keepdims: bool = False) -> Any:
    a = inexact(a)
    return np.std(a, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(count_along(shape_of(a), axis))


@sampled("variation", _also(lambda s: case(s(5, low=0.5), ddof=1)))
def _variation(a: Any, axis: Any = 0, ddof: int = 0, keepdims: bool = False) -> Any:
    a = inexact(a)
    n, mean = count_along(shape_of(a), axis), np.mean(a, axis=axis, keepdims=keepdims)
    std = np.std(a, axis=axis, keepdims=keepdims)
    if n == ddof:
        return np.where(std > 0, np.copysign(np.inf, mean), np.nan)[()]
    return std * (n / (n - ddof)) ** 0.5 / mean


@sampled("gstd", lambda s: [case(s(5, low=0.5)), case(s(2, 4, low=0.5), 1, 0), case(s(2, 3, low=0.5), keepdims=True)])
def _gstd(a: Any, axis: Any = 0, ddof: int = 1, keepdims: bool = False) -> Any:
    return np.exp(np.std(np.log(inexact(a)), axis=axis, ddof=ddof, keepdims=keepdims))


@sampled("describe", lambda s: [case(s(5), 0, 0, False)])
def _describe(a: Any, axis: Any = 0, ddof: int = 1, bias: bool = True) -> Any:
    a = inexact(a)
    n = np.int64(count_along(shape_of(a), axis))
    extremes = np.min(a, axis=axis), np.max(a, axis=axis)
    mean, var = np.mean(a, axis=axis), np.var(a, axis=axis, ddof=ddof)
    skew, kurtosis = _skew(a, axis, bias), _kurtosis(a, axis, bias=bias)
    return type(stats.describe([0.0, 1.0]))(n, extremes, mean, var, skew, kurtosis)


@sampled("kstat", lambda s: [case(s(5), n) for n in (1, 2, 3, 4)] + [case(s(5, 2), axis=0)])
def _kstat(data: Any, n: int = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """Unbiased estimates of the cumulants, by central moments."""
    data = inexact(data)
    N = count_along(shape_of(data), axis)
    if n == 1:
        return np.mean(data, axis=axis, keepdims=keepdims)
    m2 = _about(data, 2, axis, keepdims=keepdims)
    if n == 2:
        return m2 * (N / (N - 1))
    if n == 3:
        return _about(data, 3, axis, keepdims=keepdims) * (N * N / ((N - 1) * (N - 2)))
    m4 = _about(data, 4, axis, keepdims=keepdims)
    return N * N * ((N + 1) * m4 - 3 * (N - 1) * m2**2) / ((N - 1) * (N - 2) * (N - 3))


# -------------------------------------------------------------------------------------------------------------- means


def _averaged(a: Any, weights: Any, axis: Any, keepdims: bool) -> Any:
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    weights = np.broadcast_to(inexact(weights), shape_of(a))
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    return np.sum(a * weights, axis=axis, keepdims=keepdims) / total


@sampled("gmean", _positive)
def _gmean(a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, keepdims: bool = False) -> Any:
    return np.exp(_averaged(np.log(inexact(a)), weights, axis, keepdims))


@sampled("hmean", _positive)
def _hmean(a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, keepdims: bool = False) -> Any:
    a = inexact(a)
    return 1.0 / _averaged(1.0 / np.where(a < 0, np.nan, a), weights, axis, keepdims)


@sampled("pmean", lambda s: [case(s(5, low=0.5), p) for p in (3, 0.5, 0)] + [case(s(2, 3, low=0.5), 2, axis=1)])
def _pmean(a: Any, p: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, keepdims: bool = False) -> Any:
    if p == 0:
        if is_traced(p):
            raise unsupported("scipy.stats.pmean at p=0", "Take gmean")
        return _gmean(a, axis, dtype, weights, keepdims)
    a = inexact(a)
    return _averaged(np.where(a < 0, np.nan, a) ** (1.0 * p), weights, axis, keepdims) ** (1 / p)


def _inside(a: Any, limits: Any, inclusive: Any) -> Any:
    low, high = limits or (None, None)
    ok = np.isfinite(a) | True
    for limit, closed, ops in ((low, inclusive[0], (np.greater, np.greater_equal)),
                               (high, inclusive[1], (np.less, np.less_equal))):  # fmt: skip
        ok = ok if limit is None else np.logical_and(ok, ops[bool(closed)](a, limit))
    return ok


_limited: Cases = lambda s: [  # noqa: E731
    case(s(5)), case(s(6), (-1.5, 1.5)), case(s(6), (None, 1.5), (True, False)), case(s(4, 3), axis=0),
]  # fmt: skip


@sampled("tmean", _limited)
def _tmean(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = None, keepdims: bool = False) -> Any:
    a = inexact(a)
    ok = _inside(a, limits, inclusive)
    n = np.sum(ok, axis=axis, keepdims=keepdims)
    return astype(np.sum(np.where(ok, a, 0.0), axis=axis, keepdims=keepdims) / n, dtype_of(a))


def _trimmed(a: Any, limits: Any, inclusive: Any, axis: Any, ddof: int, keepdims: bool) -> tuple[Any, Any]:
    a = inexact(a)
    ok = np.logical_and(_inside(a, limits, inclusive), np.logical_not(np.isnan(a)))
    n = np.sum(ok, axis=axis, keepdims=True)
    mean = np.sum(np.where(ok, a, 0.0), axis=axis, keepdims=True) / n
    d = np.where(ok, a - astype(mean, dtype_of(a)), 0.0)
    n = np.sum(ok, axis=axis, keepdims=keepdims)
    return astype(np.sum(d * d, axis=axis, keepdims=keepdims) / (n - ddof), dtype_of(a)), n


@sampled("tvar", _limited)
def _tvar(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1,
          keepdims: bool = False) -> Any:  # fmt: skip
    return _trimmed(a, limits, inclusive, axis, ddof, keepdims)[0]


@sampled("tstd", _limited)
def _tstd(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1,
          keepdims: bool = False) -> Any:  # fmt: skip
    return np.sqrt(_trimmed(a, limits, inclusive, axis, ddof, keepdims)[0])


@sampled("tsem", _limited)
def _tsem(a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1,
          keepdims: bool = False) -> Any:  # fmt: skip
    var, n = _trimmed(a, limits, inclusive, axis, ddof, keepdims)
    return astype(np.sqrt(var) / np.sqrt(n), dtype_of(var))


@sampled("trim_mean", lambda s: [case(s(6), 0.2), case(s(5, 2), 0.3), case(s(2, 6), 0.2, axis=1), case(s(6), 0.0)])
def _trim_mean(a: Any, proportiontocut: float, axis: Any = 0, keepdims: bool = False) -> Any:
    a = inexact(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    n = shape_of(a)[axis]
    cut = int(proportiontocut * n)
    kept = np.moveaxis(np.sort(a, axis=axis), axis, 0)[cut : n - cut]
    y = np.mean(kept, axis=0)
    return np.expand_dims(y, axis) if keepdims else y


@sampled("iqr", lambda s: [
    case(s(7)), case(s(0)), case(s(3, 4), 1, (10, 80)), case(s(5), scale="normal"),
    case(s(5), scale=2.0, keepdims=True),
])  # fmt: skip
def _iqr(x: Any, axis: Any = None, rng: Any = (25, 75), scale: Any = 1.0, interpolation: Any = "linear",
         keepdims: bool = False) -> Any:  # fmt: skip
    scale = {"normal": 1.3489795003921634}[scale.lower()] if isinstance(scale, str) else scale
    x, (low, high) = inexact(x), sorted(rng)
    if axis is None and 0 in shape_of(x) and not keepdims:
        return np.sum(x) * np.nan
    parts = [np.quantile(x, q / 100, axis=axis, method=interpolation, keepdims=keepdims) for q in (high, low)]
    return (parts[0] - parts[1]) / scale


@sampled("median_abs_deviation", _also(lambda s: case(s(5), scale="normal"), lambda s: case(s(5), center=np.mean)))
def _median_abs_deviation(x: Any, axis: Any = 0, center: Any = np.median, scale: Any = 1.0,
                          keepdims: bool = False) -> Any:  # fmt: skip
    scale = 0.6744897501960817 if scale == "normal" else scale
    x = inexact(x)
    middle = center(x, axis=axis)
    middle = middle if axis is None else np.expand_dims(middle, axis)
    return np.median(np.abs(x - middle), axis=axis, keepdims=keepdims) / scale


nondiff(patch(stats, "rankdata"), cases=lambda s: [case(s(5)), case(s(2, 3), "min", axis=1)])
