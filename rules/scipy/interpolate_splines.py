"""B-splines of ``scipy.interpolate``: values, with derivatives in coefficients, points and knots, and fits to data.

A fit's coefficients solve a linear system, so its derivatives are those of the solution. Formulas: de Boor 1978, "A
Practical Guide to Splines", chapters IX to XIV.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.interpolate import BSpline

from yota_py.base.dispatch import shadow
from yota_py.registry.composites import expanded, rule_of_body
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive, vjps
from yota_py.registry.tangents import as_array, astype, conj, strong_multiply

from ..indices import getitem
from ..support import dtype_of, inexact, operand, shape_of
from .interpolate import called, made

# ---------------------------------------------------------------------------------------------------------- values


@primitive
def spline(t: Any, c: Any, points: Any, k: int, nu: int, extrapolate: bool) -> Any:
    """A derivative of the spline of degree ``k`` with knots ``t``, of shape (*points, *trailing axes of c)."""
    return BSpline.construct_fast(np.ascontiguousarray(t), np.ascontiguousarray(c), k, extrapolate)(points, nu)


@nondiff
@primitive
def _intervals(t: Any, points: Any, k: int) -> Any:
    """The last knot before points, of those within which the spline lives."""
    n = len(t) - k - 1
    last = np.searchsorted(t, t[n], "left") - 1 if k else n - 1  # before repeated knots at the end
    return np.clip(np.searchsorted(t[: n + 1], points, "right") - 1, k, max(last, k))


def _outside(t: Any, points: Any, k: int) -> Any:
    return (points < t[k]) | (points > t[len(t) - k - 1])


def _basis(t: Any, points: Any, k: int, nu: int) -> list[Any]:
    """The ``k + 1`` B-splines that are not zero at points, or derivatives of them."""
    i, w = _intervals(t, points, k), [np.ones(points.shape)]
    for d in range(1, k + 1):
        spans = [t[i + j] - t[i - d + j] for j in range(1, d + 1)]
        parts = [0.0, *(b / span for b, span in zip(w, spans, strict=True)), 0.0]
        if d <= k - nu:
            w = [(points - t[i - d + j]) * parts[j] + (t[i + j + 1] - points) * parts[j + 1] if 0 < j < d else
                 (t[i + 1] - points) * parts[1] if not j else (points - t[i]) * parts[d] for j in range(d + 1)]
        else:
            w = [d * (parts[j] - parts[j + 1]) for j in range(d + 1)]
    return w if nu <= k else [0.0 * points] * (k + 1)


@primitive
def spread(dy: Any, t: Any, points: Any, k: int, nu: int, extrapolate: bool, n: int) -> Any:
    """The adjoint of ``spline`` in its ``n`` coefficients."""
    flat = np.ravel(points)
    dy = np.reshape(dy, (flat.size, *np.shape(dy)[np.ndim(points) :]))
    if not extrapolate:
        dy = np.where(np.reshape(_outside(t, flat, k), (-1,) + (1,) * (dy.ndim - 1)), 0, dy)
    first, out = _intervals(t, flat, k) - k, np.zeros((n, *dy.shape[1:]), dy.dtype)
    for j, w in enumerate(_basis(t, flat, k, nu)):
        np.add.at(out, first + j, dy * np.reshape(w, (-1,) + (1,) * (dy.ndim - 1)))
    return out


def _de_boor(t: Any, c: Any, points: Any, k: int, nu: int, extrapolate: bool) -> Any:
    """The values once more, as a function of the knots."""
    n, rest = shape_of(t)[0] - k - 1, (1,) * (len(shape_of(c)) - 1)
    c = c[:n]
    for d in range(nu):
        if k - d <= 0:
            return np.zeros((*shape_of(points), *shape_of(c)[1:]))
        lengths = t[k + 1 : n + k - d] - t[d + 1 : n]
        zero = np.equal(lengths, 0)
        slope = np.where(zero, 0, (k - d) / np.where(zero, 1, lengths))
        c = np.reshape(slope, (-1, *rest)) * np.diff(c, axis=0)
    flat = np.ravel(points)
    i = _intervals(t, flat, k)
    degree = k - nu
    window = [getitem(c, i - k + j) for j in range(degree + 1)]
    for r in range(1, degree + 1):
        for j in range(degree, r - 1, -1):
            low, high = getitem(t, i - degree + j), getitem(t, i + 1 + j - r)
            a = np.reshape((flat - low) / (high - low), (-1, *rest))
            window[j] = (1 - a) * window[j - 1] + a * window[j]
    return np.reshape(window[degree], (*shape_of(points), *shape_of(c)[1:]))


def _of_knots(dy: Any, t: Any, c: Any, points: Any, *how: Any) -> Any:
    return rule_of_body(_de_boor, (t, c, points, *how), {}, {0})[1](dy)[0]


def _of_points(dy: Any, t: Any, c: Any, points: Any, k: int, nu: int, extrapolate: bool) -> Any:
    product = strong_multiply(dy, conj(spline(t, c, points, k, nu + 1, extrapolate)))
    return np.sum(product, axis=tuple(range(len(shape_of(points)), len(shape_of(dy)))))


def _knots(k: int) -> Any:
    return np.array([0.0] * (k + 1) + [1.0, 1.5] + [3.0] * (k + 1))


vjps(
    spline, lambda dy, y, *args: _of_knots(dy, *args),
    lambda dy, y, t, c, points, k, nu, extrapolate: spread(dy, t, points, k, nu, extrapolate, shape_of(c)[0]),
    lambda dy, y, *args: _of_points(dy, *args),
    cases=lambda s: [
        *(case(np.arange(2.0 * k + 4) + s(2 * k + 4, low=0.0, high=0.3), s(k + 3), s(3, low=k + 0.4, high=k + 2.6),
               k, nu, True)
          for k, nu in ((1, 0), (2, 0), (2, 1), (3, 0), (3, 2))),
        case(np.arange(8.0) + s(8, low=0.0, high=0.3), s(4, 2), s(2, 2, low=3.4, high=4.0), 3, 0, False),
        case(np.arange(6.0) + s(6, low=0.0, high=0.3), s(3, dtype=complex), s(3, low=2.4, high=3.0), 2, 0, True),
        case(np.arange(6.0) + s(6, low=0.0, high=0.3), s(3), s(0), 2, 0, True),
    ],
)  # fmt: skip
vjps(
    spread, lambda dz, y, dy, t, points, k, nu, extrapolate, n: spline(t, dz, points, k, nu, extrapolate),
    lambda dz, y, dy, t, points, k, nu, extrapolate, n: _of_knots(dy, t, dz, points, k, nu, extrapolate),
    lambda dz, y, dy, t, points, k, nu, extrapolate, n: _of_points(dy, t, dz, points, k, nu, extrapolate),
    cases=lambda s: [
        case(s(3), np.arange(8.0) + s(8, low=0.0, high=0.3), s(3, low=3.4, high=4.0), 3, 0, True, 4),
        case(s(2, 2), np.arange(6.0) + s(6, low=0.0, high=0.3), s(2, low=2.4, high=3.0), 2, 1, False, 3),
    ],
)  # fmt: skip


def _objects(s: Any) -> list[Any]:
    """Splines of several degrees, trailing axes, an axis of their own, periodic, complex."""
    return [
        BSpline(_knots(3), s(6), 3), BSpline(_knots(2), s(5, 2), 2), BSpline(_knots(2), s(2, 5), 2, axis=1),
        BSpline(_knots(1), s(4), 1, extrapolate=False), BSpline(np.arange(9.0), s(5), 3, extrapolate="periodic"),
        BSpline(_knots(2), s(5, dtype=complex), 2), BSpline(_knots(0), s(3), 0),
    ]


@expanded(patch(BSpline, "__call__", holds=("_c", "_t")), cases=lambda s: [
    *(case(b, s(2, low=0.1, high=2.9)) for b in _objects(s)), case(_objects(s)[0], s(2, 2, low=-1.0, high=4.0), 1),
    case(_objects(s)[0], s.number(0, 3)), case(_objects(s)[4], s(3, low=-4.0, high=9.0)),
    case(_objects(s)[0], [0.3, 1.2]),
])  # fmt: skip
def _call(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    t, k = self._t, self.k
    return called(
        lambda c, points, nu, extrapolate: spline(t, c, points, k, nu, extrapolate), self._c, x, nu,
        self.extrapolate if extrapolate is None else extrapolate, (t[k], t[len(t) - k - 1]), self.axis,
    )  # fmt: skip


def _padded(t: Any, c: Any) -> Any:
    """Coefficients as many as knots, as FITPACK has them."""
    missing = shape_of(t)[0] - shape_of(c)[0]
    return np.concatenate([c, np.zeros((missing, *shape_of(c)[1:]))]) if missing > 0 else c


def differentiated(t: Any, c: Any, k: int, nu: int) -> tuple[Any, Any, int]:
    """Knots, coefficients and degree of a derivative, of an integral if ``nu`` is negative."""
    for _ in range(abs(nu)):
        rest = (-1,) + (1,) * (len(shape_of(c)) - 1)
        n = shape_of(t)[0] - k - 1
        if nu > 0:
            step = np.diff(c[:n], axis=0) * np.reshape(k / (t[k + 1 : -1] - t[1 : -k - 1]), rest)
            t, k = t[1:-1], k - 1
            c = _padded(t, step)
        else:
            step = np.cumsum(c[:n] * np.reshape((t[k + 1 :] - t[: -k - 1]) / (k + 1), rest), axis=0)
            c = np.concatenate([np.zeros((1, *shape_of(c)[1:])), step, *[step[-1:]] * (k + 2)])
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
    return t, c, k


def _derivative(self: Any, nu: int = 1) -> Any:
    t, c, k = differentiated(self._t, _padded(self._t, self._c), self.k, nu)
    return made(self, _t=t, _c=c, k=k, extrapolate=self.extrapolate, axis=self.axis)


def _antiderivative(self: Any, nu: int = 1) -> Any:
    t, c, k = differentiated(self._t, _padded(self._t, self._c), self.k, -nu)
    extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
    return made(self, _t=t, _c=c, k=k, extrapolate=extrapolate, axis=self.axis)


patch(BSpline, "derivative", _derivative, holds=("_c", "_t"))
patch(BSpline, "antiderivative", _antiderivative, holds=("_c", "_t"))


@expanded(patch(BSpline, "integrate", holds=("_c", "_t")), cases=lambda s: [
    *(case(b, s.number(0.1, 1.0), s.number(1.1, 2.9)) for b in _objects(s)[:4]),
    case(_objects(s)[0], 2.5, s.number(0.1, 2.0)),
    case(_objects(s)[4], s.number(-3.0, 3.0), s.number(7.2, 12.0)), case(_objects(s)[3], s.number(0.1, 1.0), 5.0),
    case(_objects(s)[0], s.number(-1.0, -0.1), s.number(3.1, 5.0)),
])  # fmt: skip
def _integrate(self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    """The difference of the antiderivative at the ends; of a periodic one, with so many whole periods."""
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    start, stop = self._t[self.k], self._t[shape_of(self._t)[0] - self.k - 1]
    t, c, k = differentiated(self._t, _padded(self._t, self._c), self.k, -1)

    def upto(point: Any) -> Any:
        point = astype(operand(point), np.dtype(float))
        if extrapolate == "periodic":
            periods = np.floor((point - start) / (stop - start))
            whole = [spline(t, c, np.multiply(end, 1.0), k, 0, True) for end in (start, stop)]
            return periods * (whole[1] - whole[0]) + spline(t, c, point - periods * (stop - start), k, 0, True)
        return spline(t, c, point if extrapolate else np.clip(point, start, stop), k, 0, True)

    return as_array(upto(b) - upto(a))


def _init(self: Any, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
    _plain_init(self, shadow(t), shadow(c), k, extrapolate, axis)
    self._asarray = lambda x, **kwargs: x
    c = inexact(c)
    c = np.moveaxis(c if dtype_of(c).kind == "c" else astype(c, np.dtype(float)), axis, 0)
    self._t, self._c = astype(operand(t), np.dtype(float)), c


_plain_init = BSpline.__init__
patch(BSpline, "__init__", _init)
