"""Interpolation of scattered data of ``scipy.interpolate``: triangles, the nearest point, radial basis functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import interpolate
from scipy.interpolate import (
    CloughTocher2DInterpolator,
    LinearNDInterpolator,
    NearestNDInterpolator,
    Rbf,
    RBFInterpolator,
)
from scipy.spatial import Delaunay, cKDTree

from yota_py.base.dispatch import find_traced, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive

from ..indices import getitem
from ..support import dtype_of, operand, pulled_back_by, shape_of, unsupported
from .interpolate_grids import rows, wide
from .objects import made_of_traced

# ----------------------------------------------------------------------------------- triangles, and the nearest point


@nondiff
@primitive
def _corners(points: Any, xi: Any, tri: Any) -> Any:
    """The corners of the simplex that each point is in; of the last one, where it is in none."""
    triangles = Delaunay(points) if tri is None else tri
    return triangles.simplices[triangles.find_simplex(xi)]


@nondiff
@primitive
def _is_inside(points: Any, xi: Any, tri: Any) -> Any:
    return (Delaunay(points) if tri is None else tri).find_simplex(xi) >= 0


@nondiff
@primitive
def _nearest(points: Any, xi: Any, tree: Any, options: Any) -> Any:
    return (cKDTree(points) if tree is None else tree).query(xi, **options)[1]


@made_of_traced(LinearNDInterpolator, NearestNDInterpolator)
def _take_scattered(self: Any, given: dict[str, Any]) -> None:
    points, values, *_ = given.values()
    if find_traced((points,)) is not None:
        self.tri = self.tree = None
        self.points = rows(points, 1)
        if self.scale is not None:
            self.offset = np.mean(self.points, axis=0)
            spread = np.max(self.points, axis=0) - np.min(self.points, axis=0)
            self.scale = np.where(spread > 0, spread, 1.0)
            self.points = (self.points - self.offset) / self.scale
    if find_traced((values,)) is not None:
        self.values = wide(values)
    self.fill_value = given.get("fill_value", np.nan)


def _places(self: Any, args: tuple[Any, ...]) -> Any:
    """Points as rows, of as many coordinates as the data have, or what the library raises."""
    xi = rows(args, shape_of(self.points)[1])
    self._check_call_shape(shadow(xi))
    return xi


def _scaled(self: Any, xi: Any) -> Any:
    return xi if self.scale is None else (xi - self.offset) / self.scale


def _square(s: Any) -> Any:
    return np.array([[0.0, 0], [3, 0], [0, 3], [3, 3], [1.2, 1.6]]) + s(5, 2, low=0.0, high=0.1)


@expanded(patch(LinearNDInterpolator.__mro__[1], "__call__", holds=("points", "values")), cases=lambda s: [
    case(LinearNDInterpolator(_square(s), s(5)), s(3, 2, low=0.3, high=2.7)),
    case(LinearNDInterpolator(_square(s), s(5, 2), fill_value=1.0), s(2, 2, 2, low=-1.0, high=2.7)),
    case(LinearNDInterpolator(_square(s), s(5), rescale=True), (s(3, low=0.3, high=2.7), s.number(0.3, 2.7))),
    case(LinearNDInterpolator(_square(s), s(5, dtype=complex)), s(2, low=0.3, high=2.7)),
])  # fmt: skip
def _call_linear(self: Any, *args: Any) -> Any:
    """Barycentric coordinates times the corners' values."""
    if isinstance(self, CloughTocher2DInterpolator):
        raise unsupported("CloughTocher2DInterpolator, whose slopes are found by iteration,", "Use RBFInterpolator")
    xi, d = _places(self, args), shape_of(self.points)[1]
    flat = _scaled(self, np.reshape(xi, (-1, d)))
    corners = getitem(self.points, at := _corners(self.points, flat, self.tri))
    edges = np.swapaxes(corners[:, :d] - corners[:, d:], 1, 2)
    share = np.linalg.solve(edges, (flat - corners[:, d])[:, :, None])[..., 0]
    share = np.concatenate([share, 1 - np.sum(share, axis=1, keepdims=True)], axis=1)
    values = np.reshape(self.values, (shape_of(self.points)[0], -1))
    y = np.sum(np.multiply(share[..., None], getitem(values, at)), axis=1)
    y = np.where(_is_inside(self.points, flat, self.tri)[:, None], y, self.fill_value)
    return np.reshape(y, (*shape_of(xi)[:-1], *self.values_shape))


@expanded(patch(NearestNDInterpolator, "__call__", holds=("points", "values")), cases=lambda s: [
    case(NearestNDInterpolator(_square(s), s(5)), s(3, 2)),
    case(NearestNDInterpolator(_square(s), s(5, 2), rescale=True), s(2, 2)),
])  # fmt: skip
def _call_nearest(self: Any, *args: Any, **options: Any) -> Any:
    if options.get("distance_upper_bound") is not None:
        raise unsupported("NearestNDInterpolator with distance_upper_bound", "Use where on the distances")
    xi, d = _places(self, args), shape_of(self.points)[1]
    at = _nearest(self.points, _scaled(self, np.reshape(xi, (-1, d))), self.tree, options)
    return np.reshape(getitem(self.values, at), (*shape_of(xi)[:-1], *shape_of(self.values)[1:]))


_plain_griddata = interpolate.griddata


def griddata(
    points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan, rescale: bool = False
) -> Any:
    if find_traced((points, values, xi, fill_value)) is None:
        return _plain_griddata(points, values, xi, method, fill_value, rescale)
    rows = points if isinstance(points, tuple) else operand(points)
    if len(rows) > 1 if isinstance(rows, tuple) else len(shape_of(rows)) > 1 and shape_of(rows)[-1] > 1:
        if method == "nearest":
            return NearestNDInterpolator(points, values, rescale=rescale)(xi)
        if method == "linear":
            return LinearNDInterpolator(points, values, fill_value=fill_value, rescale=rescale)(xi)
        _plain_griddata(*shadow((points, values, xi, method, fill_value, rescale)))
        raise unsupported(f"griddata with method={method!r}", "Use method='linear' or RBFInterpolator")
    line = np.ravel(wide(rows[0] if isinstance(rows, tuple) else rows))
    fill = "extrapolate" if method == "nearest" else fill_value
    f = interpolate.interp1d(line, values, method, 0, bounds_error=False, fill_value=fill)
    return f(xi[0] if isinstance(xi, tuple) else xi)


patch(interpolate, "griddata", griddata)

# --------------------------------------------------------------------------------------------- radial basis functions


def _plate(r: Any) -> Any:
    """r**2 log r, which is zero at zero."""
    none = np.equal(r, 0)
    return np.where(none, 0.0, r * r * np.log(np.where(none, 1.0, r)))


# Of the squared distance, where that is smooth: the root has no derivative at zero.
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "multiquadric": lambda q: -np.sqrt(q + 1), "inverse_multiquadric": lambda q: 1 / np.sqrt(q + 1),
    "inverse_quadratic": lambda q: 1 / (q + 1), "gaussian": lambda q: np.exp(-q),
}  # fmt: skip
KERNELS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda r: -r, "thin_plate_spline": _plate, "cubic": lambda r: r**3, "quintic": lambda r: -(r**5),
}


def _kernels(name: str, x: Any, y: Any, epsilon: Any) -> Any:
    """The kernel of the distances between rows."""
    difference = np.multiply(x[:, None, :] - y[None, :, :], epsilon)
    square = np.sum(np.square(difference), axis=-1)
    if name in SMOOTH:
        return SMOOTH[name](square)
    none = np.equal(square, 0)
    return KERNELS[name](np.where(none, 0.0, np.sqrt(np.where(none, 1.0, square))))


def _monomials(x: Any, powers: np.ndarray) -> Any:
    columns = [[x[:, i] ** int(p) for i, p in enumerate(row)] for row in powers]
    return np.stack([np.prod(np.stack(column), axis=0) for column in columns], axis=1)


@primitive
def weights(y: Any, d: Any, smoothing: Any, epsilon: Any, kernel: str, degree: Any, powers: Any) -> Any:
    """The coefficients of kernels and monomials, a column for each number of the data."""
    f = RBFInterpolator(y, d, None, smoothing if np.ndim(smoothing) else float(smoothing), kernel, epsilon, degree)
    return _columns(f, f._coeffs)


def _columns(self: Any, c: Any) -> Any:
    """The library has a pair of columns for complex data."""
    return c[:, ::2] + 1j * c[:, 1::2] if np.dtype(self.d_dtype).kind == "c" and dtype_of(c).kind != "c" else c


def _weights(y: Any, d: Any, smoothing: Any, epsilon: Any, kernel: str, degree: Any, powers: Any) -> Any:
    """The system of kernels and monomials (Fasshauer 2007, "Meshfree Approximation Methods with MATLAB", chapter 6)."""
    n, (low, high) = shape_of(y)[0], (np.min(y, axis=0), np.max(y, axis=0))
    matrix = _kernels(kernel, y, y, epsilon) + np.multiply(np.eye(n), smoothing)
    right, m = np.reshape(d, (n, -1)), len(powers)
    if m:
        spread = (high - low) / 2
        p = _monomials((y - (low + high) / 2) / np.where(np.equal(spread, 0), 1.0, spread), powers)
        matrix = np.block([[matrix, p], [np.transpose(p), np.zeros((m, m))]])
        right = np.concatenate([right, np.zeros((m, shape_of(right)[1]))])
    return np.linalg.solve(matrix, right)


pulled_back_by(weights, _weights, cases=lambda s: [
    case(s(5, 2), s(5), s.number(0.1, 0.2), s.number(0.8, 1.2), "gaussian", 0, np.zeros((1, 2), int)),
    case(s(5, 1), s(5, 2), s(5, low=0.1), 1.0, "cubic", 1, np.array([[0], [1]])),
    case(s(4, 1), s(4, dtype=complex), 0.1, 1.0, "linear", None, np.zeros((1, 1), int)),
])  # fmt: skip


@made_of_traced(RBFInterpolator)
def _take_rbf(self: Any, given: dict[str, Any]) -> None:
    if self.neighbors is not None:
        raise unsupported("RBFInterpolator with neighbors, of traced data,", "Leave neighbors out")
    y, d = wide(given["y"]), wide(given["d"])
    low, high = np.min(y, axis=0), np.max(y, axis=0)
    self._shift, spread = (low + high) / 2, (high - low) / 2
    self._scale = np.where(np.equal(spread, 0), 1.0, spread)
    self.y, self.d, self.epsilon = y, d, 1.0 if given["epsilon"] is None else given["epsilon"]
    self._coeffs = weights(y, d, wide(given["smoothing"]), self.epsilon, self.kernel, given["degree"], self.powers)


def _rbf_object(s: Any, **options: Any) -> Any:
    return RBFInterpolator(s(6, 2), s(6), **options)


@expanded(patch(RBFInterpolator, "__call__", holds=("_coeffs", "y")), cases=lambda s: [
    *(case(_rbf_object(s, kernel=kernel, epsilon=0.8), s(3, 2)) for kernel in (*SMOOTH, *KERNELS)),
    case(_rbf_object(s, degree=-1, kernel="gaussian", epsilon=1.2), s(2, 2)),
    case(_rbf_object(s, degree=2, smoothing=0.1), s(2, 2)),
    case(RBFInterpolator(s(4, 1), s(4, 2)), s(3, 1)), case(RBFInterpolator(s(4, 1), s(4, dtype=complex)), s(3, 1)),
])  # fmt: skip
def _call_rbf(self: Any, x: Any) -> Any:
    if self.neighbors is not None:
        raise unsupported("RBFInterpolator with neighbors", "Leave neighbors out")
    x = wide(x)
    if len(shape_of(x)) != 2 or shape_of(x)[1] != shape_of(self.y)[1]:
        _plain_call_rbf(shadow_of(self), shadow(x))
    basis = _kernels(self.kernel, x, self.y, self.epsilon)
    if len(self.powers):
        basis = np.concatenate([basis, _monomials((x - self._shift) / self._scale, self.powers)], axis=1)
    return np.reshape(np.matmul(basis, _columns(self, self._coeffs)), (shape_of(x)[0], *self.d_shape))


_plain_call_rbf = RBFInterpolator.__call__


def shadow_of(self: Any) -> Any:
    """An object with the values of another one, of which the library raises what is wrong."""
    new = object.__new__(type(self))
    new.__dict__.update({name: shadow(value) for name, value in vars(self).items()})
    return new


@made_of_traced(Rbf)
def _take_old_rbf(self: Any, given: dict[str, Any]) -> None:
    (*places, values), kwargs = given["args"], given["kwargs"]
    if self.norm != "euclidean" or callable(self.function):
        raise unsupported("Rbf with a norm or a function of its own", "Use RBFInterpolator")
    self.xi = np.stack([np.ravel(wide(x)) for x in places])
    self.di = np.ravel(wide(values)) if self._target_dim == 1 else wide(values)
    if kwargs.get("epsilon") is not None:
        self.epsilon = kwargs["epsilon"]
    elif find_traced(places) is not None:
        edges = np.max(self.xi, axis=1) - np.min(self.xi, axis=1)
        edges = [edge for edge in edges if edge != 0]
        self.epsilon = np.power(np.prod(np.stack(edges)) / self.N, 1.0 / len(edges))
    self.smooth = kwargs.get("smooth", 0.0)
    self.nodes = np.linalg.solve(_old_basis(self, self.xi) - np.multiply(np.eye(self.N), self.smooth), self.di)


def _old_basis(self: Any, x: Any) -> Any:
    """The functions of the old class: as the new ones, with other signs and ``epsilon`` the other way round."""
    name = {"thin_plate": "thin_plate_spline"}.get(self.function, self.function)
    epsilon = 1 / self.epsilon if name in SMOOTH else 1.0
    sign = -1 if name in ("multiquadric", "linear", "quintic") else 1
    return np.multiply(sign, _kernels(name, np.transpose(x), np.transpose(self.xi), epsilon))


@expanded(patch(Rbf, "__call__", holds=("nodes", "xi", "epsilon")), cases=lambda s: [
    *(case(Rbf(s(5), s(5), s(5), function=f), s(3), s(3))
      for f in ("multiquadric", "inverse", "gaussian", "linear", "thin_plate")),
    case(Rbf(s(4), s(4), function="cubic", smooth=0.1), s(2, 2)),
    case(Rbf(s(4), s(4, 2), mode="N-D", epsilon=0.5), s(3)),
])  # fmt: skip
def _call_old_rbf(self: Any, *args: Any) -> Any:
    args = tuple(map(wide, args))
    basis = _old_basis(self, np.stack([np.ravel(x) for x in args]))
    return np.reshape(np.matmul(basis, self.nodes), (*shape_of(args[0]), *shape_of(self.nodes)[1:]))
