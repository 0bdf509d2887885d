"""Orthogonal polynomials, Legendre functions, spherical harmonics. Formulas: DLMF, chapters 14 and 18.

The derivatives in x hold for orders that are no integers, too. There are none in the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, vjps
from yota_py.registry.tangents import MISSING, conj, strong_multiply

from ..support import unsupported
from .families import ORDER, REAL, Range, family, signed

Slope = Callable[..., Any]
UNIT: Range = (-0.9, 0.9)

# ------------------------------------------------------------------------------------- classical ones (18.9)


def _below(slope: Slope) -> Slope:
    """A slope ``(n - 1, *parameters, x)`` of a polynomial of degree n, and zero of a constant."""

    def counted(y: Any, n: Any, *args: Any) -> Any:
        constant = np.equal(n, 0)
        return np.where(constant, 0, slope(np.where(constant, 0, n - 1), *args))

    return counted


def _times_degree(fn: Callable[..., Any], scale: float) -> Slope:
    return _below(lambda m, x: scale * (m + 1) * fn(m, x))


def _ultraspherical(alpha: float, scale: float, shift: float = 0.0, stretch: float = 1.0) -> Slope:
    return _below(lambda m, x: scale * special.eval_gegenbauer(m, alpha, stretch * x + shift))


_chebyshev: list[tuple[Any, Slope]] = [  # of one parameter: the function, its slope
    (special.eval_chebyt, _times_degree(special.eval_chebyu, 1)),
    (special.eval_chebyc, _times_degree(special.eval_chebys, 1)),
    (special.eval_sh_chebyt, _times_degree(special.eval_sh_chebyu, 2)),
    (special.eval_chebyu, _ultraspherical(2.0, 2)),
    (special.eval_chebys, _ultraspherical(2.0, 1, 0.0, 0.5)),
    (special.eval_sh_chebyu, _ultraspherical(2.0, 4, -1.0, 2.0)),
    (special.eval_legendre, _ultraspherical(1.5, 1)),
    (special.eval_sh_legendre, _ultraspherical(1.5, 2, -1.0, 2.0)),
    (special.eval_laguerre, _below(lambda m, x: -special.eval_genlaguerre(m, 1, x))),
]
for _fn, _slope in _chebyshev:
    family(_fn, MISSING, _slope, on=[ORDER, UNIT], complex=True)
family(special.eval_hermite, None, _times_degree(special.eval_hermite, 2), on=[ORDER, REAL])
family(special.eval_hermitenorm, None, _times_degree(special.eval_hermitenorm, 1), on=[ORDER, REAL])
family(special.eval_gegenbauer, MISSING, MISSING, _below(
    lambda m, alpha, x: 2 * alpha * special.eval_gegenbauer(m, alpha + 1, x)
), on=[ORDER, (1, 3), UNIT], complex=True)  # fmt: skip
family(special.eval_genlaguerre, MISSING, MISSING, _below(
    lambda m, alpha, x: -special.eval_genlaguerre(m, alpha + 1, x)
), on=[ORDER, (0, 3), REAL], complex=True)  # fmt: skip
family(special.eval_jacobi, MISSING, MISSING, MISSING, _below(
    lambda m, a, b, x: (m + a + b + 2) / 2 * special.eval_jacobi(m, a + 1, b + 1, x)
), on=[ORDER, (0, 3), (0, 3), UNIT], complex=True)  # fmt: skip
family(special.eval_sh_jacobi, MISSING, MISSING, MISSING, _below(
    lambda m, p, q, x: (m + 1) * special.eval_sh_jacobi(m, p + 2, q + 1, x)
), on=[ORDER, (3, 5), (1, 3), (0.1, 0.9)], complex=True)  # fmt: skip


@expanded(patch(special, "assoc_laguerre"), cases=lambda s: [
    case(s(3), 2), case(s.number(), s.integers(3, low=0, high=4), 1), case(s(2, 3), 3, k=0.5),
])  # fmt: skip
def _assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Any:
    return special.eval_genlaguerre(n, k, x)


# --------------------------------------------------------------------------------- Legendre functions (14.10.5)


def _lpmv(y: Any, m: Any, v: Any, x: Any) -> Any:
    return ((v + 1) * x * y - (v - m + 1) * special.lpmv(m, v + 1, x)) / ((1 - x) * (1 + x))


family(special.lpmv, None, MISSING, _lpmv, on=[(0, 3), (2, 5), UNIT])


def _legendre(name: str, *calls: tuple[Any, ...], **options: Any) -> None:
    """A function whose ``diff_n`` derivatives in its last argument stand along the first axis of its result; SciPy
    computes two."""
    fn = patch(special, name)

    def slope(dy: Any, y: Any, *args: Any, diff_n: int = 0, **options: Any) -> Any:
        if diff_n > 1:
            raise unsupported(f"scipy.special.{name} with diff_n={diff_n}", "SciPy has no third derivative")
        terms = strong_multiply(dy, conj(fn(*args, diff_n=diff_n + 1, **options)[1:]))
        return np.sum(terms, tuple(range(terms.ndim - np.ndim(args[-1]))))

    def cases(s: Sample) -> Iterable[Case]:
        for orders in calls:
            yield case(*orders, s.number(-0.9, 0.9))
            yield case(*orders, s(2, 3, low=-0.9, high=0.9), **options)
            yield case(*orders, s(3, low=-0.9, high=0.9, dtype=np.float32))
            yield case(*orders, s(0, 3))

    vjps(fn, *(None for _ in calls[0]), slope, cases=cases)


_legendre("legendre_p", (2,), (np.array([0, 1, 3]),))
_legendre("assoc_legendre_p", (3, 1), (2, np.array([0, 1, 2])), norm=True)
_legendre("sph_legendre_p", (3, 1), (2, np.array([0, 1, 2])))
_legendre("legendre_p_all", (3,))
_legendre("assoc_legendre_p_all", (2, 1), norm=True)
_legendre("sph_legendre_p_all", (2, 1))

_harmonic = patch(special, "sph_harm_y")


def _polar(dy: Any, y: Any, n: Any, m: Any, theta: Any, phi: Any) -> Any:
    """Half the difference of the neighbours in m, which has no pole at the poles (14.10.1, 14.30.1). SciPy takes the
    sine of theta for positive."""
    n, m = signed(n), signed(m)
    turn = np.exp(1j * phi)
    up = np.sqrt(np.maximum((n - m) * (n + m + 1), 0)) * _harmonic(n, m + 1, theta, phi) / turn
    down = np.sqrt(np.maximum((n + m) * (n - m + 1), 0)) * _harmonic(n, m - 1, theta, phi) * turn
    return dy * conj(up - down) * np.where(np.less(np.sin(theta), 0), -0.5, 0.5)


vjps(_harmonic, None, None, _polar, lambda dy, y, n, m, theta, phi: dy * conj(1j * signed(m) * y), cases=lambda s: [
    case(2, 1, s(3), s(3)), case(3, -2, s.number(0.2, 3), s.number()), case(2, np.arange(-2, 3), s(2, 1), s(5)),
    case(s.integers(2, low=3, high=5), 2, s(2), s.number()), case(0, 0, s(2), s(2)), case(1, 1, s(0), s(0)),
])  # fmt: skip
