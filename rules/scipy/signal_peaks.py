"""Peaks of ``scipy.signal``: where they are is a decision, how high and wide they are has derivatives there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from scipy import signal

from yota_py.base.dispatch import decided
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive
from yota_py.registry.tangents import astype

from ..support import operand, shape_of, stop_gradient


def _whole(result: Any) -> Any:
    """The whole numbers of a result: positions, and the samples before and behind those between samples."""
    if isinstance(result, np.ndarray):
        return result if result.dtype.kind == "i" or not result.size else np.ones(1, int)
    if not isinstance(result, dict):
        return tuple(map(_whole, result))
    between = {"left_ips": np.floor, "right_ips": np.ceil}
    return {key: between[key](x).astype(int) if key in between else _whole(x) for key, x in result.items()}


_HILLS = np.array([0.0, 1.0, 0.3, 2.0, 1.5, 0.2, 0.9, 0.1])


def _positions(fn: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """The positions that the function finds, which are a decision; ``more`` arguments are of its case."""

    @wraps(fn)
    def found(data: Any, *args: Any, **kwargs: Any) -> Any:
        return _whole(fn(data, *args, **kwargs))

    recorded = nondiff(primitive(found), cases=lambda s: [case(_HILLS, *more)])
    first = next(iter(signature(fn).parameters))

    def positions(*args: Any, **kwargs: Any) -> Any:
        data, *rest = args or (kwargs.pop(first) if first in kwargs else fn(**kwargs),)  # raises what a mistake does
        return decided(recorded(stop_gradient(operand(data)), *rest, **kwargs))

    return positions


for _name in ("argrelmin", "argrelmax", "argrelextrema", "find_peaks_cwt"):
    _more = {"argrelextrema": (np.greater,), "find_peaks_cwt": (np.arange(1, 3),)}.get(_name, ())
    expanded(patch(signal, _name), cases=lambda s, more=_more: [case(np.array([0.0, 1.0, 0.0, 2.0, 1.0]), *more)])(
        _positions(getattr(signal, _name), *_more)
    )

_find_peaks = _positions(signal.find_peaks)
_bases = _positions(lambda *args: signal.peak_prominences(*args)[1:], np.array([1, 3]))
_SIDES = "left_ips", "right_ips"
_sides = _positions(lambda *args: dict(zip(_SIDES, signal.peak_widths(*args)[2:], strict=True)), np.array([1, 3]))


def _crossing(x: Any, places: Any, height: Any, toward: int) -> Any:
    """Where the signal crosses a height, between the last sample that is below and the next towards the peak."""
    rise = x[np.clip(places + toward, 0, shape_of(x)[0] - 1)] - x[places]
    share = np.where(x[places] < height, (height - x[places]) / np.where(rise == 0, 1, rise), 0)
    return places + toward * share


def _heights(x: Any, peaks: Any, bases: Any) -> Any:
    return x[peaks] - np.maximum(x[bases[0]], x[bases[1]])


def _wide(x: Any, peaks: Any, prominences: Any, rel_height: float, places: Any) -> Any:
    height = x[peaks] - prominences * rel_height
    left, right = _crossing(x, places[0], height, 1), _crossing(x, places[1], height, -1)
    return right - left, height, left, right


def _samples(x: Any) -> Any:
    """A signal in double precision, in which the library compares."""
    return astype(operand(x), np.dtype(float))



@expanded(patch(signal, "peak_prominences"), cases=lambda s: [case(_HILLS, [1, 3, 6]), case(_HILLS, [3], 3)])
def _peak_prominences(x: Any, peaks: Any, wlen: Any = None) -> Any:
    x, peaks = _samples(x), np.asarray(peaks)
    bases = _bases(x, peaks, wlen)
    return _heights(x, peaks, bases), *bases


@expanded(patch(signal, "peak_widths"), cases=lambda s: [case(_HILLS, [1, 3, 6]), case(_HILLS, [3], 0.7)])
def _peak_widths(x: Any, peaks: Any, rel_height: float = 0.5, prominence_data: Any = None, wlen: Any = None) -> Any:
    x, peaks = _samples(x), np.asarray(peaks)
    given = _peak_prominences(x, peaks, wlen) if prominence_data is None else prominence_data
    places = _sides(x, peaks, rel_height, tuple(map(stop_gradient, given)), wlen)
    return _wide(x, peaks, given[0], rel_height, (places["left_ips"], places["right_ips"]))


@expanded(patch(signal, "find_peaks"), cases=lambda s: [
    case(_HILLS), case(_HILLS, height=0.5, threshold=0.1, distance=1), case(_HILLS, width=0.1, prominence=0.2),
    case([0.0, 1.0, 0.0]),
])  # fmt: skip
def _peaks(x: Any, *args: Any, **kwargs: Any) -> Any:
    x = _samples(x)
    peaks, plain = _find_peaks(x, *args, **kwargs)
    known = dict(plain)
    if "peak_heights" in plain:
        known["peak_heights"] = x[peaks]
    if "left_thresholds" in plain:
        known |= {"left_thresholds": x[peaks] - x[peaks - 1], "right_thresholds": x[peaks] - x[peaks + 1]}
    if "prominences" in plain:
        known["prominences"] = _heights(x, peaks, (plain["left_bases"], plain["right_bases"]))
    if "widths" in plain:
        share = kwargs.get("rel_height", args[6] if len(args) > 6 else 0.5)
        wide = _wide(x, peaks, known["prominences"], share, (plain["left_ips"], plain["right_ips"]))
        known |= dict(zip(("widths", "width_heights", "left_ips", "right_ips"), wide, strict=True))
    return peaks, known
