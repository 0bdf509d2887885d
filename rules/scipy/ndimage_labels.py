"""Measurements of labelled regions, filters in Fourier space, and what of ``scipy.ndimage`` has no derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import ndimage

from yota_py.base.dispatch import decided
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, nondiff, vjps
from yota_py.registry.tangents import astype

from ..indices import getitem, unindex
from ..support import axis_of, dtype_of, operand, shape_of
from .ndimage_windows import filter_of, valued

# --------------------------------------------------------------------------------------------- sums over regions


def _regions(labels: Any, index: Any) -> tuple[Any, Any, int]:
    """Which region each pixel is of (the last one: of none), which one each element of ``index`` asks for, how many."""
    labels, index = np.ravel(operand(labels)), np.ravel(operand(index))
    known = np.sort(index)
    at = np.minimum(np.searchsorted(known, labels), shape_of(known)[0] - 1)
    n = shape_of(known)[0]
    return np.where(getitem(known, at) == labels, at, n), np.searchsorted(known, index), n + 1


def _of_regions(x: Any, labels: Any, index: Any, of_one: Callable[..., Any], of_all: Callable[..., Any]) -> Any:
    """A measurement of the whole image, of one region, or of those that ``index`` lists."""
    x = operand(x)
    if labels is None:
        return of_one(x, np.ones(shape_of(x)))
    labels = operand(labels)
    shape = np.broadcast_shapes(shape_of(x), shape_of(labels))
    x, labels = np.broadcast_to(x, shape), np.broadcast_to(labels, shape)
    if index is None or np.isscalar(index):
        inside = np.greater(labels, 0) if index is None else np.equal(labels, index)
        return of_one(x, astype(inside, np.dtype(float)))
    if 0 in shape_of(operand(index)):
        return np.zeros(shape_of(operand(index)))
    region, asked, n = _regions(labels, index)
    return np.reshape(getitem(of_all(np.ravel(x), region, n), asked), shape_of(operand(index)))


def _totals(x: Any, region: Any, n: int) -> Any:
    return unindex(x, region, (n,))


def _sum(x: Any, inside: Any) -> Any:
    return np.sum(np.multiply(x, inside))


def _centred(x: Any, inside: Any) -> Any:
    d = np.multiply(x - _sum(x, inside) / np.sum(inside), inside)
    return np.sum(np.real(d) ** 2 + (np.imag(d) ** 2 if dtype_of(d).kind == "c" else 0)) / np.sum(inside)


def _all_centred(x: Any, region: Any, n: int) -> Any:
    counts = np.maximum(_totals(np.ones(shape_of(x)), region, n), 1)
    d = x - getitem(_totals(x, region, n) / counts, region)
    return _totals(d * d, region, n) / counts


def _region_cases(s: Sample) -> Iterable[Case]:
    labels = np.array([[1, 1, 0, 2], [1, 0, 2, 2], [3, 3, 0, 2]])
    return [
        case(s(3, 4)), case(s(3, 4), labels), case(s(3, 4), labels, 2), case(s(3, 4), labels, [1, 3]),
        case(s(3, 4), labels, np.array([[2, 1], [1, 3]])), case(s(3, 4), labels=labels, index=range(1, 4)),
        case(s(3, 4, dtype=np.float32), labels, [2, 1]), case(s(4, 3).T, labels, 1),
        case([1.0, 2.0, 4.0], [1, 1, 2], [2, 1]),
        case(s(3, 4), labels - 1, [-1, 1]), case(s(4), labels, [1, 2]), case(s(3, 4), labels > 0),
    ]  # fmt: skip


def _measured(name: str, of_one: Callable[..., Any], of_all: Callable[..., Any]) -> Callable[..., Any]:
    @valued(ndimage, name, _region_cases)
    def body(input: Any, labels: Any = None, index: Any = None) -> Any:
        return _of_regions(input, labels, index, of_one, of_all)

    return body


_measured("sum", _sum, _totals)
sum_labels = _measured("sum_labels", _sum, _totals)
_measured("mean", lambda x, inside: _sum(x, inside) / np.sum(inside),
          lambda x, region, n: _totals(x, region, n) / np.maximum(_totals(np.ones(shape_of(x)), region, n), 1))
variance = _measured("variance", _centred, _all_centred)


@expanded(patch(ndimage, "standard_deviation"), cases=_region_cases)
def standard_deviation(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The root; its slope is zero where all are equal."""
    v = variance(input, labels, index)
    flat = np.equal(v, 0)
    return np.where(flat, 0.0, np.sqrt(np.where(flat, 1.0, v)))[()]


# ------------------------------------------------------------------------------------- extremes and medians of regions


def _shared(dy: Any, y: Any, input: Any, labels: Any = None, index: Any = None) -> Any:
    """Equal extremes share, as in ``np.max``."""
    x = operand(input)
    if labels is None or index is None or np.isscalar(index):
        labels = 1 if labels is None else operand(labels)
        inside = np.greater(labels, 0) if index is None else np.equal(labels, index)
        hit = astype(np.equal(x, y) & inside, np.dtype(float))
        return np.divide(np.multiply(hit, dy), np.sum(hit))
    shape = np.broadcast_shapes(shape_of(x), shape_of(operand(labels)))
    region, asked, n = _regions(np.broadcast_to(operand(labels), shape), index)
    first = np.searchsorted(np.sort(asked), np.arange(n - 1))  # of those that ask for one region
    at = getitem(np.argsort(asked), np.minimum(first, shape_of(asked)[0] - 1))
    extreme = np.append(getitem(np.ravel(y), at), np.nan)
    hit = astype(np.equal(np.ravel(np.broadcast_to(x, shape)), getitem(extreme, region)), np.dtype(float))
    back = _totals(np.ravel(dy), asked, n) / np.maximum(_totals(hit, region, n), 1)
    return np.reshape(np.multiply(hit, getitem(back, region)), shape)


minimum, maximum = patch(ndimage, "minimum"), patch(ndimage, "maximum")
vjps(minimum, _shared, cases=_region_cases)
vjps(maximum, _shared, cases=_region_cases)


@valued(ndimage, "median", _region_cases)
def median(input: Any, labels: Any = None, index: Any = None) -> Any:
    x = operand(input)
    if labels is None:
        return np.median(x)
    shape = np.broadcast_shapes(shape_of(x), shape_of(operand(labels)))
    x, labels = np.broadcast_to(x, shape), np.broadcast_to(decided(operand(labels)), shape)
    if index is None or np.isscalar(index):
        return np.median(x[labels > 0 if index is None else labels == index])
    asked = [np.median(x[labels == i]) if (labels == i).any() else 0.0 for i in np.ravel(index)]
    return np.reshape(np.stack(asked), np.shape(index)) if asked else np.zeros(np.shape(index))


minimum_position, maximum_position = (nondiff(patch(ndimage, f"{_name}_position")) for _name in ("minimum", "maximum"))


@expanded(patch(ndimage, "extrema"), cases=lambda s: [*_region_cases(s)][:6])
def extrema(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The extremes; where they are has no derivative."""
    where = minimum_position(input, labels, index), maximum_position(input, labels, index)
    return minimum(input, labels, index), maximum(input, labels, index), *where


@expanded(patch(ndimage, "center_of_mass"), cases=lambda s: [
    case(s(3, 4, low=0.5), [[1, 1, 0, 2]] * 3, [2, 1]), case(s(3, 4, low=0.5)), case(s(5, low=0.5, dtype=np.float32)),
    case(s(3, 4, low=0.5), [[1, 1, 0, 2]] * 3), case(s(2, 4, low=0.5), [[1, 1, 0, 2]] * 2, 2), case([1.0, 2.0, 4.0]),
])  # fmt: skip
def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    x = operand(input)
    total = sum_labels(x, labels, index)
    grids = np.ogrid[tuple(slice(0, n) for n in shape_of(x))]
    means = [np.divide(sum_labels(np.multiply(x, grid.astype(float)), labels, index), total) for grid in grids]
    if not shape_of(means[0]):
        return tuple(means)
    return [tuple(mean[i] for mean in means) for i in range(shape_of(means[0])[0])]


# --------------------------------------------------------------------------------------------------- Fourier space


def _product(x: Any, by: Any, n: int, axis: int, factor: Callable[[Any], Any]) -> Any:
    """A transform times a factor for each axis: of the cycles per pixel there times a size or distance.

    The axis that a transform of ``n`` real numbers has gone along has half of the frequencies.
    """
    x, by, shape = operand(x), operand(by), shape_of(operand(x))
    half = axis_of(axis, len(shape)) if n > 0 else None
    for i, m in enumerate(shape):
        f = np.reshape(np.arange(m) / n if i == half else np.fft.fftfreq(m), (-1,) + (1,) * (len(shape) - i - 1))
        x = np.multiply(x, factor(np.multiply(by[i] if shape_of(by) else by, f)))
    return x


def _fourier(name: str, factor: Callable[[Any], Any]) -> None:
    @filter_of(ndimage, name, lambda s: [
        case(s(3, 4, dtype=complex), s.number(0.2, 0.9)), case(s(4, dtype=complex), s(1, low=0.5)), case(s(5), 0.7),
        case(s(3, 3, dtype=complex), [0.3, 0.6], 4), case(s(3, 4, dtype=complex), 0.6, 5, 0), case(s(3, dtype="c8"), 1),
        case([1.0, 2.0], 0.6),
    ])  # fmt: skip
    def body(input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
        return _product(input, size, n, axis, factor)


_fourier("fourier_gaussian", lambda t: np.exp(-2 * np.pi**2 * np.square(t)))
_fourier("fourier_uniform", np.sinc)


@filter_of(ndimage, "fourier_shift", lambda s: [
    case(s(3, 4, dtype=complex), s(2)), case(s(4, dtype=complex), 0.7), case(s(3, 3, dtype=complex), [0.3, -0.6], 4),
    case(s(3, 4, dtype=complex), 1, 5, 0), case(s(3, dtype="c8"), s.number()), case(s(4), 0.3), case([1.0, 2.0], 0.6),
])  # fmt: skip
def fourier_shift(input: Any, shift: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    return _product(input, shift, n, axis, lambda t: np.exp(-2j * np.pi * t))


_ellipsoid = patch(ndimage, "fourier_ellipsoid")


def _times_ellipsoid(dy: Any, y: Any, input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """The filter is a product with real numbers; for its size there is no formula."""
    return np.multiply(dy, ndimage.fourier_ellipsoid(np.ones(shape_of(dy)), size, n, axis))


vjps(_ellipsoid, _times_ellipsoid, cases=lambda s: [
    case(s(3, 4, dtype=complex), size=1.7), case(s(4), size=0.7), case(s(3, 2, 2), size=[1, 2, 1.5], n=3, axis=1),
])  # fmt: skip

# -------------------------------------------------------------------------------------------------- no derivative

_STEPS = """label find_objects value_indices watershed_ift binary_closing binary_dilation
binary_erosion binary_fill_holes binary_hit_or_miss binary_opening binary_propagation distance_transform_bf
distance_transform_cdt histogram"""
for _name in _STEPS.split():
    nondiff(patch(ndimage, _name))
# Whether a pixel is zero is what it looks at; of the lengths between pixels, the distance is no step function.
vjps(patch(ndimage, "distance_transform_edt"), None, cases=lambda s: [case(s.integers(3, 4, high=2))])
