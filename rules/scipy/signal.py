"""Convolutions, correlations and order filters of ``scipy.signal``.

The transpose of a convolution with b is the correlation with it: ``da[k] = sum_n dy[n] conj(b[n - k])``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import signal
from scipy.signal import _signaltools

from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, nondiff, vjps
from yota_py.registry.tangents import conj

from ..support import axes_of, operand, shape_of, stop_gradient

convolve, fftconvolve, oaconvolve = (patch(signal, name) for name in ("convolve", "fftconvolve", "oaconvolve"))
nondiff(patch(signal, "choose_conv_method"), cases=lambda s: [case(s(3), s(2)), case(s(3, 3), s(2, 2), "same")])
nondiff(patch(signal, "correlation_lags"), cases=lambda s: [case(3, 2), case(3, 2, "same")])


def reversed_conj(x: Any) -> Any:
    return conj(np.flip(x))


def _whole(dy: Any, mode: str, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """The cotangent of the convolution in the mode "full", of which ``dy`` is that of a part."""
    if mode == "full":
        return dy
    widths = []
    for i, (n, m, k) in enumerate(zip(shape_of(a), shape_of(b), shape_of(dy), strict=True)):
        whole = n + m - 1 if i in axes else max(n, m)
        start = (whole - n) // 2 if mode == "same" else min(n, m) - 1 if i in axes else 0
        widths.append((start, whole - start - k))
    return np.pad(dy, widths)


def _transposed(fn: Callable[..., Any], dy: Any, mode: str, first: Any, other: Any, to: Any, **how: Any) -> Any:
    """The cotangent of ``first`` or of ``other``, whichever ``to`` is not."""
    if not shape_of(to):
        return dy * conj(to)
    if 0 in (*shape_of(first), *shape_of(other)):
        return None
    axes = axes_of(how.get("axes"), len(shape_of(first)))
    flipped = conj(np.flip(to, axes))
    return fn(_whole(dy, mode, first, other, axes), flipped, "valid", **how)


def _convolution_cases(s: Sample) -> Iterable[Case]:
    return [
        *(case(s(5), s(n), mode) for n in (3, 2) for mode in ("full", "same", "valid")), case(s(2), s(3), "same"),
        case(s(2), s(3), "valid"), case(s(3, 4), s(2, 3), "same"), case(s(3, 4), s(2, 3), "valid"),
        case(s(2, dtype=complex), s(3)), case(s(3), s(2, dtype=complex), "same"), case(s(), s()), case(s(1), s(1)),
        case(s(4, dtype="f4"), s(2, dtype="f4")), case([1.0, 2.0, 3.0], s(2)), case(s(6)[::2], s(3)[::-1]),
    ]  # fmt: skip


def _with_method(dy: Any, y: Any, in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    in1, in2 = operand(in1), operand(in2)
    return _transposed(convolve, dy, mode, in1, in2, in2, method=method)


def _kernel(dy: Any, y: Any, in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    in1, in2 = operand(in1), operand(in2)
    return _transposed(convolve, dy, mode, in1, in2, in1, method=method)


vjps(convolve, _with_method, _kernel, cases=lambda s: [
    *_convolution_cases(s), case(s(4), s(2), method="fft"), case(s(4), s(3), "same", "fft"),
    case(s(2, 3), s(2, 2), "full", "direct"), case(s.integers(3, high=5), s(2)),
])  # fmt: skip

for _fn in (fftconvolve, oaconvolve):

    def _in1(dy: Any, y: Any, in1: Any, in2: Any, mode: str = "full", axes: Any = None, fn: Any = _fn) -> Any:
        in1, in2 = operand(in1), operand(in2)
        return _transposed(fn, dy, mode, in1, in2, in2, axes=axes)

    def _in2(dy: Any, y: Any, in1: Any, in2: Any, mode: str = "full", axes: Any = None, fn: Any = _fn) -> Any:
        in1, in2 = operand(in1), operand(in2)
        return _transposed(fn, dy, mode, in1, in2, in1, axes=axes)

    vjps(_fn, _in1, _in2, cases=lambda s: [
        *_convolution_cases(s), case(s(2, 4), s(2, 3), axes=1), case(s(1, 4), s(2, 3), "same", -1),
        case(s(4, 2), s(2, 1), "valid", [0]), case(s(40), s(3), "same"), case(s(0), s(2)),
    ])  # fmt: skip


@expanded(patch(signal, "correlate"), cases=lambda s: [
    *_convolution_cases(s), case(s(4), s(2), "same", "fft"), case(s(2, 3), s(2, 2), "full", "direct"),
])  # fmt: skip
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return convolve(in1, reversed_conj(operand(in2)), mode, method)


# ----------------------------------------------------------------------------- in the plane, beyond the boundary

_BEYOND: dict[int, Any] = {0: "constant", 1: "symmetric", 2: "wrap"}  # by SciPy's own number of a boundary


def _plane_cases(s: Sample) -> Iterable[Case]:
    return [
        *(case(s(3, 4), s(2, 3), mode, boundary) for mode in ("full", "same") for boundary in ("symm", "wrap")),
        case(s(3, 3), s(2, 2)), case(s(3, 3), s(3, 2), "same"), case(s(3, 3), s(2, 2), "valid"),
        case(s(2, 2), s(3, 3), "valid", "wrap"), case(s(2, 2), s(2, 2), "full", "fill", 1.5), case(s(2, 2), s(3, 3)),
        case(s(2, 2), s(5, 1), "same", "symm"), case(s(2, 2), s(2, 2), "same", "fill", s.number()),
        case(s(2, 2, dtype=complex), s(2, 2, dtype=complex)), case(s(2, 2), s(3, 3, dtype=complex), "valid"),
        case([[1.0, 2.0]], s(2, 2)), case(s(2, 3, dtype="f4"), s(2, 2, dtype="f4")), case(s(1, 1), s(1, 1)),
    ]  # fmt: skip


def _extended(a: Any, before: list[int], after: list[int], boundary: str, fillvalue: Any) -> Any:
    widths = [*zip(before, after, strict=True)]
    way = _BEYOND[_signaltools._bvalfromboundary(boundary) >> 2 & 3]
    out = np.pad(a, widths, mode=way)
    if way != "constant":
        return out
    return np.where(np.pad(np.ones(shape_of(a), bool), widths), out, fillvalue)


def _in_plane(a: Any, b: Any, mode: str, boundary: str, fillvalue: Any, *, correlating: bool) -> Any:
    sizes = shape_of(b)
    if mode == "full":
        before = after = [n - 1 for n in sizes]
    elif mode == "same":  # of kernels of even extent, the middle is before or behind
        before, after = [n // 2 for n in sizes], [(n - 1) // 2 for n in sizes]
        before, after = (after, before) if correlating else (before, after)
    else:
        _signaltools._valfrommode(mode)
        before = after = [0, 0]
    kernel = np.flip(b) if correlating else b
    return convolve(_extended(a, before, after, boundary, fillvalue), kernel, "valid", "direct")


@expanded(patch(signal, "convolve2d"), cases=_plane_cases)
def _convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    in1, in2 = operand(in1), operand(in2)
    if _signaltools._inputs_swap_needed(mode, shape_of(in1), shape_of(in2)):
        in1, in2 = in2, in1
    return _in_plane(in1, in2, mode, boundary, fillvalue, correlating=False)


@expanded(patch(signal, "correlate2d"), cases=_plane_cases)
def _correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    in1, in2 = operand(in1), operand(in2)
    if _signaltools._inputs_swap_needed(mode, shape_of(in1), shape_of(in2)):
        return np.flip(_in_plane(in2, conj(in1), mode, boundary, fillvalue, correlating=True))
    return _in_plane(in1, conj(in2), mode, boundary, fillvalue, correlating=True)


# ------------------------------------------------------------------------------------ filters that choose by order


def _windows(x: Any, domain: Any) -> Any:
    """The elements around each element that a mask chooses, on a last axis; beyond the array there are zeros."""
    shape = shape_of(x)
    padded = np.pad(x, [(n // 2, n // 2) for n in domain.shape])
    places = np.arange(padded.size).reshape(padded.shape)
    around = np.lib.stride_tricks.sliding_window_view(places, domain.shape).reshape(*shape, -1)
    return np.ravel(padded)[around[..., np.ravel(domain)]]


@expanded(patch(signal, "order_filter"), cases=lambda s: [
    case(s(5), [1, 1, 1], 1), case(s(3, 4), np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), 3), case(s(3), [1, 0, 1], 0),
    case(s(4, dtype="f4"), np.ones(3, int), 2), case(s(3), [1], 0), case(s(4)[::-1], (1, 1, 1), 0),
])  # fmt: skip
def _order_filter(a: Any, domain: Any, rank: int) -> Any:
    """One of the elements in reach."""
    mask = np.asarray(stop_gradient(operand(domain))) != 0
    return np.sort(_windows(operand(a), mask), axis=-1)[..., rank]


def _median(x: Any, sizes: Any) -> Any:
    x = operand(x)
    x = np.reshape(x, (1,)) if not shape_of(x) else x
    sizes = np.broadcast_to(3 if sizes is None else sizes, len(shape_of(x)))
    return np.sort(_windows(x, np.ones(sizes, bool)), axis=-1)[..., int(np.prod(sizes)) // 2]


@expanded(patch(signal, "medfilt"), cases=lambda s: [
    case(s(5)), case(s(5), 5), case(s(3, 4)), case(s(3, 3), [1, 3]), case(s(4, dtype="f4")), case([1.0, 3.0, 2.0]),
])  # fmt: skip
def _medfilt(volume: Any, kernel_size: Any = None) -> Any:
    return _median(volume, kernel_size)


@expanded(patch(signal, "medfilt2d"), cases=lambda s: [case(s(3, 4)), case(s(3, 3), [1, 3]), case(s(3, 3, dtype="f4"))])
def _medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    return _median(input, kernel_size)
