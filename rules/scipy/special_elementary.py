"""Functions of ``scipy.special`` with elementary derivatives: powers, losses, angles, Lambert's function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, vjps
from yota_py.registry.tangents import conj, strong_multiply

from ..elementwise import DEGREE
from ..samples import arrays
from ..support import zero_over_zero
from .families import FRACTION, POSITIVE, REAL, family, of_arrays
from .special_integrals import log1p_ratio_slope

SHIFTED = (-0.6, 2.0)

# ----------------------------------------------------------------------------------------- powers and logarithms


def exprel_slope(y: Any, x: Any) -> Any:
    """``(exp(x) - exprel(x)) / x``, and near zero its series, of ``x**n / (n! (n + 2))``."""
    near = np.abs(x) < 1
    small, large = np.where(near, x, 0), np.where(near, 1, x)
    series: Any = 0.0
    for n in range(18, -1, -1):
        series = 1 / (math.factorial(n) * (n + 2)) + small * series
    return np.where(near, series, (np.exp(large) - special.exprel(large)) / large)


family(special.exprel, exprel_slope, on=[REAL])
family(special.powm1, lambda y, x, p: _power_in_base(x, p), lambda y, x, p: _power_in_exponent(x, p),
       on=[POSITIVE, REAL])  # fmt: skip


def _power_in_base(x: Any, p: Any) -> Any:
    """Zero at zero to the power of zero, which is constant in x."""
    constant = np.logical_and(np.equal(x, 0), np.equal(p, 0))
    return np.where(constant, 0, p * np.power(np.where(constant, 1, x), p - 1))


def _power_in_exponent(x: Any, p: Any) -> Any:
    """As of powers: zero at ``0**p`` with p not below zero."""
    constant = np.logical_and(np.equal(x, 0), np.greater_equal(p, 0))
    return np.where(constant, 0, np.power(x, p) * np.log(np.where(constant, 1, x)))


def _boxcox(log: Any, power: Any) -> Any:
    """``log(x)**2 exprel'(power log(x))``; at x = 0 the transformation is ``-1 / power``, if that is above zero."""
    end = np.logical_and(np.equal(log, -np.inf), np.greater(power, 0))
    log = np.where(end, 0, log)
    return np.where(end, 1 / np.square(np.where(end, power, 1)), log * log * exprel_slope(None, power * log))


def _inv_boxcox(x: Any, y: Any, power: Any) -> Any:
    """Of ``exp(y log1p_ratio(power y))`` in the power."""
    return x * y * y * log1p_ratio_slope(None, power * y)


family(special.boxcox, lambda y, x, p: np.power(x, p - 1), lambda y, x, p: _boxcox(np.log(x), p),
       on=[POSITIVE, REAL])  # fmt: skip
family(special.boxcox1p, lambda y, x, p: np.power(1 + x, p - 1), lambda y, x, p: _boxcox(np.log1p(x), p),
       on=[SHIFTED, REAL])  # fmt: skip
family(special.inv_boxcox, lambda x, y, p: x / (1 + p * y), lambda x, y, p: _inv_boxcox(x, y, p),
       on=[SHIFTED, FRACTION])  # fmt: skip
family(special.inv_boxcox1p, lambda x, y, p: (1 + x) / (1 + p * y), lambda x, y, p: _inv_boxcox(1 + x, y, p),
       on=[SHIFTED, FRACTION])  # fmt: skip

# ------------------------------------------------------------------------------------------------------ losses



def _width(d: Any) -> Any:
    """The width of a loss, which is infinite if it is negative."""
    return np.where(np.less(d, 0), np.nan, d)


def _pseudo_huber(y: Any, d: Any, r: Any) -> Any:
    """``(h - d)**2 / h`` with ``h = hypot(d, r)``, without what cancels."""
    h = np.hypot(d, r)
    return zero_over_zero(np.square(zero_over_zero(r * r, h + _width(d))), h)


family(special.huber, lambda y, d, r: np.maximum(np.abs(r) - _width(d), 0), lambda y, d, r: np.clip(r, -_width(d), d),
       on=[POSITIVE, REAL])  # fmt: skip
family(special.pseudo_huber, _pseudo_huber, lambda y, d, r: r * zero_over_zero(_width(d), np.hypot(d, r)),
       on=[POSITIVE, REAL])  # fmt: skip


@expanded(patch(special, "softplus"), cases=lambda s: [case(s(3)), case(s.number()), case(s(2, dtype=np.float32))])
def _softplus(x: Any, **kwargs: Any) -> Any:
    return np.logaddexp(0, x, **kwargs)


# --------------------------------------------------------------------------------------- angles in degrees, waves

family(special.sindg, lambda y, x: DEGREE * special.cosdg(x), on=[REAL])
family(special.cosdg, lambda y, x: -DEGREE * special.sindg(x), on=[REAL])
family(special.tandg, lambda y, x: DEGREE * (1 + y * y), on=[REAL])
family(special.cotdg, lambda y, x: -DEGREE * (1 + y * y), on=[POSITIVE])
family(special.radian, DEGREE, DEGREE / 60, DEGREE / 3600, on=[REAL] * 3)


@of_arrays
def _diric(dy: Any, y: Any, x: Any, n: Any) -> Any:
    """Dirichlet's function is the mean of cosines of ``((n - 1)/2 - k) x``, which have no pole."""
    total = 0.0
    for k in range(int(np.max(n, initial=1))):
        wave = np.where(np.less(k, n), (n - 1) / 2 - k, 0)
        total = total - wave * np.sin(wave * x)
    return strong_multiply(dy, np.where(np.isnan(y), np.nan, total / n))


vjps(patch(special, "diric"), _diric, None, cases=lambda s: [
    case(s(3), 4), case(s(2, 3), s.integers(3, low=1, high=6)), case(s.number(), 3), case(np.arange(3) * np.pi, 3),
    case(s(3, dtype=np.float32), 2), case(s(0), 2), case(s(3), 1),
])  # fmt: skip

# --------------------------------------------------------------------------------------- Lambert, Wright (4.13)


def _lambertw(dy: Any, y: Any, z: Any, k: Any = 0, tol: Any = 1e-8) -> Any:
    """``1 / (z + exp(W))``, which is 1 at z = 0 on the principal branch."""
    return strong_multiply(dy, conj(np.exp(-y) / (1 + y)))


vjps(patch(special, "lambertw"), _lambertw, None, None, cases=lambda s: [
    case(s(3, low=0.2)), case(s.number(0.2)), case(np.array([-0.3, -0.1]), -1), case(s(3, low=0.2), k=np.arange(-1, 2)),
    case(s(2, dtype=complex), 2, tol=1e-12), case(0.0), case(s(2, low=0.2, dtype=np.float32)), case(s(0)),
])  # fmt: skip
family(special.wrightomega, lambda y, z: y / (1 + y), on=[REAL], complex=True)

# -------------------------------------------------------------------------------------- steps: nothing flows back

nondiff(special.gammasgn, cases=arrays(REAL))
nondiff(special.round, cases=arrays(REAL))
