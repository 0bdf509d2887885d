"""Piecewise polynomials of ``scipy.interpolate``, and the cubic ones that are made of data.

Objects that are made of traced values hold traced coefficients. What an object gives is a function of its coefficients,
breakpoints and the points; its derivative in the points is the library's own, ``nu + 1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import interpolate
from scipy.interpolate import BPoly, CubicHermiteSpline, PPoly
from scipy.linalg import solve_banded

from yota_py.base.dispatch import find_traced
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive, vjps
from yota_py.registry.tangents import as_array, astype, conj, strong_multiply

from ..indices import getitem, unindex
from ..support import dtype_of, inexact, operand, shape_of
from .objects import made_of_traced

PiecewiseBase = PPoly.__mro__[1]  # of PPoly and BPoly

# ------------------------------------------------------------------------------- values of piecewise polynomials


@primitive
def evaluated(c: Any, x: Any, points: Any, nu: int, extrapolate: bool) -> Any:
    """Derivatives of polynomials with coefficients ``c`` between ``x``, of shape (*points, *trailing axes of c)."""
    return PPoly.construct_fast(np.ascontiguousarray(c), np.ascontiguousarray(x), extrapolate)(points, nu)


@nondiff
@primitive
def _intervals(x: Any, points: Any) -> Any:
    """Between which breakpoints points are; beyond all, the nearest. Breakpoints may fall."""
    x, points = (x, points) if x[-1] >= x[0] else (-x, -points)
    return np.clip(np.searchsorted(x, points, "right") - 1, 0, len(x) - 2)


def _slopes(dy: Any, c: Any, x: Any, points: Any, nu: int, extrapolate: bool) -> Any:
    """The cotangent of the points."""
    product = strong_multiply(dy, conj(evaluated(c, x, points, nu + 1, extrapolate)))
    return np.sum(product, axis=tuple(range(len(shape_of(points)), len(shape_of(dy)))))


def _of_coefficients(dy: Any, y: Any, c: Any, x: Any, points: Any, nu: int, extrapolate: bool) -> Any:
    """Each coefficient's power goes to its interval. Points outside have no coefficients."""
    k, m, *rest = shape_of(c)
    flat, r = np.ravel(points), math.prod(rest)
    i = _intervals(x, flat)
    s, dy = flat - getitem(x, i), np.reshape(dy, (-1, r))
    if not extrapolate:
        low, high = np.minimum(x[0], x[-1]), np.maximum(x[0], x[-1])
        dy = np.where(((flat >= low) & (flat <= high))[:, None], dy, 0)
    rows = []
    for power in range(k - 1, -1, -1):
        factor = math.perm(power, nu) if power >= nu else 0
        rows.append(unindex(np.multiply(dy, factor * (s ** max(power - nu, 0))[:, None]), i, (m, r)))
    return np.reshape(np.stack(rows), (k, m, *rest))


def _of_breakpoints(dy: Any, y: Any, c: Any, x: Any, points: Any, nu: int, extrapolate: bool) -> Any:
    """A polynomial is one of the distance from the breakpoint before it."""
    back = np.ravel(_slopes(dy, c, x, points, nu, extrapolate))
    return np.negative(unindex(back, _intervals(x, np.ravel(points)), shape_of(x)))


def _evaluated_cases(s: Any) -> Any:
    x = np.array([0.0, 1.0, 1.5, 3.0])
    return [
        case(s(4, 3), x, s(2, 3, low=0.0, high=3.0), 0, True), case(s(4, 3, 2), x, s(5, low=-1.0, high=4.0), 1, True),
        case(s(2, 3), x[::-1].copy(), s(4, low=-1.0, high=4.0), 0, True), case(s(3, 3), x, s(2, low=0.1), 3, True),
        case(s(3, 3, dtype=complex), x, s(2), 0, True), case(s(3, 3), x, s(3, low=0.1), 0, False),
        case(s(3, 3), x, s(0), 0, True),
        case(s(1, 3), x, s(low=0.1), 0, True),
    ]


vjps(evaluated, _of_coefficients, _of_breakpoints, lambda dy, y, *args: _slopes(dy, *args), cases=_evaluated_cases)


def called(
    evaluate: Callable[..., Any], c: Any, points: Any, nu: int, extrapolate: Any, period: tuple[Any, Any], axis: int
) -> Any:
    """What an object gives at points: those of a periodic one are brought into its period, and its axis back."""
    points = operand(points)
    points = points if dtype_of(points) == np.float64 else astype(points, np.dtype(float))
    if extrapolate == "periodic":
        start, stop = period
        points, extrapolate = start + np.mod(points - start, stop - start), False
    y, n = evaluate(c, points, int(nu), bool(extrapolate)), len(shape_of(points))
    return y if axis == 0 or not n else np.moveaxis(y, range(n), range(axis, axis + n))


def made(like: Any, **attributes: Any) -> Any:
    """An object of the class of another one, with other attributes, which may be traced."""
    new: Any = object.__new__(like if isinstance(like, type) else type(like))
    for name, value in {"_asarray": _as_it_is, **attributes}.items():
        setattr(new, name, value)
    return new


def _as_it_is(x: Any, **kwargs: Any) -> Any:
    return x


def _objects(s: Any) -> list[Any]:
    """Cubic polynomials, between breakpoints that rise or fall, with axes, periodic, complex."""
    x = np.array([0.0, 1.0, 1.5, 3.0])
    return [
        PPoly(s(4, 3), x), PPoly(s(3, 3, 2), x[::-1]), PPoly(s(3, 3), x, "periodic"),
        PPoly(s(4, 3), x, False), PPoly(s(2, 3, dtype=complex), x), CubicHermiteSpline(x, s(2, 4), s(2, 4), axis=1),
    ]


@expanded(patch(PiecewiseBase, "__call__", holds=("_c", "_x")), cases=lambda s: [
    *(case(p, s(2, low=0.1, high=2.9)) for p in _objects(s)), case(_objects(s)[0], s(2, 2, low=-1.0, high=4.0), 2),
    case(_objects(s)[0], s.number(0, 3), 1), case(_objects(s)[0], s(3, low=-4.0, high=9.0), extrapolate="periodic"),
    case(BPoly(s(4, 3), [0, 1, 1.5, 3]), s(3, low=0.1, high=2.9)),
    case(BPoly(s(3, 3, 2), [0, 1, 1.5, 3]), s(2, low=0.1), 1),
    case(_objects(s)[0], s(2, low=0.1, high=2.9, dtype=np.float32)), case(_objects(s)[0], [0.5, 1.7]),
])
def _call(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    c = self._c
    if isinstance(self, BPoly):
        c = _powers(c, self._x)
    return called(
        lambda c, points, nu, extrapolate: evaluated(c, self._x, points, nu, extrapolate), c, x, nu, extrapolate,
        (self._x[0], self._x[-1]), self.axis,
    )  # fmt: skip


def _powers(c: Any, x: Any) -> Any:
    """Coefficients of powers of the distance from the breakpoint, of those in Bernstein's basis."""
    k, ndim = shape_of(c)[0] - 1, len(shape_of(c))
    h = np.reshape(np.diff(x), (-1,) + (1,) * (ndim - 2))
    turn = [[math.comb(k, a) * math.comb(k - a, b - a) * (-1) ** (b - a) if b >= a else 0 for a in range(k + 1)]
            for b in range(k, -1, -1)]  # fmt: skip
    scaled = np.tensordot(np.array(turn, float), c, 1)
    return np.stack([scaled[i] / h ** (k - i) for i in range(k + 1)])


def _differentiated(c: Any, nu: int) -> Any:
    """The coefficients of a derivative."""
    k = shape_of(c)[0]
    if nu >= k:
        return np.multiply(c[:1], 0.0)
    factors = [float(math.perm(power, nu)) for power in range(k - 1, nu - 1, -1)]
    return np.multiply(c[: k - nu], np.reshape(factors, (-1,) + (1,) * (len(shape_of(c)) - 1)))


def _integrated(c: Any, x: Any) -> Any:
    """The coefficients of an integral from the first breakpoint, which is continuous."""
    k, ndim = shape_of(c)[0], len(shape_of(c))
    high = c / np.reshape(np.arange(k, 0, -1), (-1,) + (1,) * (ndim - 1))
    h = np.reshape(np.diff(x), (-1,) + (1,) * (ndim - 2))
    total = high[0]
    for i in range(1, k):
        total = total * h + high[i]
    whole = np.cumsum(total * h, axis=0)
    return np.concatenate([high, np.concatenate([whole[:1] * 0.0, whole[:-1]])[None]])


def _derivative(self: Any, nu: int = 1) -> Any:
    if nu < 0:
        return _antiderivative(self, -nu)
    return made(self, _c=_differentiated(self._c, nu), _x=self._x, extrapolate=self.extrapolate, axis=self.axis)


def _antiderivative(self: Any, nu: int = 1) -> Any:
    if nu <= 0:
        return _derivative(self, -nu)
    c, extrapolate = self._c, False if self.extrapolate == "periodic" else self.extrapolate
    for _ in range(nu):
        c = _integrated(c, self._x)
    return made(self, _c=c, _x=self._x, extrapolate=extrapolate, axis=self.axis)


patch(PPoly, "derivative", _derivative, holds=("_c", "_x"))
patch(PPoly, "antiderivative", _antiderivative, holds=("_c", "_x"))


@expanded(patch(PPoly, "integrate", holds=("_c", "_x")), cases=lambda s: [
    *(case(p, s.number(0.1, 1.0), s.number(1.0, 2.9)) for p in _objects(s)),
    case(_objects(s)[0], 2.5, s.number(-1.0, 0.5)),
    case(_objects(s)[2], s.number(-5.0, 0.0), s.number(3.2, 8.0)),
    case(_objects(s)[0], 0.2, s.number(3.2, 8.0), "periodic"),
])
def _integrate(self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    """The difference of the antiderivative at the ends; of a periodic one, with so many whole periods."""
    extrapolate = self.extrapolate if extrapolate is None else extrapolate
    c = _integrated(self._c, self._x)

    def upto(point: Any) -> Any:
        point = astype(operand(point), np.dtype(float))
        if extrapolate != "periodic":
            return evaluated(c, self._x, point, 0, bool(extrapolate))
        start, stop = self._x[0], self._x[-1]
        periods = np.floor((point - start) / (stop - start))
        whole = evaluated(c, self._x, np.multiply(stop, 1.0), 0, True)
        return periods * whole + evaluated(c, self._x, point - periods * (stop - start), 0, True)

    return as_array(upto(b) - upto(a))


# ------------------------------------------------------------------------------------------- cubic ones, of data


def _holding(cls: type, coefficients: Callable[..., Any]) -> None:
    """Let objects of a class hold traced coefficients."""

    @made_of_traced(cls)
    def take(self: Any, given: dict[str, Any]) -> None:
        self._asarray = _as_it_is
        self._c = coefficients(**given)
        if find_traced((given["x"],)) is not None:
            self._x = astype(operand(given["x"]), np.dtype(float))


def _columns(x: Any, y: Any, axis: int) -> tuple[Any, Any, Any]:
    """Breakpoints and their distances as columns, and data with its axis in front."""
    x, y = operand(x), np.moveaxis(inexact(operand(y)), axis, 0)
    y = y if dtype_of(y).itemsize > 4 else astype(y, np.dtype(float))
    x = np.reshape(astype(x, np.dtype(float)), (-1,) + (1,) * (len(shape_of(y)) - 1))
    return x, np.diff(x, axis=0), y


def _hermite(h: Any, y: Any, slopes: Any) -> Any:
    """Coefficients of the cubics with these values and slopes at both ends (de Boor 1978, chapter IV)."""
    secant = np.diff(y, axis=0) / h
    t = (slopes[:-1] + slopes[1:] - 2 * secant) / h
    return np.stack([t / h, (secant - slopes[:-1]) / h - t, slopes[:-1], y[:-1]])


def _cubic_hermite(x: Any, y: Any, dydx: Any, axis: int, extrapolate: Any) -> Any:
    x, h, y = _columns(x, y, axis)
    return _hermite(h, y, np.moveaxis(operand(dydx), axis, 0))


def _pchip(x: Any, y: Any, axis: int, extrapolate: Any) -> Any:
    """Slopes by Fritsch & Butland 1984: weighted harmonic means, and zero where secants differ in sign."""
    x, h, y = _columns(x, y, axis)
    m = np.diff(y, axis=0) / h
    if shape_of(m)[0] == 1:
        return _hermite(h, y, np.concatenate([m, m]))
    flat = np.not_equal(np.sign(m[1:]), np.sign(m[:-1])) | np.equal(m[1:], 0) | np.equal(m[:-1], 0)
    left, right = np.where(flat, 1, m[:-1]), np.where(flat, 1, m[1:])
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(flat, 0, (w1 + w2) / (w1 / left + w2 / right))
    first, last = _pchip_end(h[0], h[1], m[0], m[1]), _pchip_end(h[-1], h[-2], m[-1], m[-2])
    return _hermite(h, y, np.concatenate([first[None], inner, last[None]]))


def _pchip_end(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """The slope of three points, made to keep the shape."""
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = np.not_equal(np.sign(m0), np.sign(m1)) & (np.abs(d) > 3 * np.abs(m0))
    return np.where(np.not_equal(np.sign(d), np.sign(m0)), 0, np.where(steep, 3 * m0, d))


def _akima(x: Any, y: Any, axis: int, method: str, extrapolate: Any) -> Any:
    """Slopes by Akima 1970, weighted by how much secants change, or (makima) also by their size."""
    x, h, y = _columns(x, y, axis)
    m = np.diff(y, axis=0) / h
    if shape_of(m)[0] == 1:
        return _hermite(h, y, np.concatenate([m, m]))
    before, after = 2 * m[:1] - m[1:2], 2 * m[-1:] - m[-2:-1]
    m = np.concatenate([2 * before - m[:1], before, m, after, 2 * after - m[-1:]])
    change = np.abs(np.diff(m, axis=0))
    if method == "makima":
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    total = change[2:] + change[:-2]
    unclear = total <= 1e-9 * np.max(total)
    share = change[:-2] / np.where(unclear, 1, total)
    return _hermite(h, y, np.where(unclear, 0.5 * (m[3:] + m[:-3]), m[1:-2] + share * (m[2:-1] - m[1:-2])))


@primitive
def banded(ab: Any, b: Any) -> Any:
    """The solution of a tridiagonal system, of bands as of ``solve_banded``."""
    return solve_banded((1, 1), ab, b.reshape(len(b), -1), check_finite=False).reshape(b.shape)


def _turned(ab: Any) -> Any:
    """The bands of the transposed matrix."""
    zero = ab[:1, :1] * 0.0
    return np.concatenate([np.concatenate([zero, ab[2:, :-1]], 1), ab[1:2], np.concatenate([ab[:1, 1:], zero], 1)])


_STRONG = np.array([[0.0], [4.0], [0.0]])  # a diagonal that no neighbours outweigh


def _of_bands(dy: Any, y: Any, ab: Any, b: Any) -> Any:
    """Minus the outer product with the solution, on the bands."""
    u = np.negative(np.reshape(banded(_turned(ab), dy), (shape_of(dy)[0], -1)))
    y = np.reshape(conj(y), (shape_of(dy)[0], -1))
    zero = np.zeros(1)
    return np.stack([
        np.concatenate([zero, np.sum(u[:-1] * y[1:], 1)]), np.sum(u * y, 1),
        np.concatenate([np.sum(u[1:] * y[:-1], 1), zero]),
    ])  # fmt: skip


vjps(banded, _of_bands, lambda dy, y, ab, b: banded(_turned(ab), dy), cases=lambda s: [
    case(s(3, 4, low=-1.0, high=1.0) + _STRONG, s(4)),
    case(s(3, 2, low=-1.0, high=1.0) + _STRONG, s(2, 3)),
    case(s(3, 3, low=-1.0, high=1.0) + _STRONG, s(3, 2, dtype=complex)),
])  # fmt: skip


def _cubic(x: Any, y: Any, axis: int, bc_type: Any, extrapolate: Any) -> Any:
    """Slopes that make the second derivative continuous (de Boor 1978, chapter IV): a tridiagonal system."""
    x, h, y = _columns(x, y, axis)
    ends = [bc_type] * 2 if isinstance(bc_type, str) else list(bc_type)
    return _hermite(h, y, _cubic_slopes(x, h, y, ends))


def _cubic_slopes(x: Any, h: Any, y: Any, ends: list[Any]) -> Any:
    n, m = shape_of(y)[0], np.diff(y, axis=0) / h
    if n == 2:
        ends = [(1, m[0]) if bc in ("not-a-knot", "periodic") else bc for bc in ends]
    if n == 3 and ends == ["not-a-knot"] * 2:  # a parabola
        bend = (m[1] - m[0]) / (h[0] + h[1])
        return np.stack([m[0] - h[0] * bend, m[0] + h[0] * bend, m[1] + h[1] * bend])
    inner = 3 * (h[1:] * m[:-1] + h[:-1] * m[1:])
    line = np.reshape(h, (-1,))
    below, middle, above = line[1:], 2 * (line[:-1] + line[1:]), line[:-1]
    if ends[0] == "periodic":
        return _periodic_slopes(line, h, m, inner)
    d0, u0, b0 = _end(ends[0], line[0], line[1] if n > 2 else None, h[0], m[0], m[1] if n > 2 else None)
    d1, l1, b1 = _end(ends[1], line[-1], line[-2] if n > 2 else None, h[-1], m[-1], m[-2] if n > 2 else None, -1)
    ab = np.stack([
        np.concatenate([np.zeros(1), np.stack([u0]), above]), np.concatenate([np.stack([d0]), middle, np.stack([d1])]),
        np.concatenate([below, np.stack([l1]), np.zeros(1)]),
    ])  # fmt: skip
    rows = [np.broadcast_to(b, shape_of(y)[1:]) for b in (b0, b1)]
    return banded(ab, np.concatenate([rows[0][None], inner, rows[1][None]]))


def _end(bc: Any, h0: Any, h1: Any, c0: Any, m0: Any, m1: Any, sign: int = 1) -> tuple[Any, Any, Any]:
    """The row of one end: the slope's own coefficient, its neighbour's, and the right side."""
    if bc == "not-a-knot":
        d = h0 + h1
        return h1, d, ((c0 + 2 * d) * h1 * m0 + c0**2 * m1) / d
    order, value = {"clamped": (1, 0.0), "natural": (2, 0.0)}[bc] if isinstance(bc, str) else bc
    if order == 1:
        return h0 * 0 + 1.0, h0 * 0, operand(value)
    return 2 * h0, h0, 3 * m0 * c0 - sign * 0.5 * operand(value) * c0**2


def _periodic_slopes(line: Any, h: Any, m: Any, inner: Any) -> Any:
    """A cyclic system: one unknown is taken out (Sherman-Morrison)."""
    n = shape_of(line)[0]  # unknown slopes: the last point is the first
    first = 3 * (h[0] * m[-1] + h[-1] * m[0])
    b = np.concatenate([first[None], inner])
    diagonal = 2 * (line + np.roll(line, 1))
    if n == 2:  # both neighbours are one
        s = np.sum(m / h, axis=0) / np.sum(1 / h, axis=0)
        return np.stack([s, s, s])
    before, after = np.roll(line, 1), line  # of the row of point i: h[i] s[i-1] + ... + h[i-1] s[i+1]
    eye = np.eye(n)
    matrix = eye * diagonal + np.roll(eye, -1, 1) * after[:, None] + np.roll(eye, 1, 1) * before[:, None]
    s = np.reshape(np.linalg.solve(matrix, np.reshape(b, (n, -1))), shape_of(b))
    return np.concatenate([s, s[:1]])


def _in_front(c: Any, x: Any, extrapolate: Any, axis: int) -> Any:
    c = inexact(c)
    c = c if dtype_of(c).kind == "c" else astype(c, np.dtype(float))
    return c if not axis else np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0)


_holding(CubicHermiteSpline, _cubic_hermite)
_holding(interpolate.PchipInterpolator, _pchip)
_holding(interpolate.Akima1DInterpolator, _akima)
_holding(interpolate.CubicSpline, _cubic)
_holding(PiecewiseBase, _in_front)
