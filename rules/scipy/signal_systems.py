"""Smoothing, splines on a grid and simulated systems of ``scipy.signal``."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
from scipy import signal
from scipy.signal import _ltisys, _spline_filters

from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch
from yota_py.registry.registry import case
from yota_py.registry.tangents import astype

from ..support import dtype_of, inexact, operand, shape_of
from .signal import convolve
from .signal_filters import traced_through

open_to_traces(_ltisys, _spline_filters)

# ------------------------------------------------------------------------- local polynomials (Savitzky and Golay 1964)


def _fit(window: int, order: int, at: Any, deriv: int) -> Any:
    """A row for each place: what gives a derivative there of the polynomial through a window in least squares."""
    powers = np.arange(order + 1)
    slopes = np.array([factorial(k) // factorial(k - deriv) if k >= deriv else 0 for k in powers])
    middle = (window - 1) / 2
    places = (np.asarray(at, float)[:, None] - middle) ** np.maximum(powers - deriv, 0) * slopes
    return places @ np.linalg.pinv((np.arange(window)[:, None] - middle) ** powers)


@expanded(patch(signal, "savgol_coeffs"), cases=lambda s: [
    case(5, 2), case(5, 2, 1, s.number(0.5, 2.0)), case(4, 2), case(5, 2, 1, 1.0, 0, "dot"), case(5, 1, 2),
])  # fmt: skip
def _savgol_coeffs(
    window_length: int, polyorder: int, deriv: int = 0, delta: Any = 1.0, pos: Any = None, use: str = "conv", *,
    xp: Any = None, device: Any = None,
) -> Any:  # fmt: skip
    """Those for steps of one, divided by a power of ``delta``."""
    return signal.savgol_coeffs(window_length, polyorder, deriv, 1.0, pos, use) / delta**deriv


_EXTENDED = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


@expanded(patch(signal, "savgol_filter"), cases=lambda s: [
    case(s(7), 5, 2), case(s(5), 5, 2), case(s(6), 3, 1, 1, 0.5), case(s(2, 5), 3, 1), case(s(5, 2), 3, 1, axis=0),
    *(case(s(6), 5, 2, mode=mode) for mode in _EXTENDED), case(s(4), 3, 1, mode="constant", cval=1.5), case(s(6), 4, 2),
    case(s(5, dtype="f4"), 3, 1), case([1.0, 2.0, 4.0], 3, 1), case(s(5), 3, 1, 1, s.number(0.5, 2.0)),
    case(s(5), 3, 1, 2),
])  # fmt: skip
def _savgol_filter(
    x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: Any = 1.0, axis: int = -1, mode: str = "interp",
    cval: Any = 0.0,
) -> Any:  # fmt: skip
    """A convolution; at the ends, unless the signal is extended, the polynomial of the last window."""
    x = inexact(x)
    n, half = shape_of(x)[axis], window_length // 2
    if mode not in (*_EXTENDED, "interp") or (mode == "interp" and window_length > n):
        signal.savgol_filter(np.zeros(n), window_length, polyorder, mode=mode)  # raises what it raises
    kernel = signal.savgol_coeffs(window_length, polyorder, deriv)
    last = np.moveaxis(x, axis, -1)
    rows = np.reshape(last, (-1, n))
    if mode != "interp":
        how: Any = {"mode": _EXTENDED[mode]} | ({"constant_values": cval} if mode == "constant" else {})
        rows = np.pad(rows, [(0, 0), (window_length - 1 - half, half)], **how)
    y = convolve(rows, kernel[None], "valid", "direct")
    if mode == "interp":
        first = _fit(window_length, polyorder, np.arange(half), deriv)
        end = _fit(window_length, polyorder, np.arange(window_length - half, window_length), deriv)
        y = y[:, : n - 2 * half] if window_length % 2 else y[:, 1:]
        y = np.concatenate([rows[:, :window_length] @ first.T, y, rows[:, n - window_length :] @ end.T], -1)
    y = np.moveaxis(np.reshape(y, shape_of(last)), -1, axis) / delta**deriv
    return astype(y, dtype_of(x))


# ------------------------------------------------------------------------------------------------- splines on a grid

traced_through("cspline1d", lambda s: [case(s(5)), case(s(1))])
traced_through("qspline1d", lambda s: [case(s(5)), case(s(1))])
traced_through("gauss_spline", lambda s: [case(s(5), 3)])


def _at_places(basis: Callable[[Any], Any], reach: float, count: int, cj: Any, newx: Any, dx: Any, x0: Any) -> Any:
    """The sum of the bases around each place; beyond the ends it is mirrored there."""
    cj, x = operand(cj), (operand(newx) - x0) / dx
    n = shape_of(cj)[0]
    x = np.abs(np.mod(x + (n - 1), 2 * (n - 1)) - (n - 1)) if n > 1 else 0.0 * x
    lower = np.floor(x - reach).astype(int) + 1
    return sum(cj[np.clip(lower + i, 0, n - 1)] * basis(x - (lower + i)) for i in range(count))


def _cubic(u: Any) -> Any:
    u = np.abs(u)
    return np.where(u < 1, 2 / 3 - u * u * (2 - u) / 2, np.maximum(2 - u, 0) ** 3 / 6)


def _quadratic(u: Any) -> Any:
    u = np.abs(u)
    return np.where(u < 0.5, 0.75 - u * u, np.maximum(1.5 - u, 0) ** 2 / 2)


for _name, _how in (("cspline1d_eval", (_cubic, 2, 4)), ("qspline1d_eval", (_quadratic, 1.5, 3))):

    def _evaluated(cj: Any, newx: Any, dx: Any = 1.0, x0: Any = 0, how: Any = _how) -> Any:
        basis, reach, count = how
        return astype(_at_places(basis, reach, count, cj, newx, dx, x0), dtype_of(cj))

    expanded(patch(signal, _name), cases=lambda s: [
        case(s(4), np.array([-1.2, 2.7, 3.4]), 1.5, 0.2),
    ])(_evaluated)  # fmt: skip

# ----------------------------------------------------------------------------------------------- simulated systems

traced_through("lsim", lambda s: [case((s(1), [1, 2]), s(3), [0, 1, 2])])
traced_through("dlsim", lambda s: [case((s(2, 2), s(2, 1), s(1, 2), s(1, 1), 1), s(2))])
traced_through("step", lambda s: [case((s(1), [1, 2]), None, [0, 1])])
traced_through("impulse", lambda s: [case((s(1), [1, 2]), None, [0, 1])])
traced_through("dstep", lambda s: [case((s(1), [1, 2], 1), n=2)])
traced_through("dimpulse", lambda s: [case((s(1), [1, 2], 1), n=2)])
