"""Factorials, binomial coefficients, Pochhammer's symbol, zeta functions. Formulas: DLMF, chapters 5 and 25."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.patches import patch
from yota_py.registry.registry import case, vjps
from yota_py.registry.tangents import conj, strong_multiply

from .families import POSITIVE, family, of_arrays
from .special import rgamma_slope

digamma = special.digamma

# ---------------------------------------------------------------------------- quotients of gamma functions (5.2.4)


def _at_pole(x: Any) -> Any:
    return np.logical_and(np.less_equal(x, 0), np.equal(x, np.round(x)))


def _poch_base(y: Any, z: Any, m: Any) -> Any:
    """In z. Where gamma(z) has a pole: the other factor times the slope of 1 / gamma(z), or if both have one, by
    reflection (5.5.3)."""
    top, bottom = _at_pole(z + m), _at_pole(z)
    both, regular = np.logical_and(top, bottom), np.logical_not(np.logical_or(top, bottom))
    z1 = np.where(regular, z, 1)
    inner = y * (digamma(z1 + np.where(regular, m, 0)) - digamma(z1))
    reflected = y * (digamma(np.where(both, 1 - z - m, 1)) - digamma(np.where(both, 1 - z, 1)))
    alone = np.logical_and(bottom, np.logical_not(top))
    at_pole = _beside_pole(np.where(alone, z + m, 1), np.where(alone, z, 1))
    return np.where(both, reflected, np.where(alone, at_pole, inner))


def _beside_pole(a: Any, z: Any) -> Any:
    """The slope of ``gamma(a) / gamma(z)``, in a and z at once; what is zero at a pole of z counts in slopes of it."""
    return special.gamma(a) * (digamma(a) * special.rgamma(z) + rgamma_slope(None, z))


def _poch_step(y: Any, z: Any, m: Any) -> Any:
    """In m."""
    zero = np.logical_and(np.equal(y, 0), _at_pole(z + m))
    return np.where(zero, 0, y * digamma(np.where(zero, 1, z + m)))


family(special.poch, _poch_base, _poch_step, on=[POSITIVE, POSITIVE])


def _binom_n(y: Any, n: Any, k: Any) -> Any:
    """In n. Where ``gamma(n - k + 1)`` has a pole, by the slope of its reciprocal."""
    pole = _at_pole(n - k + 1)
    factor = special.rgamma(np.where(pole, k + 1, 1))
    at_pole = factor * _beside_pole(np.where(pole, n + 1, 1), np.where(pole, n - k + 1, 1))
    return np.where(pole, at_pole, y * (digamma(n + 1) - digamma(np.where(pole, 1, n - k + 1))))


def _binom_k(y: Any, n: Any, k: Any) -> Any:
    """In k. As in n, also where ``gamma(k + 1)`` has a pole."""
    below, above = _at_pole(k + 1), _at_pole(n - k + 1)
    pole = np.logical_or(below, above)
    a, b = np.where(pole, k + 1, 1), np.where(pole, n - k + 1, 1)
    slopes = rgamma_slope(None, a) * special.rgamma(b) - special.rgamma(a) * rgamma_slope(None, b)
    inner = y * (digamma(np.where(pole, 1, n - k + 1)) - digamma(np.where(pole, 1, k + 1)))
    return np.where(pole, special.gamma(np.where(pole, n + 1, 1)) * slopes, inner)


family(special.binom, _binom_n, _binom_k, on=[(3.2, 6.0), POSITIVE])
_perm, _comb = patch(special, "perm"), patch(special, "comb")


def _counts(n: Any, k: Any) -> Any:
    """Where these are numbers of arrangements; elsewhere SciPy's are zero."""
    return np.logical_and(np.less_equal(k, n), np.logical_and(np.greater_equal(n, 0), np.greater_equal(k, 0)))


def _perm_k(y: Any, n: Any, k: Any) -> Any:
    """``gamma(n + 1) / gamma(n - k + 1)`` in k."""
    return y * digamma(np.where(_counts(n, k), n - k + 1, 1))


vjps(_perm,
     of_arrays(lambda dy, y, n, k, exact=False: strong_multiply(
         dy, y * (digamma(np.where(_counts(n, k), n, 1) + 1) - _perm_k(1, n, k))
     )),
     of_arrays(lambda dy, y, n, k, exact=False: strong_multiply(dy, _perm_k(y, n, k))),
     cases=lambda s: [
         case(s(3, low=3, high=6), s(3, low=0.2)), case(s(2, 3, low=3, high=6), s.integers(3, low=0, high=3)),
         case(s.number(3, 6), 2), case(5.0, 2.0, False), case(s(2, low=1, high=3), 4), case(s(0), 1),
     ])  # fmt: skip


def _comb_slope(slope: Any) -> Any:
    def formula(dy: Any, y: Any, n: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
        if repetition:
            both = slope(y, n + k - 1, k)  # n and k both move the upper one
            return strong_multiply(dy, both if slope is _binom_n else both + _binom_n(y, n + k - 1, k))
        counted = _counts(n, k)
        return strong_multiply(dy, np.where(counted, slope(y, np.where(counted, n, 1), np.where(counted, k, 1)), 0))

    return of_arrays(formula)


vjps(_comb, _comb_slope(_binom_n), _comb_slope(_binom_k), cases=lambda s: [
    case(s(3, low=3, high=6), s(3, low=0.2)), case(s(2, 3, low=3, high=6), s.integers(3, low=0, high=3)),
    case(s.number(3, 6), 2), case(s(3, low=3, high=6), s(2, 1, low=0.2), repetition=True), case(5, s.number(0.2, 3)),
    case(s(2, low=1, high=3), 4), case(s(0), 1), case(5.0, 2.0, exact=False),
])  # fmt: skip
_factorial = patch(special, "factorial")


@of_arrays
def _factorial_slope(dy: Any, y: Any, n: Any, exact: bool = False, extend: str = "zero") -> Any:
    below = False if extend == "complex" else np.less(n, 0)
    return strong_multiply(dy, conj(np.where(below, 0, y * digamma(np.where(below, 0, n) + 1))))


vjps(_factorial, _factorial_slope, cases=lambda s: [
    case(s(3, low=0.2)), case(s.number(0.2)), case(np.array([-0.5, 0.7])), case(s(2, dtype=np.float32)), case(s(0)),
    case(np.array([-0.5, 0.7]), extend="complex"),
])  # fmt: skip


@of_arrays
def _multifactorial(dy: Any, y: Any, n: Any, k: Any = 2, exact: bool = False, extend: str = "zero") -> Any:
    """``k**(n/k) gamma(n/k + 1)`` times what does not depend on n."""
    return strong_multiply(dy, conj(y * (np.log(k) + digamma(n / k + 1)) / k))


vjps(patch(special, "factorial2"), lambda dy, y, n, exact=False, extend="zero": _multifactorial(dy, y, n),
     cases=lambda s: [case(s(3, low=0.2), extend="complex"), case(s.number(0.2), extend="complex")])  # fmt: skip
vjps(patch(special, "factorialk"), _multifactorial, None, cases=lambda s: [
    case(s(3, low=0.2), 3, extend="complex"), case(s.number(0.2), 2, extend="complex"),
])  # fmt: skip


@of_arrays
def _multigammaln(dy: Any, y: Any, a: Any, d: Any) -> Any:
    slope = digamma(a)
    for j in range(1, int(d)):
        slope = slope + digamma(a - j / 2)
    return strong_multiply(dy, slope)


vjps(patch(special, "multigammaln"), _multigammaln, None, cases=lambda s: [
    case(s(3, low=2, high=4), 3), case(s.number(2, 4), 2), case(s(2, 2, low=2, high=4), np.array(4)), case(s(0), 2),
    case(s(2, low=2, high=4, dtype=np.float32), 1),
])  # fmt: skip

# ------------------------------------------------------------------------------------------- zeta (25.2, 25.11)

_TERMS, _BERNOULLI = 12, special.bernoulli(26)[2::2]


def _hurwitz_in_s(s: Any, q: Any) -> Any:
    """The derivative in s of Euler and Maclaurin's expansion (25.11.28)."""
    total = 0.0
    for n in range(_TERMS):
        log = np.log(q + n)
        total = total - log * np.exp(-s * log)
    w = q + _TERMS
    log = np.log(w)
    power = np.exp(-s * log)
    total = total - power * (w * (log / (s - 1) + 1 / np.square(s - 1)) + log / 2)
    rising, slope, scale = s, 1.0, power / w
    for k, bernoulli in enumerate(_BERNOULLI.tolist(), 1):
        total = total + bernoulli / math.factorial(2 * k) * scale * (slope - log * rising)
        for shift in (2 * k - 1, 2 * k):
            rising, slope = rising * (s + shift), slope * (s + shift) + rising
        scale = scale / (w * w)
    return total


def _riemann(s: Any) -> Any:
    """In s, to the left of zero by reflection (25.4.1)."""
    left = np.less(np.real(s), 0)
    t = np.where(left, 1 - s, 2)
    value, slope = _zeta(t, None), _hurwitz_in_s(t, 1)
    angle = np.pi / 2 * (1 - t)
    factor = 2 * np.exp(-t * math.log(2 * math.pi)) * special.gamma(t)
    inner = (math.log(2 * math.pi) - digamma(t)) * value - slope
    reflected = factor * (np.pi / 2 * np.cos(angle) * value + np.sin(angle) * inner)
    return np.where(left, reflected, _hurwitz_in_s(np.where(left, 2, s), 1))


@of_arrays
def _zeta_in_s(dy: Any, y: Any, x: Any, q: Any = None) -> Any:
    return strong_multiply(dy, conj(_riemann(x) if q is None else _hurwitz_in_s(x, q)))


_zeta = patch(special, "zeta")
vjps(_zeta, _zeta_in_s, of_arrays(lambda dy, y, x, q=None: strong_multiply(dy, -x * _zeta(x + 1, q))), cases=lambda s: [
    case(3, s(3, low=0.5)), case(s(2, 1, low=1.5, high=4), s(3, low=0.5)), case(s.number(1.5, 4)),
    case(np.array([-2.5, 0.4, -1.0, 3.0], np.float32)), case(s(0)),
])  # fmt: skip
family(special.zetac, lambda y, x: _riemann(x), on=[(1.5, 4.0)])
