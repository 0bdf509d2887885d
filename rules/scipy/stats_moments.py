"""Moments, entropies, intervals and random variates of the distributions of ``scipy.stats``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats._distn_infrastructure import _moment_from_stats, rv_continuous, rv_discrete, rv_frozen, rv_generic

from yota_py.base.dispatch import original, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch, states, through
from yota_py.registry.registry import Cases, case, nondiff, primitive

from ..support import inexact, shape_of, strong, unsupported
from .stats_private import asked_for, implicit, method, without_formula

NAN = np.float64(np.nan)  # moments are in double precision, whatever the parameters are

_PARAMETERS: Cases = lambda s: [  # noqa: E731
    case(stats.gamma, s(3, low=0.5)), case(stats.norm, s.number(), s.number(0.5, 2.0)), case(stats.expon, scale=s(2)),
    case(stats.uniform, s(2, 1, dtype=np.float32), s(3, low=0.5)),
]  # fmt: skip


def _valid(dist: Any, args: Any, loc: Any, scale: Any) -> tuple[Any, Any, Any, Any]:
    loc, scale, *args = map(strong, (loc, scale, *args))
    if isinstance(dist, rv_continuous):
        args = list(map(inexact, args))  # negative powers of integers are errors
    ok = np.logical_and(np.logical_and(dist._argcheck(*args), scale > 0), loc == loc)
    return args, loc, scale, ok


def _central(dist: Any, args: Any, moments: str) -> dict[str, Any]:
    """Mean, variance, skewness and excess kurtosis of the standard distribution, which it says itself, or by its
    moments about zero."""
    given = {"moments": moments} if dist._stats_has_moments else {}
    mu, mu2, g1, g2 = dist._stats(*args, **given)
    about = {n: dist._munp(n, *args) for n in range(1, 5) if _needed(n, moments, mu, mu2, g1, g2)}
    mu = about.get(1, mu)
    if 2 in about:
        mu2 = np.where(np.isinf(mu), np.inf, about[2] - mu * mu)
    if 3 in about:
        mu3 = about[3] - (mu * mu + 3 * mu2) * mu
        g1 = mu3 / np.power(mu2, 1.5) if g1 is None else g1
    if 4 in about:
        mu3 = mu3 if g1 is None or 3 in about else g1 * np.power(mu2, 1.5)
        g2 = (about[4] - ((mu**2 + 6 * mu2) * mu + 4 * mu3) * mu) / mu2**2 - 3.0
    return {"m": mu, "v": mu2, "s": g1, "k": g2}


def _needed(n: int, moments: str, mu: Any, mu2: Any, g1: Any, g2: Any) -> bool:
    """Whether the n-th moment about zero is needed for those that are wanted and not given."""
    wanted = {"m": mu, "v": mu2, "s": g1, "k": g2}
    missing = {"mvsk".index(m) + 1 for m in moments if wanted[m] is None}
    given = (mu, mu2, g1, g2)[n - 1] is not None
    return n in missing or (not given and any(n < other for other in missing))


@expanded(patch(rv_generic, "stats"), cases=lambda s: [
    case(stats.gamma, s.number(0.5, 2.0), moments="mvsk"), case(stats.norm, s(2), s(2, low=0.5), moments="v"),
    case(stats.uniform, s(2, 1, dtype=np.float32), s(3, low=0.5)),
])  # fmt: skip
@through
def _stats(self: Any, *args: Any, **kwds: Any) -> Any:
    with np.errstate(all="ignore"):
        args, loc, scale, moments = self._parse_args_stats(*args, **kwds)
        args, loc, scale, ok = _valid(self, args, loc, scale)
        known = _central(self, args, moments)
        scaled = {"m": lambda y: y * scale + loc, "v": lambda y: y * scale * scale}
        out = [np.where(ok, scaled.get(m, lambda y: y)(known[m]), NAN)[()] for m in "mvsk" if m in moments]
        return out[0] if len(out) == 1 else tuple(out)


@expanded(patch(rv_generic, "entropy"), cases=_PARAMETERS)
@through
def _entropy(self: Any, *args: Any, **kwds: Any) -> Any:
    with np.errstate(all="ignore"):
        args, _, scale, ok = _valid(self, *self._parse_args(*args, **kwds))
        return np.where(ok, _entropies(self, args) + np.log(scale), NAN)[()]


def _entropies(self: Any, args: Sequence[Any]) -> Any:
    """Of each set of parameters, one after the other, as in SciPy."""
    shape = np.broadcast_shapes(*map(shape_of, args))
    if not shape:
        return self._entropy(*args)
    args = [np.broadcast_to(x, shape) for x in args]
    known = [self._entropy(*(x[i] for x in args)) for i in np.ndindex(shape)]
    return np.reshape(np.stack(known), shape) if known else np.zeros(shape)


@expanded(patch(rv_generic, "moment"), cases=lambda s: [
    case(stats.gamma, 1, s(3, low=0.5)), case(stats.expon, 3, s(2), s.number(0.5, 1.0)),
    case(stats.norm, 2, scale=s(2)),
])  # fmt: skip
@through
def _moment(self: Any, order: int, *args: Any, **kwds: Any) -> Any:
    """E (loc + scale y)**n by the moments of y."""
    if order < 0 or order != int(order):
        return original(rv_generic.moment)(self, order, *shadow(args), **shadow(kwds))
    with np.errstate(all="ignore"):
        args, loc, scale, ok = _valid(self, *self._parse_args(*args, **kwds))
        moments = {1: "m", 2: "v", 3: "vs", 4: "mvsk"}.get(order, "")
        given = (None,) * 4
        if moments:
            given = self._stats(*args, **({"moments": moments} if self._stats_has_moments else {}))
        total: Any = 0.0
        for k in range(order + 1):
            y = _moment_from_stats(k, *given, self._munp, args) * scale**k
            if k < order:  # infinite ones do not count where loc is zero
                counts = np.logical_or(np.isfinite(y), loc != 0)
                y = np.where(counts, y * math.comb(order, k) * loc ** (order - k), 0.0)
            total = total + y
        return np.where(ok, total, NAN)[()]


def _integrated(owner: type, name: str, of: str) -> None:
    """What SciPy finds by an integral over all points has no formula for its derivatives."""

    @nondiff
    @primitive
    def known(self: Any, *args: Any) -> Any:
        return getattr(self, of)(*args)

    known.__name__ = name

    @method(owner, name)
    def body(self: Any, *args: Any) -> Any:
        before = ["order"] if name == "_munp" else []
        return without_formula(known(self, *args), *args, **asked_for(self, name, *before))


_integrated(rv_continuous, "_entropy", "vecentropy")
_integrated(rv_discrete, "_entropy", "vecentropy")
_integrated(rv_generic, "_munp", "generic_moment")

expanded(patch(rv_generic, "interval"), cases=lambda s: [
    case(stats.norm, 0.9, s.number(), s.number(0.5, 2.0)), case(stats.expon, s(2, low=0.5, high=0.9)),
])(through(rv_generic.interval))  # fmt: skip


@expanded(patch(rv_generic, "support"), cases=lambda s: [
    case(stats.uniform, s(3), s(2, 1, low=0.5)), case(stats.arcsine, s.number(), scale=2.0),
])  # fmt: skip
@through
def _support(self: Any, *args: Any, **kwds: Any) -> Any:
    args, loc, scale, ok = _valid(self, *self._parse_args(*args, **kwds))
    return tuple([np.where(ok, end * scale + loc, np.nan)[()] for end in self._get_support(*args)])


# What a frozen distribution answers depends on, besides the draws of its generator.
states[rv_frozen] = lambda frozen: (type(frozen.dist), frozen.dist.a, frozen.dist.b, frozen.args, frozen.kwds)

# A distribution that is frozen asks for the support at once.
method(rv_frozen, "__init__")(rv_frozen.__init__)


# --------------------------------------------------------------------------------------------------- random variates


@method(rv_generic, "rvs")
def _rvs(self: Any, *args: Any, random_state: Any = None, **kwds: Any) -> Any:
    """A standard variate, scaled and shifted; it depends on shape parameters as a quantile of fixed probability does
    (Figurnov, Mohamed & Mnih 2018)."""
    kwds.pop("discrete", None)
    if isinstance(self, rv_discrete):
        raise unsupported(f"rvs of {self.name}, a discrete distribution,", "Draw with yota_py.stop_gradient(x)")
    args, loc, scale, size = self._parse_args_rvs(*args, **kwds)
    plain = shadow(tuple(args))
    draw = original(rv_generic.rvs)
    draw(self, *plain, shadow(loc), shadow(scale), size=size, random_state=0)  # raises what SciPy raises
    x = draw(self, *plain, size=size, random_state=random_state)
    with np.errstate(all="ignore"):
        return (implicit(self, x, 0.0, "_cdf", args) if args else x) * scale + loc
