"""Private methods of distributions of ``scipy.stats`` that are compiled code, integrals and searches for roots.

With the density p and the distribution function F(x; theta), dF/dx = p, and the quantile x of q has dx/dq = 1/p,
dx/dtheta = -(dF/dtheta) / p (the implicit function theorem; Figurnov, Mohamed & Mnih 2018).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import scipy.special._ufuncs as compiled
from scipy import special, stats
from scipy.stats._distn_infrastructure import rv_continuous, rv_discrete, rv_frozen, rv_generic

from yota_py.base.ownership import users_frame
from yota_py.errors import MissingRuleError
from yota_py.registry.patches import patch, through
from yota_py.registry.registry import case, nondiff, primitive, vjps
from yota_py.registry.tangents import strong_multiply
from yota_py.tape.operations import user_site

from ..elementwise import elementwise

LOG_2_PI = math.log(2 * math.pi)


def values(owner: type, name: str) -> Callable[..., Any]:
    """A private method as a function of arrays or numbers that is called where it is defined; NaN elsewhere."""
    fn = getattr(owner, name)

    @primitive
    def method(self: Any, x: Any, *args: Any) -> Any:
        x, *rest = np.broadcast_arrays(x, *args)
        if name in ("_ppf", "_isf"):
            within = (x > 0) & (x < 1)
        elif isinstance(self, rv_discrete) or name == "_pdf":
            within = self._support_mask(x, *rest)
        else:
            within = self._open_support_mask(x, *rest)
        inside = np.logical_and(within, self._argcheck(*rest))
        y = np.full(x.shape, np.nan)
        if inside.any():
            y[inside] = fn(self, x[inside], *(arg[inside] for arg in rest))
        return y[()]

    method.__name__ = name
    return method


# ------------------------------------------------------------------ what is known is a value, and how it changes


@primitive
def known_as(y: Any, x: Any) -> Any:
    """``x``, whose value is known better to be ``y``."""
    return y


@primitive
def without_formula(y: Any, *args: Any, of: str = "", names: str = "") -> Any:
    """``y``, which depends on ``args`` in a way that is not known; ``of`` is what the user called, with its line."""
    return y


@primitive
def distribution_function(y: Any, x: Any, slope: Any, *args: Any, of: str = "", names: str = "") -> Any:
    """``y``, which grows by ``slope`` with ``x``; how it depends on ``args`` is not known."""
    return y


def asked_for(self: Any, name: str, *before: str) -> dict[str, str]:
    """The keywords of those above: the method of a distribution that the user has called, by which SciPy comes to this
    private one, and the names of its arguments."""
    found, user = name.removeprefix("_"), users_frame(sys._getframe(1))
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not user:
        known = frame.f_locals  # a body that serves several methods knows the name of its own
        method = str(known.get("name") if frame.f_code.co_name == "body" else frame.f_code.co_name).removeprefix("_")
        if isinstance(known.get("self"), rv_generic | rv_frozen) and hasattr(self, method):
            found = method
        frame = frame.f_back
    return {"of": f"{user_site()}: scipy.stats.{self.name}.{found}", "names": ", ".join([*before, self.shapes or ""])}


def _refused(i: int) -> Callable[..., Any]:
    """The formula for the i-th of the arguments in which there is no derivative."""

    def formula(dy: Any, y: Any, *args: Any, of: str = "", names: str = "") -> Any:
        name = (names.split(", ") + [str(i)] * (i + 1))[i]
        raise MissingRuleError(
            f"{of or user_site()} has no derivative in its argument {name}: SciPy computes it by an integral or in "
            "compiled code, and no formula is known. Make that a constant, yota_py.stop_gradient(x), or write in the "
            "place of the call what has one, such as a weighted sum over points of what is integrated"
        )

    return formula


_REFUSED = [_refused(i) for i in range(8)]


@primitive
def solved(y: Any, x: Any, q: Any, f: Any, slope: Any) -> Any:
    """``x + (q - f) / slope``, a step of Newton's where ``q`` is ``f``, so that it is ``x``, which is ``y``."""
    return y


_first: Any = {"lowering": lambda y, *_, **names: y}
vjps(known_as, None, lambda dy, y, value, x: dy, **_first, cases=lambda s: [case(np.arange(3), np.arange(3.0))])
vjps(without_formula, None, *_REFUSED, **_first, cases=lambda s: [case(np.arange(3), 2)])
vjps(distribution_function, None, lambda dy, y, value, x, slope, *args, **names: strong_multiply(dy, slope), None,
     *_REFUSED, **_first,
     cases=lambda s: [case(np.zeros(3, int), np.arange(3), np.zeros(3))])  # fmt: skip
vjps(solved, None, lambda dy, y, value, x, q, f, slope: dy,
     lambda dy, y, value, x, q, f, slope: strong_multiply(dy, 1 / slope),
     lambda dy, y, value, x, q, f, slope: strong_multiply(dy, -1 / slope), None, **_first,
     cases=lambda s: [case(np.arange(3), np.arange(3), 2, 2, np.arange(1.0, 4.0))])  # fmt: skip


def implicit(self: Any, x: Any, q: Any, f: str, args: Any) -> Any:
    """The x at which a distribution function is q, which is known, with its derivatives up to the third order: a step
    of Newton's from a constant has the first, and each further step doubles the order."""
    y, sign = x, 1 if f == "_cdf" else -1
    for _ in range(2):
        y = solved(x, y, q, getattr(self, f)(y, *args), sign * self._pdf(y, *args))
    return y


# ------------------------------------------------------------------------------------------------------- the methods


def method(owner: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of what stands for a method while it is traced through: no operation of its own."""
    inner = name.startswith("_") and not name.startswith("__")
    return lambda body: patch(owner, name, through(body), inner=inner)


def known_by_value(owner: type, name: str) -> None:
    """A method that is differentiated in nothing, as there is no formula."""
    known = nondiff(values(owner, name))

    @method(owner, name)
    def body(self: Any, x: Any, *args: Any) -> Any:
        return without_formula(known(self, x, *args), x, *args, **asked_for(self, name, "x"))


def _distribution(owner: type, name: str) -> None:
    known, sign = nondiff(values(owner, name)), -1 if name == "_sf" else 1

    @method(owner, name)
    def body(self: Any, x: Any, *args: Any) -> Any:
        y, slope = known(self, x, *args), sign * self._pdf(x, *args)
        return distribution_function(y, x, slope, *args, **asked_for(self, name))


def _quantile(owner: type, name: str) -> None:
    known = nondiff(values(owner, name))

    @method(owner, name)
    def body(self: Any, q: Any, *args: Any) -> Any:
        return implicit(self, known(self, q, *args), q, "_cdf" if name == "_ppf" else "_sf", args)


_GENERIC: list[tuple[type, str]] = [(rv_continuous, "cdf"), (rv_generic, "ppf")]
_COMPILED = {
    "beta": "ppf", "cauchy": "ppf isf", "cosine": "cdf sf ppf isf", "genexpon": "ppf isf", "genhyperbolic": "cdf sf",
    "geninvgauss": "cdf", "invgauss": "ppf isf", "irwinhall": "pdf cdf sf", "ksone": "pdf cdf sf ppf isf",
    "kstwo": "pdf cdf sf ppf isf", "kstwobign": "pdf cdf sf ppf isf", "landau": "pdf cdf sf ppf isf",
    "levy_stable": "pdf cdf", "ncf": "pdf cdf sf ppf isf", "nct": "pdf cdf sf ppf isf", "ncx2": "cdf sf ppf isf",
    "norminvgauss": "sf isf", "skewnorm": "cdf ppf isf", "studentized_range": "pdf cdf", "truncnorm": "ppf isf",
   "vonmises": "cdf",
}  # fmt: skip
_KINDS = {"pdf": known_by_value, "cdf": _distribution, "sf": _distribution, "ppf": _quantile, "isf": _quantile}
for _owner, _name in _GENERIC + [
    (type(getattr(stats, dist)), name) for dist, names in _COMPILED.items() for name in names.split()
    if f"_{name}" in vars(type(getattr(stats, dist)))
]:  # fmt: skip
    _KINDS[_name](_owner, f"_{_name}")

# ---------------------------------------------------------------------------- formulas in the place of compiled code


def _by_logarithm(owner: type) -> None:
    known = nondiff(values(owner, "_pdf"))

    @method(owner, "_pdf")
    def body(self: Any, x: Any, *args: Any) -> Any:
        return known_as(known(self, x, *args), np.exp(self._logpdf(x, *args)))


for _owner in map(type, (stats.beta, stats.ncx2, stats.genhyperbolic)):
    _by_logarithm(_owner)


@method(type(stats.genhyperbolic), "_logpdf")
def _genhyperbolic_logpdf(self: Any, x: Any, p: Any, a: Any, b: Any) -> Any:
    """Barndorff-Nielsen 1977, with K scaled by the exponential of its argument."""
    t, h = np.sqrt((a - b) * (a + b)), np.hypot(1, x)
    const = p * np.log(t) - 0.5 * LOG_2_PI - (p - 0.5) * np.log(a) - np.log(special.kve(p, t)) + t
    return const + (p - 0.5) * np.log(h) + np.log(special.kve(p - 0.5, a * h)) - a * h + b * x


@method(type(stats.geninvgauss), "_logpdf")
def _geninvgauss_logpdf(self: Any, x: Any, p: Any, b: Any) -> Any:
    """Jorgensen 1982."""
    return (p - 1) * np.log(x) - b * (x + 1 / x) / 2 - np.log(2 * special.kve(p, b)) + b


def _by_halves(name: str, f: str, other: str) -> None:
    """The logarithm of one of F and 1 - F, beyond the median by the other one."""

    @method(rv_continuous, name)
    def body(self: Any, x: Any, *args: Any) -> Any:
        y = getattr(self, f)(x, *args)
        return np.where(y < 0.5, np.log(y), np.log1p(-getattr(self, other)(x, *args)))


_by_halves("_logcdf", "_cdf", "_sf")
_by_halves("_logsf", "_sf", "_cdf")

elementwise(compiled._log1mexp, lambda y, x: -1 / np.expm1(-x), on=[(-2.0, -0.2)])
