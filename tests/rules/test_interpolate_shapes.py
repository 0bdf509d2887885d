"""Interpolators at points in all forms that SciPy takes, single ones and coordinates apart among them: the shapes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as si
from numpy.testing import assert_allclose
from sets import each

from yota_py import grad, pullback

AX = np.arange(3.0), np.array([0.0, 0.5, 1.5, 2.0])
POINTS = np.array([[0, 0], [2, 0.1], [0.1, 2], [2, 2.0], [1.1, 0.9]])
LINE = np.array([0.0, 0.4, 1.0, 1.5, 2.0])
TABLE = np.random.default_rng(0).normal(size=(3, 4))
ROWS = np.random.default_rng(1).normal(size=5)
FIVE = np.arange(5.0)
PLACES = [
    (0.3, 0.2), (np.float64(0.3), np.array(0.2)), (0.3, [0.2]), ([0.3, 0.4], 0.2), ([[0.3], [0.4]], [0.2, 0.5, 0.6]),
    [0.3, 0.2], [[0.3, 0.2]], [[0.3, 0.2], [0.4, 0.5]], [[[0.3, 0.2]]],
    (np.zeros(0), 0.2), np.zeros((0, 2)),
]  # fmt: skip
NUMBERS = [
    0.3, np.float64(0.3), np.array(0.3), np.array([0.3]), [0.3, 0.4], [[0.3, 0.4]], np.zeros(0), np.zeros((2, 0)),
]  # fmt: skip


def columns(y: Any) -> Any:
    return np.stack([y, 2 * y], -1)


# Of the data, what is called with the places.
OF_PLACES: dict[str, Callable[[Any], Any]] = {
    **{f"grid {m}": lambda y, m=m: si.RegularGridInterpolator(AX, y, m) for m in ("linear", "nearest", "slinear")},
    "grid columns": lambda y: si.RegularGridInterpolator(AX, columns(y)),
    "grid, filled": lambda y: si.RegularGridInterpolator(AX, y, bounds_error=False, fill_value=None),
    "interpn": lambda y: lambda xi: si.interpn(AX, y, xi),
    "interpn nearest": lambda y: lambda xi: si.interpn(AX, y, xi, "nearest"),
    "interpn columns": lambda y: lambda xi: si.interpn(AX, columns(y), xi),
    "linear": lambda y: si.LinearNDInterpolator(POINTS, np.ravel(y)[:5]),
    "linear columns": lambda y: si.LinearNDInterpolator(POINTS, columns(np.ravel(y)[:5]), rescale=True),
    "nearest": lambda y: si.NearestNDInterpolator(POINTS, np.ravel(y)[:5]),
    "nearest columns": lambda y: si.NearestNDInterpolator(POINTS, columns(np.ravel(y)[:5])),
    "griddata": lambda y: lambda xi: si.griddata(POINTS, np.ravel(y)[:5], xi),
    "griddata tuple": lambda y: lambda xi: si.griddata(tuple(POINTS.T), np.ravel(y)[:5], xi, "nearest"),
    "griddata columns": lambda y: lambda xi: si.griddata(POINTS, columns(np.ravel(y)[:5]), xi),
}
# Of the data, what is called with a coordinate and another one.
OF_COORDINATES: dict[str, Callable[[Any], Any]] = {
    "linear": OF_PLACES["linear"], "linear columns": OF_PLACES["linear columns"], "nearest": OF_PLACES["nearest"],
    "ev": lambda y: si.RectBivariateSpline(*AX, y, kx=1, ky=2).ev,
    "apart": lambda y: lambda a, b: si.RectBivariateSpline(*AX, y, kx=1, ky=2)(a, b, grid=False),
    "slope": lambda y: lambda a, b: si.RectBivariateSpline(*AX, y, kx=2, ky=2)(a, b, 1, 0, grid=False),
    "Rbf": lambda y: lambda a, b: si.Rbf(*POINTS.T, np.ravel(y)[:5])(*np.broadcast_arrays(a, b)),
    "Rbf columns": lambda y: lambda a, b: si.Rbf(*POINTS.T, columns(np.ravel(y)[:5]), mode="N-D")(
        *np.broadcast_arrays(a, b)),
}  # fmt: skip
# Of the data, what is called with numbers.
OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    **{f"interp1d {k}": lambda y, k=k: si.interp1d(LINE, y, k) for k in ("linear", "nearest", "previous", "cubic")},
    "interp1d columns": lambda y: si.interp1d(LINE, np.stack([y, y]), axis=1),
    "interp1d quadratic": lambda y: si.interp1d(LINE, columns(y), "quadratic", axis=0),
    "griddata 1": lambda y: lambda xi: si.griddata(LINE, y, xi),
    "griddata 1, tuple": lambda y: lambda xi: si.griddata((LINE,), y, (xi,), "nearest"),
    "CubicSpline": lambda y: si.CubicSpline(LINE, y), "Pchip": lambda y: si.PchipInterpolator(LINE, columns(y)),
    "Akima": lambda y: si.Akima1DInterpolator(LINE, y), "Barycentric": lambda y: si.BarycentricInterpolator(LINE, y),
    "Krogh": lambda y: si.KroghInterpolator(LINE, columns(y)), "BSpline": lambda y: si.make_interp_spline(LINE, y),
    "splev": lambda y: lambda x: si.splev(x, si.splrep(LINE, y)),
    "Univariate": lambda y: si.UnivariateSpline(LINE, y, s=0),
    "PPoly": lambda y: si.PPoly(np.stack([y, y]), np.arange(6.0)),
    "interp": lambda y: lambda x: np.interp(x, LINE, y),
    "CubicHermite": lambda y: si.CubicHermiteSpline(LINE, columns(y), columns(y)),
}  # fmt: skip


def compare(f: Callable[..., Any], *args: Any) -> None:
    """The value of a traced function is as it is without tracing, or both refuse."""
    try:
        want = f(*args)
    except Exception as error:
        with pytest.raises(type(error)):
            pullback(f, *args)
        return
    have = pullback(f, *args)[0]
    assert type(have) is type(want)
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    assert_allclose(have, want, rtol=1e-9, atol=1e-12)


def traced_too(xi: Any) -> Any:
    """Places as arguments that are differentiated: of each coordinate, or of all."""
    return tuple(np.asarray(x) if isinstance(x, list) else x for x in xi) if type(xi) is tuple else np.asarray(xi)


@pytest.mark.parametrize("name", OF_PLACES)
@pytest.mark.parametrize("xi", PLACES, ids=str)
def test_places(name: str, xi: Any) -> None:
    compare(lambda y: OF_PLACES[name](y)(xi), TABLE)
    compare(OF_PLACES[name](TABLE), traced_too(xi))


@pytest.mark.parametrize("name", OF_COORDINATES)
@pytest.mark.parametrize("xi", [xi for xi in PLACES if type(xi) is tuple], ids=str)
def test_coordinates(name: str, xi: Any) -> None:
    compare(lambda y, xi: OF_COORDINATES[name](y)(*xi), TABLE, traced_too(xi))
    compare(OF_COORDINATES[name](TABLE), *traced_too(xi))


@pytest.mark.parametrize(("x", "name"), each([*product(NUMBERS, OF_NUMBERS)], 2), ids=str)
def test_numbers(name: str, x: Any) -> None:
    if name == "splev" and np.size(x) == 0:  # FITPACK refuses that
        return
    compare(lambda y: OF_NUMBERS[name](y)(x), ROWS)
    compare(lambda y, x: OF_NUMBERS[name](y)(x), ROWS, traced_too(x))
    compare(OF_NUMBERS[name](ROWS), traced_too(x))


@pytest.mark.parametrize("x", [
    0.3, np.array(0.3), np.array([0.3]), np.array([0.3, 0.4]), np.array([[0.3, 0.4]]),
], ids=str)  # fmt: skip
def test_grids_of_two_axes(x: Any) -> None:
    compare(lambda y: si.RectBivariateSpline(*AX, y, kx=1, ky=2)(x, 0.7), TABLE)
    compare(lambda y, x: si.RectBivariateSpline(*AX, y, kx=1, ky=2)(x, [0.7, 0.9]), TABLE, x)
    compare(lambda y: si.RBFInterpolator(POINTS, y)(np.stack([x, x], -1)), ROWS)


@pytest.mark.parametrize("xi", [
    (0.3, 0.2, 0.1), [0.3, 0.2, 0.1], [[0.3, 0.2, 0.1]], [[0.3], [0.2]], 0.3, (0.3,),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", OF_PLACES)
def test_places_of_other_dimensions(name: str, xi: Any) -> None:
    compare(lambda y: OF_PLACES[name](y)(xi), TABLE)


def test_gradients_of_single_points() -> None:
    values = np.array([1.0, -2.0, 3.0, 5.0])
    square, corners = (np.arange(2.0), np.arange(2.0)), np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
    for _ in range(2):
        y, (dy, da) = grad(lambda y, a: si.RegularGridInterpolator(square, y.reshape(2, 2))((a, 0.25)), values, 0.5)
        assert y == 1.875
        assert_allclose(dy, [0.375, 0.125, 0.375, 0.125])
        assert_allclose(da, 3.25)
        assert_allclose(grad(lambda y: si.NearestNDInterpolator(corners, y)(0.3, 0.2), values)[1][0], [1, 0, 0, 0])
        assert_allclose(grad(lambda y: si.griddata(corners, y, (0.75, 1.0)), values)[1][0], [0, 0.25, 0, 0.75])
