"""Incomplete gamma and beta functions and their inverses, with derivatives in every argument (DLMF, chapter 8).

A derivative in a parameter is the integral of that of the density, which changes its sign once where the density has
all its weight (twice for second derivatives): it is computed on the side where nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import MISSING, strong_multiply

from .families import FRACTION, POSITIVE
from .inverses import cumulative
from .quadrature import trapezoid
from .special import polygamma

digamma = special.digamma


def _from_zero(integrand: Any, scale: Any, end: Any) -> Any:
    """The integral of ``integrand(s)`` over (0, end), which falls off on this scale: by s = scale exp(t - exp(-t)),
    which makes both ends vanish double exponentially (Takahasi & Mori 1974)."""

    def substituted(t: Any) -> Any:
        fast = np.exp(-t)
        s = scale * np.exp(t - fast)
        return np.nan_to_num(integrand(s) * s * (1 + fast), nan=0.0, posinf=0.0, neginf=0.0)

    return trapezoid(substituted, -4.3, np.maximum(np.log(end / scale), 0) + 0.5, 1 / 16)


# --------------------------------------------------------------------------------------------- gamma (8.2, 8.8)


def gamma_density(a: Any, x: Any) -> Any:
    """``x**(a - 1) exp(-x) / gamma(a)``, for large a by the deviance and Stirling's series (5.11.1; Loader 2000)."""
    large = np.greater(a, 15)
    small = np.exp(special.xlogy(np.where(large, 1, a) - 1, x) - x - special.gammaln(np.where(large, 1, a)))
    b, z = np.where(large, a, 15), np.where(large, np.maximum(x, 1e-300), 15)
    u = 1 / (b * b)
    stirling = (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u * (1 / 1188 - u * 691 / 360360))))) / b
    away = (z - b) / b
    deviance = b * (away - np.log1p(away))
    return np.where(large, np.sqrt(b / (2 * np.pi)) * np.exp(-deviance - stirling) / z, small)


def _gamma_factor(k: int, a: Any, log: Any) -> Any:
    """The k-th derivative of the density in a over the density, for k up to 3."""
    u = log - digamma(a)
    if k == 1:
        return u
    return u * u - polygamma(1, a) if k == 2 else u**3 - 3 * u * polygamma(1, a) - polygamma(2, a)


@primitive
def gamma_in_shape(k: int, a: Any, x: Any) -> Any:
    """The k-th derivative of ``gammainc(a, x)`` in a."""
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    with np.errstate(all="ignore"):
        center = np.exp(digamma(a))
        valid = (a > 0) & (x > 0) & np.isfinite(a + x)
        b, z = np.where(valid, a, 1), np.where(valid, x, 1)
        upper = z > np.maximum(center, 0.02)
        peak = gamma_density(b, z)
        rate = abs(b - z) + np.sqrt(z)

        def below(s: Any) -> Any:  # t = x exp(-s)
            return np.exp((z - b) * s - z * (np.expm1(-s) + s)) * _gamma_factor(k, b, np.log(z) - s)

        def above(s: Any) -> Any:  # t = x + s
            return np.exp((b - 1) * np.log1p(s / z) - s) * _gamma_factor(k, b, np.log(z + s))

        lower = z * _from_zero(below, 1 / rate, 45 / b + 10 / np.sqrt(b))
        higher = _from_zero(above, z / rate, 100 + 15 * np.sqrt(b))
        y = peak * np.where(upper, -higher, lower)
    return np.where(valid, y, np.where((a > 0) & ((x == 0) | np.isinf(x)), 0, np.nan))[()]


def _in_shape(dy: Any, y: Any, k: int, a: Any, x: Any) -> Any:
    return MISSING if k > 2 else strong_multiply(dy, gamma_in_shape(k + 1, a, x))


vjps(gamma_in_shape, None, _in_shape,
     lambda dy, y, k, a, x: strong_multiply(dy, gamma_density(a, x) * _gamma_factor(k, a, np.log(x))),
     cases=lambda s: [
         case(1, s(2, 1, low=0.3, high=9), s(3, low=0.3, high=9)), case(1, s.number(2, 3), s.number(20, 30)),
     ])  # fmt: skip

cumulative(
    (lambda a, x: gamma_in_shape(1, a, x), gamma_density), on=[POSITIVE, POSITIVE], at=[POSITIVE, FRACTION],
    below=special.gammainc, above=special.gammaincc,
    inverses=[(special.gammaincinv, 1, 1), (special.gammainccinv, 1, -1)],
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ beta (8.17)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """``x**(a - 1) (1 - x)**(b - 1) / beta(a, b)``"""
    return np.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))


def _beta_factor(j: int, k: int, a: Any, b: Any, log: Any, log_rest: Any) -> Any:
    """The derivative of the density, j times in a and k times in b, over the density, for j + k up to 3."""
    if j < k:
        return _beta_factor(k, j, b, a, log_rest, log)
    both = a + b
    u = log - digamma(a) + digamma(both)
    if j + k == 1:
        return u
    v, mixed = log_rest - digamma(b) + digamma(both), polygamma(1, both)
    pure = mixed - polygamma(1, a)
    if j + k == 2:
        return u * v + mixed if k else u * u + pure
    third = polygamma(2, both)
    return u * u * v + 2 * u * mixed + v * pure + third if k else u**3 + 3 * u * pure + third - polygamma(2, a)


@primitive
def beta_in_shapes(j: int, k: int, a: Any, b: Any, x: Any) -> Any:
    """The derivative of ``betainc(a, b, x)``, j times in a and k times in b."""
    a, b, x = np.broadcast_arrays(*(np.asarray(z, float) for z in (a, b, x)))
    with np.errstate(all="ignore"):
        valid = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a + b)
        a1, b1, x1 = (np.where(valid, z, 0.5) for z in (a, b, x))
        center = np.exp(digamma(a1) - digamma(a1 + b1)) if j else -np.expm1(digamma(b1) - digamma(a1 + b1))
        mirrored = x1 > center
        p, q = np.where(mirrored, b1, a1), np.where(mirrored, a1, b1)
        z, w = np.where(mirrored, 1 - x1, x1), np.where(mirrored, x1, 1 - x1)
        rate = abs((q - 1) * z / w - p) + np.sqrt(abs(q - 1) * z) / w

        def integrand(s: Any) -> Any:  # t = z exp(-s)
            grown = np.log1p(-z / w * np.expm1(-s))
            log, log_rest = np.log(z) - s, np.log(w) + grown
            factor = _beta_factor(j, k, a1, b1, np.where(mirrored, log_rest, log), np.where(mirrored, log, log_rest))
            return np.exp((q - 1) * grown - p * s) * factor

        y = z * beta_density(p, q, z) * _from_zero(integrand, 1 / rate, 45 / p + 10 / np.sqrt(p))
        y = np.where(mirrored, -y, y)
    return np.where(valid, y, np.where((a > 0) & (b > 0) & ((x == 0) | (x == 1)), 0, np.nan))[()]


def _more(dj: int, dk: int) -> Any:
    def formula(dy: Any, y: Any, j: int, k: int, a: Any, b: Any, x: Any) -> Any:
        return MISSING if j + k > 2 else strong_multiply(dy, beta_in_shapes(j + dj, k + dk, a, b, x))

    return formula


def _at_end(dy: Any, y: Any, j: int, k: int, a: Any, b: Any, x: Any) -> Any:
    return strong_multiply(dy, beta_density(a, b, x) * _beta_factor(j, k, a, b, np.log(x), np.log1p(-x)))


vjps(beta_in_shapes, None, None, _more(1, 0), _more(0, 1), _at_end, cases=lambda s: [
    case(1, 0, s(2, 1, low=0.3, high=5), s(3, low=0.3, high=5), 0.3),
    case(0, 1, s.number(0.3, 3), s.number(0.3, 3), 0.8),
])  # fmt: skip


def beta_in_first(a: Any, b: Any, x: Any) -> Any:
    return beta_in_shapes(1, 0, a, b, x)


def beta_in_second(a: Any, b: Any, x: Any) -> Any:
    return beta_in_shapes(0, 1, a, b, x)


cumulative(
    (beta_in_first, beta_in_second, beta_density), on=[POSITIVE, POSITIVE, FRACTION], at=[POSITIVE, POSITIVE, FRACTION],
    below=special.betainc, above=special.betaincc, inverses=[
        (special.betaincinv, 2, 1), (special.betainccinv, 2, -1), (special.btdtria, 0, 1), (special.btdtrib, 1, 1),
    ],
)  # fmt: skip
