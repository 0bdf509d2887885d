"""Solutions of differential equations that SciPy gives with their derivatives; hypergeometric functions.

The second derivative follows from the equation. Formulas: DLMF, chapters 10, 12, 13, 15, 28 and 30. There is none in
parameters that are no integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.patches import patch
from yota_py.registry.registry import case, vjps
from yota_py.registry.tangents import MISSING

from ..elementwise import DEGREE
from .families import FRACTION, POSITIVE, REAL, Range, chained, family

# ------------------------------------------------------- hypergeometric functions (13.3.15, 13.3.22, 15.5.1, 16.3.1)

_A, _C = (1, 3), (2, 5)
family(special.hyp0f1, MISSING, lambda y, v, z: special.hyp0f1(v + 1, z) / v, on=[_A, REAL], complex=True)
family(special.hyp1f1, MISSING, MISSING, lambda y, a, b, z: a / b * special.hyp1f1(a + 1, b + 1, z),
       on=[_A, _C, REAL], complex=True)  # fmt: skip
family(special.hyp2f1, MISSING, MISSING, MISSING,
       lambda y, a, b, c, z: a * b / c * special.hyp2f1(a + 1, b + 1, c + 1, z), on=[_A, _A, _C, (-0.8, 0.8)],
       complex=True)  # fmt: skip
family(special.hyperu, MISSING, MISSING, lambda y, a, b, x: -a * special.hyperu(a + 1, b + 1, x), on=[_A, _C, POSITIVE])
# Wright's function, the sum of x^k / (k! gamma(a k + b)).
family(special.wright_bessel, MISSING, MISSING, lambda y, a, b, x: special.wright_bessel(a, a + b, x),
       on=[_A, _A, POSITIVE])  # fmt: skip
family(special.log_wright_bessel, MISSING, MISSING,
       lambda y, a, b, x: np.exp(special.log_wright_bessel(a, a + b, x) - y), on=[_A, _A, POSITIVE])  # fmt: skip

# ------------------------------------------------------------------------ parabolic cylinder functions (12.2)

_weber: Callable[..., Any] = lambda y, v, x: (y[1], (x * x / 4 - v - 0.5) * y[0])  # noqa: E731
family(special.pbdv, MISSING, _weber, on=[(0, 4), REAL])
family(special.pbvv, MISSING, _weber, on=[(0, 4), REAL], narrow=False)
family(special.pbwa, MISSING, lambda y, a, x: (y[1], (a - x * x / 4) * y[0]), on=[(0, 3), REAL])

# ------------------------------------------------------------------------------ Mathieu functions (28.2, 28.20)


def _mathieu(value: Callable[..., Any]) -> Callable[..., Any]:
    """Of an angle in degrees, the derivative is the one in radians."""

    def slope(y: Any, m: Any, q: Any, x: Any) -> Any:
        return DEGREE * y[1], -DEGREE * (value(m, q) - 2 * q * np.cos(2 * DEGREE * x)) * y[0]

    return slope


def _modified(value: Callable[..., Any]) -> Callable[..., Any]:
    return lambda y, m, q, x: (y[1], (value(m, q) - 2 * q * np.cosh(2 * x)) * y[0])


_on: list[Range] = [(1, 4), (1, 3), (0.3, 1.2)]
_angle: Range = (-60.0, 60.0)
family(special.mathieu_cem, None, MISSING, _mathieu(special.mathieu_a), on=[(0, 4), (1, 3), _angle],
       narrow=False)  # fmt: skip
family(special.mathieu_sem, None, MISSING, _mathieu(special.mathieu_b), on=[(1, 4), (1, 3), _angle],
       narrow=False)  # fmt: skip
for _fn, _value in [
    (special.mathieu_modcem1, special.mathieu_a), (special.mathieu_modcem2, special.mathieu_a),
    (special.mathieu_modsem1, special.mathieu_b), (special.mathieu_modsem2, special.mathieu_b),
]:  # fmt: skip
    family(_fn, None, MISSING, _modified(_value), on=_on, narrow=False)

# ---------------------------------------------------------------------------- spheroidal wave functions (30.2)
# Those of the second kind have no rule: SciPy's values and its derivatives do not fit together.


def _spheroidal(value: Callable[..., Any] | None, sign: int, outside: int) -> Callable[..., Any]:
    """The slopes of a solution and its derivative; ``sign`` is -1 for oblate ones, of which the radial ones (then
    ``outside`` is -1) have an imaginary argument."""

    def slope(y: Any, m: Any, n: Any, c: Any, *rest: Any) -> Any:
        x, known = rest[-1], rest[:-1]
        a = outside * x * x
        eigenvalue = known[0] if known else value(m, n, c)  # type: ignore[misc]
        turned = outside * (eigenvalue - sign * c * c * a - m * m / (1 - a)) * y[0]
        return y[1], (2 * outside * x * y[1] - turned) / (1 - a)

    return slope


_wave: list[Range] = [(0, 2), (2, 4), (1, 3)]
for _kind, _sign in (("pro", 1), ("obl", -1)):
    for _part, _domain in (("ang1", FRACTION), ("rad1", (1.2, 2.0))):
        _outside = -1 if _part != "ang1" and _sign < 0 else 1
        _wave_slope = _spheroidal(getattr(special, f"{_kind}_cv"), _sign, _outside)
        family(getattr(special, f"{_kind}_{_part}"), None, None, MISSING, _wave_slope, on=[*_wave, _domain],
               narrow=False)  # fmt: skip
    # At c = 0 the characteristic value is n (n + 1), an integer, too.
    _wave_slope = _spheroidal(None, _sign, 1)
    family(getattr(special, f"{_kind}_ang1_cv"), None, None, MISSING, MISSING, _wave_slope,
           on=[(0, 2), (2, 3), (0, 1), (6, 7), FRACTION], narrow=False)  # fmt: skip

# ---------------------------------------------------------------------------- functions that give several orders


def _orders(name: str, first: Range, slope: Callable[..., Any], in_order: Any = MISSING) -> None:
    """A function of an order and a number that gives two arrays: of the orders up to this one and their derivatives."""
    vjps(patch(special, name), in_order, lambda dy, y, v, x: _summed(chained(dy, slope(y, _counted(y, v), x))),
         cases=lambda s: [case(3, s.number(*first)), case(1, s.number(*first)), case(0, s.number(*first))])  # fmt: skip


def _counted(y: Any, v: Any) -> Any:
    return v - int(v) + np.arange(np.shape(y[0])[0])


def _summed(terms: Any) -> Any:
    return None if terms is None else np.sum(terms)


def _riccati(y: Any, n: Any, x: Any) -> Any:
    return y[1], (n * (n + 1) / (x * x) - 1) * y[0]


def _lmbda(y: Any, v: Any, x: Any) -> Any:
    """``gamma(v + 1) (2/x)^v J_v(x)``, of which 10.2.1 leaves this."""
    nowhere = np.equal(x, 0)
    ratio = np.where(nowhere, -0.5 / (v + 1), y[1] / np.where(nowhere, 1, x))
    return y[1], -y[0] - (2 * v + 1) * ratio


_orders("riccati_jn", POSITIVE, _riccati, None)
_orders("riccati_yn", POSITIVE, _riccati, None)
_orders("lmbda", POSITIVE, _lmbda)
_orders("pbdv_seq", REAL, _weber)
_orders("pbvv_seq", REAL, _weber)
