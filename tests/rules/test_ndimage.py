"""Filters, splines and measurements of ``scipy.ndimage`` in functions: adjoints, conventions, compiled gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage as ndi
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage
from scipy.ndimage import gaussian_filter as smoothed

from yota_py import explain, grad, gradient, jit, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError, UncachedWarning
from yota_py.testing.checks import check_grads

MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(6, 5))

LINEAR: dict[str, Callable[[Any, str], Any]] = {
    "correlate1d": lambda x, mode: ndimage.correlate1d(x, [1.0, -2.0, 0.5, 3.0], mode=mode, origin=1),
    "convolve": lambda x, mode: ndimage.convolve(x, np.arange(12.0).reshape(3, 4), mode=mode, origin=(-1, 1)),
    "gaussian": lambda x, mode: smoothed(x, (1.0, 2.0), order=(0, 1), mode=mode),
    "uniform": lambda x, mode: ndimage.uniform_filter(x, (4, 3), mode=mode, origin=(-1, 0)),
    "spline": lambda x, mode: ndimage.spline_filter(x, 4, mode=mode),
    "zoom": lambda x, mode: ndimage.zoom(x, (1.7, 0.6), mode=mode),
    "rotate": lambda x, mode: ndimage.rotate(x, 33.0, mode=mode, order=2),
}


@pytest.mark.parametrize("shape", [(6, 5), (1, 2), (3, 7)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LINEAR)
def test_adjoints_are_exact(name: str, mode: str, shape: tuple[int, ...]) -> None:
    """<A x, y> is <x, A' y>: at every edge, for even and odd sizes."""
    f, x = LINEAR[name], RNG.normal(size=shape)
    y = RNG.normal(size=f(x, mode).shape)
    (back,) = grad(lambda x: f(x, mode), x, seed=y)[1]
    assert_allclose(np.sum(f(x, mode) * y), np.sum(x * back), rtol=1e-11, atol=1e-11)


def aligned(shift: Any) -> Any:
    return np.sum((ndi.shift(IMAGE, shift, mode="nearest") - IMAGE) ** 2)


def edges(x: Any) -> Any:
    blurred = np.empty_like(x)
    ndi.gaussian_filter(x, sigma=0.7, output=blurred)
    return np.sum(np.hypot(ndi.sobel(blurred, 0), ndi.sobel(blurred, axis=1)))


def deblurred(w: Any) -> Any:
    return np.sum(ndi.convolve(IMAGE, w, mode="wrap") ** 2)


def warped(p: Any) -> Any:
    points = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0), indexing="ij"))
    return np.sum(ndimage.map_coordinates(IMAGE, points * 0.8 + p[:, None, None], order=3, mode="reflect") ** 2)


def regions(x: Any) -> Any:
    labels, _ = ndimage.label(IMAGE > 0)
    return np.sum(ndimage.mean(x * x, labels, [1, 2])) + np.sum(ndimage.maximum(x, labels, [2, 1]))


def ranked(x: Any) -> Any:
    return np.sum(ndi.median_filter(x, 3) * ndi.grey_opening(x, size=(2, 2)))


@pytest.mark.parametrize(("f", "x"), [
    (aligned, np.array([0.3, -0.4])), (edges, IMAGE), (deblurred, RNG.normal(size=(3, 3))),
    (warped, np.array([0.3, 0.4])),
    (regions, IMAGE), (ranked, IMAGE),
], ids=lambda x: getattr(x, "__name__", ""))  # fmt: skip
def test_compiled_gradients_hold_for_other_inputs(f: Callable[..., Any], x: np.ndarray) -> None:
    check_grads(f, x, second_order=False)
    grad.compile(f, x)
    for step in (0.0, 0.01, 0.02):
        value, (dx,) = grad(f, x + step)
        assert_allclose(value, f(x + step))
        assert_allclose(dx, gradient(lambda x: f(x) * 1.0)(x + step), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("f", [
    lambda a: np.sum(ndimage.shift(np.arange(12.0), a, order=3)[3:-3] ** 2),
    lambda a: ndimage.shift(np.eye(5), a, order=1)[2, 2],
    lambda a: ndimage.map_coordinates(np.arange(12.0) ** 2, [np.arange(10.0) + a])[4],
    lambda a: np.sum(ndimage.affine_transform(np.sin(np.arange(12.0)), [1.0], a)[2:-2] ** 2),
    lambda a: np.sum(ndimage.shift(np.arange(12.0), a, order=1, mode="grid-constant") ** 2),
])  # fmt: skip
def test_displacements_of_an_image_that_is_made_there(f: Any) -> None:
    for a in (0.1, 0.35, 0.2):
        value, (slope,) = grad(f, a)
        assert_allclose(value, f(a), rtol=1e-12)
        assert_allclose(slope, (f(a + 1e-5) - f(a - 1e-5)) / 2e-5, rtol=1e-5)
    assert explain(f)[0].calls == 2


def test_width_of_a_gaussian() -> None:
    check_grads(lambda sigma: np.sum(smoothed(IMAGE, sigma) ** 2), 0.8)
    check_grads(lambda a, b: np.sum(ndimage.gaussian_laplace(IMAGE, (a, b)) ** 2), 0.8, 1.1, second_order=False)


def test_ties_share() -> None:
    x = np.array([1.0, 2.0, 2.0, 0.0])
    assert_array_equal(gradient(lambda x: ndimage.maximum(x))(x), [0, 0.5, 0.5, 0])
    assert_array_equal(gradient(lambda x: ndimage.maximum_filter(x, 3)[1])(x), [0, 0.5, 0.5, 0])
    assert_array_equal(gradient(lambda x: ndimage.standard_deviation(x))(np.ones(3)), np.zeros(3))
    flat = np.ones((4, 4))
    assert_array_equal(gradient(lambda x: np.sum(ndimage.gaussian_gradient_magnitude(x, 1.0)))(flat), 0 * flat)


def test_what_counts_pixels_has_no_derivative() -> None:
    def f(x: Any) -> Any:
        inside = ndimage.binary_dilation(x > 0.5, iterations=2)
        return np.sum(x * inside) + np.sum(x * ndimage.distance_transform_edt(x > 0))

    check_grads(f, IMAGE, second_order=False)


def test_output_and_kinds_of_input() -> None:
    frozen = IMAGE.copy()
    frozen.flags.writeable = False
    f = jit(lambda x: ndi.gaussian_filter(x, 1.0) + ndi.sobel(x))
    for x in (IMAGE, frozen, IMAGE.astype(np.float32), IMAGE.T[::-1]):
        assert_allclose(f(x), ndi.gaussian_filter(x, 1.0) + ndi.sobel(x), rtol=1e-5)
    value, dx = value_and_grad(lambda x: np.sum(ndi.laplace(x)))([[1.0, 2.0], [0.0, 4.0]])
    assert value == 0.0
    assert_array_equal(dx, np.zeros((2, 2)))
    assert gradient(lambda x: np.sum(ndi.uniform_filter(x, 2)))(IMAGE.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("f", [
    lambda x: ndi.uniform_filter1d(x, 3, mode="bogus"), lambda x: smoothed(x, (1, 2, 3)), lambda x: ndi.sobel(x, 5),
    lambda x: ndi.correlate(x, np.ones(3)), lambda x: ndi.map_coordinates(x, np.zeros((3, 2))),
    lambda x: ndi.rotate(x[0], 3),
    lambda x: ndi.spline_filter(x, 7), lambda x: smoothed(x, 1.0, bogus=1), lambda x: ndi.grey_opening(x),
    lambda x: ndi.median_filter(x), lambda x: ndi.gaussian_filter1d(x, 1.0, radius=-1),
])  # fmt: skip
def test_errors_are_the_library_s(f: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as plain:
        f(IMAGE)
    with pytest.raises(plain.type) as traced:
        grad(lambda x: np.sum(f(x)), IMAGE)
    assert str(traced.value) == str(plain.value)


@pytest.mark.filterwarnings("ignore", category=UncachedWarning)
def test_what_is_refused() -> None:
    with pytest.raises(LostDerivativeError, match="generic_filter"):
        grad(lambda x: np.sum(ndimage.generic_filter(x, np.mean, 3)), IMAGE)
    with pytest.raises(MissingRuleError, match="fourier_ellipsoid"):
        grad(lambda size: np.sum(np.abs(ndimage.fourier_ellipsoid(IMAGE, size))), 2.0)
