"""Tests and regressions of ``scipy.stats``: their statistics, with p-values by the densities of what these have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.stats import _stats_py

from yota_py.base.dispatch import find_traced
from yota_py.registry.registry import nondiff, primitive
from yota_py.registry.tangents import astype

from ..support import count_along, dtype_of, inexact, shape_of, unsupported
from .stats_private import distribution_function
from .stats_samples import sampled

_KINDS = {"less": -1, "two-sided": 0, "greater": 1}


@nondiff
@primitive
def _probability(t: Any, alternative: str, name: str, *shapes: Any) -> Any:
    dist = getattr(stats, name)(*shapes, **({"loc": -1, "scale": 2} if name == "beta" else {}))
    return {"less": dist.cdf, "greater": dist.sf, "two-sided": lambda t: 2 * dist.sf(abs(t))}[alternative](t)


def _pvalue(t: Any, alternative: str, density: Any, name: str, *shapes: Any) -> Any:
    """The probability of a larger statistic, whose slope is the density of the statistic."""
    sign = {"less": 1.0, "greater": -1.0, "two-sided": -2 * np.sign(t)}[alternative]
    p = distribution_function(_probability(t, alternative, name, *shapes), t, sign * density, *shapes)
    return astype(p, dtype_of(t))


def _of_t(t: Any, df: Any, alternative: str) -> Any:
    """By Student's density; the degrees of freedom may depend on the samples, as Welch's do."""
    if find_traced((df,)) is not None:
        tail = {"less": t, "greater": -t}.get(alternative, -np.abs(t))
        return astype(special.stdtr(df, tail), dtype_of(t)) * (1.0 if alternative in ("less", "greater") else 2.0)
    log = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * np.log(df * math.pi)
    return _pvalue(t, alternative, np.exp(log - (df + 1) / 2 * np.log1p(t * t / df)), "t", df)


@sampled("pearsonr", None)
def _pearsonr(x: Any, y: Any, alternative: str = "two-sided", method: Any = None, axis: Any = 0) -> Any:
    x, y = inexact(x), inexact(y)
    x, y, axis = (np.ravel(x), np.ravel(y), 0) if axis is None else (x, y, axis)
    dx, dy = (v - np.mean(v, axis=axis, keepdims=True) for v in (x, y))
    r = np.sum(dx * dy, axis=axis) / np.sqrt(np.sum(dx * dx, axis=axis) * np.sum(dy * dy, axis=axis))
    n = shape_of(x)[axis]
    ab = n / 2 - 1
    log = math.lgamma(2 * ab) - 2 * math.lgamma(ab) - (2 * ab - 1) * math.log(2) if n > 2 else np.nan
    p = _pvalue(r, alternative, np.exp(log + (ab - 1) * np.log1p(-r * r)), "beta", ab, ab)
    return _stats_py.PearsonRResult(statistic=r, pvalue=p, n=n, alternative=alternative, x=x, y=y, axis=axis)


@sampled("linregress", None)
def _linregress(x: Any, y: Any, alternative: str = "two-sided") -> Any:
    x, y = (np.multiply(np.float64(1), inexact(v)) for v in (x, y))  # as covariances are, of single precision too
    n, dx, dy = shape_of(x)[0], x - np.mean(x), y - np.mean(y)
    xx, xy, yy = np.mean(dx * dx), np.mean(dx * dy), np.mean(dy * dy)
    r, slope, df = xy / np.sqrt(xx * yy), xy / xx, n - 2
    p = _of_t(r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20))), df, alternative)
    error = np.sqrt((1 - r * r) * yy / xx / df)
    return _stats_py.LinregressResult(
        slope=slope, intercept=np.mean(y) - slope * np.mean(x), rvalue=r, pvalue=p, stderr=error,
        intercept_stderr=error * np.sqrt(xx + np.mean(x) ** 2),
    )  # fmt: skip


def _tested(t: Any, df: Any, alternative: str, error: Any, estimate: Any) -> Any:
    df = df if dtype_of(df).kind == "i" else astype(df, dtype_of(t))
    dfs = np.broadcast_to(df, shape_of(t))[()]
    return _stats_py.TtestResult(t, _of_t(t, df, alternative), df=dfs, alternative=_KINDS[alternative],
                                 standard_error=error, estimate=estimate)  # fmt: skip


def _one_sample(a: Any, popmean: Any, axis: Any, alternative: str) -> Any:
    n, mean = count_along(shape_of(a), axis), np.mean(a, axis=axis)
    popmean = np.squeeze(popmean, axis=axis) if shape_of(popmean) else popmean
    error = np.sqrt(np.var(a, axis=axis, ddof=1) / n)
    return _tested((mean - popmean) / error, n - 1, alternative, error, mean)


@sampled("ttest_1samp", None)
def _ttest_1samp(a: Any, popmean: Any, axis: Any = 0, alternative: str = "two-sided") -> Any:
    return _one_sample(inexact(a), popmean, axis, alternative)


@sampled("ttest_rel", None)
def _ttest_rel(a: Any, b: Any, axis: Any = 0, alternative: str = "two-sided") -> Any:
    return _one_sample(inexact(a) - inexact(b), 0.0, axis, alternative)


@sampled("ttest_ind", None)
def _ttest_ind(a: Any, b: Any, axis: Any = 0, equal_var: bool = True, alternative: str = "two-sided", trim: float = 0,
               method: Any = None) -> Any:  # fmt: skip
    """Student's test, or Welch's."""
    if trim or method is not None:
        raise unsupported("scipy.stats.ttest_ind with trim= or method=", "Take the plain test")
    a, b = inexact(a), inexact(b)
    a, b, axis = (np.ravel(a), np.ravel(b), 0) if axis is None else (a, b, axis)
    n, m = count_along(shape_of(a), axis), count_along(shape_of(b), axis)
    u, v = np.var(a, axis=axis, ddof=1), np.var(b, axis=axis, ddof=1)
    if equal_var:
        df: Any = n + m - 2.0
        error = np.sqrt(((n - 1) * u + (m - 1) * v) / df * (1.0 / n + 1.0 / m))
    else:
        df = (u / n + v / m) ** 2 / ((u / n) ** 2 / (n - 1) + (v / m) ** 2 / (m - 1))
        error = np.sqrt(u / n + v / m)
    d = np.mean(a, axis=axis) - np.mean(b, axis=axis)
    return _tested(d / error, df, alternative, error, d)
