"""Elliptic integrals and functions, the arithmetic-geometric mean. Formulas: DLMF, chapters 19 and 22.

Legendre's integrals have their derivatives in Carlson's, which do not cancel (19.25). Those of Carlson's are integrals
of the same kind with other powers, of all orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import conj, strong_multiply

from ..support import dtype_of
from .families import POSITIVE, REAL, family
from .quadrature import trapezoid

rd = special.elliprd

# ------------------------------------------------------------------------------------ Carlson's integrals (19.16)


@primitive
def carlson(k: int, powers: tuple[int, ...], *xs: Any) -> Any:
    """The integral of ``t**k / prod(sqrt(t + x)**power)`` over t from zero to infinity, infinite where it diverges.

    The trapezoidal rule in log t, which converges exponentially, as the integrand is analytic there.
    """
    complex = any(np.iscomplexobj(x) for x in xs)
    zs = np.broadcast_arrays(*(np.asarray(x, np.complex128 if complex else np.float64) for x in xs))
    near = np.array(k + 1.0 - sum(np.where(z == 0, power / 2, 0) for z, power in zip(zs, powers, strict=True)))
    sizes = [np.log(np.where(z == 0, 1, abs(z))) for z in zs]
    spread = np.where(np.isfinite(sizes), sizes, 0)
    diverges = near <= 0
    low = np.min(spread, axis=0) - 40 / np.where(diverges, 1, near)
    high = np.max(spread, axis=0) + 40 / (sum(powers) / 2 - k - 1)

    def integrand(log: Any) -> Any:
        t = np.exp(log)
        value = t ** (k + 1)
        for z, power in zip(zs, powers, strict=True):
            value = value / np.sqrt(t + z) ** power
        return value

    return np.where(diverges, np.inf, trapezoid(integrand, low, high, 0.25))[()]


def _carlson(i: int) -> Callable[..., Any]:
    """Integrand and power are the same but that of ``t + x_i``, which goes up by one."""

    def formula(dy: Any, y: Any, k: int, powers: tuple[int, ...], *xs: Any) -> Any:
        raised = (*powers[:i], powers[i] + 2, *powers[i + 1 :])
        return strong_multiply(dy, conj(-powers[i] / 2 * carlson(k, raised, *xs)))

    return formula


vjps(carlson, None, None, *map(_carlson, range(4)), cases=lambda s: [
    case(0, (1, 3, 3), s(2, 1, low=0.3), s(3, low=0.3), 1.0), case(1, (3, 1, 1), s.number(0.3), s(3, low=0.3), 2.0),
    case(0, (1, 1, 1, 4), s(2, low=0.3), 1e-3, 1e3, s.number(0.3, 2)), case(0, (1, 1, 3), s(0), 1.0, 2.0),
    case(0, (1, 1, 3), s(2, low=0.3, dtype=complex), 1.0, 2.0),
])  # fmt: skip


def _rc(i: int) -> Callable[..., Any]:
    """``R_C(x, y) = R_F(x, y, y)``. Its principal value at y < 0 is ``sqrt(x / (x - y)) R_C(x - y, -y)`` (19.2.20)."""

    def slope(value: Any, x: Any, y: Any) -> Any:
        beyond = np.less(y, 0) if dtype_of(y).kind != "c" else np.zeros(1, bool)
        u, v = np.where(beyond, x - y, x), np.where(beyond, -y, y)
        first, second = -rd(v, v, u) / 6, -rd(u, v, v) / 3
        root = np.sqrt(np.where(beyond, x, 1) / np.where(beyond, x - y, 1))
        distance = np.where(beyond, x - y, 1)
        if i == 0:
            half = value / 2 * (1 / np.where(beyond, x, 1) - 1 / distance)
            return np.where(beyond, half + root * first, first)
        return np.where(beyond, value / 2 / distance - root * (first + second), second)

    return slope


family(special.elliprc, _rc(0), _rc(1), on=[POSITIVE, POSITIVE], complex=True)
family(special.elliprf, lambda v, x, y, z: -rd(y, z, x) / 6, lambda v, x, y, z: -rd(x, z, y) / 6,
       lambda v, x, y, z: -rd(x, y, z) / 6, on=[POSITIVE] * 3, complex=True)  # fmt: skip
family(special.elliprd, lambda v, x, y, z: -0.75 * carlson(0, (3, 1, 3), x, y, z),
       lambda v, x, y, z: -0.75 * carlson(0, (1, 3, 3), x, y, z),
       lambda v, x, y, z: -2.25 * carlson(0, (1, 1, 5), x, y, z), on=[POSITIVE] * 3, complex=True)  # fmt: skip
family(special.elliprg, lambda v, x, y, z: carlson(1, (3, 1, 1), x, y, z) / 8,
       lambda v, x, y, z: carlson(1, (1, 3, 1), x, y, z) / 8,
       lambda v, x, y, z: carlson(1, (1, 1, 3), x, y, z) / 8, on=[POSITIVE] * 3, complex=True)  # fmt: skip


def _rj(*powers: int) -> Callable[..., Any]:
    """NaN of the principal value at p < 0, of which there is no formula."""

    def slope(v: Any, x: Any, y: Any, z: Any, p: Any) -> Any:
        pole = np.where(np.less(p, 0), np.nan, p) if dtype_of(p).kind != "c" else p
        return -0.75 * (1 if powers[3] == 2 else 2) * carlson(0, powers, x, y, z, pole)

    return slope


family(special.elliprj, _rj(3, 1, 1, 2), _rj(1, 3, 1, 2), _rj(1, 1, 3, 2), _rj(1, 1, 1, 4),
       on=[POSITIVE] * 4, complex=True)  # fmt: skip

# ------------------------------------------------------------------- Legendre's integrals (19.4, 19.25), in m = k^2

family(special.ellipk, lambda y, m: rd(0, 1, 1 - m) / 6, on=[(-2.0, 0.9)])
family(special.ellipkm1, lambda y, p: -rd(0, 1, p) / 6, on=[POSITIVE])
family(special.ellipe, lambda y, m: -rd(0, 1 - m, 1) / 6, on=[(-2.0, 0.9)])


def _reduced(phi: Any) -> tuple[Any, Any, Any]:
    """The half turns in an angle, the sine of what is left, the square of its cosine."""
    turns = np.round(phi / np.pi)
    rest = phi - turns * np.pi
    return turns, np.sin(rest), np.square(np.cos(rest))


def _beyond(turns: Any, rest: Any) -> Any:
    """``1 - m`` where there are half turns; elsewhere it may be negative."""
    return np.where(np.equal(turns, 0), 1, rest)


def first_in_m(phi: Any, m: Any) -> Any:
    """The derivative of ``ellipkinc`` in m."""
    turns, s, c2 = _reduced(phi)
    return turns / 3 * rd(0, 1, _beyond(turns, 1 - m)) + s**3 / 6 * rd(c2, 1, 1 - m * s * s)


def _second_in_m(y: Any, phi: Any, m: Any) -> Any:
    turns, s, c2 = _reduced(phi)
    return -turns / 3 * rd(0, _beyond(turns, 1 - m), 1) - s**3 / 6 * rd(c2, 1 - m * s * s, 1)


family(special.ellipkinc, lambda y, phi, m: 1 / np.sqrt(1 - m * np.square(np.sin(phi))),
       lambda y, phi, m: first_in_m(phi, m), on=[(-4.0, 4.0), (-2.0, 0.9)])  # fmt: skip
family(special.ellipeinc, lambda y, phi, m: np.sqrt(1 - m * np.square(np.sin(phi))), _second_in_m,
       on=[(-4.0, 4.0), (-2.0, 0.9)])  # fmt: skip

# ----------------------------------------------------------------------------------- Jacobi's functions (22.13, 22.16)


def _amplitude_in_m(y: Any, u: Any, m: Any) -> Any:
    """By the implicit function: the amplitude solves ``ellipkinc(phi, m) = u``."""
    sn, cn, dn, phi = y
    turned = -dn * first_in_m(phi, m)
    return cn * turned, -sn * turned, -(sn * sn / 2 + m * sn * cn * turned) / dn, turned


family(special.ellipj, lambda y, u, m: (y[1] * y[2], -y[0] * y[2], -m * y[0] * y[1], y[2]), _amplitude_in_m,
       on=[REAL, (0.1, 0.9)])  # fmt: skip

# ------------------------------------------------------------------------------ arithmetic-geometric mean (19.8.5)


def _agm(y: Any, a: Any, b: Any) -> Any:
    a, b = np.abs(a), np.abs(b)
    constant = np.logical_and(np.equal(b, 0), np.not_equal(a, 0))
    return np.where(constant, 0, 2 / (3 * np.pi) * y * y * a * rd(0, np.where(constant, 1, b * b), a * a))


family(special.agm, _agm, lambda y, a, b: _agm(y, b, a), on=[POSITIVE, POSITIVE])
