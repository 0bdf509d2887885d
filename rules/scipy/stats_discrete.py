"""Discrete distributions of ``scipy.stats``, in their parameters. In the points they are steps, whose slope is zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats._distn_infrastructure import rv_discrete, rv_sample

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch, through
from yota_py.registry.registry import Cases, case, nondiff

from ..support import stop_gradient
from .stats import known, valued
from .stats_private import asked_for, distribution_function, known_as, known_by_value, method, values

_PROBABILITIES: Cases = lambda s: [  # noqa: E731
    case(stats.poisson, np.array([0, 2, 3]), s(3, low=0.5)),
    case(stats.binom, np.array([[0], [2]]), 4, s(3, low=0.2, high=0.8)),
    case(stats.geom, 2, s.number(0.2, 0.8), loc=-1),
]  # fmt: skip


def _parsed(dist: Any, k: Any, args: Any, kwds: Any) -> tuple[Any, Any, Any]:
    """The point, the parameters, and where these are valid."""
    args, loc, _ = dist._parse_args(*args, **kwds)
    k, loc, *args = map(known, (k, loc, *args))
    return stop_gradient(k - loc), args, dist._argcheck(*args)


def _mass(name: str, outside: float) -> None:
    @expanded(patch(rv_discrete, name), cases=_PROBABILITIES)
    @through
    def body(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        with np.errstate(all="ignore"):
            k, args, ok = _parsed(self, k, args, kwds)
            a, b = self._get_support(*args)
            inside = np.logical_and(k >= a, k <= b)
            if not isinstance(self, rv_sample):
                inside = np.logical_and(inside, self._nonzero(k, *args))
            return valued(ok, k, np.where(inside, getattr(self, "_" + name)(k, *args), outside))


def _distribution(name: str, below: float, above: float) -> None:
    @expanded(patch(rv_discrete, name), cases=_PROBABILITIES)
    @through
    def body(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        with np.errstate(all="ignore"):
            k, args, ok = _parsed(self, k, args, kwds)
            a, b = self._get_support(*args)
            y = getattr(self, "_" + name)(k, *args)
            y = valued(ok, k, np.where(k >= b, above, np.where(k < a, below, y)))
            return np.where(k >= b, above, y)[()] if name == "logcdf" else y  # SciPy's, for invalid parameters


for _name, _outside in [("pmf", 0.0), ("logpmf", -np.inf)]:
    _mass(_name, _outside)
for _name, _below, _above in [
    ("cdf", 0.0, 1.0), ("logcdf", -np.inf, 0.0), ("sf", 1.0, 0.0), ("logsf", 0.0, -np.inf),
]:  # fmt: skip
    _distribution(_name, _below, _above)
for _name in ("ppf", "isf"):
    nondiff(patch(rv_discrete, _name), cases=lambda s: [
        case(stats.poisson, s(3, low=0.1, high=0.9), s(3, low=0.5)), case(stats.binom, s.number(0.1, 0.9), 4, 0.3),
    ])  # fmt: skip

# ------------------------------------------------------------------------------- distributions that are compiled code

known_by_value(rv_discrete, "_cdf")  # a sum
known_by_value(type(stats.hypergeom), "_logcdf")
known_by_value(type(stats.hypergeom), "_logsf")


def _method(dist: Any, name: str) -> Callable[..., Any]:
    return method(type(dist), name)


def _by_logarithm(dist: Any) -> None:
    known = nondiff(values(type(dist), "_pmf"))

    @_method(dist, "_pmf")
    def body(self: Any, k: Any, *args: Any) -> Any:
        return known_as(known(self, k, *args), np.exp(self._logpmf(k, *args)))


def _by_parameter(dist: Any, slope: Callable[..., Any]) -> None:
    """The distribution function, by its slope in the last parameter; there is no formula for the others."""
    for name, sign in [("_cdf", 1), ("_sf", -1)]:
        _with_slope(dist, name, sign, slope)


def _with_slope(dist: Any, name: str, sign: int, slope: Callable[..., Any]) -> None:
    known = nondiff(values(type(dist), name))

    @_method(dist, name)
    def body(self: Any, k: Any, *args: Any) -> Any:
        k = np.floor(k)
        y, last = known(self, k, *args), sign * slope(self, k, *args)
        return distribution_function(y, args[-1], last, *args[:-1], **asked_for(self, name))


_by_logarithm(stats.binom)
_by_logarithm(stats.nbinom)
# DLMF 8.17 and 8.4: the derivatives of the incomplete beta and gamma functions in their last argument.
_by_parameter(stats.binom, lambda self, k, n, p: -(n - k) * self._pmf(k, n, p) / (1 - p))
_by_parameter(stats.nbinom, lambda self, k, n, p: (n + k) * self._pmf(k, n, p) / p)
_by_parameter(stats.poisson, lambda self, k, mu: -np.exp(self._logpmf(k, mu)))


@_method(stats.nbinom, "_logcdf")
def _nbinom_logcdf(self: Any, k: Any, n: Any, p: Any) -> Any:
    y = self._cdf(k, n, p)
    return np.where(y > 0.5, np.log1p(-self._sf(k, n, p)), np.log(y))


@_method(stats.nbinom, "_stats")
def _nbinom_stats(self: Any, n: Any, p: Any) -> Any:
    q = 1 - p
    return n * q / p, n * q / p**2, (1 + q) / np.sqrt(n * q), 6 / n + p**2 / (n * q)


def _chances(k: Any, args: Any) -> tuple[Any, Any]:
    """The chances of 0 ... n successes in trials of these probabilities (Biscarri, Zhao & Brunner 2018), and k."""
    k, *args = np.broadcast_arrays(k, *args)
    chances = np.ones((1, *np.shape(k)))
    none = np.zeros((1, *np.shape(k)))
    for p in args:
        chances = np.concatenate([chances * (1 - p), none]) + np.concatenate([none, chances * p])
    return chances, np.clip(k, 0, len(args)).astype(int)[None]


@_method(stats.poisson_binom, "_pmf")
def _poisson_binom_pmf(self: Any, k: Any, *args: Any) -> Any:
    chances, k = _chances(k, args)
    return np.take_along_axis(chances, k, 0)[0]


@_method(stats.poisson_binom, "_cdf")
def _poisson_binom_cdf(self: Any, k: Any, *args: Any) -> Any:
    chances, k = _chances(k, args)
    return np.take_along_axis(np.cumsum(chances, axis=0), k, 0)[0]
