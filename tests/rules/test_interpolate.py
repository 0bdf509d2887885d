"""Interpolators of ``scipy.interpolate`` in functions: made outside and inside, of traced values, places and knots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as si
from numpy.testing import assert_allclose
from scipy import interpolate
from scipy.interpolate import BSpline, CubicSpline, PPoly, RBFInterpolator, interp1d, make_interp_spline, splev, splrep

from yota_py import grad, gradient
from yota_py.errors import LostDerivativeError, MissingRuleError, UncachedWarning
from yota_py.testing.checks import check_grads

pytestmark = pytest.mark.filterwarnings("ignore", category=UncachedWarning)

X = np.array([0.0, 0.5, 1.1, 1.4, 2.2, 3.0])
Y = np.sin(2 * X) + 0.1 * X
P = np.array([0.2, 1.2, 2.9, 1.7])
SCATTERED = np.random.default_rng(3).uniform(size=(8, 2))
INSIDE = np.array([[0.4, 0.5], [0.5, 0.4]])
GRID = np.arange(4.0), np.array([0.0, 1.0, 2.5, 3.0, 4.0])
TABLE = np.random.default_rng(0).normal(size=(4, 5))


def spline_of(**options: Any) -> Callable[..., Any]:
    return lambda x, y: CubicSpline(x, y, **options)(P)


OF_DATA: dict[str, Callable[[Any, Any], Any]] = {
    "CubicSpline": spline_of(), "natural": spline_of(bc_type="natural"), "clamped": spline_of(bc_type="clamped"),
    "ends": spline_of(bc_type=((1, 0.3), (2, 0.4))), "nu": lambda x, y: CubicSpline(x, y)(P, 1),
    "derivative": lambda x, y: CubicSpline(x, y).derivative(2)(P), "axis": lambda x,
    y: CubicSpline(x, [y, y * y], axis=1)(P),
    "antiderivative": lambda x, y: si.PchipInterpolator(x, y).antiderivative()(P), "c": lambda x,
    y: CubicSpline(x, y).c,
    "integrate": lambda x, y: CubicSpline(x, y).integrate(2.5, 0.3), "Pchip": lambda x,
    y: si.PchipInterpolator(x, y)(P),
    "akima": lambda x, y: si.Akima1DInterpolator(x, y)(P), "hermite": lambda x,
    y: si.CubicHermiteSpline(x, y, y * x)(P),
    "makima": lambda x, y: si.Akima1DInterpolator(x, y, method="makima")(P),
    "barycentric": lambda x, y: interpolate.BarycentricInterpolator(x, y)(P), "krogh": lambda x,
    y: si.KroghInterpolator(x, y)(P),
    "krogh derivatives": lambda x, y: si.KroghInterpolator(x, y).derivatives(P, 3),
    "barycentric derivative": lambda x, y: si.BarycentricInterpolator(x, y).derivative(P, 2),
    "functions": lambda x,
    y: si.pchip_interpolate(x, y, P, der=1) + si.krogh_interpolate(x, y, P) * si.barycentric_interpolate(x, y, P),
    **{f"spline {k}": lambda x, y, k=k: make_interp_spline(x, y, k)(P) for k in range(6)},
    "spline natural": lambda x, y: make_interp_spline(x, y, bc_type="natural").derivative()(P),
    "spline ends": lambda x, y: make_interp_spline(x, y, bc_type=([(1, 0.3)], [(2, 0.4)])).integrate(0.2, 2.0),
    "spline t": lambda x, y: make_interp_spline(x, y, t=np.array([-0.1] * 4 + [1.0, 2.0] + [3.1] * 4))(P),
    "least squares": lambda x, y: si.make_lsq_spline(x, y, np.array([-0.1] * 4 + [1.4] + [3.1] * 4), w=1 + y * y)(P),
    "splrep": lambda x, y: splev(P, splrep(x, y), der=1), "splint": lambda x, y: si.splint(0.2, 2.0, splrep(x, y, k=2)),
    "splder": lambda x, y: splev(P, si.splder(splrep(x, y))) + splev(P, si.splantider(splrep(x, y))),
    "univariate": lambda x,
    y: si.InterpolatedUnivariateSpline(x, y)(P) + si.UnivariateSpline(x, y, s=0).integral(0.2, 2.0),
    "LSQ": lambda x, y: si.LSQUnivariateSpline(x, y, [1.4])(P) * si.LSQUnivariateSpline(x, y, [1.4]).derivative()(1.0),
    **{kind: lambda x, y, kind=kind: interp1d(x, y, kind, fill_value="extrapolate")(P) for kind in
       ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic")},
    "unsorted": lambda x, y: interp1d(x[::-1], y)(P), "rows": lambda x, y: interp1d(x, np.stack([y, y * y]))(P),
    "fill": lambda x, y: interp1d(x, y, bounds_error=False, fill_value=(y[0], x[1]))([-1.0, 0.3, 5.0]),
    "griddata": lambda x, y: si.griddata(x, y, P),
}  # fmt: skip


def check_slopes(f: Callable[..., Any], *args: Any) -> None:
    """The value, and along one direction the gradient and central differences."""
    rng = np.random.default_rng(1)
    weights, steps = rng.normal(size=np.shape(f(*args))), [rng.normal(size=np.shape(x)) for x in args]

    def loss(*xs: Any) -> Any:
        return np.sum(weights * f(*xs))

    value, grads = grad(loss, *args)
    ahead, behind = (loss(*(x + h * v for x, v in zip(args, steps, strict=True))) for h in (1e-6, -1e-6))
    slope = sum(np.sum(dx * v) for dx, v in zip(grads, steps, strict=True))
    assert_allclose(value, loss(*args), rtol=1e-9)
    assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", OF_DATA)
def test_made_inside_of_data(name: str) -> None:
    if name in ("CubicSpline", "Pchip", "spline 3", "barycentric", "linear"):
        check_grads(OF_DATA[name], X, Y)
    check_slopes(OF_DATA[name], X, Y)


def periodic(y: Any) -> Any:
    y = np.append(y, y[0])
    return CubicSpline(X, y, bc_type="periodic")(P + 9.0) + make_interp_spline(X, y, bc_type="periodic")(P)


OTHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "periodic": (periodic, (Y[:-1],)),
    "knots": (lambda t, c: BSpline(t, c, 2)(P + 1.5) * BSpline(t, c, 2).antiderivative()(2.5),
         (np.arange(8.0) + 0.1 * Y.max(), Y[:5])),
    "PPoly": (lambda c, x: PPoly(c, x)(P) + PPoly(c, x).integrate(0.2, 2.0),
         (TABLE[:3, :2], np.array([0.0, 1.0, 2.6]))),
    "BPoly": (lambda c, x: si.BPoly(c, x)(P), (TABLE[:3, :2], np.array([0.0, 1.0, 2.6]))),
    "smoothing": (lambda y: si.make_smoothing_spline(X, y, lam=0.1)(P), (Y,)),
    "repeated": (lambda y: si.KroghInterpolator([0, 0, 1, 1, 2], y)(P), (Y[:5],)),
    "grid": (lambda a, v: si.RegularGridInterpolator((a, GRID[1]), v)(INSIDE), (GRID[0], TABLE)),
    "grid spline": (lambda q: si.interpn(GRID, TABLE, q, method="cubic"), (INSIDE + 1.1,)),
    "two axes": (lambda v: si.RectBivariateSpline(*GRID, v, ky=2)(INSIDE[0], INSIDE[1][::-1]), (TABLE,)),
    "triangles": (lambda x, v: si.LinearNDInterpolator(x, v, rescale=True)(INSIDE), (SCATTERED, SCATTERED[:, 0] ** 2)),
    "griddata": (lambda v, q: si.griddata(SCATTERED, v, q) + si.griddata(SCATTERED, v, q, "nearest"),
         (Y[[*range(6), 0, 1]], INSIDE)),
    "rbf": (lambda x, v: RBFInterpolator(x, v, smoothing=0.1, degree=1)(INSIDE), (SCATTERED, SCATTERED[:, 0] ** 2)),
    "rbf epsilon": (lambda e: RBFInterpolator(SCATTERED, SCATTERED, kernel="gaussian", epsilon=e)(INSIDE), (1.5,)),
    "Rbf": (lambda x, v: si.Rbf(x, SCATTERED[:, 1], v)(INSIDE[0], INSIDE[1]), (SCATTERED[:, 0], SCATTERED[:, 0] ** 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others_made_inside(name: str) -> None:
    f, args = OTHERS[name]
    check_slopes(f, *args)


TCK, RBF = splrep(X, Y, s=0.01), RBFInterpolator(X[:, None], Y)
OBJECTS: dict[str, Any] = {
    "CubicSpline": CubicSpline(X, Y), "antiderivative": CubicSpline(X, Y).antiderivative(),
    "BSpline": make_interp_spline(X, Y),
    "interp1d": interp1d(X, Y, "cubic"), "univariate": si.UnivariateSpline(X, Y, s=0.1),
    "krogh": si.KroghInterpolator(X, Y),
    "splev": lambda p: splev(p, TCK), "rbf": lambda p: RBF(p[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_made_outside(name: str) -> None:
    f = OBJECTS[name]

    def loss(p: Any) -> Any:
        return np.sum(f(p) ** 2)

    check_grads(loss, P, second_order=False)
    h = 1e-6
    for step in (0.0, 0.01, 0.02):
        p = P + step
        want = [(loss(p + h * e) - loss(p - h * e)) / (2 * h) for e in np.eye(len(p))]
        assert_allclose(grad(loss, p)[1][0], want, rtol=1e-6, atol=1e-8)


def test_compiled_gradients_hold_for_other_inputs() -> None:
    """A calibration: the values at the knots, and where it is looked up."""
    def loss(y: Any, p: Any) -> Any:
        spline = BSpline(np.arange(10.0), y, 3)
        return np.sum(CubicSpline(X, y, bc_type="natural")(p) ** 2) + interp1d(X, y)(1.0) + spline(4.5)

    grad.compile(loss, Y, P)
    for step in (0.0, 0.01, 0.02):
        y, p = Y + step, P + step
        value, grads = grad(loss, y, p)
        assert_allclose(value, loss(y, p))
        for dx, want in zip(grads, grad(lambda y, p: loss(y, p) * 1.0, y, p)[1], strict=True):
            assert_allclose(dx, want, rtol=1e-9, atol=1e-12)


def test_jumps() -> None:
    """A place that comes twice has the later value, as the library's ``np.interp`` has it."""
    x, points = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.0, 1.5, 2.0])

    def f(y: Any, points: Any) -> Any:
        return np.sum(interp1d(x, y)(points) * np.arange(1.0, 6.0))

    for y in (np.array([0.0, 1.0, 5.0, 6.0]), np.array([1.0, -1.0, 2.0, 2.0])):
        value, (dy, slopes) = grad(f, y, points)
        assert_allclose(value, f(y, points))
        assert_allclose(dy, [f(e, points) for e in np.eye(4)])
        assert_allclose(slopes[[1, 3]], [2 * (y[1] - y[0]), 4 * (y[3] - y[2])])


def test_slopes_at_the_places_themselves() -> None:
    """Where the formulas divide zero by zero, and where pieces meet."""
    assert_allclose(gradient(si.BarycentricInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0]))(1.0), 2.0)
    assert_allclose(gradient(lambda p: CubicSpline(X, X**2)(p))(X[2]), 2 * X[2])
    rbf = RBFInterpolator(SCATTERED, SCATTERED[:, 0])
    assert_allclose(gradient(lambda q: np.sum(rbf(q)))(SCATTERED[:2]), [[1, 0], [1, 0]], atol=1e-9)
    assert_allclose(gradient(lambda p: PPoly([[1.0, -1.0], [0.0, 1.0]], [0, 1, 2], extrapolate=False)(p))(1.0), -1.0)


@pytest.mark.parametrize("f", [
    lambda q: interp1d(X, Y)(q * 10), lambda q: interp1d(X, q.ravel()[:3]), lambda q: CubicSpline(X, q.ravel()),
    lambda q: si.RegularGridInterpolator(GRID, TABLE)(q * 10), lambda q: si.RegularGridInterpolator(GRID, q),
    lambda q: make_interp_spline(X[::-1], Y * q[0, 0]), lambda q: BSpline(X, Y * q[0, 0], 9),
    lambda q: RBFInterpolator(q, Y),
    lambda q: si.RegularGridInterpolator(GRID, TABLE * q[0, 0], "quintic"),
    lambda q: si.interpn(GRID, TABLE, q, bogus=1),
])  # fmt: skip
def test_errors_are_the_library_s(f: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as plain:
        f(INSIDE)
    with pytest.raises(plain.type) as traced:
        grad(f, INSIDE)
    assert str(traced.value) == str(plain.value)


@pytest.mark.parametrize("f", [
    lambda y: CubicSpline(X, y).roots()[0], lambda y: si.UnivariateSpline(X, y)(0.3), lambda y: si.lagrange(X, y)(0.3),
    lambda y: splev(0.3, splrep(X, y, s=0.1)), lambda y: si.make_smoothing_spline(X, y)(0.3),
    lambda y: si.AAA(X, y)(0.3),
    lambda y: si.UnivariateSpline(X, y, s=0).get_residual(), lambda y: make_interp_spline(X, y).insert_knot(0.3)(1.0),
    lambda y: si.CloughTocher2DInterpolator(SCATTERED[:6], y)(0.4, 0.5),
    lambda y: si.PPoly.from_spline(make_interp_spline(X, y))(0.3),
])  # fmt: skip
def test_what_is_refused(f: Callable[..., Any]) -> None:
    with pytest.raises((MissingRuleError, LostDerivativeError)):
        grad(f, Y)
