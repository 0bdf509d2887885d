"""Interpolation on lines and regular grids of ``scipy.interpolate``. What is not smooth has the slopes of the piece
that the library takes; where it takes the nearest point, only the values have derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import interpolate
from scipy.interpolate import RectBivariateSpline, RegularGridInterpolator, interp1d

from yota_py.base.dispatch import find_traced, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive
from yota_py.registry.tangents import astype

from ..indices import getitem
from ..support import along, dtype_of, inexact, operand, pulled_back_by, shape_of, unsupported
from .interpolate_fits import _not_a_knot, _solve, make_interp_spline, refused
from .interpolate_splines import _call as spline_value
from .interpolate_splines import spline
from .objects import made_of_traced

DOUBLE = np.dtype(float)


@nondiff
@primitive
def _searched(x: Any, points: Any, side: Any = "left") -> Any:
    return np.searchsorted(x, points, side)


def wide(x: Any) -> Any:
    """In double precision, as the library computes."""
    x = inexact(x)
    return x if dtype_of(x).kind == "c" else astype(x, DOUBLE)


# ------------------------------------------------------------------------------------------------------ one dimension


@made_of_traced(interp1d)
def _take_1d(self: Any, given: dict[str, Any]) -> None:
    """The data, sorted as they are in the object."""
    x, y = operand(given["x"]), inexact(given["y"])
    if not given["assume_sorted"]:
        order = np.argsort(x, kind="mergesort")
        x, y = getitem(x, order), getitem(y, along(given["axis"], len(shape_of(y)), order))
    if find_traced((x, y)) is not None:
        self.x, self.y = x, y
        self._y = np.reshape(np.moveaxis(y, self._y_axis, 0), (shape_of(x)[0], -1))
        if self._kind == "spline":
            self._spline = make_interp_spline(x, self._y, self._spline.k, check_finite=False)
    if find_traced((given["fill_value"],)) is not None:
        fill = given["fill_value"]
        self._fill_value_below, self._fill_value_above = fill if isinstance(fill, tuple) else (fill, fill)


def interp1d_value(self: Any, points: Any) -> Any:
    """The values at a list of points, one row for each."""
    x, y, n = self.x, self._y, shape_of(self.x)[0]
    if self._call is interp1d._call_linear_np:  # it tells jumps, which are positions that come twice
        result = np.interp(points, x, y[:, 0])[:, None]
    elif self._kind == "linear":
        i = np.clip(_searched(x, points), 1, n - 1)
        low, high = getitem(x, i - 1), getitem(x, i)
        slope = (getitem(y, i) - getitem(y, i - 1)) / (high - low)[:, None]
        result = slope * (points - low)[:, None] + getitem(y, i - 1)
    elif self._kind == "spline":
        result = spline_value(self._spline, points)
    elif self._kind.startswith("nearest"):
        result = getitem(y, np.clip(_searched(x[:-1] / 2 + x[1:] / 2, points, self._side), 0, n - 1))
    else:
        i = _searched(x, points, "right" if self._kind == "previous" else "left")
        result = getitem(y, np.clip(i, 1 - self._ind, n - self._ind) + self._ind - 1)
    below, above = points < x[0], points > x[-1]
    if self._extrapolate:
        return result
    if self.bounds_error and np.any(below | above):
        plain = object.__new__(interp1d)
        plain.x, plain.bounds_error = shadow(x), True
        plain._check_bounds(shadow(points))
    result = np.where(below[:, None], operand(self._fill_value_below), result)
    return np.where(above[:, None], operand(self._fill_value_above), result)


EVALUATED: dict[type, Any] = {interp1d: interp1d_value}
Base1D = interp1d.__mro__[1]


def finished(self: Any, y: Any, shape: tuple[int, ...], lead: int = 0) -> Any:
    """Rows of values in the shape of the points and of the data's other axes, at the place of the data's own axis."""
    front = shape_of(y)[:lead]
    y, at = np.reshape(y, (*front, *shape, *self._y_extra_shape)), self._y_axis
    n = len(shape)
    return np.moveaxis(y, range(lead, lead + n), range(lead + at, lead + at + n)) if at and n else y


def _objects_1d(s: Any) -> list[Any]:
    kinds = ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic")
    x = np.array([0.0, 3.0, 1.0, 4.5, 6.0])
    return [
        *(interp1d(x, s(5), kind) for kind in kinds), interp1d(x, s(5, 2), axis=0), interp1d(x, s(2, 5), "cubic"),
        interp1d(x, s(5), bounds_error=False, fill_value=(1.0, 2.0)),
        interp1d(x, s(5), "cubic", fill_value="extrapolate"),
        interp1d(x, s(5, dtype=complex)), interp1d(x, s(5), "next", fill_value="extrapolate"),
        interp1d(x, s.integers(5, high=9)),
    ]


_HELD = ("_y", "x", "xi", "yi", "c", "_fill_value_below", "_fill_value_above")


@expanded(patch(Base1D, "__call__", holds=_HELD), cases=lambda s: [
    *(case(f, s(2, low=0.1, high=5.9)) for f in _objects_1d(s)),
    *(case(f, s(2, 2, low=0.1, high=5.9)) for f in _objects_1d(s)[9:11]),
    *(case(f, s(3, low=-2.0, high=8.0)) for f in _objects_1d(s)[11:13]), case(_objects_1d(s)[0], s.number(0.1, 5.0)),
    case(_objects_1d(s)[10], s.number(0.1, 5.0)), case(_objects_1d(s)[0], [0.5, 1.5]), case(_objects_1d(s)[0], s(0)),
    case(_objects_1d(s)[0], s(2, low=0.1, high=5.9, dtype=np.float32)),
])  # fmt: skip
def _call_1d(self: Any, x: Any) -> Any:
    points = wide(x)
    evaluate = next(fn for cls, fn in EVALUATED.items() if isinstance(self, cls))
    return finished(self, evaluate(self, np.ravel(points)), shape_of(points))


# ---------------------------------------------------------------------------------------------------- regular grids


@primitive
def nd_coefficients(values: Any, grid: Any, k: Any) -> Any:
    """Coefficients of the tensor product of splines through the values on a grid."""
    new = object.__new__(RegularGridInterpolator)
    new._grid, new._values = tuple(np.asarray(x, float) for x in grid), values
    return new._construct_spline({1: "slinear", 3: "cubic", 5: "quintic"}[k])._c


def _nd_coefficients(values: Any, grid: Any, k: int) -> Any:
    """One system after the other: the library solves all at once, by iteration."""
    for axis, x in enumerate(map(wide, grid)):
        matrix = spline(_not_a_knot(x, k), np.eye(shape_of(x)[0]), x, k, 0, True)
        values = np.moveaxis(_solve(matrix, np.moveaxis(values, axis, 0)), 0, axis)
    return values


pulled_back_by(nd_coefficients, _nd_coefficients, cases=lambda s: [
    case(s(4, 3), (np.arange(4), np.arange(3)), 1), case(s(2, 3, 2), (np.arange(2), np.arange(3)), 1),
])  # fmt: skip


@made_of_traced(RegularGridInterpolator)
def _take_grid(self: Any, given: dict[str, Any]) -> None:
    points, values = given["points"], given["values"]
    self._asarray = lambda x, **kwargs: x
    self.fill_value = given["fill_value"]
    if find_traced((points,)) is not None:
        points = [*map(wide, points)]
        self._grid = tuple(np.flip(p) if p[-1] < p[0] else p for p in points)
    if find_traced((points, values)) is not None:
        falling = self._descending_dimensions
        values = inexact(values)
        self._values = np.flip(values, falling) if falling else values
        if self._spline is not None:
            self._spline._c = nd_coefficients(self._values, self._grid, int(self._spline.k[0]))


def rows(xi: Any, ndim: int) -> Any:
    """Points as rows of coordinates: given as those, or as an array or number for each coordinate."""
    xi = xi[0] if isinstance(xi, tuple) and len(xi) == 1 else xi
    if isinstance(xi, tuple):
        return np.stack(np.broadcast_arrays(*map(wide, xi)), axis=-1)
    xi = wide(xi)
    return np.reshape(xi, (-1, ndim)) if len(shape_of(xi)) == 1 else xi


def _grid_object(s: Any, method: str = "linear", **options: Any) -> Any:
    return RegularGridInterpolator((np.arange(4.0), np.array([0.0, 1.0, 2.5, 3.0, 4.0])), s(4, 5), method, **options)


@expanded(patch(RegularGridInterpolator, "__call__", holds=("_values", "_grid", "fill_value")), cases=lambda s: [
    *(case(_grid_object(s, m), s(3, 2, low=0.1, high=2.9)) for m in ("linear", "nearest", "cubic", "slinear")),
    case(_grid_object(s), (s(3, low=0.1, high=2.9), s(2, 1, low=0.1, high=2.9))),
    case(_grid_object(s), s(2, low=0.1, high=2.9)),
    case(_grid_object(s, bounds_error=False), s(4, 2, low=0.1, high=2.9)),
    case(_grid_object(s), [[0.5, 1.2], [0.2, 0.1]]),
    case(_grid_object(s, bounds_error=False, fill_value=None), s(4, 2, low=-1.0, high=6.0)),
    case(_grid_object(s, bounds_error=False, fill_value=2.0), s(4, 2, low=-1.0, high=6.0)),
    case(_grid_object(s, "cubic"), s(2, 2, low=0.1, high=2.9), nu=(1, 0)),
    case(_grid_object(s), s(2, 2, low=0.1), method="nearest"),
    case(RegularGridInterpolator((np.arange(3.0)[::-1],), s(3, 2)), s(3, 1, low=0.1, high=1.9)),
    case(RegularGridInterpolator((np.arange(2.0),) * 3, s(2, 2, 2)), s(2, 3, low=0.1, high=0.9)),
    case(RegularGridInterpolator((np.arange(3.0),), s(3, dtype=complex)), s(2, 1, low=0.1, high=1.9)),
])  # fmt: skip
def _call_grid(self: Any, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
    ndim, method = len(self._grid), method or self.method
    points = rows(xi, ndim)
    shape = shape_of(points)
    plain = object.__new__(RegularGridInterpolator)
    plain._grid, plain.bounds_error = shadow(self._grid), False
    plain._prepare_xi(shadow(xi))  # raises what it does
    lines = [np.reshape(points[..., i], (-1,)) for i in range(ndim)]
    beyond = False
    for line, x in zip(lines, self._grid, strict=True):
        beyond = beyond | (line < x[0]) | (line > x[-1])
    if self.bounds_error and np.any(beyond):
        plain.bounds_error = True
        plain._prepare_xi(shadow(xi))
    if method in ("linear", "nearest"):
        if nu is not None:
            raise ValueError(f"Derivatives can only be computed for splines, not for method={method!r}")
        y = _between(self._values, self._grid, lines, method)
    elif self._spline is not None and method == self.method:
        y = _tensor(self._spline, self._grid, lines, nu)
    else:
        others = "Use 'linear', 'nearest', or make one of method 'slinear', 'cubic' or 'quintic'"
        raise unsupported(f"RegularGridInterpolator with method={method!r}", others)
    rest = shape_of(self._values)[ndim:]
    if not self.bounds_error and self.fill_value is not None:
        y = np.where(np.reshape(beyond, (-1,) + (1,) * len(rest)), self.fill_value, y)
    return np.reshape(y, (*shape[:-1], *rest))


def _between(values: Any, grid: Any, lines: Any, method: str) -> Any:
    """The corners of the cell that a point is in, weighted by its place there; or the nearest one."""
    cells = []
    for x, line in zip(grid, lines, strict=True):
        i = np.clip(_searched(x, line, "right") - 1, 0, shape_of(x)[0] - 2)
        w = (line - getitem(x, i)) / (getitem(x, i + 1) - getitem(x, i))
        cells.append(((i, 1 - w), (i + 1, w)) if method == "linear" else ((np.where(w <= 0.5, i, i + 1), 1.0),))
    rest = (1,) * (len(shape_of(values)) - len(grid))
    total: Any = 0.0
    for corner in itertools.product(*cells):
        weight: Any = 1.0
        for _, w in corner:
            weight = weight * w
        at = getitem(values, tuple(i for i, _ in corner))
        total = total + (at if method == "nearest" else np.multiply(at, np.reshape(weight, (-1, *rest))))
    return total


def _tensor(splines: Any, grid: Any, lines: Any, nu: Any) -> Any:
    """A sum over each axis, of coefficients and B-splines."""
    y: Any = None
    nus = [0] * len(lines) if nu is None else list(nu)
    for axis, line in enumerate(lines):
        k = int(splines.k[axis])
        basis = spline(_not_a_knot(grid[axis], k), np.eye(shape_of(grid[axis])[0]), line, k, int(nus[axis]), True)
        if y is None:
            y = np.tensordot(basis, splines._c, 1)
        else:
            y = np.sum(np.multiply(np.reshape(basis, (*shape_of(basis), *[1] * (len(shape_of(y)) - 2))), y), axis=1)
    return y


def interpn(
    points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan
) -> Any:
    if find_traced((points, values, xi, fill_value)) is None:
        return _plain_interpn(points, values, xi, method, bounds_error, fill_value)
    if method == "splinef2d":
        raise unsupported("interpn with method='splinef2d'", "Use method='cubic'")
    xi = rows(xi, len(points))  # one point is a list of one, however it is given
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


_plain_interpn = interpolate.interpn
patch(interpolate, "interpn", interpn)


# --------------------------------------------------------------------------------------------- FITPACK's, of two axes


@made_of_traced(RectBivariateSpline)
def _take_rect(self: Any, given: dict[str, Any]) -> None:
    if given["s"] != 0 or any(end is not None for end in given["bbox"]):
        raise unsupported("RectBivariateSpline with s or bbox, of traced values,", "Use s=0 and no bbox")
    c, knots = wide(given["z"]), []
    for axis, k in enumerate(self.degrees):
        x = np.ravel(wide(given["xy"[axis]]))
        knots.append(_not_a_knot(x, k))
        matrix = spline(knots[axis], np.eye(shape_of(x)[0]), x, k, 0, True)
        c = np.moveaxis(_solve(matrix, np.moveaxis(c, axis, 0)), 0, axis)
    self.tck = (*knots, np.ravel(c))


BivariateBase = RectBivariateSpline.__mro__[2]


def _rect_object(s: Any) -> Any:
    return RectBivariateSpline(np.arange(5.0), np.arange(6.0), s(5, 6))


@expanded(patch(BivariateBase, "__call__", holds=("tck",)), cases=lambda s: [
    case(_rect_object(s), np.sort(s(3, low=-1.0, high=5.0)), np.sort(s(2, low=0.1, high=4.9))),
    case(_rect_object(s), s(3, low=0.1, high=3.9), s(3, low=0.1, high=4.9), grid=False),
    case(_rect_object(s), s.number(0.1, 3.9), s(3, low=0.1, high=4.9), 1, 0, False),
    case(_rect_object(s), 0.3, s.number(1.0, 2.0)),
])  # fmt: skip
def _call_rect(self: Any, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
    """Beyond the ends, what is there."""
    x, y, (tx, ty, c), degrees = wide(x), wide(y), self.tck, self.degrees
    if not grid:
        x, y = np.broadcast_arrays(x, y)
    shape, bases = shape_of(x), []
    for points, t, k, nu in ((x, tx, degrees[0], dx), (y, ty, degrees[1], dy)):
        n = shape_of(t)[0] - k - 1
        bases.append(spline(t, np.eye(n), np.clip(np.ravel(points), t[k], t[n]), k, nu, True))
    table = np.reshape(c, (shape_of(bases[0])[1], shape_of(bases[1])[1]))
    if grid:
        return np.matmul(np.matmul(bases[0], table), np.transpose(bases[1]))
    return np.reshape(np.sum(np.multiply(np.matmul(bases[0], table), bases[1]), axis=1), shape)


for _name in ("partial_derivative", "get_residual", "integral"):
    _cls = RectBivariateSpline.__mro__[1] if _name == "integral" else BivariateBase
    patch(_cls, _name, refused(_name), holds=("tck",))
