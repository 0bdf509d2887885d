"""Private methods of distributions of ``scipy.stats`` that are written with the absolute value of ``x``, and are smooth
at zero all the same, in derivatives of all orders.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special, stats

from ..support import dtype_of
from .stats_private import distribution_function, method

_LOG_PI = math.log(math.pi)


def _size(x: Any, smooth: Any = True) -> Any:
    """``abs(x)``, at zero with the slope that it has on the right, where what is made of it is ``smooth``."""
    return np.where(np.logical_and(np.equal(x, 0), smooth), x + 0.0, np.abs(x))


@method(type(stats.logistic), "_logpdf")
def _logistic_logpdf(self: Any, x: Any) -> Any:
    y = -_size(x)
    return y - 2.0 * np.log1p(np.exp(y))


@method(type(stats.genlogistic), "_logpdf")
def _genlogistic_logpdf(self: Any, x: Any, c: Any) -> Any:
    size = _size(x)
    return np.log(c) + np.where(x < 0, -c, -1) * size - (c + 1) * np.log1p(np.exp(-size))


@method(type(stats.cauchy), "_logpdf")
def _cauchy_logpdf(self: Any, x: Any) -> Any:
    x = np.abs(x) if dtype_of(x).kind == "c" else x  # as SciPy has it
    near = np.abs(x) < 1
    small, large = np.where(near, x, 0.0), np.where(near, 1.0, np.abs(x))
    return -_LOG_PI - np.where(near, np.log1p(small * small), 2 * np.log(large) + np.log1p((1 / large) ** 2))


@method(type(stats.gennorm), "_logpdf")
def _gennorm_logpdf(self: Any, x: Any, beta: Any) -> Any:
    return np.log(0.5 * beta) - special.gammaln(1.0 / beta) - _size(x, beta > 1) ** beta


@method(type(stats.gennorm), "_cdf")
def _gennorm_cdf(self: Any, x: Any, beta: Any) -> Any:
    """At zero 1/2 for every ``beta``; the power and the gamma function have no slope of their own there."""
    centre = np.equal(x, 0)
    away = np.where(centre, 1.0, x)
    c = 0.5 * np.sign(away)
    y = (0.5 + c) - c * special.gammaincc(1.0 / beta, np.abs(away) ** beta)
    return np.where(centre, 0.5 + distribution_function(0.0 * x, x, self._pdf(x, beta)), y)


@method(type(stats.gennorm), "_ppf")
def _gennorm_ppf(self: Any, q: Any, beta: Any) -> Any:
    centre = np.equal(q, 0.5)
    away = np.where(centre, 0.75, q)
    c = np.sign(away - 0.5)
    y = c * special.gammainccinv(1.0 / beta, (1.0 + c) - 2.0 * c * away) ** (1.0 / beta)
    return np.where(centre, distribution_function(0.0 * q, q, 1 / self._pdf(0.0 * q, beta)), y)


@method(type(stats.dweibull), "_pdf")
def _dweibull_pdf(self: Any, x: Any, c: Any) -> Any:
    size = _size(x, c > 2)
    return c / 2.0 * size ** (c - 1.0) * np.exp(-(size**c))


def _left(x: Any) -> Any:
    """``abs(x)``, at zero with the slope that it has on the left."""
    return np.where(x > 0, x, -x)


@method(type(stats.dweibull), "_cdf")
def _dweibull_cdf(self: Any, x: Any, c: Any) -> Any:
    half = 0.5 * np.exp(-(_left(x) ** c))
    return np.where(x > 0, 1 - half, half)


@method(type(stats.dweibull), "_sf")
def _dweibull_sf(self: Any, x: Any, c: Any) -> Any:
    half = 0.5 * np.exp(-(_left(x) ** c))
    return np.where(x > 0, half, 1 - half)


@method(type(stats.dgamma), "_pdf")
def _dgamma_pdf(self: Any, x: Any, a: Any) -> Any:
    size = _size(x, a > 2)
    return 1.0 / (2 * special.gamma(a)) * size ** (a - 1.0) * np.exp(-size)
