"""Distribution functions of statistics and their inverses (Johnson, Kotz & Balakrishnan 1994/95; DLMF 8.17).

In a number of trials or successes that SciPy rounds to an integer the derivative is zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import MISSING, strong_multiply

from ..support import dtype_of
from .families import FRACTION, POSITIVE, REAL, family
from .inverses import cumulative
from .quadrature import trapezoid
from .special import mills
from .special_elementary import exprel_slope
from .special_incomplete import beta_density, beta_in_first, beta_in_second, gamma_density, gamma_in_shape

SQRT_2, SQRT_2PI = math.sqrt(2), math.sqrt(2 * math.pi)


def _shape(a: Any, x: Any) -> Any:
    return gamma_in_shape(1, a, x)


def _whole(k: Any) -> Any:
    return np.floor(k) if dtype_of(k).kind == "f" else k


def _above_zero(k: Any, rise: Any) -> Any:
    """The slope in a number of successes that is sought: SciPy's answer stays zero where it would be less."""
    return np.where(np.equal(k, 0), np.inf, rise)


# ------------------------------------------------------------- gamma, chi-square, Poisson: incomplete gamma functions

cumulative(
    (lambda a, b, x: x * gamma_density(b, a * x), lambda a, b, x: _shape(b, a * x),
     lambda a, b, x: a * gamma_density(b, a * x)), on=[POSITIVE] * 3, below=special.gdtr, above=special.gdtrc,
    inverses=[(special.gdtria, 0, 1), (special.gdtrib, 1, 1), (special.gdtrix, 2, 1)],
)  # fmt: skip
cumulative(
    (lambda v, x: _shape(v / 2, x / 2) / 2, lambda v, x: gamma_density(v / 2, x / 2) / 2), on=[POSITIVE] * 2,
    below=special.chdtr, above=special.chdtrc, inverses=[(special.chdtri, 1, -1), (special.chdtriv, 0, 1)],
)  # fmt: skip
_poisson = lambda k, m: -gamma_density(_whole(k) + 1, m)  # noqa: E731
cumulative((None, _poisson), on=[(0, 4), POSITIVE], below=special.pdtr, above=special.pdtrc,
           inverses=[(special.pdtri, 1, 1)])  # fmt: skip
cumulative((lambda k, m: _above_zero(k, -_shape(k + 1, m)), lambda k, m: -gamma_density(k + 1, m)), on=[POSITIVE] * 2,
           inverses=[(special.pdtrik, 0, 1)])  # fmt: skip

# -------------------------------------------------------------- F, t, binomial: incomplete beta functions (8.17.5)


def _binomial(k: Any, n: Any, p: Any) -> Any:
    return -beta_density(n - k, k + 1, 1 - p)


def _negative(k: Any, n: Any, p: Any) -> Any:
    return beta_density(n, k + 1, p)


_trials = [(0, 4), (5, 8), FRACTION]
cumulative((None, None, lambda k, n, p: _binomial(_whole(k), _whole(n), p)), on=_trials, below=special.bdtr,
           above=special.bdtrc, inverses=[(special.bdtri, 2, 1)])  # fmt: skip
cumulative((None, None, lambda k, n, p: _negative(_whole(k), _whole(n), p)), on=_trials, below=special.nbdtr,
           above=special.nbdtrc, inverses=[(special.nbdtri, 2, 1)])  # fmt: skip
cumulative((
    lambda k, n, p: _above_zero(k, beta_in_second(n - k, k + 1, 1 - p) - beta_in_first(n - k, k + 1, 1 - p)),
    lambda k, n, p: beta_in_first(n - k, k + 1, 1 - p), _binomial,
), on=[POSITIVE, (5.0, 9.0), (0.2, 0.5)],
    inverses=[(special.bdtrik, 0, 1), (special.bdtrin, 1, 1)])  # fmt: skip
cumulative((
    lambda k, n, p: _above_zero(k, beta_in_second(n, k + 1, p)), lambda k, n, p: beta_in_first(n, k + 1, p), _negative,
), on=[POSITIVE, POSITIVE, (0.2, 0.5)], inverses=[(special.nbdtrik, 0, 1), (special.nbdtrin, 1, 1)])  # fmt: skip


def _in_first(a: Any, b: Any, x: Any, rest: Any) -> Any:
    """The derivative of ``betainc(a, b, x)`` in a, by the smaller one of x and ``rest``, which is 1 - x."""
    near = np.less(x, 0.5)
    return np.where(near, beta_in_first(a, b, np.where(near, x, 0.5)), -beta_in_second(b, a, np.where(near, 0.5, rest)))


def _f_density(m: Any, n: Any, x: Any) -> Any:
    whole = n + m * x
    return beta_density(m / 2, n / 2, m * x / whole) * m * n / (whole * whole)


def _f_first(m: Any, n: Any, x: Any) -> Any:
    whole = n + m * x
    return _in_first(m / 2, n / 2, m * x / whole, n / whole) / 2 + _f_density(m, n, x) * x / m


def _f_second(m: Any, n: Any, x: Any) -> Any:
    whole = n + m * x
    return -_in_first(n / 2, m / 2, n / whole, m * x / whole) / 2 - _f_density(m, n, x) * x / n


cumulative((_f_first, _f_second, _f_density), on=[POSITIVE] * 3, below=special.fdtr, above=special.fdtrc,
           inverses=[(special.fdtri, 2, 1)])  # fmt: skip


def _t_density(n: Any, t: Any) -> Any:
    """The normal one, where the degrees of freedom are infinite."""
    normal = np.isposinf(n)
    n = np.where(normal, 1, n)
    y = np.exp(-(n + 1) / 2 * np.log1p(t * t / n) - special.betaln(n / 2, 0.5)) / np.sqrt(n)
    return np.where(normal, np.exp(-t * t / 2) / SQRT_2PI, y)


def _t_freedom(n: Any, t: Any) -> Any:
    """At the centre, t times the slope of the density."""
    normal, centre = np.isposinf(n), np.equal(t, 0)
    n, u = np.where(normal, 1, n), np.where(centre, 1, t)
    whole = n + u * u
    y = -np.sign(u) / 4 * _in_first(n / 2, 0.5, n / whole, u * u / whole) - _t_density(n, u) * u / (2 * n)
    rate = (special.digamma((n + 1) / 2) - special.digamma(n / 2) - 1 / n) / 2
    return np.where(normal, 0, np.where(centre, t * _t_density(n, 0.0) * rate, y))


cumulative((_t_freedom, _t_density), on=[POSITIVE, REAL], at=[POSITIVE, REAL], below=special.stdtr,
           inverses=[(special.stdtrit, 1, 1)])  # fmt: skip

# ------------------------------------------------------------------------------------------- noncentral ones


def _chi_density(x: Any, n: Any, nc: Any) -> Any:
    """``(x/nc)^((n - 2)/4) exp(-(x + nc)/2) I_{n/2 - 1}(sqrt(nc x)) / 2``; at small ones by 0F1 (10.39.9)."""
    small = np.less(nc * x, 1)
    series = gamma_density(n / 2, x / 2) / 2 * np.exp(-nc / 2) * special.hyp0f1(n / 2, np.where(small, nc * x, 0) / 4)
    z, c = np.where(small, 1, x), np.where(small, 1, nc)
    scaled = np.exp(-np.square(np.sqrt(z) - np.sqrt(c)) / 2) * special.ive(n / 2 - 1, np.sqrt(c * z))
    return np.where(small, series, np.power(z / c, (n - 2) / 4) * scaled / 2)


cumulative((_chi_density, MISSING, lambda x, n, nc: -_chi_density(x, n + 2, nc)), on=[POSITIVE, (1, 5), POSITIVE],
           below=special.chndtr, inverses=[(special.chndtrix, 0, 1)])  # fmt: skip


def _noncentral_f(raised: int) -> Any:
    """``w**(a - 1) (1 - w)**(b - 1) / beta(a, b)`` times ``exp(-nc/2) 1F1(a + b; a; nc w / 2)``, the sum of the
    densities of the mixture, by Kummer's transformation (13.2.39); or the derivative in nc."""

    def density(m: Any, n: Any, nc: Any, x: Any) -> Any:
        a, b, whole = m / 2, n / 2, n + m * x
        w = m * x / whole
        mixed = special.hyp1f1(-b + raised, a + raised, -nc * w / 2) * np.exp(nc * (w - 1) / 2)
        if raised:
            return -beta_density(a, b, w) * w * (n / whole) / a / 2 * mixed
        return beta_density(a, b, w) * m * n / (whole * whole) * mixed

    return density


cumulative((MISSING, MISSING, _noncentral_f(1), _noncentral_f(0)), on=[(2, 5), (2, 5), POSITIVE, POSITIVE],
           below=special.ncfdtr, inverses=[(special.ncfdtri, 3, 1)])  # fmt: skip


@primitive
def student_moment(j: int, k: int, n: Any, nc: Any, t: Any) -> Any:
    """The mean of ``s**k phi^(j)(s t - nc)`` over s, a root of a chi-square of n degrees over n; phi is normal. By the
    trapezoidal rule in log s, as far up as phi is not zero."""
    n, nc, t = np.broadcast_arrays(*(np.asarray(z, float) for z in (n, nc, t)))
    finite, unknown = np.isfinite(n) & np.isfinite(nc) & np.isfinite(t), np.isnan(n + nc + t)
    n, nc, t = np.where(finite, n, 1.0), np.where(finite, nc, 0.0), np.where(finite, t, 0.0)

    def integrand(log: Any) -> Any:
        s = np.exp(log)
        z = s * t - nc
        wave = (-1) ** j * special.eval_hermitenorm(j, z) * np.exp(-z * z / 2 - scale + (n + k) * log - n * s * s / 2)
        return wave * 2 / SQRT_2PI

    scale = special.gammaln(n / 2) - n / 2 * np.log(n / 2)
    reach, down = abs(nc) + 40, 45 / (n + k) + 9 / np.sqrt(n + k)
    high = np.minimum(0.5 * np.log1p(90 / n) + 7 / np.sqrt(n), np.log(reach / np.maximum(abs(t), 1e-300)))
    rate = np.sqrt(n) + np.minimum(abs(t), reach)
    y = trapezoid(integrand, np.minimum(high, 0) - down, high, float(1 / (8 * (2 + np.max(rate, initial=0)))))
    return np.where(finite, y, np.where(unknown, np.nan, 0.0))[()]


vjps(student_moment, None, None, MISSING,
     lambda dy, y, j, k, n, nc, t: strong_multiply(dy, -student_moment(j + 1, k, n, nc, t)),
     lambda dy, y, j, k, n, nc, t: strong_multiply(dy, student_moment(j + 1, k + 1, n, nc, t)), cases=lambda s: [
         case(0, 0, 3, s(2, 1), s(3)), case(1, 2, np.array([1, 3, 5]), s.number(), s(3)), case(0, 1, 3, s(0), 0.0),
     ])  # fmt: skip
cumulative((MISSING, lambda n, nc, t: -student_moment(0, 0, n, nc, t), lambda n, nc, t: student_moment(0, 1, n, nc, t)),
           on=[(2, 6), REAL, REAL], below=special.nctdtr,
           inverses=[(special.nctdtrit, 2, 1), (special.nctdtrinc, 1, 1)])  # fmt: skip

# ---------------------------------------------------------------------------------------------------- normal ones

family(special.nrdtrimn, lambda y, p, sd, x: -sd * SQRT_2PI * np.exp(np.square(x - y) / (2 * sd * sd)),
       lambda y, p, sd, x: (y - x) / sd, 1, on=[FRACTION, POSITIVE, REAL])  # fmt: skip
family(special.nrdtrisd, lambda y, m, p, x: -1 / special.ndtri(p), lambda y, m, p, x: _quantile_slope(y, m, p, x),
       lambda y, m, p, x: 1 / special.ndtri(p), on=[REAL, (0.6, 0.9), (3.0, 5.0)])  # fmt: skip


def _quantile_slope(y: Any, m: Any, p: Any, x: Any) -> Any:
    z = special.ndtri(p)
    return -y / z * SQRT_2PI * np.exp(z * z / 2)


family(special.ndtri_exp, lambda y, x: 1 / mills(y), on=[(-3.0, -0.2)])


def _owens_height(y: Any, h: Any, a: Any) -> Any:
    return -np.exp(-h * h / 2) / (2 * SQRT_2PI) * special.erf(a * h / SQRT_2)


family(special.owens_t, _owens_height, lambda y, h, a: np.exp(-h * h * (1 + a * a) / 2) / (2 * np.pi * (1 + a * a)),
       on=[REAL, REAL])  # fmt: skip

# ---------------------------------------------------------------------------- Tukey's lambda, by its quantile function


def _tukey(part: int) -> Any:
    """Of ``x = (p^c - (1 - p)^c) / c``; zero outside of its support."""

    def slope(y: Any, x: Any, c: Any) -> Any:
        outside = np.logical_or(np.less_equal(y, 0), np.greater_equal(y, 1))
        p = np.where(outside, 0.5, y)
        rise = np.power(p, c - 1) + np.power(1 - p, c - 1)
        if part == 0:
            return np.where(outside, 0, 1 / rise)
        return np.where(outside, 0, -(_power_slope(c, np.log(p)) - _power_slope(c, np.log1p(-p))) / rise)

    return slope


def _power_slope(c: Any, log: Any) -> Any:
    """The derivative of ``(exp(c log) - 1) / c`` in c."""
    return log * log * exprel_slope(None, c * log)


family(special.tklmbda, _tukey(0), _tukey(1), on=[REAL, (0.2, 0.4)])

# -------------------------------------------------------------- Kolmogorov and Smirnov (Marsaglia, Tsang & Wang 2003)


def _kolmogorov(x: Any) -> Any:
    """The slope, of either of two theta series."""
    large, zero = np.greater(x, 1), np.less_equal(x, 0)
    z, w = np.where(large, x, 1), np.where(np.logical_or(large, zero), 1, x)
    right = left = 0.0
    for k in range(1, 6):
        right = right + (-1) ** k * 8 * k * k * z * np.exp(-2 * k * k * z * z)
        c = (2 * k - 1) ** 2 * math.pi**2 / 8 / (w * w)
        left = left - SQRT_2PI * np.exp(-c) * (2 * c - 1) / (w * w)
    return np.where(large, right, np.where(zero, 0, left))


cumulative((_kolmogorov,), on=[(0.3, 1.8)], below=special.kolmogorov, inverses=[(special.kolmogi, 0, 1)])


@primitive
def smirnov_slope(order: int, n: Any, d: Any) -> Any:
    """The derivative of ``smirnov(n, d)``, the sum of ``binom(n, j) d (d + j/n)^(j-1) (1 - d - j/n)^(n-j)`` over j up
    to ``n (1 - d)``, of order up to three."""
    n, d = np.broadcast_arrays(np.floor(n), np.asarray(d, float))
    j = np.arange(int(np.max(np.where(np.isfinite(n), n, 0), initial=0)) + 1).reshape(-1, *[1] * d.ndim)
    with np.errstate(all="ignore"):
        up, down = d + j / n, 1 - d - j / n
        log = special.gammaln(n + 1) - special.gammaln(j + 1) - special.gammaln(n - j + 1)
        term = np.exp(log + np.log(d) + (j - 1) * np.log(up) + special.xlogy(n - j, down))
        first, second, third = (1 / d**k + (j - 1) / up**k + (-1) ** k * (n - j) / down**k for k in (1, 2, 3))
        ratio = first if order == 1 else first**2 - second if order == 2 else first**3 - 3 * first * second + 2 * third
        inside = (down > 0) & (j < n)
        y = np.sum(np.where(inside, term * ratio, 0), axis=0)
    return np.where((d > 0) & (d < 1), y, np.where(np.isnan(d), np.nan, 0))[()]


vjps(smirnov_slope, None, None,
     lambda dy, y, order, n, d: MISSING if order > 2 else strong_multiply(dy, smirnov_slope(order + 1, n, d)),
     cases=lambda s: [
         case(1, 5, s(3, low=0.1, high=0.9)), case(1, np.array([3, 6]), s.number(0.2, 0.8)),
     ])  # fmt: skip
cumulative((None, lambda n, d: smirnov_slope(1, n, d)), on=[(2, 7), FRACTION], below=special.smirnov,
           inverses=[(special.smirnovi, 1, 1)])  # fmt: skip
