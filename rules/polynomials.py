"""Polynomials of NumPy's older kind: the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch, through
from yota_py.registry.registry import Cases, case, rrule, vjps
from yota_py.registry.tangents import conj

from .bodies import seen_through
from .support import Pullback, inexact, operand, shape_of

_two: Cases = lambda s: [  # noqa: E731
    case(s(3), s(2)), case(s(2), s(3)), case(s(2), s.number()), case(s(2, dtype=np.float32), s(2)),
    case(s(2, dtype=complex), s(3)),
]  # fmt: skip
for _fn in (np.polyadd, np.polysub):
    seen_through(_fn, _two)
seen_through(np.polydiv, lambda s: [case(s(4), s(2, low=0.5)), case(s(2), s(3, low=0.5))])
seen_through(np.polyval, lambda s: [
    case(s(3), s(2)), case(s(3), s.number()), case(s(3), s(2, 2)), case(s(1), s(2)), case(s(0), s(2)),
    case(s(2, dtype=complex), s(2)), case(s(3, dtype=np.float32), s(2, dtype=np.float32)),
])  # fmt: skip
seen_through(np.polyder, lambda s: [case(s(4)), case(s(4), 2), case(s(2), 3), case(s(3, dtype=np.float32))])
seen_through(np.polyint, lambda s: [
    case(s(3)), case(s(2), 2), case(s(2), 2, s(2)), case(s(2), 2, s.number()), case(s(2, dtype=complex), k=2.0),
])  # fmt: skip
seen_through(np.poly, lambda s: [case(s(3)), case(s(1)), case(s(2, dtype=complex)), case(s(2, dtype=np.float32))])


@expanded(np.polymul, cases=_two)
def _polymul(a1: Any, a2: Any) -> Any:
    """Without the zeros in front, as the objects have it that NumPy makes of both."""
    both = [np.trim_zeros(np.atleast_1d(operand(a.coeffs if isinstance(a, np.poly1d) else a)), "f") for a in (a1, a2)]
    a, b = (x if shape_of(x)[0] else np.zeros(1) for x in both)
    y: Any = np.convolve(a, b)
    return np.poly1d(y) if isinstance(a1, np.poly1d) or isinstance(a2, np.poly1d) else y


def _roots(dy: Any, y: Any, p: Any) -> Any:
    """A simple root moves by ``-x**k / p'(x)`` with the coefficient of ``x**k`` (the implicit function theorem)."""
    p = operand(p)
    n = shape_of(p)[0]
    slope = sum((p[i] * (n - 1 - i) * y ** (n - 2 - i) for i in range(n - 1)), np.zeros_like(y))
    moved = np.divide(dy, conj(slope))
    return -np.stack([np.sum(moved * conj(y ** (n - 1 - i))) for i in range(n)])


vjps(np.roots, _roots, cases=lambda s: [
    case(np.array([1.0, -2.5, 0.5]) + s(3) / 9), case(np.array([1.0, 0.5, 2.0, 1.0]) + s(4) / 9), case(s(2, low=0.5)),
    case(s(3, dtype=complex)), case(s(1)), case(np.array([1.0, 3.0, 1.0], np.float32)),
])  # fmt: skip


# ---------------------------------------------------------------------------------------- least squares


def _fit_cases(s: Any) -> Any:
    x = np.array([-1.0, 0.2, 0.9, 2.0, 2.5])
    return [
        case(x, s(5), 1), case(x, s(5), 2), case(x + s(5) / 9, s(5, 2), 1), case(x, s(5), 1, w=np.arange(1.0, 6.0)),
        case(x, s(5), 1, None, False, s(5, low=0.5)), case(x, s(5), 0), case(np.array([0, 1, 2]), s(3), 1),
        case(x, s(5, dtype=complex), 1), case(x.astype(np.float32), s(5, dtype=np.float32), 1),
    ]  # fmt: skip


def _polyfit_through(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """With further results, NumPy's own steps."""
    return _steps(x, y, deg, rcond, full, w, cov) if full or cov else NotImplemented


_steps = through(np.polyfit._implementation)  # type: ignore[attr-defined]


@rrule(np.polyfit, instead=_polyfit_through, cases=_fit_cases)
def _polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> tuple[Any, Pullback]:
    """Of c = argmin |A c - b| with the residuals r = b - A c (Golub & Pereyra 1973): with G = (A* A)^-1 and g = A G dc,
    db = g and dA = r (G dc)* - g c*; here A and b are powers and values times weights."""
    c = np.polyfit(x, y, deg, rcond, full, w, cov)  # type: ignore[call-overload]

    def pullback(dc: Any) -> tuple[Any, ...]:
        places, values = inexact(x), inexact(y)
        weights = 1.0 if w is None else inexact(w)[:, None]
        powers = places[:, None] ** np.arange(deg, -1, -1)
        a = powers * weights
        inplane = np.reshape(values, (shape_of(values)[0], -1))
        b, cs, dcs = inplane * weights, np.reshape(c, (deg + 1, -1)), np.reshape(dc, (deg + 1, -1))
        inverse = np.linalg.inv(np.transpose(a) @ a)
        turned = inverse @ dcs
        g, r = a @ turned, b - a @ cs
        da = r @ conj(np.transpose(turned)) - g @ conj(np.transpose(cs))
        slopes = places[:, None] ** np.maximum(np.arange(deg - 1, -2, -1), 0) * np.arange(deg, -1, -1)
        dx = np.sum(np.real(da) * weights * slopes, axis=1)
        dy = np.reshape(g * weights, shape_of(values))
        if w is None:
            return dx, dy
        dw = np.sum(np.real(da) * powers, axis=1) + np.sum(np.real(g * conj(inplane)), axis=1)
        return dx, dy, None, None, None, dw

    return c, pullback


# -------------------------------------------------------------------------------------------- objects

# Methods of ``np.poly1d``, which may hold traced coefficients; its own code calls the functions above.
_OPERATORS = [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv") for side in ("", "r")]
for _name in ("__call__", "__pow__", "__neg__", "deriv", "integ", *_OPERATORS):
    patch(np.poly1d, _name, through(vars(np.poly1d)[_name]), holds=("coeffs",))
