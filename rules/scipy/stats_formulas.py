"""Private methods of distributions of ``scipy.stats`` that decide by values, or whose shape parameter has a value at
which SciPy takes another formula: written so that they have derivatives there, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.stats._continuous_distns as continuous
from scipy import special, stats

from yota_py.registry.patches import patch
from yota_py.registry.registry import nondiff, primitive

from .stats_private import distribution_function, implicit, known_as, method, values


def _method(dist: Any, name: str) -> Callable[..., Any]:
    return method(type(dist), name)


# --------------------------------------------- (1 + c x)**(1/c) and its inverse, which are exp and log where c is zero

_LOGARITHM = [(-1) ** n / (n + 1) for n in range(9)]
_EXPONENTIAL = [1 / math.factorial(n + 1) for n in range(9)]


def _series(coefficients: Sequence[float], x: Any) -> Any:
    y: Any = 0.0
    for coefficient in reversed(coefficients):
        y = coefficient + x * y
    return y


def _over(c: Any, x: Any, f: Callable[[Any], Any], series: Sequence[float]) -> Any:
    """``f(c * x) / c`` and its limit, by the series of ``f(u) / u`` where u is small."""
    small = np.logical_or(np.abs(c * x) < 0.01, np.equal(c, 0))
    u = np.where(np.logical_and(small, np.isfinite(x)), c * x, 0.0)
    return np.where(small, x * _series(series, u), f(c * x) / np.where(small, 1.0, c))


def _log(c: Any, x: Any) -> Any:
    return _over(c, x, np.log1p, _LOGARITHM)


def _exp(c: Any, x: Any) -> Any:
    return _over(c, x, np.expm1, _EXPONENTIAL)


@_method(stats.genpareto, "_logpdf")
def _genpareto_logpdf(self: Any, x: Any, c: Any) -> Any:
    return np.where(np.logical_and(np.equal(c, -1), np.equal(x, 1)), 0.0, -(c + 1) * _log(c, x))


@_method(stats.genpareto, "_logsf")
def _genpareto_logsf(self: Any, x: Any, c: Any) -> Any:
    return -_log(c, x)


@_method(stats.genextreme, "_loglogcdf")
def _genextreme_loglogcdf(self: Any, x: Any, c: Any) -> Any:
    return -_log(-c, x)


@_method(stats.genextreme, "_logpdf")
def _genextreme_logpdf(self: Any, x: Any, c: Any) -> Any:
    cx = np.where(np.logical_and(np.equal(c, 0), np.isinf(x)), 0.0, c * x)
    y = self._loglogcdf(x, c)
    inside = np.logical_and(np.isfinite(np.exp(y)), np.not_equal(cx, 1))
    inside = np.logical_and(inside, np.not_equal(cx, -np.inf))
    end = np.where(np.logical_and(np.equal(c, 1), np.equal(x, 1)), 0.0, -np.inf)
    return np.where(inside, y - np.exp(y) - np.log1p(-cx), end)


@_method(stats.genextreme, "_ppf")
def _genextreme_ppf(self: Any, q: Any, c: Any) -> Any:
    return _exp(-c, -np.log(-np.log(q)))


@_method(stats.genextreme, "_isf")
def _genextreme_isf(self: Any, q: Any, c: Any) -> Any:
    return _exp(-c, -np.log(-np.log1p(-q)))


# Of the moments of (1 - E**c) / c, where E is exponential: E[E**(n c)] = Gamma(1 + n c), and with the series of its
# logarithm (DLMF 5.7.3), log Gamma(1 + n c) - n log Gamma(1 + c) = c**2 B_n(c) for small c.

_TERMS = range(2, 20)
_MANY = {n: [special.zeta(k) * (-1) ** k * (n**k - n) / k for k in _TERMS] for n in (2, 3, 4)}
_THIRD = [b3 - 3 * b2 for b2, b3 in zip(_MANY[2], _MANY[3], strict=True)][1:]
_FOURTH = [b4 - 4 * b3 + 6 * b2 for b2, b3, b4 in zip(_MANY[2], _MANY[3], _MANY[4], strict=True)][2:]
_FIRST = [-np.euler_gamma, *(special.zeta(k) * (-1) ** k / k for k in _TERMS)]
_BEYOND = [1 / math.factorial(n + 2) for n in range(9)]  # of (exp(u) - 1 - u) / u**2


def _moments_of_small(c: Any) -> tuple[Any, Any, Any, Any]:
    """Mean, variance, skewness and excess kurtosis for shapes next to zero, by the cumulants of ``E**c``."""
    first = _series(_FIRST, c)
    b2, b3, b4 = (_series(_MANY[n], c) for n in (2, 3, 4))
    e2, e3, e4 = (b**2 * _series(_BEYOND, c * c * b) for b in (b2, b3, b4))  # (exp(c**2 b) - 1 - c**2 b) / c**4
    second = b2 + c * c * e2
    third = -(_series(_THIRD, c) + c * (e3 - 3 * e2))
    fourth = _series(_FOURTH, c) + e4 - 4 * e3 + 6 * e2 - 3 * second**2
    mean = -first * _series(_EXPONENTIAL, c * first)
    return mean, np.exp(2 * c * first) * second, third / second**1.5, fourth / second**2


_stats_of_genextreme = type(stats.genextreme)._stats


@_method(stats.genextreme, "_stats")
def _genextreme_stats(self: Any, c: Any) -> Any:
    small = np.abs(c) < 0.02
    others = _stats_of_genextreme(self, np.where(small, 0.1, c))
    near = _moments_of_small(np.where(small, c, 0.0))
    return tuple(np.where(small, x, y) for x, y in zip(near, others, strict=True))


@_method(stats.kappa4, "_logcdf")
def _kappa4_logcdf(self: Any, x: Any, h: Any, k: Any) -> Any:
    return -_log(-h, np.exp(-_log(-k, x)))


def _less_one(c: Any, x: Any) -> Any:
    """The logarithm of ``(1 - c x)**(1/c - 1)``."""
    cx = np.where(np.logical_and(np.equal(c, 0), np.isinf(x)), 0.0, c * x)
    end = special.xlog1py(1 / np.where(np.equal(c, 0), 1.0, c) - 1, -1.0)
    return np.where(np.equal(cx, 1), end, -_log(-c, x) - np.log1p(-cx))


@_method(stats.kappa4, "_logpdf")
def _kappa4_logpdf(self: Any, x: Any, h: Any, k: Any) -> Any:
    return _less_one(k, x) + _less_one(h, np.exp(-_log(-k, x)))


@_method(stats.kappa4, "_ppf")
def _kappa4_ppf(self: Any, q: Any, h: Any, k: Any) -> Any:
    return -_exp(k, np.log(-_exp(h, np.log(q))))


@_method(stats.truncpareto, "_munp")
def _truncpareto_munp(self: Any, n: Any, b: Any, c: Any) -> Any:
    return b * c**n * _exp(b - n, np.log(c)) / (c**b - 1)


# ----------------------------------------------------------------------------------------- the truncated normal


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability of an interval, which is turned to the left if it lies on the right."""
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    top = special.log_ndtr(high)
    tail = top + np.log(-np.expm1(special.log_ndtr(low) - top))
    return np.where(high <= 0, tail, np.log1p(-special.ndtr(a) - special.ndtr(-b)))


patch(continuous, "_log_gauss_mass", _log_mass)


def _truncated(name: str, parts: Callable[[Any, Any, Any], tuple[Any, Any]]) -> None:
    """Near one, the logarithm of a probability by the other one."""

    @_method(stats.truncnorm, name)
    def body(self: Any, x: Any, a: Any, b: Any) -> Any:
        whole = _log_mass(a, b)
        y, other = (part - whole for part in parts(x, a, b))
        return np.where(y > -0.1, np.log1p(-np.exp(other)), y)


_truncated("_logcdf", lambda x, a, b: (_log_mass(a, x), _log_mass(x, b)))
_truncated("_logsf", lambda x, a, b: (_log_mass(x, b), _log_mass(a, x)))


def _truncated_moments(a: Any, b: Any, order: int) -> list[Any]:
    """Moments about zero by integration by parts: m[k] = (k-1) m[k-2] + a**(k-1) p(a) - b**(k-1) p(b)."""
    whole, moments = np.exp(_log_mass(a, b)), [1.0]
    ends = [(end, stats.norm._pdf(end) / whole) for end in (a, b)]
    for k in range(1, order + 1):
        low, high = (np.where(np.isfinite(end), end, 0.0) ** (k - 1) * p for end, p in ends)
        moments.append(low - high + (0.0 if k == 1 else (k - 1) * moments[k - 2]))
    return moments


@_method(stats.truncnorm, "_stats")
def _truncnorm_stats(self: Any, a: Any, b: Any, moments: str = "mv") -> Any:
    _, m1, m2, m3, m4 = _truncated_moments(a, b, 4)
    v = m2 - m1 * m1
    skew = (m3 - 3 * m1 * m2 + 2 * m1**3) / v**1.5
    return m1, v, skew, (m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4) / v**2 - 3.0


@_method(stats.truncnorm, "_munp")
def _truncnorm_munp(self: Any, n: int, a: Any, b: Any) -> Any:
    return _truncated_moments(a, b, n)[n]


# ----------------------------------------------------------------------------- Pearson's third kind, kappa3, erlang


def _everywhere(owner: type, name: str) -> Callable[..., Any]:
    """A private method of SciPy's as a function of arrays or numbers, also at the ends of the support and beyond."""
    fn = vars(owner)[name]

    @nondiff
    @primitive
    def method(self: Any, x: Any, *args: Any) -> Any:
        x, *rest = np.broadcast_arrays(x, *args)
        with np.errstate(all="ignore"):
            return np.reshape(fn(self, np.ravel(x), *map(np.ravel, rest)), np.shape(x))[()]

    method.__name__ = name
    return method


NEAR = 0.01  # the skewness below which the gamma distribution has lost half of the digits


def _pearson3(name: str, sign: int, of_gamma: Callable[..., Any]) -> None:
    """A gamma distribution; where that cancels, the slope in the skewness that Edgeworth's expansion has. The values
    are SciPy's."""
    known = _everywhere(type(stats.pearson3), name)

    @_method(stats.pearson3, name)
    def body(self: Any, x: Any, skew: Any) -> Any:
        near = np.abs(skew) < NEAR
        k, beta = np.where(near, skew, 0.0), 2 / np.where(near, 1.0, skew)
        none = 0.0 * (x + skew)
        y = distribution_function(none, x, sign * self._pdf(x, skew))
        y = y + distribution_function(none, k, -sign * _edgeworth(x, k))
        return known_as(known(self, x, skew), np.where(near, y, of_gamma(x, beta, beta * beta)))


def _gamma_cdf(x: Any, beta: Any, alpha: Any) -> Any:
    z = beta * x + alpha
    return np.where(beta > 0, stats.gamma.cdf(z, alpha), stats.gamma.sf(z, alpha))


def _gamma_sf(x: Any, beta: Any, alpha: Any) -> Any:
    z = beta * x + alpha
    return np.where(beta > 0, stats.gamma.sf(z, alpha), stats.gamma.cdf(z, alpha))


def _edgeworth(x: Any, k: Any) -> Any:
    """The slope of 1 - F in the skewness k, up to its third power in F: the cumulants are ``(r - 1)! (k / 2)^(r - 2)``
    (Kolassa 2006, "Series Approximation Methods in Statistics", chapter 3)."""
    he = [special.eval_hermitenorm(n, x) for n in range(9)]
    second, third = he[3] / 16 + he[5] / 72, he[4] / 40 + he[6] / 96 + he[8] / 1296
    return stats.norm._pdf(x) * (he[2] / 6 + 2 * k * second + 3 * k * k * third)


_pearson3("_cdf", 1, _gamma_cdf)
_pearson3("_sf", -1, _gamma_sf)
_known_ppf = nondiff(values(type(stats.pearson3), "_ppf"))


@_method(stats.pearson3, "_ppf")
def _pearson3_ppf(self: Any, q: Any, skew: Any) -> Any:
    return implicit(self, _known_ppf(self, q, skew), q, "_cdf", (skew,))


_known_logpdf = _everywhere(type(stats.pearson3), "_logpdf")


@_method(stats.pearson3, "_logpdf")
def _pearson3_logpdf(self: Any, x: Any, skew: Any) -> Any:
    """``x^2 (log(1 + u) - u) / u^2 - log(1 + u)`` with u = skew x / 2, and what is left of Stirling's formula for the
    gamma function of 4 / skew^2; far from zero that of the gamma distribution."""
    near = np.abs(skew) < 0.2
    k, beta = np.where(near, skew, 0.0), 2 / np.where(near, 1.0, skew)
    u, z = np.where(k * x > -2, k * x / 2, 0.0), k * k / 4
    rest = z / 12 - z**3 / 360 + z**5 / 1260 - z**7 / 1680
    small = np.abs(u) < 0.02
    v, w = np.where(small, u, 0.0), np.where(small, 1.0, u)
    series: Any = 0.0
    for n in range(12, 1, -1):
        series = (-1) ** (n + 1) / n + v * series
    squared = x * x * np.where(small, series, (np.log1p(w) - w) / (w * w))
    alpha = beta * beta
    far = np.log(np.abs(beta)) + stats.gamma.logpdf(beta * x + alpha, alpha)
    y = np.where(near, squared - np.log1p(u) - rest - 0.5 * math.log(2 * math.pi), far)
    return known_as(_known_logpdf(self, x, skew), y)


@_method(stats.pearson3, "_pdf")
def _pearson3_pdf(self: Any, x: Any, skew: Any) -> Any:
    y = np.exp(self._logpdf(x, skew))
    return np.where(np.isnan(y), 0.0, y)


_known_ncx2 = _everywhere(type(stats.ncx2), "_logpdf")


@_method(stats.ncx2, "_logpdf")
def _ncx2_logpdf(self: Any, x: Any, df: Any, nc: Any) -> Any:
    """Where nc is zero, that of chi-square and what a small nc adds."""
    central, z = np.equal(nc, 0), np.where(x > 0, x, 1.0)
    mixed = continuous._ncx2_log_pdf(z, df, np.where(central, 1.0, nc))
    alone = stats.chi2._logpdf(z, df) + nc * (z / df - 1) / 2
    return known_as(_known_ncx2(self, x, df, nc), np.where(central, alone, mixed))


@_method(stats.kappa3, "_sf")
def _kappa3_sf(self: Any, x: Any, a: Any) -> Any:
    """Where it is small, by the formula that does not cancel."""
    y = 1.0 - x * (a + x**a) ** (-1.0 / a)
    tail = -np.expm1(special.xlog1py(-1.0 / a, a * x**-a))
    return np.where(np.logical_and(y < 0.01, np.logical_not(tail > 0.01)), tail, y)


@_method(stats.trapezoid, "_ppf")
def _trapezoid_ppf(self: Any, q: Any, c: Any, d: Any) -> Any:
    width = 1 + d - c
    left, middle, right = np.sqrt(q * c * width), 0.5 * (q * width + c), 1 - np.sqrt((1 - q) * width * (1 - d))
    return np.where(q < c / width, left, np.where(q <= (2 * d - c) / width, middle, right))


@_method(stats.erlang, "_argcheck")
def _erlang_argcheck(self: Any, a: Any) -> Any:
    """SciPy warns where the shape is no integer."""
    return a > 0


# --------------------------------------------------- the skew normal distribution, whose shape is zero as a rule


def _log_normal(x: Any) -> Any:
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


@_method(stats.skewnorm, "_pdf")
def _skewnorm_pdf(self: Any, x: Any, a: Any) -> Any:
    return 2.0 * np.exp(_log_normal(x)) * special.ndtr(a * x)


@_method(stats.skewnorm, "_logpdf")
def _skewnorm_logpdf(self: Any, x: Any, a: Any) -> Any:
    return math.log(2) + _log_normal(x) + special.log_ndtr(a * x)


# What SciPy keeps from its first use on, which may be in a trace.
_ODD_MOMENTS = {order: polynomial.coef for order, polynomial in stats.skewnorm._skewnorm_odd_moments.items()}


@_method(stats.skewnorm, "_munp")
def _skewnorm_munp(self: Any, order: int, a: Any) -> Any:
    if order % 2 == 0:
        return special.factorial2(order - 1) if order else 1
    if order not in _ODD_MOMENTS:
        raise NotImplementedError("skewnorm noncentral moments not implemented for odd orders greater than 19.")
    delta = a / np.sqrt(1 + a * a)
    return delta * np.polyval(_ODD_MOMENTS[order][::-1], delta * delta) * math.sqrt(2 / math.pi)
