"""Exponential, trigonometric, Fresnel integrals, the Faddeeva function. Formulas: DLMF, chapters 6 and 7."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special._ufuncs as compiled
from scipy import special

from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import MISSING, conj, strong_multiply

from ..python_math import SQRT_PI
from ..support import dtype_of
from .families import ORDER, POSITIVE, REAL, family, whole

# ------------------------------------------------------------- exponential and trigonometric integrals (6.2, 8.19)

family(special.expi, lambda y, x: np.divide(np.exp(x), x), on=[POSITIVE], complex=True)
family(special.exp1, lambda y, x: np.divide(-np.exp(-x), x), on=[POSITIVE], complex=True)


def _slope_of_scaled(y: Any, x: Any) -> Any:
    """Of x exp(x) E1(x); where that is near one, by its asymptotic series (6.12.1)."""
    large = np.greater(x, 100)
    z: Any = np.where(large, x, 100)
    series: Any = 0.0
    for k in range(16, 0, -1):
        series = -(k * math.factorial(k) + series / z)
    return np.where(large, -series / (z * z), y * (1 + 1 / x) - 1)


family(compiled._scaled_exp1, _slope_of_scaled, on=[POSITIVE])


def _expn(y: Any, n: Any, x: Any) -> Any:
    """-E_{n-1} (8.19.13), and of E_0 = exp(-x) / x, which SciPy does not count down from, in closed form."""
    n = whole(n)
    first = np.equal(n, 0)
    return -np.where(first, y * np.divide(1 + x, x), special.expn(np.where(first, 0, n - 1), x))


family(special.expn, MISSING, _expn, on=[ORDER, POSITIVE])


def _over(f: Any, sine_of: Any, x: Any) -> Any:
    """f(x) / x, where f is the sine of what is given but for a constant factor: near zero by ``np.sinc``."""
    near = np.abs(x) < 1
    sinc = np.sinc(np.where(near, sine_of, 0) / np.pi)
    return np.where(near, sinc if dtype_of(x).kind == "c" else np.real(sinc), f / np.where(near, 1, x))


family(special.sici, lambda y, x: (_over(np.sin(x), x, x), np.divide(np.cos(x), x)), on=[POSITIVE], complex=True)
family(special.shichi, lambda y, x: (_over(np.sinh(x), 1j * x, x), np.divide(np.cosh(x), x)),
       on=[POSITIVE], complex=True)  # fmt: skip


@primitive
def log1p_ratio(u: Any) -> Any:
    """``log(1 + u) / u``, and 1 at zero."""
    nowhere = np.equal(u, 0)
    return np.where(nowhere, 1, np.log1p(u) / np.where(nowhere, 1, u))[()]


def log1p_ratio_slope(y: Any, u: Any) -> Any:
    """``(1 / (1 + u) - log(1 + u) / u) / u``, and near zero its series."""
    near = np.abs(u) < 0.2
    small, large = np.where(near, u, 0), np.where(near, 1, u)
    series = 0.0
    for n in range(24, 0, -1):
        series = (-1) ** n * n / (n + 1) + small * series
    return np.where(near, series, (1 / (1 + large) - np.log1p(large) / large) / large)


family(log1p_ratio, log1p_ratio_slope, on=[(-0.8, 2.0)], complex=True)


def _spence_slope(y: Any, z: Any) -> Any:
    """``log(z) / (1 - z)``, of the dilogarithm of 1 - z (25.12.2)."""
    is_small = np.abs(z) < 0.25  # where 1 + (z - 1) loses digits
    small = np.where(is_small, z, 0.25)
    return np.where(is_small, np.log(small) / (1 - small), -log1p_ratio(np.where(is_small, 1, z) - 1))


family(special.spence, _spence_slope, on=[POSITIVE], complex=True)

# -------------------------------------------------------------------------------------------- Fresnel (7.2, 7.7)

family(special.fresnel, lambda y, z: (np.sin(np.pi / 2 * z * z), np.cos(np.pi / 2 * z * z)), on=[REAL], complex=True)


@primitive
def faddeeva(k: int, z: Any) -> Any:
    """The k-th derivative of ``wofz`` (7.10). Far from the origin and not below, where the recurrence cancels, that
    of the asymptotic series (7.12.1)."""
    z = np.asarray(z, complex)
    last, w = special.wofz(z), special.wofz(z)
    if k:
        w = 2j / SQRT_PI - 2 * z * last
    for n in range(1, k):
        last, w = w, -2 * z * w - 2 * n * last
    far = (np.abs(z) > 8) & (z.imag >= 0)
    u = 1 / np.where(far, z, 8)
    series, term = 0j, 1j / SQRT_PI * u ** (k + 1) * math.factorial(k) * (-1) ** k
    for n in range(30):
        series = series + term
        term = term * u * u * (2 * n + 1) / 2 * (2 * n + 1 + k) * (2 * n + 2 + k) / ((2 * n + 1) * (2 * n + 2))
    return np.where(far, series, w)[()]


vjps(faddeeva, None, lambda dy, y, k, z: strong_multiply(dy, conj(faddeeva(k + 1, z))), cases=lambda s: [
    case(0, s(3, dtype=complex)), case(2, s(2, low=9, high=12, dtype=complex)), case(1, s(2)), case(3, s.number()),
])  # fmt: skip
family(special.wofz, lambda y, z: faddeeva(1, z), on=[REAL], complex=True)


def _modified_fresnel(sign: int) -> Any:
    """``F' = -exp(i x^2)`` and ``K = w(z) / 2`` with ``z = exp(i pi / 4) x``, or their conjugates (7.5.2, 7.5.9)."""
    turn = np.exp(0.25j * np.pi)

    def slope(y: Any, x: Any) -> Any:
        outer = turn / 2 * faddeeva(1, turn * x)
        return -np.exp(sign * 1j * x * x), outer if sign > 0 else conj(outer)

    return slope


family(special.modfresnelp, _modified_fresnel(1), on=[POSITIVE])
family(special.modfresnelm, _modified_fresnel(-1), on=[POSITIVE])

# ------------------------------------------------------------------------------------------- Voigt profile (7.19)


def _voigt(part: Any) -> Any:
    """A formula in w' and w'' at ``z = (x + i gamma) / (sigma sqrt(2))``; for sigma zero in closed form."""

    def slope(y: Any, x: Any, sigma: Any, gamma: Any) -> Any:
        sharp = np.equal(sigma, 0)
        scale = np.sqrt(2) * np.where(sharp, 1, sigma)
        z = (x + 1j * gamma) / scale
        # The derivatives of i / (pi z), to which the profile tends.
        lorentz = x + 1j * np.where(np.logical_and(sharp, np.equal(gamma, 0)), np.nan, gamma)
        pole = -1j / np.pi / np.where(sharp, np.square(lorentz), 1)
        first = np.where(sharp, pole, faddeeva(1, z) / (scale * scale * SQRT_PI))
        return part(first, lambda: np.where(sharp, 0, sigma * faddeeva(2, z) / (scale**3 * SQRT_PI)))

    return slope


# In sigma it solves the heat equation: its slope is sigma times the second derivative in x.
family(special.voigt_profile, _voigt(lambda first, heat: np.real(first)), _voigt(lambda first, heat: np.real(heat())),
       _voigt(lambda first, heat: -np.imag(first)), on=[REAL, POSITIVE, POSITIVE])  # fmt: skip
