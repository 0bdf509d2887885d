"""Public methods of the continuous distributions of ``scipy.stats``.

One body serves all distributions: SciPy's own masks, as ``np.where``, around the distribution's private method, which
is traced through. So nothing is decided by values, and what lies outside of the support has no slope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy._lib.array_api_extra as xpx
import scipy.stats._continuous_distns as continuous
import scipy.stats._discrete_distns as discrete
import scipy.stats._distn_infrastructure as infrastructure
from scipy import stats
from scipy._lib import _util
from scipy.stats._distn_infrastructure import rv_continuous

from yota_py.base.dispatch import find_traced, original
from yota_py.registry.composites import expanded
from yota_py.registry.constants import made_of_numbers
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import Cases, case
from yota_py.registry.tangents import astype

from ..support import dtype_of, shape_of, stop_gradient, strong
from . import namespaces as namespaces  # what the code that is traced through asks for
from .families import signed

open_to_traces(infrastructure, continuous, discrete)

FLOAT = np.dtype(np.float64)


# ------------------------------------------------------------------- what SciPy's code calls, without in-place writes


def _apply_where(
    cond: Any, args: Any, f1: Callable[..., Any], f2: Callable[..., Any] | None = None, /, *, fill_value: Any = None,
    xp: Any = None,
) -> Any:  # fmt: skip
    args = [*map(signed, args)] if isinstance(args, tuple) else [signed(args)]
    with np.errstate(all="ignore"):  # SciPy calls each where it counts
        return np.where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazyselect(conditions: Any, choices: Any, arrays: Any, default: Any = 0) -> Any:
    """The last condition that holds decides, as in SciPy's loop."""
    out, rows = default, [np.atleast_1d(x) for x in arrays]
    for condition, choice in zip(conditions, choices, strict=False):
        out = np.where(condition, choice(*rows), out)
    return np.reshape(out, np.broadcast_shapes(*map(shape_of, arrays)))


patch(xpx, "apply_where", _apply_where)
patch(_util, "_lazyselect", _lazyselect)

# ------------------------------------------------------------------------------------------------- the public methods


def known(x: Any) -> Any:
    """An argument as a number of NumPy's or an array; methods of the user's, where one may meet traced values, get a
    list of numbers as a constant."""
    y = strong(x)
    return made_of_numbers(y[()], (x,)) if y is not x and type(y) is np.ndarray else y


def parsed(dist: Any, x: Any, args: Any, kwds: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The point, the shape parameters, location and scale as arrays, and where the parameters are valid."""
    args, loc, scale = dist._parse_args(*args, **kwds)
    x, loc, scale, *args = map(known, (x, loc, scale, *args))
    return x, args, loc, scale, np.logical_and(dist._argcheck(*args), scale > 0)


def standardized(x: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    wide = np.promote_types(dtype_of(z), FLOAT)  # complex numbers stay complex, as in SciPy
    return z if dtype_of(z) == wide else astype(z, wide)


def valued(ok: Any, z: Any, y: Any) -> Any:
    """NaN where the parameters are invalid or the point is NaN; complex if the point is."""
    y = astype(y, dtype_of(z)) if dtype_of(z).kind == "c" else y
    return np.where(np.logical_and(ok, np.logical_not(np.isnan(z))), y, np.nan)[()]


def _within(mask: Any, z: Any, a: Any, b: Any) -> Any:
    """Points outside of the support, whose values do not count, as one inside: formulas may have no derivatives
    there."""
    a, b = stop_gradient(a), stop_gradient(b)
    finite = np.isfinite(a), np.isfinite(b)
    if find_traced(finite) is None and not np.any(finite):
        return z
    middle = np.where(finite[0], np.where(finite[1], 0.5 * (a + b), a + 1.0), np.where(finite[1], b - 1.0, 0.0))
    return np.where(mask, z, middle)[()]


_points: Cases = lambda s: [  # noqa: E731
    case(stats.norm, s(2, 3), s(3), scale=2.0), case(stats.norm, s(3, dtype=np.float32), 0.5, s(1, low=0.5)),
    case(stats.weibull_min, s.number(0.2, 2.0), s.number(1.2, 2.0)), case(stats.logistic, s(0)),
]  # fmt: skip
_shares: Cases = lambda s: [  # noqa: E731
    case(stats.norm, s(2, 3, low=0.1, high=0.9), s(3), scale=2.0), case(stats.norm, 0.3, s(2), s(1, low=0.5)),
    case(stats.weibull_min, s.number(0.2, 0.8), s.number(1.2, 2.0)), case(stats.logistic, s(0)),
]  # fmt: skip


def _density(name: str, outside: float) -> None:
    @expanded(patch(rv_continuous, name), cases=_points)
    @through
    def body(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        with np.errstate(all="ignore"):
            x, args, loc, scale, ok = parsed(self, x, args, kwds)
            z = standardized(x, loc, scale)
            mask = self._support_mask(z, *args)
            y = getattr(self, "_" + name)(_within(mask, z, *self._get_support(*args)), *args)
            y = y / scale if name == "pdf" else y - np.log(scale)
            return valued(ok, z, np.where(mask, y, outside))


def _distribution(name: str, below: float, above: float) -> None:
    @expanded(patch(rv_continuous, name), cases=_points)
    @through
    def body(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        with np.errstate(all="ignore"):
            x, args, loc, scale, ok = parsed(self, x, args, kwds)
            z = standardized(x, loc, scale)
            a, b = self._get_support(*args)
            high, low = z >= b, z <= a
            y = getattr(self, "_" + name)(_within(np.logical_not(np.logical_or(high, low)), z, a, b), *args)
            return valued(ok, z, np.where(high, above, np.where(low, below, y)))


def _quantile(name: str) -> None:
    plain = getattr(rv_continuous, name)

    @expanded(patch(rv_continuous, name), cases=_shares)
    @through
    def body(self: Any, q: Any, *args: Any, **kwds: Any) -> Any:
        with np.errstate(all="ignore"):
            q, args, loc, scale, ok = parsed(self, q, args, kwds)
            if find_traced((q, *args)) is None:
                y = original(plain)(self, q, *args)
            else:
                a, b = self._get_support(*args)
                low, high = (a, b) if name == "ppf" else (b, a)
                y = np.where(q == 0, low, np.where(q == 1, high, getattr(self, "_" + name)(q, *args)))
                y = np.where(np.logical_and(q >= 0, q <= 1), y, np.nan)
            return valued(ok, loc, y * scale + loc)


for _name, _outside in [("pdf", 0.0), ("logpdf", -np.inf)]:
    _density(_name, _outside)
for _name, _below, _above in [
    ("cdf", 0.0, 1.0), ("logcdf", -np.inf, 0.0), ("sf", 1.0, 0.0), ("logsf", 0.0, -np.inf),
]:  # fmt: skip
    _distribution(_name, _below, _above)
for _name in ("ppf", "isf"):
    _quantile(_name)


