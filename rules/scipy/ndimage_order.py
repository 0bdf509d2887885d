"""Filters that pick from windows by order: minimum, maximum, rank, median, and the morphology of grey images.

The pullback is that of picking from windows that are written out, so equal elements share as in ``np.min`` and
``np.sort``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import ndimage

from yota_py.base.dispatch import decided
from yota_py.registry.registry import Case, Cases, Sample, case

from ..support import axis_of, operand, shape_of
from .ndimage_windows import axes_list, filter_of, made_of_filters, normalized, windows


def _windows(x: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: Any) -> Any:
    """What a filter with these options picks from, on a last axis."""
    ndim = len(shape_of(x))
    chosen = axes_list(axes, ndim)
    given = np.ones(normalized(size, len(chosen)), bool) if footprint is None else _truths(footprint)
    # Axes that are left out are seen as they are. A footprint has its axes in the order of the image's.
    sizes, origins, modes = [1] * ndim, [0] * ndim, ["constant"] * ndim
    options = zip(chosen, normalized(origin, len(chosen)), normalized(mode, len(chosen)), strict=True)
    for i, at, m in options:
        origins[i], modes[i] = at, m
    for i, n in zip(chosen if footprint is None else sorted(chosen), given.shape, strict=True):
        sizes[i] = n
    return windows(x, np.reshape(given, sizes), modes, cval, origins)


def _truths(footprint: Any) -> np.ndarray:
    return np.asarray(decided(footprint), bool)


def _line_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(5), 3), case(s(4, 3), 2, 0, mode="wrap"), case(s(4), 3, mode="constant", cval=0.3, origin=-1),
        case(s(4), 4, mode="mirror", origin=1), case(s(3, 2, dtype=np.float32), 3, mode="nearest"),
        case([1.0, 3.0, 2.0], 2), case(s(4), size=3, output=np.float32),
    ]  # fmt: skip


def _of_line(name: str, pick: Callable[..., Any]) -> Callable[..., Any]:
    @filter_of(ndimage, name, _line_cases)
    def body(
        input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
        origin: int = 0,
    ) -> Any:  # fmt: skip
        x = operand(input)
        return pick(_windows(x, size, None, mode, cval, origin, axis_of(axis, len(shape_of(x)))), axis=-1)

    return body


def _cases(s: Sample) -> Iterable[Case]:
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    return [
        case(s(3, 4), size=3), case(s(3, 4), (2, 3), mode=("wrap", "constant"), cval=0.3),
        case(s(4, 3).T, footprint=cross),
        case(s(3, 3), footprint=[[1, 0], [1, 1]], origin=(-1, 0), mode="mirror"), case(s(4), 3),
        case(s(2, 3, 2), size=2, axes=(0, 2)), case(s(3, 3, dtype=np.float32), 2), case([[1.0, 3.0, 2.0]], 2),
        case(s(3, 3), size=(1, 2), output=np.float32), case(s(2, 3, 2), footprint=[[1, 0], [1, 1]], axes=(1, 2)),
    ]  # fmt: skip


def _of_window(name: str, pick: Callable[..., Any], cases: Cases = _cases) -> Callable[..., Any]:
    @filter_of(ndimage, name, cases)
    def body(
        input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
        origin: Any = 0, *, axes: Any = None,
    ) -> Any:  # fmt: skip
        return pick(_windows(operand(input), size, footprint, mode, cval, origin, axes), axis=-1)

    return body


def _ranked(seen: Any, rank: int) -> Any:
    """The element of this rank; the least and the greatest are shared by tied ones."""
    n = shape_of(seen)[-1]
    rank += n if rank < 0 else 0
    if rank in (0, n - 1):
        return (np.max if rank else np.min)(seen, axis=-1)
    return np.sort(seen, axis=-1)[..., rank]


def _percentile(seen: Any, percentile: float) -> Any:
    n = shape_of(seen)[-1]
    percentile += 100.0 if percentile < 0 else 0
    return _ranked(seen, n - 1 if percentile == 100 else int(n * percentile / 100.0))


_of_line("minimum_filter1d", np.min)
_of_line("maximum_filter1d", np.max)
_of_window("minimum_filter", np.min)
_of_window("maximum_filter", np.max)
_of_window("median_filter", lambda seen, axis: _ranked(seen, shape_of(seen)[-1] // 2), lambda s: [*_cases(s)][2:])


def _rank_cases(*ranks: Any) -> Callable[[Sample], Iterable[Case]]:
    a, b, c = ranks
    return lambda s: [
        case(s(3, 4), rank, size=2) for rank in ranks
    ] + [
        case(s(3, 4), a, footprint=[[1, 0], [1, 1]], mode="wrap", origin=-1),
        case(s(5), b, 3, mode="constant", cval=0.2),
        case(s(2, 3, 2), a, size=2, axes=(0, 2)), case(s(3, 3, dtype=np.float32), c, 2), case([[1.0, 3.0, 2.0]], a, 2),
    ]  # fmt: skip


@filter_of(ndimage, "rank_filter", _rank_cases(1, 0, -1))
def rank_filter(
    input: Any, rank: int, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    return _ranked(_windows(operand(input), size, footprint, mode, cval, origin, axes), rank)


@filter_of(ndimage, "percentile_filter", _rank_cases(40, -20, 100))
def percentile_filter(
    input: Any, percentile: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    return _percentile(_windows(operand(input), size, footprint, mode, cval, origin, axes), percentile)


# ----------------------------------------------------------------------------------------- morphology of grey images


def _shaped(x: Any, size: Any, footprint: Any, structure: Any, mode: Any, cval: Any, origin: Any, axes: Any) -> Any:
    """The windows, and what is added to or taken from their elements."""
    if structure is None:
        return _windows(x, size, footprint, mode, cval, origin, axes), 0
    structure = operand(structure)
    where = np.ones(shape_of(structure), bool) if footprint is None else _truths(footprint)
    return _windows(x, size, where, mode, cval, origin, axes), np.ravel(structure)[np.flatnonzero(where)]


def _grey_cases(s: Sample) -> Iterable[Case]:
    return [
        *[*_cases(s)][:-1], case(s(3, 4), None, None, s(2, 3)), case(s(4), None, [1, 0, 1], s(3), mode="wrap"),
        case(s(3, 4), None, None, s(3, 2), None, "constant", 0.2, (1, -1)),
        case(s(2, 2, 3), None, [[1, 1]], axes=(1, 2)),
    ]  # fmt: skip


@filter_of(ndimage, "grey_erosion", _grey_cases)
def grey_erosion(
    input: Any, size: Any = None, footprint: Any = None, structure: Any = None, output: Any = None,
    mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    seen, shape = _shaped(operand(input), size, footprint, structure, mode, cval, origin, axes)
    return np.min(seen - shape, axis=-1)


@filter_of(ndimage, "grey_dilation", _grey_cases)
def grey_dilation(
    input: Any, size: Any = None, footprint: Any = None, structure: Any = None, output: Any = None,
    mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The structure is turned round, and so is the window."""
    x = operand(input)
    if structure is not None:
        structure = np.flip(operand(structure))
    if footprint is not None:
        footprint = np.flip(footprint)
    n = len(axes_list(axes, len(shape_of(x))))
    shape = np.shape(footprint) if footprint is not None else None if structure is None else shape_of(structure)
    sizes = normalized(size, n) if shape is None else shape
    origins = [-at - (k % 2 == 0) for at, k in zip(normalized(origin, n), sizes, strict=False)]
    seen, added = _shaped(x, size, footprint, structure, mode, cval, origins, axes)
    return np.max(seen + added, axis=-1)


def _morphology(name: str, form: Callable[..., Any]) -> None:
    """A function of the image ``x``, ``erode`` and ``dilate``; the last one that runs makes the result's dtype."""

    @made_of_filters(ndimage, name, lambda s: [
        case(s(3, 3), size=2), case(s(4), 3, mode="wrap"),
        case(s(3, 3), None, None, s(2, 2), cval=0.3, mode="constant"),
        case([[1.0, 3.0, 2.0]], footprint=[[1, 1]]), case(s(2, 3, dtype=np.float32), 2),
    ])  # fmt: skip
    def body(
        input: Any, size: Any = None, footprint: Any = None, structure: Any = None, output: Any = None,
        mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *, axes: Any = None,
    ) -> Any:  # fmt: skip
        def step(fn: Any) -> Any:
            return lambda x, output=None: fn(x, size, footprint, structure, output, mode, cval, origin, axes=axes)

        return form(operand(input), step(grey_erosion), step(grey_dilation), output)


_morphology("grey_opening", lambda x, erode, dilate, output: dilate(erode(x), output))
_morphology("grey_closing", lambda x, erode, dilate, output: erode(dilate(x), output))
_morphology("morphological_gradient", lambda x, erode, dilate, output: dilate(x) - erode(x))
_morphology("morphological_laplace", lambda x, erode, dilate, output: dilate(x) + erode(x) - x - x)
_morphology("white_tophat", lambda x, erode, dilate, output: x - dilate(erode(x), output))
_morphology("black_tophat", lambda x, erode, dilate, output: erode(dilate(x), output) - x)
