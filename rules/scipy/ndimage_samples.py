"""Images between their pixels: splines of ``scipy.ndimage``, with derivatives in the image and in the coordinates.

An image is filtered to coefficients c (which is linear: a solve with the matrix of the splines' values at the pixels),
and sampled: the sum of c[i] B(x - i), with B the centred B-spline of this order. Unser, Aldroubi & Eden 1993, "B-spline
signal processing". Where slopes jump (order 0 and 1, edges), they are those to the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import ndimage, special

from yota_py.base.dispatch import decided
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, nondiff, primitive, scalar_rule, vjps

from ..indices import getitem
from ..samples import numbers
from ..support import along, axis_of, dtype_of, operand, shape_of
from .ndimage_windows import continued, filter_of, made_of_filters, positions, written

PAD = 12  # so far the library continues images before it filters them, where the mode has no exact filter
MODES = ["constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap", "grid-mirror", "grid-constant"]

# ----------------------------------------------------------------------------------------------------- the filter

spline_filter1d = patch(ndimage, "spline_filter1d")


def _wide(x: Any) -> Any:
    return np.complex128 if dtype_of(x).kind == "c" else np.float64


def _filter_adjoint(
    dy: Any, y: Any, input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The matrix of the splines' values is symmetric; of an image that is mirrored at its first and last pixels, it is
    so when its columns for these are doubled. Of short images, the library's reflected filter is not its inverse."""
    shape = shape_of(dy)
    axis = axis_of(axis, len(shape))
    n = shape[axis]
    if order < 2 or n < 2:
        return dy
    if mode in ("reflect", "grid-mirror", "nearest") and n < 32:
        matrix = ndimage.spline_filter1d(np.eye(n), order, 0, mode=mode)
        return np.moveaxis(np.tensordot(dy, matrix, (axis, 0)), -1, axis)
    weight = np.ones(n)
    if mode in ("mirror", "constant", "wrap", "grid-constant"):
        weight[[0, -1]] = 2
    weight = np.reshape(weight, (-1,) + (1,) * (len(shape) - axis - 1))
    return spline_filter1d(np.multiply(dy, weight), order, axis, _wide(dy), mode) / weight


def _into_output(*args: Any, **kwargs: Any) -> Any:
    return written(spline_filter1d, args, kwargs)


vjps(spline_filter1d, _filter_adjoint, instead=_into_output, cases=lambda s: [
    *(case(s(5), order, mode=mode) for order in (2, 3, 4, 5) for mode in MODES),
    *(case(s(2), order) for order in (2, 3, 4, 5)), case(s(1)), case(s(3), 1), case(s(3), 0), case(s(3, 4), 3, 0),
    case(s(3, 2, 3), axis=1), case(s(4, dtype=np.float32)), case(s(4, dtype=np.float32), output=np.float32),
    case(s(4, dtype=complex), output=complex), case([1.0, 2.0, 4.0]), case(s(4, 3).T),
])  # fmt: skip


@made_of_filters(ndimage, "spline_filter", lambda s: [
    case(s(3, 4)), case(s(3, 4), 2, mode="reflect"), case(s(4), 5), case([[1.0, 2.0]]), case(s(2, 3, dtype=np.float32)),
])  # fmt: skip
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    x = operand(input)
    if order < 2 or order > 5:
        raise RuntimeError("spline order not supported")
    for axis in range(len(shape_of(x))):
        x = spline_filter1d(x, order, axis, output, mode)
    return x


# ------------------------------------------------------------------------------------------------------- samples


def _coefficients(x: Any, order: int, mode: str, cval: Any, prefilter: bool) -> tuple[Any, int]:
    """What is sampled, and by how much it is continued at each edge."""
    if not prefilter or order < 2:
        return x, 0
    pad = PAD if mode in ("nearest", "grid-constant") else 0
    for axis in range(len(shape_of(x))):
        x = continued(x, cval, axis, pad, pad, mode) if pad else x
    for axis in range(len(shape_of(x))):
        x = spline_filter1d(x, order, axis, _wide(x), mode)
    return x, pad


@primitive
def _inside(c: Any, n: int, mode: str) -> Any:
    """Coordinates beyond the edges as those within that show the same."""
    if mode in ("nearest", "constant", "grid-constant"):  # where coefficients are continued
        return np.array(c)
    if n == 1:
        return c * 0.0
    if mode == "grid-wrap":
        return np.mod(c, n)
    if mode == "wrap":  # the last pixel is the first one
        return np.where((c < 0) | (c > n - 1), np.mod(c, n - 1), c)
    half, period = (0.0, 2 * n - 2) if mode == "mirror" else (0.5, 2 * n)
    r = np.mod(c + half, period)
    return np.where(r > period / 2, period - r, r) - half


@nondiff
@primitive
def _sense(c: Any, n: int, mode: str) -> Any:
    """The slope of ``_inside``: 1, -1 or 0."""
    h = 2.0**-20
    return np.rint((_inside(c + h, n, mode) - _inside(c, n, mode)) / h).clip(-1, 1)


vjps(_inside, lambda dy, y, c, n, mode: np.multiply(dy, _sense(c, n, mode)), cases=lambda s: [
    case(s(6, low=-9.0, high=15.0), 5, mode) for mode in MODES])  # fmt: skip


@nondiff
@primitive
def _taps(c: Any, n: int, order: int, mode: str) -> Any:
    """Which coefficients count at coordinates, on a new first axis; -1 for none."""
    first = np.floor(c + 0.5 * (order % 2 == 0))
    at = np.clip(np.where(np.isfinite(first), first, 0), -8, n + 8).astype(int)  # all is outside, beyond
    at = at + np.reshape(np.arange(order + 1) - order // 2, (-1,) + (1,) * at.ndim)
    table = "mirror" if mode in ("constant", "wrap") else mode
    low, high = int(at.min(initial=0)), int(at.max(initial=0))
    return positions(n, low, high + 1, table)[at - low]


@primitive
def _weights(c: Any, order: int, nu: int = 0) -> Any:
    """How much they count, or derivatives of that (de Boor 1978, "A Practical Guide to Splines", chapter X)."""
    c = c + 0.5 * (order % 2 == 0)
    u = c - np.floor(c)
    w: list[Any] = [np.ones(np.shape(c))]
    for d in range(1, order - nu + 1):
        before = [0.0, *w, 0.0]
        w = [((u + (d - j)) * before[j] + (j + 1 - u) * before[j + 1]) / d for j in range(d + 1)]
    for _ in range(nu):
        w = [a - b for a, b in pairwise([0.0, *w, 0.0])]
    return np.stack(w[: order + 1]) if nu <= order else np.zeros((order + 1, *np.shape(c)))


vjps(_weights, lambda dy, y, c, order, nu=0: np.sum(np.multiply(dy, _weights(c, order, nu + 1)), axis=0),
     cases=lambda s: [case(s(3), order, nu) for order in range(6) for nu in range(2)])  # fmt: skip


def _sampled(x: Any, coordinates: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """An image at points, whose coordinates are of one shape."""
    c, pad = _coefficients(x, order, mode, cval, prefilter)
    ndim, factors = len(coordinates), []
    flat: Any = 0
    beyond: Any = False
    nowhere: Any = False
    for axis, (n, point) in enumerate(zip(shape_of(c), coordinates, strict=True)):
        point = _inside(point + pad, n, mode)
        at, weights = _taps(point, n, order, mode), _weights(point, order)
        nowhere = nowhere | (point < 0) | (point > n - 1)
        shape = [order + 1 if i == axis else 1 for i in range(ndim)] + [*shape_of(at)[1:]]
        at = np.reshape(at, shape)
        flat, beyond = flat * n + at, beyond | (at < 0)
        factors.append(np.reshape(weights, [order + 1, *[1] * (ndim - axis - 1), *shape[ndim:]]))
    y = getitem(np.ravel(c), np.where(beyond, 0, flat) if mode == "grid-constant" else flat)
    y = np.where(beyond, cval, y) if mode == "grid-constant" else y
    for weights in factors:
        y = np.sum(np.multiply(y, weights), axis=0)
    return np.where(nowhere, cval, y) if mode == "constant" else y


def _sampled_by_axis(x: Any, lines: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """An image at the points of a grid, by the coordinates along each axis."""
    y, pad = _coefficients(x, order, mode, cval, prefilter)
    ndim = len(lines)
    nowhere: Any = False
    for axis, line in enumerate(lines):
        n = shape_of(y)[axis]
        line = _inside(line + pad, n, mode)
        at, weights = _taps(line, n, order, mode), _weights(line, order)
        across = (1,) * (ndim - axis - 1)
        y = getitem(y, along(axis, len(shape_of(y)), np.maximum(at, 0) if mode == "grid-constant" else at))
        if mode == "grid-constant":
            y = np.where(np.reshape(at >= 0, shape_of(at) + across), y, cval)
        nowhere = nowhere | np.reshape((line < 0) | (line > n - 1), (-1, *across))
        y = np.sum(np.multiply(y, np.reshape(weights, shape_of(weights) + across)), axis=axis)
    return np.where(nowhere, cval, y) if mode == "constant" else y


def _sample_cases(s: Sample) -> Iterable[Case]:
    yield from [case(s(5), s(6, low=-4.0, high=9.0), order=order, mode=mode, cval=0.7)
                for i, mode in enumerate(MODES) for order in (1 + i % 2, 3)]  # fmt: skip
    yield from [case(s(3, 4), s(2, 3, low=-1.0, high=4.0), order=order, mode=mode)
                for mode, order in (("constant", 3), ("mirror", 1), ("grid-constant", 1), ("reflect", 2))]  # fmt: skip
    yield from [
        case(s(5), s(6, low=-4.0, high=9.0), order=0, mode="wrap"), case(s(6), s(4, low=0.0, high=5.0), order=4),
        case(s(6), s(4, low=0.0, high=5.0), order=5, mode="mirror"),
        case(s(3, 4), s(2, 2, 2, low=0.0, high=2.0), order=3, prefilter=False),
        case(s(2, 2, 3), s(3, 4, low=0.0, high=1.0)),
        case(s(5, dtype=np.float32), s(3, low=0.0, high=4.0)), case([[1.0, 2.0], [0.0, 3.0]], [[0.2], [0.6]]),
        case(s(4, dtype=complex), s(3, low=0.0, high=3.0)),
        case(s(4), s(3, low=0.0, high=3.0), np.float32, 1, "nearest"),
        case(s(1), s(3), mode="mirror"), case(s(1), s(3), order=1, mode="reflect"),
        case(s(4, 3).T, s(2, 1, low=0.1, high=2.0)),
        case(s(4), s(0)),
    ]  # fmt: skip


def _listed_cases(s: Sample) -> Iterable[Case]:
    """A list of points for one axis has one more axis."""
    return [case(c.args[0], c.args[1][None], *c.args[2:], **c.kwargs) if np.ndim(c.args[0]) == 1 else c
            for c in _sample_cases(s)]  # fmt: skip


@filter_of(ndimage, "map_coordinates", _listed_cases)
def map_coordinates(
    input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:  # fmt: skip
    points = operand(coordinates)
    return _sampled(operand(input), [points[i] for i in range(shape_of(points)[0])], order, mode, cval, prefilter)


@filter_of(ndimage, "shift", lambda s: [
    *(case(s(5), s.number(-3, 3), order=order, mode=mode, cval=0.7) for mode in MODES for order in (1, 3)),
    case(s(3, 4), [0.3, -0.6]), case(s(3, 4), s(2), order=1, mode="wrap"), case(s(3, 4), 0.4, None, 2, "mirror"),
    case(s(4, dtype=np.float32), 0.4), case(s(4, dtype=complex), 0.4), case(s(3, 2, 3), (0.2, 0, 0.4), order=1),
    case([1.0, 2.0, 4.0], 0.4, output=np.float32), case(s(4), 1), case(s(4), 0.3, prefilter=False),
])  # fmt: skip
def shift(
    input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:  # fmt: skip
    x = operand(input)
    shape, by = shape_of(x), operand(shift)
    lines = [np.arange(n) - (by[i] if shape_of(by) else by) for i, n in enumerate(shape)]
    return _sampled_by_axis(x, lines, order, mode, cval, prefilter)


@filter_of(ndimage, "zoom", lambda s: [
    *(case(s(4), zoom=1.7, order=order, mode=mode, cval=0.7) for mode in MODES for order in (1, 3)),
    *(case(s(4), zoom=0.6, order=3, mode=mode, grid_mode=True) for mode in ("grid-constant", "reflect", "nearest")),
    case(s(3, 4), zoom=(2, 0.5)), case(s(3, 2), zoom=[1, 1.5], order=1), case(s(3), zoom=1), case(s(3), zoom=0.3),
    case(s(3, dtype=np.float32), zoom=2), case(s(3, dtype=complex), zoom=2), case([1.0, 2.0], zoom=2, order=0),
    case(s(3), 1.6), case(s(3), zoom=2, output=np.float32, order=2, prefilter=False),
])  # fmt: skip
def zoom(
    input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True, *, grid_mode: bool = False,
) -> Any:  # fmt: skip
    """Only the shape of the result depends on the factor."""
    x = operand(input)
    lines, factors = [], operand(zoom)
    for i, n in enumerate(shape_of(x)):
        z = factors[i] if shape_of(factors) else factors
        m = int(decided(np.rint(np.multiply(n, z))))
        less = 0 if grid_mode else 1
        step = (n - less) / (m - less) if m != less else 1.0
        lines.append((np.arange(m) + 0.5) * step - 0.5 if grid_mode else np.arange(m) * step)
    return _sampled_by_axis(x, lines, order, mode, cval, prefilter)


def _affine_cases(s: Sample) -> Iterable[Case]:
    turn = [[0.9, -0.2], [0.3, 1.1]]
    return [
        *(case(s(3, 4), s(2, 2, low=0.2, high=0.4), s(2, low=0.2, high=0.4), order=order, mode=mode, cval=0.7)
          for mode, order in (("constant", 1), ("constant", 3), ("grid-wrap", 2))),
        case(s(3, 4), s(2, 3, low=0.2, high=0.4), mode="reflect"),
        case(s(3, 3), matrix=turn, offset=0.3, output_shape=(2, 4)),
        case(s(3, 3), matrix=[[0.9, 0.1, 0.3], [0.2, 0.8, 0.1], [0, 0, 1]], order=1), case(s(4), [0.7], 0.4),
        case(s(3, 4), s(2, low=0.5, high=0.9), s(2)), case(s(4), matrix=[[0.7]], offset=[0.4]),
        case(s(3, 3, dtype=np.float32), matrix=turn), case(s(3, 3, dtype=complex), matrix=turn, prefilter=False),
        case(s(2, 3, 2), matrix=0.8 * np.eye(3) + 0.05, offset=0.1, order=1, output=np.float32),
    ]  # fmt: skip


@filter_of(ndimage, "affine_transform", _affine_cases)
def affine_transform(
    input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    x, m, at = operand(input), operand(matrix), operand(offset)
    shape = shape_of(x) if output_shape is None else tuple(map(int, output_shape))
    n = len(shape_of(x))
    if len(shape_of(m)) == 2 and shape_of(m)[1] == n + 1:
        m, at = m[:n, :n], m[:n, n]
    at = [at[i] if shape_of(at) else at for i in range(n)]
    if len(shape_of(m)) == 1:
        lines = [m[i] * (np.arange(shape[i]) + at[i] / m[i]) for i in range(n)]
        return _sampled_by_axis(x, lines, order, mode, cval, prefilter)
    grid = np.indices(shape).astype(float)
    points = [sum((m[i, j] * grid[j] for j in range(n)), at[i]) for i in range(n)]  # in the library's order
    return _sampled(x, points, order, mode, cval, prefilter)


@primitive
def _cosdg(x: Any) -> Any:
    return special.cosdg(x)


@primitive
def _sindg(x: Any) -> Any:
    return special.sindg(x)


scalar_rule(_cosdg, lambda y, x: -np.pi / 180 * _sindg(x), cases=numbers((0.0, 90.0)))
scalar_rule(_sindg, lambda y, x: np.pi / 180 * _cosdg(x), cases=numbers((0.0, 90.0)))


@made_of_filters(ndimage, "rotate", lambda s: [
    case(s(3, 4), 20.0), case(s(3, 4), angle=100.0, reshape=False, mode="mirror"), case(s(2, 2), angle=45),
    case(s(2, 3, 3), 15.0, axes=(-1, 1), order=1, reshape=False), case(s(3, 2, 3), angle=30, axes=(2, 0), order=0),
    case(s(3, 3, dtype=np.float32), angle=90), case([[1.0, 2.0], [3.0, 4.0]], angle=10.0, output=np.float32),
])  # fmt: skip
def rotate(
    input: Any, angle: Any, axes: Any = (1, 0), reshape: bool = True, output: Any = None, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """The angle, in degrees, is to be no multiple of one where the result's shape jumps."""
    x = operand(input)
    shape = shape_of(x)
    ndimage.rotate(np.zeros([min(n, 1) for n in shape]), 0.0, axes, order=order)  # raises what it does
    plane = sorted(axis_of(int(i), len(shape)) for i in axes)
    (c, s), size = (_cosdg(angle), _sindg(angle)), [shape[i] for i in plane]
    turn, out = operand([[c, s], [-s, c]]), size
    if reshape:
        corners = np.matmul(turn, np.array([[0, 0, size[0], size[0]], [0, size[1], 0, size[1]]]))
        out = [int(extent + 0.5) for extent in np.max(corners, axis=1) - np.min(corners, axis=1)]
    offset = (np.array(size) - 1) / 2 - np.matmul(turn, (np.array(out) - 1) / 2)
    planes = np.reshape(np.moveaxis(x, plane, (-2, -1)), (-1, *size))
    turned = [affine_transform(planes[i], turn, offset, out, output, order, mode, cval, prefilter)
              for i in range(shape_of(planes)[0])]  # fmt: skip
    if len(shape) == 2:
        return turned[0]
    others = [n for i, n in enumerate(shape) if i not in plane]
    return np.moveaxis(np.reshape(np.stack(turned), (*others, *out)), (-2, -1), plane)
