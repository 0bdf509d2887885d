"""Spectra, transforms and wave forms of ``scipy.signal``, most of them by SciPy's own code."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import signal
from scipy.signal import _short_time_fft, _spectral_py, _waveforms
from scipy.signal.windows import _windows

from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import case, nondiff
from yota_py.registry.tangents import as_array, astype

from ..support import inexact, operand, shape_of
from .signal_filters import traced_through

open_to_traces(_spectral_py, _short_time_fft, _waveforms, _windows)

traced_through("hilbert", lambda s: [
    case(s(6)), case(s(5)), case(s(2, 4)), case(s(4, 2), axis=0), case(s(3), 5), case(s(4), 3), case(s(4, dtype="f4")),
])  # fmt: skip
traced_through("hilbert2", lambda s: [case(s(4, 4)), case(s(3, 4)), case(s(2, 3), (4, 3))])
traced_through("envelope", lambda s: [
    case(s(8)), case(s(2, 8), (1, 3), axis=1), case(s(8), residual=None), case(s(8), squared=True),
])  # fmt: skip
traced_through("resample", lambda s: [
    case(s(6), 4), case(s(5), 8), case(s(4, 2), 3), case(s(2, 4), 6, axis=1), case(s(6), 4, window="hann"),
    case(s(4), 6, np.arange(4.0)), case(s(4, dtype=complex), 6), case(s(4, dtype=complex), 3, domain="freq"),
    case(s(4), 4),
])  # fmt: skip
traced_through("lombscargle", lambda s: [
    case(np.arange(5.0), s(5), np.array([0.5, 1.1])), case(s(4), s(4), [0.7], normalize=True),
    case(s(4), s(4), [0.7], normalize="amplitude"), case(np.arange(6.0), s(6), [0.7], floating_mean=True),
])
traced_through("periodogram", lambda s: [
    case(s(4), fs=2.0, window="hann"), case(s(3, dtype="f4"), nfft=4, detrend=False), case(s(3, dtype=complex), nfft=2),
    case(s(4, 2), axis=0, detrend="linear", scaling="spectrum"),
])
traced_through("welch", lambda s: [
    case(s(8), window="hann", nperseg=4, noverlap=1, average="median"), case(s(3), window=np.ones(3), detrend="linear"),
    case(s(4), nperseg=4, nfft=8, return_onesided=False),
])
traced_through("csd", lambda s: [
    case(s(5), s(4), nperseg=4), case(s(2, 4), s(4), nperseg=4, detrend=False),
])  # fmt: skip
traced_through("coherence", lambda s: [case(s(6), s(6), nperseg=4)])
traced_through("spectrogram", lambda s: [
    case(s(8), nperseg=4), *(case(s(4), nperseg=4, mode=mode) for mode in ("magnitude", "phase")),
    case(s(4, 2), fs=2.0, window="hann", nperseg=4, nfft=8, detrend=False, scaling="spectrum", axis=0),
])  # fmt: skip
traced_through("stft", lambda s: [
    case(s(6), fs=2.0, nperseg=4, noverlap=3, nfft=8), case(s(5), nperseg=4, boundary="even", padded=False),
    case(s(2, 4), nperseg=4, scaling="psd"), case(s(4, dtype=complex), nperseg=4, return_onesided=False, boundary=None),
])  # fmt: skip
traced_through("istft", lambda s: [
    case(s(3, 3, dtype=complex), fs=2.0),
    case(s(4, 2, dtype=complex), input_onesided=False, boundary=False, window="boxcar"),
])
traced_through("vectorstrength", lambda s: [case(s(5), s.number(1.0, 2.0)), case(s(5), s(2, low=1.0, high=2.0))])

# ---------------------------------------------------------------------------------------------- wave forms


def _phase_in_turn(t: Any, width: Any) -> tuple[Any, Any, Any]:
    """The phase below a whole turn, and where the width is none of a turn, or the phase below it."""
    phase = np.mod(inexact(t), 2 * np.pi) + 0 * inexact(width)
    return phase, (np.asarray(0) > width) | (width > np.asarray(1)), phase < width * (2 * np.pi)


@expanded(patch(signal, "sawtooth"), cases=lambda s: [
    case(s(5)), case(s(5), 0.3), case(s(3), s(3, low=0.2, high=0.8)), case(s(2, 1), s(3, low=0.2, high=0.8)),
    case(s(4), 0),
    case(s.number()), case(s(3, dtype="f4"), 0.4), case([0.5, 7.0]), case(s(0)),
])  # fmt: skip
def _sawtooth(t: Any, width: Any = 1) -> Any:
    """Up from -1 to 1 in the part ``width`` of a turn, and down in the rest."""
    width = operand(width)
    phase, outside, rising = _phase_in_turn(t, width)
    up = phase / (np.pi * np.where(np.equal(width, 0), 1, width)) - 1
    down = (np.pi * (width + 1) - phase) / (np.pi * np.where(np.equal(width, 1), 1, 1 - width))
    return astype(as_array(np.where(outside, np.nan, np.where(rising, up, down))), np.dtype(float))


nondiff(patch(signal, "square"), cases=lambda s: [case(s(5)), case(s(5), 0.3), case(s(3), s(3, low=0.2, high=0.8))])


@expanded(patch(signal, "chirp"), cases=lambda s: [
    *(case(s(2), s.number(1.0, 2.0), 1.5, s.number(2.0, 3.0), how) for how in ("li", "quadratic", "log", "hyperbolic")),
    case(s(3), 1.0, 2.0, 2.0, "quad", 30.0, False), case(s(2, 2), 1.0, 2.0, 3.0, complex=True),
    case(s.number(), 1, 2, 3),
    case(s(3), 1.5, 1.0, 1.5, "log"), case(s(3), 1.5, 1.0, 1.5, "hyp"), case([0.0, 1.0], 1.0, s.number(1.0, 2.0), 3.0),
])  # fmt: skip
def _chirp(
    t: Any, f0: Any, t1: Any, f1: Any, method: str = "linear", phi: Any = 0, vertex_zero: bool = True, *,
    complex: bool = False,
) -> Any:  # fmt: skip
    phase = _chirp_phase(operand(t), f0 * 1.0, t1 * 1.0, f1 * 1.0, method, vertex_zero) + np.deg2rad(phi)
    return np.exp(1j * phase) if complex else np.cos(phase)


def _chirp_phase(t: Any, f0: Any, t1: Any, f1: Any, method: str, vertex_zero: bool) -> Any:
    """The integral of the frequency, which goes from f0 to f1 in the time t1; of one that is constant, f0 t."""
    if method in ("linear", "lin", "li"):
        return 2 * np.pi * (f0 * t + 0.5 * ((f1 - f0) / t1) * t * t)
    if method in ("quadratic", "quad", "q"):
        beta = (f1 - f0) / t1**2
        area = f0 * t + beta * t**3 / 3 if vertex_zero else f1 * t + beta * ((t1 - t) ** 3 - t1**3) / 3
        return 2 * np.pi * area
    known = method in ("logarithmic", "log", "lo", "hyperbolic", "hyp")
    if not known or f0 == 0 or f1 == 0 or (method.startswith("lo") and f0 * f1 < 0):
        signal.chirp(0.0, 0.0, 1.0, 0.0, method)  # raises what it raises
    if method.startswith("lo"):
        rate = np.log(f1 / f0) / t1
        return 2 * np.pi * f0 * _expm1_over(rate * t) * t
    rate = (f0 - f1) / (f1 * t1)
    return 2 * np.pi * f0 * _log1p_over(rate * t) * t


def _expm1_over(u: Any) -> Any:
    """``expm1(u) / u``, by its series near zero."""
    near = np.abs(u) < 1e-4
    v, w = np.where(near, u, 0), np.where(near, 1, u)
    return np.where(near, 1 + v * (1 / 2 + v * (1 / 6 + v / 24)), np.expm1(w) / w)[()]


def _log1p_over(u: Any) -> Any:
    """``log(abs(1 + u)) / u``, by its series near zero."""
    near = np.abs(u) < 1e-4
    v, w = np.where(near, u, 0), np.where(near, 1, u)
    return np.where(near, 1 - v * (1 / 2 - v * (1 / 3 - v / 4)), np.log(np.abs(1 + w)) / w)[()]


traced_through("gausspulse", lambda s: [
    case(s(4), 2.0), case(s(4), s.number(1.0, 2.0), 0.4, -5, -60, True, True),
    case(s(3), 1.0, s.number(0.3, 0.6), retenv=True),
    case(s.number(), 2), case(s(3), 2.0, retquad=True),
])  # fmt: skip


@expanded(patch(signal, "sweep_poly"), cases=lambda s: [
    case(s(4), s(3)), case(s(2, 2), [1.0, 2.0], 30.0), case(s.number(), s(1)),
])  # fmt: skip
def _sweep_poly(t: Any, poly: Any, phi: Any = 0) -> Any:
    """The integral of the polynomial is the phase, in turns."""
    p = np.multiply(np.float64(1), poly.coeffs if isinstance(poly, np.poly1d) else operand(poly))  # as polyint divides
    t = operand(t)
    phase, n = 0.0 * t, shape_of(p)[0]
    for k in range(n):
        phase = (phase + p[k] / (n - k)) * t
    return np.cos(2 * np.pi * phase + phi * (np.pi / 180))


# ------------------------------------------------------------------------------- transforms of short times

for _name in ("stft", "stft_detrend", "spectrogram", "istft"):
    _method = patch(signal.ShortTimeFFT, _name)
    expanded(_method, cases=lambda s: [])(through(getattr(signal.ShortTimeFFT, _name)))
