"""Bessel, Airy, Struve, Kelvin functions and their integrals. Formulas: DLMF, chapters 9 to 11."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.patches import patch
from yota_py.registry.registry import case, vjps
from yota_py.registry.tangents import MISSING, astype, conj, strong_multiply

from ..python_math import SQRT_PI
from ..support import dtype_of
from .families import ORDER, POSITIVE, REAL, chained, families, family, scaled, signed, whole

Slope = Callable[..., Any]

# --------------------------------------------------------------------------- cylinder functions (10.6, 10.29)


def _middle(fn: Callable[..., Any], sign: int, scale: float = 0.5) -> Slope:
    """``scale * (f(v - 1, x) + sign f(v + 1, x))``, which holds at zero too."""
    return lambda y, v, x: scale * (fn(v - 1, x) + sign * fn(v + 1, x))


family(special.jv, MISSING, _middle(special.jv, -1), on=[ORDER, REAL], complex=True)
family(special.iv, MISSING, _middle(special.iv, 1), on=[ORDER, REAL], complex=True)
family(special.yv, MISSING, _middle(special.yv, -1), on=[ORDER, POSITIVE], complex=True)
family(special.kv, MISSING, _middle(special.kv, 1, -0.5), on=[ORDER, POSITIVE], complex=True)
family(special.yn, None, lambda y, n, x: _middle(special.yn, -1)(y, whole(n), x), on=[ORDER, POSITIVE])
family(special.kn, None, lambda y, n, x: -0.5 * (special.kn(abs(whole(n) - 1), x) + special.kn(whole(n) + 1, x)),
       on=[ORDER, POSITIVE])  # fmt: skip
family(special.hankel1, MISSING, _middle(special.hankel1, -1), on=[ORDER, POSITIVE], complex=True)
family(special.hankel2, MISSING, _middle(special.hankel2, -1), on=[ORDER, POSITIVE], complex=True)
family(special.hankel1e, MISSING, lambda y, v, x: _middle(special.hankel1e, -1)(y, v, x) - 1j * y,
       on=[ORDER, POSITIVE], complex=True)  # fmt: skip
family(special.hankel2e, MISSING, lambda y, v, x: _middle(special.hankel2e, -1)(y, v, x) + 1j * y,
       on=[ORDER, POSITIVE], complex=True)  # fmt: skip

family(special.j0, lambda y, x: -special.j1(x), on=[REAL])
family(special.j1, lambda y, x: (special.j0(x) - special.jv(2, x)) / 2, on=[REAL])
family(special.y0, lambda y, x: -special.y1(x), on=[POSITIVE])
family(special.y1, lambda y, x: (special.y0(x) - special.yn(2, x)) / 2, on=[POSITIVE])
family(special.k0, lambda y, x: -special.k1(x), on=[POSITIVE])
family(special.k1, lambda y, x: -(special.k0(x) + special.kn(2, x)) / 2, on=[POSITIVE])
family(special.i0, lambda y, x: special.i1(x), on=[REAL])
family(np.i0, lambda y, x: special.i1(astype(x, np.dtype(float)) if dtype_of(x) == np.longdouble else x), on=[REAL])
family(special.i1, lambda y, x: (special.i0(x) + special.iv(2, x)) / 2, on=[REAL])


# The scaled ones are nearly 1 / sqrt(x) at large x, so that their slopes are small differences there.
def _unless_far(slope: Any, sign: int, v: Any, x: Any) -> Any:
    """The slope, and at large real x that of Hankel's expansion of exp(-x) I (10.40.1), or with the other sign of
    exp(x) K (10.40.2). To the left, I_n(-x) is (-1)^n I_n(x)."""
    if dtype_of(x).kind == "c":
        return slope
    far = np.greater(np.abs(x), np.maximum(25, v * v))
    z = np.where(far, np.abs(x), 1)
    series: Any = 0.0
    a: Any = 1.0
    for k in range(16):
        series = series - (k + 0.5) * a
        a = a * (sign * (4 * v * v - (2 * k + 1) ** 2) / (8 * (k + 1))) / z
    mirrored = np.where(np.less(x, 0), -np.cos(np.pi * v), 1)
    scale = math.sqrt(2 * math.pi if sign < 0 else 2 / math.pi)
    return np.where(far, mirrored * series / (scale * z * np.sqrt(z)), slope)


def _kve(y: Any, v: Any, x: Any) -> Any:
    return _unless_far(y - (special.kve(v - 1, x) + special.kve(v + 1, x)) / 2, 1, v, x)


def _ive(y: Any, v: Any, x: Any) -> Any:
    return _unless_far((special.ive(v - 1, x) + special.ive(v + 1, x)) / 2 - np.sign(x) * y, -1, v, x)


family(special.kve, MISSING, _kve, on=[ORDER, POSITIVE], complex=True)
family(special.k0e, lambda y, x: _kve(y, 0, x), on=[POSITIVE])
family(special.k1e, lambda y, x: _kve(y, 1, x), on=[POSITIVE])
family(special.i0e, lambda y, x: _ive(y, 0, x), on=[REAL])
family(special.i1e, lambda y, x: _ive(y, 1, x), on=[REAL])


# Their factors exp(-|Re z|) and exp(-|Im z|) have no complex derivative.
for _fn, _sign, _part, _turn in [
    (special.ive, 1, np.real, 1), (special.jve, -1, np.imag, -1j), (special.yve, -1, np.imag, -1j),
]:  # fmt: skip

    def _scaled(dy: Any, y: Any, v: Any, x: Any, fn: Any = _fn, sign: int = _sign, part: Any = _part,
                turn: Any = _turn) -> Any:  # fmt: skip
        v = signed(v)
        if dtype_of(x).kind != "c":
            return dy * (_ive(y, v, x) if sign > 0 else _middle(fn, sign)(y, v, x))
        return scaled(dy, y, _middle(fn, sign)(y, v, x), turn * np.sign(part(x)))

    vjps(_fn, MISSING, _scaled, cases=families(ORDER, POSITIVE, complex=True))

# ----------------------------------------------------------------------- derivatives of cylinder functions (10.6)

for _name in ("jvp", "yvp", "kvp", "ivp", "h1vp", "h2vp"):
    _derivative = patch(special, _name)

    def _next(dy: Any, y: Any, v: Any, z: Any, n: int = 1, fn: Any = _derivative) -> Any:
        return strong_multiply(dy, conj(fn(signed(v), z, n + 1)))

    vjps(_derivative, MISSING, _next, cases=lambda s: [
        case(1, s(3, low=0.4)), case(2, s.number(0.4), 2), case(np.array([0, 2]), s(2, 2, low=0.4), n=0),
        case(1, s(0)), case(1, s(2, low=0.4, dtype=np.complex128)),
    ])  # fmt: skip


# ------------------------------------------------------------------------------- spherical functions (10.51)

_of_sphere = lambda s: [  # noqa: E731
    case(1, s(3, low=0.4)), case(0, s.number(0.4)), case(s.integers(2, low=0, high=4), s(3, 2, low=0.4)),
    case(2, s(3, low=0.4), True), case(0, s(2, low=0.4), derivative=True), case(1, s(0)),
    case(s.integers(2, low=1, high=3), s(2, low=0.4), True), case(2, s(3, low=0.4, dtype=np.complex128)),
]  # fmt: skip
for _name, _down, _up in [
    ("spherical_jn", 1, -1), ("spherical_yn", 1, -1), ("spherical_in", 1, 1), ("spherical_kn", -1, -1),
]:  # fmt: skip
    _sphere = patch(special, _name)

    def _slope(dy: Any, y: Any, n: Any, z: Any, derivative: bool = False, fn: Any = _sphere, down: int = _down,
               up: int = _up) -> Any:  # fmt: skip
        n = whole(n)
        lower = fn(np.maximum(n - 1, 0), z, derivative)
        return strong_multiply(dy, conj((down * n * lower + up * (n + 1) * fn(n + 1, z, derivative)) / (2 * n + 1)))

    vjps(_sphere, None, _slope, cases=_of_sphere)

# ------------------------------------------------------------------------------------ integrals (10.22, 10.43)


def _below_one(sign: int, x: Any) -> Any:
    """``(1 - J_0(x)) / x``, or with the other sign ``(I_0(x) - 1) / x``; near zero by their series (10.2.2)."""
    near = np.abs(x) < 1
    u = np.square(np.where(near, x, 0)) / 4
    series: Any = 1.0
    for k in range(12, 1, -1):
        series = 1 + sign * u / (k * k) * series
    whole = special.j0(x) if sign < 0 else special.i0(x)
    return np.where(near, x / 4 * series, sign * (whole - 1) / np.where(near, 1, x))


family(special.itj0y0, lambda y, x: (special.j0(x), special.y0(x)), on=[POSITIVE])
family(special.iti0k0, lambda y, x: (special.i0(x), special.k0(x)), on=[POSITIVE])
family(special.it2j0y0, lambda y, x: (_below_one(-1, x), np.divide(-special.y0(x), x)), on=[POSITIVE])
family(special.it2i0k0, lambda y, x: (_below_one(1, x), np.divide(-special.k0(x), x)), on=[POSITIVE])


def _besselpoly(y: Any, a: Any, power: Any, v: Any) -> Any:
    """The integral of ``t**power J_v(2 a t)`` over (0, 1), differentiated under the integral."""
    below = np.where(np.equal(v, 0), -special.besselpoly(a, power + 1, 1), special.besselpoly(a, power + 1, v - 1))
    return below - special.besselpoly(a, power + 1, v + 1)


family(special.besselpoly, _besselpoly, MISSING, MISSING, on=[POSITIVE, ORDER, ORDER])

# ---------------------------------------------------------------------------------------- Struve functions (11.4)


def _struve(fn: Callable[..., Any], sign: int) -> Slope:
    def upwards(v: Any, x: Any) -> Any:
        between = (x / 2) ** v * special.rgamma(v + 1.5) / SQRT_PI
        return 0.5 * (fn(v - 1, x) + sign * fn(v + 1, x) + between)

    def slope(y: Any, v: Any, x: Any) -> Any:
        """That of order -1 is the one of order 1, up to the sign and 2 / pi, without what is infinite at zero."""
        below = np.equal(v, -1)
        return np.where(below, sign * upwards(1, x), upwards(np.where(below, 1, v), x))

    return slope


family(special.struve, MISSING, _struve(special.struve, -1), on=[ORDER, POSITIVE])
family(special.modstruve, MISSING, _struve(special.modstruve, 1), on=[ORDER, POSITIVE])
family(special.itstruve0, lambda y, x: special.struve(0, x), on=[POSITIVE])
family(special.itmodstruve0, lambda y, x: special.modstruve(0, x), on=[POSITIVE])
family(special.it2struve0, lambda y, x: -_over_x(special.struve(0, x), x, 2 / math.pi), on=[POSITIVE])

# ---------------------------------------------------------------------------------- Airy functions (9.2, 9.10)

family(special.airy, lambda y, z: (y[1], z * y[0], y[3], z * y[2]), on=[REAL], complex=True)
family(special.itairy, lambda y, x: (special.airy(x)[0], special.airy(x)[2], special.airy(-x)[0], special.airy(-x)[2]),
       on=[POSITIVE])  # fmt: skip


def _airye(dy: Any, y: Any, z: Any) -> Any:
    """Ai has the factor ``exp(2/3 z**1.5)``, Bi has ``exp(-|Re(2/3 z**1.5)|)``, which has no complex derivative."""
    if dtype_of(z).kind != "c":
        root = np.sqrt(np.maximum(z, 0))
        return chained(dy, (y[1] + root * y[0], z * y[0] + root * y[1], y[3] - root * y[2], z * y[2] - root * y[3]))
    root = np.sqrt(z)
    rate = np.sign(np.real(z * root)) * root
    second = [scaled(d, b, slope, rate) for d, b, slope in zip(dy[2:], y[2:], (y[3], z * y[2]), strict=True)
              if d is not None]  # fmt: skip
    first = chained(dy[:2], (y[1] + root * y[0], z * y[0] + root * y[1]))
    return sum(second, 0 if first is None else first)


vjps(special.airye, _airye, cases=families(POSITIVE, complex=True))

# ------------------------------------------------------------------------------------- Kelvin functions (10.61)
# Both are parts of solutions of x w'' + w' = i x w.


def _over_x(slope: Any, x: Any, limit: complex) -> Any:
    return np.where(np.equal(x, 0), limit, np.divide(slope, np.where(np.equal(x, 0), 1, x)))


family(special.ber, lambda y, x: special.berp(x), on=[REAL])
family(special.bei, lambda y, x: special.beip(x), on=[REAL])
family(special.ker, lambda y, x: special.kerp(x), on=[POSITIVE])
family(special.kei, lambda y, x: special.keip(x), on=[POSITIVE])
family(special.berp, lambda y, x: -special.bei(x) - _over_x(y, x, 0), on=[REAL])
family(special.beip, lambda y, x: special.ber(x) - _over_x(y, x, 0.5), on=[REAL])
family(special.kerp, lambda y, x: -special.kei(x) - np.divide(y, x), on=[POSITIVE])
family(special.keip, lambda y, x: special.ker(x) - np.divide(y, x), on=[POSITIVE])
family(special.kelvin, lambda y, x: (
    y[2], y[3], 1j * y[0] - _over_x(y[2], x, 0.5j), 1j * y[1] - np.divide(y[3], x)
), on=[POSITIVE])  # fmt: skip
