"""Splines of ``scipy.interpolate`` that are fitted to data, with FITPACK's interface too.

The coefficients solve a linear system, A c = y with A the B-splines' values at the data, or its normal equations; the
pullback is that of this system, written out. Knots are the library's own; where they are made of the data's places,
they have their derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import interpolate
from scipy.interpolate import BSpline, InterpolatedUnivariateSpline, LSQUnivariateSpline, PPoly, UnivariateSpline

from yota_py.base.dispatch import find_traced, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, primitive, vjps
from yota_py.registry.tangents import astype

from ..support import dtype_of, inexact, operand, pulled_back_by, shape_of, unsupported
from .interpolate import made
from .interpolate_splines import differentiated, spline
from .objects import made_of_traced

_make_interp_spline, _make_lsq_spline = interpolate.make_interp_spline, interpolate.make_lsq_spline
Orders = tuple[int, ...]

# ------------------------------------------------------------------------------------------- systems of equations


@primitive
def interpolating(y: Any, x: Any, t: Any, k: int, left: Orders, right: Orders) -> Any:
    """Coefficients of the spline through points; first and last of ``y`` are derivatives at the ends."""
    n = len(y) - len(right)
    ends = [[*zip(left, y, strict=False)] or None, [*zip(right, y[n:], strict=True)] or None]
    return _make_interp_spline(x, y[len(left) : n], k, t, bc_type=ends, check_finite=False).c


def _solve(matrix: Any, y: Any) -> Any:
    return np.reshape(np.linalg.solve(matrix, np.reshape(y, (shape_of(y)[0], -1))), shape_of(y))


def _interpolating(y: Any, x: Any, t: Any, k: int, left: Orders, right: Orders) -> Any:
    eye = np.eye(shape_of(y)[0])
    ends = [[spline(t, eye, at, k, nu, True) for nu in orders] for at, orders in ((x[:1], left), (x[-1:], right))]
    return _solve(np.concatenate([*ends[0], spline(t, eye, x, k, 0, True), *ends[1]]), y)


pulled_back_by(interpolating, _interpolating, cases=lambda s: [
    case(s(5), np.arange(5.0) + s(5, low=0.0, high=0.3), np.array([-3.0, -2, -1, -0.1, 2.1, 4.6, 5, 6, 7]), 3, (), ()),
    case(s(6, 2), np.arange(4.0), np.array([-3.0, -2, -1, -0.1, 1.1, 2.2, 3.2, 4, 5, 6]), 3, (2,), (1,)),
    case(s(4, dtype=complex), np.arange(4.0), np.array([-2.0, -1, -0.1, 1.6, 3.1, 4, 5]), 2, (), ()),
])  # fmt: skip


def _periodic(y: Any, x: Any, t: Any, k: int) -> Any:
    """Coefficients of the periodic spline, of which the first and last are the same; so are the points."""
    n = shape_of(x)[0] - 1
    wrapped = np.eye(n)[np.arange(n + k) % n]
    matrix = np.matmul(spline(t, np.eye(n + k), x[:-1], k, 0, True), wrapped)
    return np.tensordot(wrapped, _solve(matrix, y[:-1]), 1)


@primitive
def least_squares(y: Any, x: Any, t: Any, w: Any, k: int) -> Any:
    """Coefficients of the spline that is nearest to points."""
    return _make_lsq_spline(x, y, t, k, w, check_finite=False).c


def _least_squares(y: Any, x: Any, t: Any, w: Any, k: int) -> Any:
    weight = np.reshape(np.multiply(w, w), (-1, 1))
    matrix = spline(t, np.eye(shape_of(t)[0] - k - 1), x, k, 0, True)
    right = np.matmul(np.transpose(matrix), weight * np.reshape(y, (shape_of(y)[0], -1)))
    return _solve(np.matmul(np.transpose(matrix), weight * matrix), np.reshape(right, (-1, *shape_of(y)[1:])))


pulled_back_by(least_squares, _least_squares, cases=lambda s: [
    case(s(7), np.arange(7.0) + s(7, low=0.1, high=0.3), np.array([-2.0, -1, -0.1, 3.2, 7, 8, 9]), s(7, low=0.5), 2),
    case(s(6, 2), np.arange(6.0) + 0.1, np.array([-1.0, -0.1, 2.7, 7, 8]), np.ones(6), 1),
])  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- knots


def _not_a_knot(x: Any, k: int) -> Any:
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    half = (k + 1) // 2
    inner = inner[half : shape_of(inner)[0] - half] if half else inner
    return np.concatenate([*[x[:1]] * (k + 1), inner, *[x[-1:]] * (k + 1)])


def _periodic_knots(x: Any, k: int) -> Any:
    h, n = np.diff(x), shape_of(x)[0]
    if k % 2 == 0:
        x = np.concatenate([x[:1], x[1:-1] - h[:-1] / 2, x[-1:]])
        h = np.diff(x)
    knots = [x[i] for i in range(n)]
    for i in range(k):
        knots = [knots[0] - h[n - 2 - i % (n - 1)], *knots, knots[-1] + h[i % (n - 1)]]
    return np.stack(knots)


def _floats(x: Any) -> Any:
    x = inexact(x)
    return x if dtype_of(x).itemsize > 4 or dtype_of(x).kind == "c" else astype(x, np.dtype(float))


# ------------------------------------------------------------------------------------------------- functions of data


def _conditions(bc: Any, shape: tuple[int, ...]) -> tuple[Orders, list[Any]]:
    """Orders and values of derivatives at one end."""
    if isinstance(bc, str):
        bc = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)], "not-a-knot": None, "periodic": None}[bc]
    pairs = [] if bc is None else list(bc)
    return tuple(int(o) for o, _ in pairs), [np.broadcast_to(operand(v), shape)[None] for _, v in pairs]


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> Any:
    plain = _make_interp_spline(*shadow((x, y, k, t, bc_type, axis, check_finite)))
    if find_traced((x, y, t, bc_type)) is None:
        return plain
    moves, x, y = t is None and find_traced((x,)) is not None, _floats(x), np.moveaxis(_floats(y), axis, 0)
    t = plain._t if t is None else _floats(t)
    ends = [bc_type] * 2 if bc_type is None or isinstance(bc_type, str) else bc_type
    (left, first), (right, last) = (_conditions(bc, shape_of(y)[1:]) for bc in ends)
    if k < 2 and not left + right and bc_type != "periodic":
        c, t = y, (np.concatenate([*[x[:1]] * k, x, x[-1:]]) if moves else t)
    elif bc_type == "periodic":
        t = _periodic_knots(x, k) if moves else t
        c = _periodic(y, x, t, k)
    else:
        if moves:
            t = np.concatenate([*[x[:1]] * k, x, *[x[-1:]] * k]) if left + right else _not_a_knot(x, k)
        c = interpolating(np.concatenate([*first, y, *last]), x, t, k, left, right)
    return made(BSpline, _t=t, _c=c, k=plain.k, extrapolate=plain.extrapolate, axis=plain.axis)


def make_lsq_spline(
    x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *, method: str = "qr"
) -> Any:
    plain = _make_lsq_spline(*shadow((x, y, t, k, w, axis, check_finite)), method=method)
    if find_traced((x, y, t, w)) is None:
        return plain
    x, y, t = _floats(x), np.moveaxis(_floats(y), axis, 0), _floats(t)
    c = least_squares(y, x, t, np.ones(shape_of(x)) if w is None else _floats(w), k)
    return made(BSpline, _t=t, _c=c, k=plain.k, extrapolate=plain.extrapolate, axis=plain.axis)


patch(interpolate, "make_interp_spline", make_interp_spline)
patch(interpolate, "make_lsq_spline", make_lsq_spline)


def refused(name: str) -> Any:
    def body(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise unsupported(f"{name} of a spline that is made of traced values", "Make one of stop_gradient of them")

    return body


@primitive
def smoothed(y: Any, x: Any, w: Any, lam: Any) -> Any:
    """Coefficients of the smoothing spline of a given penalty."""
    return _make_smoothing_spline(x, y, w, lam)._c


def _smoothed_adjoint(dy: Any, y: Any, data: Any, x: Any, w: Any, lam: Any) -> Any:
    """The fit is linear in the data: its matrix is that of unit vectors."""
    return np.tensordot(smoothed(np.eye(shape_of(data)[0]), x, w, lam), dy, (0, 0))


vjps(smoothed, _smoothed_adjoint, cases=lambda s: [
    case(s(6), np.arange(6), None, 1), case(s(6, 2), np.arange(6), np.arange(1, 7), 2)])  # fmt: skip


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> Any:
    plain = _make_smoothing_spline(*shadow((x, y, w, lam)), axis=axis)
    if find_traced((x, y, w, lam)) is None:
        return plain
    if lam is None:
        raise unsupported("make_smoothing_spline with lam=None, which chooses it by the data,", "Give lam")
    x, y = _floats(x), np.moveaxis(_floats(y), axis, 0)
    t = np.concatenate([*[x[:1]] * 3, x, *[x[-1:]] * 3])
    return made(BSpline, _t=t, _c=smoothed(y, x, w, lam), k=3, extrapolate=plain.extrapolate, axis=plain.axis)


_make_smoothing_spline = interpolate.make_smoothing_spline
patch(interpolate, "make_smoothing_spline", make_smoothing_spline)
for _cls, _name in ((PPoly, "solve"), (PPoly, "extend"), (BSpline, "insert_knot")):
    patch(_cls if _name != "extend" else PPoly.__mro__[1], _name, refused(_name), holds=("_c", "_x", "_t"))

# --------------------------------------------------------------------------------------------- FITPACK's interface


def _fitted(t: Any, x: Any, y: Any, w: Any, k: int, smoothing: Any, inner: Any, ends: Sequence[Any]) -> Any:
    """Knots, coefficients and degree; only where the knots do not depend on ``y``: all, or ``inner`` ones are given."""
    moves, x, y = find_traced((x, inner, *ends)) is not None, _floats(x), _floats(y)
    if inner is None and smoothing != 0:
        raise unsupported("a smoothing spline of FITPACK, whose knots depend on the data,",
                          "Interpolate (s=0), give the knots, or use make_lsq_spline")
    if moves:
        own = zip((x[:1], x[-1:]), ends, strict=True)
        low, high = (np.reshape(at if end is None else _floats(end), (1,)) for at, end in own)
        inner_knots = _not_a_knot(x, k)[k + 1 : -k - 1] if inner is None else _floats(inner)
        t = np.concatenate([*[low] * (k + 1), inner_knots, *[high] * (k + 1)])
    if inner is None:
        return t, _padded(interpolating(y, x, t, k, (), ()), k), k
    return t, _padded(least_squares(y, x, t, np.ones(shape_of(x)) if w is None else _floats(w), k), k), k


def _padded(c: Any, k: int) -> Any:
    return np.concatenate([c, np.zeros(k + 1)])


_splrep = interpolate.splrep


def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None,
    t: Any = None, full_output: Any = 0, per: Any = 0, quiet: Any = 1,
) -> Any:  # fmt: skip
    plain = _splrep(*shadow((x, y, w, xb, xe, k, task, s, t, full_output, per, quiet)))
    if find_traced((x, y, w, xb, xe, t)) is None:
        return plain
    if full_output or per or task > 0:
        raise unsupported("splrep with full_output, per or task=1", "Use make_interp_spline")
    smoothing = s if s is not None else 0 if w is None else 1
    return _fitted(plain[0], x, y, w, k, smoothing, t, (xb, xe))


patch(interpolate, "splrep", splrep)


def _taken(tck: Any) -> tuple[Any, Any, int]:
    t, c, k = (tck._t, tck._c, tck.k) if isinstance(tck, BSpline) else tck
    return astype(operand(t), np.dtype(float)), c, int(k)


def _value(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Beyond the ends: extrapolated, zero, an error or the value at the end."""
    t, c, k = _taken(tck)
    if isinstance(c, list | tuple) and shape_of(operand(c))[1:]:
        return [_value(x, (t, part, k), der, ext) for part in c]
    x, c = (astype(operand(v), np.dtype(float)) for v in (x, c))
    start, stop = t[k], t[shape_of(t)[0] - k - 1]
    beyond = (x < start) | (x > stop)
    if ext == 2 and np.any(beyond):
        raise ValueError("x value in the list is out of bounds")
    y = spline(t, c, np.clip(x, start, stop) if ext == 3 else x, k, der, True)
    return np.where(beyond, 0.0, y) if ext == 1 else y


_KNOTS = np.array([0, 0, 0, 0, 1, 2, 3, 3, 3, 3])


@expanded(patch(interpolate, "splev"), cases=lambda s: [
    *(case(s(4, low=-1.0, high=4.0), (_KNOTS, s(6), 3), *how) for how in ((0, 0), (1, 0), (0, 1), (0, 3), (2, 1))),
    case(s(2, 2, low=0.1), (_KNOTS, s(10), 3)), case(s.number(0.1, 2.0), (_KNOTS, s(6), 3)),
    case([0.3, 1.2], (_KNOTS, s(6), 3)),
    case(s(3, low=0.1), (_KNOTS, [s(6), s(6)], 3)), case(s(3, low=0.1), BSpline(_KNOTS / 1.0, s(6), 3)),
])  # fmt: skip
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    return _value(x, tck, der, ext)


def _integral(a: Any, b: Any, tck: Any) -> Any:
    t, c, k = _taken(tck)
    c = astype(operand(c), np.dtype(float))
    missing = shape_of(t)[0] - shape_of(c)[0]
    ta, ca, ka = differentiated(t, np.concatenate([c, np.zeros(missing)]) if missing else c, k, -1)
    start, stop = t[k], t[shape_of(t)[0] - k - 1]
    ends = [spline(ta, ca, np.clip(astype(operand(end), np.dtype(float)), start, stop), ka, 0, True) for end in (a, b)]
    return (ends[1] - ends[0]).item()  # a number of Python's


@expanded(patch(interpolate, "splint"), cases=lambda s: [
    case(s.number(0.1, 0.9), s.number(1.2, 2.9), (_KNOTS, s(6), 3)),
    case(s.number(-1.0, -0.1), 2.0, (_KNOTS, s(10), 3)),
])  # fmt: skip
def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    return _integral(a, b, tck)


def _of_tck(nu: int, tck: Any) -> Any:
    if isinstance(tck, BSpline):
        return tck.derivative(nu) if nu > 0 else tck.antiderivative(-nu)
    t, c, k = tck
    return differentiated(operand(t), operand(c), k, nu)


def _deriving(plain: Any, sign: int) -> Any:
    def of_tck(tck: Any, n: int = 1) -> Any:
        holds = (tck._t, tck._c) if isinstance(tck, BSpline) else tck
        return plain(tck, n) if find_traced(holds) is None else _of_tck(sign * n, tck)

    return of_tck


for _name, _sign in (("splder", 1), ("splantider", -1)):
    patch(interpolate, _name, _deriving(getattr(interpolate, _name), _sign))


# ------------------------------------------------------------------------------------------ objects of FITPACK's


@made_of_traced(InterpolatedUnivariateSpline, LSQUnivariateSpline, UnivariateSpline)
def _take_fitted(self: Any, given: dict[str, Any]) -> None:
    t, _, k = self._eval_args
    s, inner = given.get("s", 0), given.get("t")
    self._eval_args = _fitted(t, given["x"], given["y"], given["w"], k, s, inner, given["bbox"])


def _spline_object(s: Any) -> Any:
    return InterpolatedUnivariateSpline(np.arange(6.0), s(6), ext=int(s.integers(high=1)))


@expanded(patch(UnivariateSpline, "__call__", holds=("_eval_args",)), cases=lambda s: [
    case(_spline_object(s), s(3, low=0.1, high=4.9)), case(_spline_object(s), s(3, low=0.1, high=4.9), 1),
    case(_spline_object(s), s(3, low=-1.0, high=7.0), 0, "zeros"), case(_spline_object(s), s.number(0.1, 2.0), ext=3),
])  # fmt: skip
def _call(self: Any, x: Any, nu: int = 0, ext: Any = None) -> Any:
    ext = self.ext if ext is None else {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    return _value(x, self._eval_args, nu, ext) if np.size(x) else np.zeros(0)


@expanded(patch(UnivariateSpline, "integral", holds=("_eval_args",)), cases=lambda s: [
    case(_spline_object(s), s.number(0.1, 2.0), s.number(2.1, 4.9))])  # fmt: skip
def _integral_of(self: Any, a: Any, b: Any) -> Any:
    return _integral(a, b, self._eval_args)


def _derived(self: Any, nu: int, ext: int) -> Any:
    return UnivariateSpline._from_tck(_of_tck(nu, self._eval_args), ext=ext)


_HELD = ("_eval_args",)
patch(UnivariateSpline, "derivative", lambda self, n=1: _derived(self, n, 1 if self.ext == 3 else self.ext),
      holds=_HELD)  # fmt: skip
patch(UnivariateSpline, "antiderivative", lambda self, n=1: _derived(self, -n, self.ext), holds=_HELD)
patch(UnivariateSpline, "get_coeffs", lambda self: self._eval_args[1][: -self._eval_args[2] - 1], holds=_HELD)
patch(UnivariateSpline, "get_knots", lambda self: self._eval_args[0][self._eval_args[2] : -self._eval_args[2] or None],
      holds=_HELD)  # fmt: skip
for _name in ("get_residual", "roots", "set_smoothing_factor", "derivatives"):
    patch(UnivariateSpline, _name, refused(_name), holds=_HELD)
