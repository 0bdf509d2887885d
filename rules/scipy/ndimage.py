"""Filters of ``scipy.ndimage`` that are linear in the image, and what is made of them.

A filter continues the image beyond its edges (``ndimage_windows.continued``: elements at positions that the mode tells)
and sums weighted windows of that. Both have their adjoints, so that of the filter is exact for every mode and origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import ndimage

from yota_py.base.dispatch import is_traced
from yota_py.registry.registry import Case, Sample, case
from yota_py.registry.tangents import conj

from ..support import axis_of, operand, shape_of
from .ndimage_windows import axes_list, continued, filter_of, made_of_filters, normalized, windowed

MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]


def _line(x: Any, w: Any, axis: int, mode: str, cval: Any, origin: int) -> Any:
    """The windows of the lines along one axis, weighted."""
    x, k = operand(x), shape_of(w)[0]
    axis = axis_of(axis, len(shape_of(x)))
    before = k // 2 + origin
    x = continued(x, cval, axis, before, k - 1 - before, mode)
    return windowed(x, np.reshape(w, [-1 if i == axis else 1 for i in range(len(shape_of(x)))]))


def _line_cases(s: Sample) -> Iterable[Case]:
    yield from [case(s(n), s(k), mode=mode, cval=0.7) for mode in MODES for n, k in ((5, 3), (4, 2), (3, 8), (1, 4))]
    yield from [case(s(5), s(k), origin=at, mode=mode) for k, at in ((3, -1), (3, 1), (4, -2), (4, 1))
                for mode in ("reflect", "constant", "mirror")]  # fmt: skip
    yield from [
        case(s(4, 3), s(3), 0), case(s(3, 2, 4), s(2), axis=1, mode="wrap"), case(s(2, 4), s(3), -1, None, "nearest"),
        case(s(5, dtype=np.float32), s(3)), case(s(3, 4).T, s(6)[::2]), case(s(5), [1.0, -2.0]), case([1.0, 2.0], s(3)),
        case(s(4), s(3), output=np.float32), case(s(4), s(3), output="f8"), case(s(4), s(3), -1, None, "constant", 2.0),
        case(s(0), s(3)), case(s(2, 0), s(3)),
        case(s(4, dtype=complex), s(3)), case(s(4), s(3, dtype=complex)),
        case(s(3, dtype=complex), s(2, dtype=complex)),
        case(s(4, dtype=complex), s(3), mode="constant", cval=1 + 2j), case(s.integers(4, high=9), s(3), output=float),
    ]  # fmt: skip


@filter_of(ndimage, "correlate1d", _line_cases)
def correlate1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> Any:  # fmt: skip
    return _line(input, conj(operand(weights)), axis, mode, cval, origin)


@filter_of(ndimage, "convolve1d", lambda s: [*_line_cases(s)][::3])
def convolve1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> Any:  # fmt: skip
    w = np.flip(operand(weights))
    return _line(input, w, axis, mode, cval, -origin - (shape_of(w)[0] % 2 == 0))


@filter_of(ndimage, "uniform_filter1d", lambda s: [
    *(case(s(n), k, mode=mode, cval=0.7) for mode in MODES for n, k in ((5, 3), (4, 2), (2, 5))),
    case(s(5), 4, origin=-1), case(s(5), 3, origin=1), case(s(3, 4), 2, 0), case(s(4, dtype=np.float32), 3),
    case(s(4, dtype=complex), 3), case([1.0, 2.0, 4.0], 2), case(s(4), size=3, output=np.float32),
])  # fmt: skip
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Any:
    return _line(input, np.full(size, 1 / size), axis, mode, cval, origin)


def _window(x: Any, w: Any, mode: str, cval: Any, origin: Any, axes: Any, *, flipped: bool) -> Any:
    """The windows of all ``axes``, weighted."""
    x = operand(x)
    ndim = len(shape_of(x))
    chosen = axes_list(axes, ndim)
    origins = normalized(origin, len(chosen))
    if len(chosen) < ndim:  # of all axes, the library does not look at the order
        origins = [at for _, at in sorted(zip(chosen, origins, strict=True))]
    if flipped:
        w = np.flip(w)
    for axis, k, at in zip(sorted(chosen), shape_of(w), origins, strict=True):
        before = k // 2 + (at if not flipped else -at - (k % 2 == 0))
        x = continued(x, cval, axis, before, k - 1 - before, mode)
    return windowed(x, np.expand_dims(w, tuple(i for i in range(ndim) if i not in chosen)))


def _window_cases(s: Sample) -> Iterable[Case]:
    yield from [case(s(4, 3), s(3, 2), mode=mode, cval=0.7) for mode in MODES]
    yield from [case(s(3, 4), s(2, 3), origin=at) for at in (-1, (0, 1), (-1, 0))]
    yield from [
        case(s(5), s(3)), case(s(2, 3, 2), s(2, 1, 2)), case(s(2, 3), s(4, 5)), case(s(3, 4), s(3), axes=0),
        case(s(2, 3, 2), s(2, 2), axes=(0, 2), mode="mirror"), case(s(2, 3, 2), s(2, 3), axes=(1, 2), origin=(-1, 1)),
        case(s(2, 3, 2), s(3, 2), axes=(-1, 0), origin=(0, 1)),
        case(s(0, 3), s(2, 2)),
        case(s(3, 4, dtype=np.float32), s(2, 2)), case(s(4, 3).T, s(2, 4)[:, ::2]), case(s(3, 3), [[1.0, 2.0], [0, 1]]),
        case(s(2, 3, dtype=complex), s(2, 2)), case(s(2, 3), s(2, 2, dtype=complex)),
        case(s(2, 3, dtype=complex), s(2, 2, dtype=complex)), case(s(3, 3), s(2, 2), None, "constant", 1.5, 0),
        case(s(3, 3), s(2, 2), output=np.float32), case(s.integers(3, 3, high=9), s(2, 2), output=float),
    ]  # fmt: skip


@filter_of(ndimage, "correlate", _window_cases)
def correlate(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> Any:  # fmt: skip
    return _window(input, conj(operand(weights)), mode, cval, origin, axes, flipped=False)


@filter_of(ndimage, "convolve", lambda s: [*_window_cases(s)][::2])
def convolve(
    input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> Any:  # fmt: skip
    return _window(input, operand(weights), mode, cval, origin, axes, flipped=True)


# ------------------------------------------------------------------------- made of these: Gaussians and differences


def gaussian_kernel(sigma: Any, order: int, radius: int) -> Any:
    """A Gaussian of unit sum, or its derivative: that of q(x) exp(-x**2 / (2 sigma**2)) has q' - q x / sigma**2."""
    x = np.arange(-radius, radius + 1)
    variance = np.multiply(sigma, sigma)
    phi = np.exp(np.multiply(-0.5 / variance, x**2))
    q: list[Any] = [1.0]  # the coefficients of a polynomial
    for _ in range(order):
        slope = [*[i * c for i, c in enumerate(q)][1:], 0.0, 0.0]
        q = [a - b for a, b in zip(slope, [0.0, *(np.divide(c, variance) for c in q)], strict=True)]
    return sum(c * x**i for i, c in enumerate(q)) * phi / np.sum(phi)


@made_of_filters(ndimage, "gaussian_filter1d", lambda s: [
    *(case(s(4), 0.7, order=order) for order in range(3)), case(s(3, 4), sigma=0.6, axis=0, mode="wrap"),
    case(s(4, dtype=np.float32), sigma=0.8), case(s(4), s.number(0.5, 0.7), -1, 1, None, "constant", 1.0, 3.0),
    case(s(5), sigma=0.8, radius=1), case(s(5), sigma=np.array(0.9), order=3), case(s(5, dtype=complex), sigma=0.6),
    case(s(4), sigma=0.5, output=np.float32),
])  # fmt: skip
def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None,
) -> Any:  # fmt: skip
    if not is_traced(sigma):
        ndimage.gaussian_filter1d(np.zeros(1), sigma, 0, order, truncate=truncate, radius=radius)  # raises what it does
    n = int(truncate * sigma + 0.5) if radius is None else radius
    return correlate1d(input, gaussian_kernel(sigma, order, n)[::-1], axis, output, mode, cval, 0)


@made_of_filters(ndimage, "gaussian_filter", lambda s: [
    case(s(3, 4), 0.7), case(s(3, 4), sigma=(0.5, 0.8)), case(s(3, 4), [0.5, 0.8], order=(1, 0)),
    case(s(3, 4), sigma=0.6, mode=("wrap", "nearest")), case(s(3, 2, 3), sigma=0.6, axes=(0, 2), radius=(1, 2)),
    case(s(3), sigma=0.0), case(s(3, 3, dtype=np.float32), sigma=(0.0, 0.6), truncate=2.0),
    case([[1.0, 2.0]], sigma=1, mode="constant", cval=1.0), case(s(2, 0), sigma=0.6),
])  # fmt: skip
def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    x = operand(input)
    chosen = axes_list(axes, len(shape_of(x)))
    options = zip(chosen, *(normalized(option, len(chosen)) for option in (sigma, order, mode, radius)), strict=True)
    return _each(x, output, [
        lambda y, output, a=a, s=s, k=k, m=m, r=r: gaussian_filter1d(y, s, a, k, output, m, cval, truncate, radius=r)
        for a, s, k, m, r in options if s > 1e-15
    ])  # fmt: skip


def _each(x: Any, output: Any, filters: Any) -> Any:
    """Filters one after the other, all with results of one dtype."""
    for one in filters:
        x = one(x, output)
    return x if filters else correlate1d(x, [1.0], output=output)


@made_of_filters(ndimage, "uniform_filter", lambda s: [
    case(s(3, 4)), case(s(3, 4), (2, 3), mode=("wrap", "constant"), cval=1.0), case(s(3, 4), 2, origin=(-1, 0)),
    case(s(2, 3, 2, dtype=np.float32), 2, axes=(0, 2)), case([[1.0, 2.0]], 1),
])  # fmt: skip
def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
    axes: Any = None,
) -> Any:  # fmt: skip
    x = operand(input)
    chosen = axes_list(axes, len(shape_of(x)))
    options = zip(chosen, *(normalized(option, len(chosen)) for option in (size, mode, origin)), strict=True)
    return _each(x, output, [
        lambda y, output, a=a, k=k, m=m, at=at: uniform_filter1d(y, int(k), a, output, m, cval, at)
        for a, k, m, at in options if k > 1
    ])  # fmt: skip


def _differences(x: Any, axis: int, output: Any, mode: Any, cval: Any, smooth: list[int]) -> Any:
    """Central differences along one axis, smoothed along the others."""
    x = operand(x)
    ndim = len(shape_of(x))
    axis, modes = axis_of(axis, ndim), normalized(mode, ndim)
    lines = [(axis, [-1, 0, 1]), *((i, smooth) for i in range(ndim) if i != axis)]
    return _each(x, output, [
        lambda y, output, i=i, w=w: correlate1d(y, w, i, output, modes[i], cval, 0) for i, w in lines
    ])  # fmt: skip


def _edge_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(3, 4), 0, mode=("wrap", "mirror")), case(s(2, 3, 2), axis=1, mode="constant", cval=1.0),
        case(s(4)), case(s(4, 3, dtype=np.float32).T), case([[1.0, 2.0]]), case(s(2, 3, dtype=complex)),
    ]  # fmt: skip


@made_of_filters(ndimage, "prewitt", lambda s: [*_edge_cases(s)][:2])
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _differences(input, axis, output, mode, cval, [1, 1, 1])


@made_of_filters(ndimage, "sobel", _edge_cases)
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _differences(input, axis, output, mode, cval, [1, 2, 1])


@made_of_filters(ndimage, "laplace", lambda s: [
    case(s(3, 4)), case(s(3, 4), mode=("wrap", "nearest")), case(s(2, 3, 2), axes=(0, 2)), case(s(4)),
    case([[1.0, 2.0]], mode="constant", cval=1.0), case(s(2), axes=()), case(s(3, dtype=np.float32)),
])  # fmt: skip
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Any:
    x = operand(input)
    return _sum_over(x, output, mode, axes, lambda i, output, m: correlate1d(x, [1, -2, 1], i, output, m, cval, 0))


def _over(x: Any, output: Any, mode: Any, axes: Any, term: Any) -> list[Any]:
    """A term for each axis."""
    chosen = axes_list(axes, len(shape_of(x)))
    return [term(i, output, m) for i, m in zip(chosen, normalized(mode, len(chosen)), strict=True)]


def _sum_over(x: Any, output: Any, mode: Any, axes: Any, term: Any) -> Any:
    """The sum of a term for each axis; the image itself if there is none."""
    terms = _over(x, output, mode, axes, term)
    return sum(terms[1:], terms[0]) if terms else _each(x, output, [])


def _gaussian_term(x: Any, sigmas: list[Any], cval: Any, order: int, options: Any) -> Any:
    """The derivative along one axis of the smoothed image."""
    orders = order * np.eye(len(sigmas), dtype=int)
    return lambda i, output, m: gaussian_filter(x, sigmas, orders[i].tolist(), output, m, cval, **options)


def _gradient_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(3, 2), sigma=(0.5, 0.7), mode=("wrap", "nearest"), truncate=3.0), case(s(3), 0.6),
        case(s(2, 2, 2), sigma=0.4, axes=(0, 2)), case([[1.0, 2.0], [0.0, 4.0]], sigma=0.4, mode="constant", cval=1.0),
        case(s(3, dtype=np.float32), sigma=0.6),
    ]  # fmt: skip


@made_of_filters(ndimage, "gaussian_laplace", _gradient_cases)
def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    x = operand(input)
    chosen = axes_list(axes, len(shape_of(x)))
    sigmas: list[Any] = [0] * len(shape_of(x))
    for i, width in zip(chosen, normalized(sigma, len(chosen)), strict=True):
        sigmas[i] = width
    return _sum_over(x, output, mode, axes, _gaussian_term(x, sigmas, cval, 2, kwargs))


@made_of_filters(ndimage, "gaussian_gradient_magnitude", lambda s: [*_gradient_cases(s)][:4])
def gaussian_gradient_magnitude(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """The root of the sum of squares, whose slope is zero where it is zero. All axes are smoothed."""
    x = operand(input)
    term = _gaussian_term(x, normalized(sigma, len(shape_of(x))), cval, 1, kwargs)
    slopes = _over(x, output, mode, axes, term)
    return np.linalg.norm(np.stack(slopes), axis=0) if slopes else _each(x, output, [])
