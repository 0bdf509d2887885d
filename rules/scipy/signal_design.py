"""Responses, forms and design of linear filters in ``scipy.signal``, most of them by SciPy's own code."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import signal
from scipy.signal import _filter_design, _fir_filter_design, _lti_conversion, _polyutils

from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch
from yota_py.registry.registry import Cases, case
from yota_py.registry.tangents import astype

from ..support import dtype_of, shape_of
from .signal_filters import traced_through, vector

open_to_traces(_filter_design, _fir_filter_design, _lti_conversion, _polyutils)

B, A = np.array([0.5, 1.2, -0.3]), np.array([1.3, -0.4, 0.2])

# ------------------------------------------------------------------------------------------------ responses

traced_through("freqz", lambda s: [
    case(s(3), A, 4), case(s(2), A[:2], s(2, low=0.2, high=2.0)), case(s(3), 2.0, 4, include_nyquist=True),
    case(s(2, dtype=complex), A[:2], 2, True),
])
traced_through("freqs", lambda s: [case(s(3), A, s(3, low=0.2, high=2.0)), case(s(2), [1.0, 0.5], [0.5, 1.0])])
traced_through("freqz_sos", lambda s: [
    case(np.array([[1, 2, 1, 1, 0, 0], [2, 1, 0, 1, -1, 0]]), s(3, low=0.2, high=2.0)),
])  # fmt: skip
traced_through("freqz_zpk", lambda s: [case(s(2), s(2, low=2.0, high=3.0), s.number(), 3)])
traced_through("freqs_zpk", lambda s: [case(s(2), s(2, low=2.0, high=3.0), s.number(), s(3, low=0.2, high=2.0))])
traced_through("group_delay", lambda s: [case((s(3), A), s(3, low=0.2, high=2.0)), case((s(2), A[:2]), 3)])

# ---------------------------------------------------------------------------------- from one form to another

normalize = traced_through("normalize", lambda s: [case(s(3), A), case(s(2, 3), A), case([1.0, 2.0], [2.0, 1.0])])
traced_through("zpk2tf", lambda s: [case(s(2), s(2), s.number()), case(s(1), np.array([0.3 + 0.1j, 0.2]), 2.0)])
traced_through("zpk2sos", lambda s: [case([0.5], [0.1], s.number())])
traced_through("minimum_phase", lambda s: [case(s(5, low=0.5, high=1.0))])
traced_through("sos2tf", lambda s: [case(s(2, 6)), case(s(1, 6))])
traced_through("bilinear_zpk", lambda s: [case(s(1), s(2, low=-3.0, high=-2.0), s.number(), fs=2.0)])
traced_through("lp2lp", lambda s: [case(s(2), A, wo=2.0)])
traced_through("lp2hp", lambda s: [case(s(2), A, wo=2.0)])
traced_through("lp2bp", lambda s: [case(s(2), A[:2], s.number(1.0, 2.0), s.number(0.5, 1.0))])
traced_through("lp2bs", lambda s: [case(s(2), A[:2], s.number(1.0, 2.0), s.number(0.5, 1.0))])


@expanded(patch(signal, "tf2ss"), cases=lambda s: [case(s(2), A), case(s(3), A), case(s(2, 3), A)])
def _tf2ss(num: Any, den: Any) -> Any:
    """The controller canonical form: the coefficients of the denominator are the first row."""
    num, den = normalize(num, den)
    num = num[None] if len(shape_of(num)) == 1 else num
    n, m = shape_of(den)[0], shape_of(num)[1]
    if m > n or n == 1 or not m:
        return _lti_conversion.tf2ss(*map(np.asarray, (num, den)))
    num = np.concatenate([np.zeros((shape_of(num)[0], n - m), dtype_of(num)), num], 1)
    a = np.concatenate([-den[None, 1:], np.eye(n - 2, n - 1)])
    return a, np.eye(n - 1, 1), num[:, 1:] - num[:, :1] * den[None, 1:], num[:, :1]


traced_through("abcd_normalize", lambda s: [case(s(2, 2), s(2, 1), s(1, 2), s(1, 1)), case(s(2, 2), s(2, 1), s(1, 2))])


@expanded(patch(signal, "bilinear"), cases=lambda s: [
    case(s(2), A), case(s(3), A, 2.0), case([1.0], [1.0, 2.0]), case(s(2), A, s.number(1.0, 2.0)),
])  # fmt: skip
def _bilinear(b: Any, a: Any, fs: Any = 1.0) -> Any:
    """With s = 2 fs (z - 1)/(z + 1), each power of s gives a polynomial of z."""
    b, a = vector(b), vector(a)
    b, a = (np.concatenate([[0.0], v])[1:] for v in (b, a))
    n = max(shape_of(a)[0], shape_of(b)[0]) - 1
    out = []
    for coefficients in (b, a):
        total: Any = 0.0
        for k in range(shape_of(coefficients)[0]):
            power = np.polynomial.polynomial.polymul(_power(-1, k), _power(1, n - k))
            total = total + coefficients[-1 - k] * (2 * fs) ** (k - n / 2) * power[::-1]
        out.append(total)
    return normalize(*out)


def _power(constant: int, n: int) -> Any:
    return np.polynomial.polynomial.polypow([constant, 1], n)


def _points(z: Any, p: Any) -> tuple[Any, Any, int]:
    z, p = vector(z), vector(p)
    return z, p, int(_filter_design._relative_degree(np.empty(shape_of(z)), np.empty(shape_of(p))))


def _zpk_cases(*more: float) -> Cases:
    return lambda s: [case(s(1, low=1.0), s(3, low=-3.0, high=-2.0), s.number(), *(s.number(x, x + 0.5) for x in more))]


@expanded(patch(signal, "lp2lp_zpk"), cases=_zpk_cases(1.0))
def _lp2lp_zpk(z: Any, p: Any, k: Any, wo: Any = 1.0) -> Any:
    z, p, degree = _points(z, p)
    return wo * z, wo * p, k * wo**degree


@expanded(patch(signal, "lp2hp_zpk"), cases=_zpk_cases(1.0))
def _lp2hp_zpk(z: Any, p: Any, k: Any, wo: Any = 1.0) -> Any:
    z, p, degree = _points(z, p)
    return np.concatenate([wo / z, np.zeros(degree)]), wo / p, k * np.real(np.prod(-z) / np.prod(-p))


def _twofold(x: Any, wo: Any) -> Any:
    """From the base band to wo and -wo."""
    x = astype(x, np.dtype(complex))
    root = np.sqrt(x**2 - wo**2)
    return np.concatenate([x + root, x - root])


@expanded(patch(signal, "lp2bp_zpk"), cases=_zpk_cases(1.0, 0.5))
def _lp2bp_zpk(z: Any, p: Any, k: Any, wo: Any = 1.0, bw: Any = 1.0) -> Any:
    z, p, degree = _points(z, p)
    zeros = np.concatenate([_twofold(z * (bw / 2), wo), np.zeros(degree)])
    return zeros, _twofold(p * (bw / 2), wo), k * bw**degree


@expanded(patch(signal, "lp2bs_zpk"), cases=_zpk_cases(1.0, 0.5))
def _lp2bs_zpk(z: Any, p: Any, k: Any, wo: Any = 1.0, bw: Any = 1.0) -> Any:
    z, p, degree = _points(z, p)
    middle = 1j * wo * np.concatenate([np.ones(degree), -np.ones(degree)])
    gain = k * np.real(np.prod(-z) / np.prod(-p))
    return np.concatenate([_twofold((bw / 2) / z, wo), middle]), _twofold((bw / 2) / p, wo), gain


# --------------------------------------------------------------------------------------------------- design


def _resonator(w0: Any, Q: Any, fs: Any, notch: bool) -> Any:
    """Orfanidis, Introduction to Signal Processing (1996), section 11.3, for -3 dB at the edges of the band."""
    w0 = 2 * (w0 / fs)
    if w0 > 1.0 or w0 < 0.0:
        raise ValueError("w0 should be such that 0 < w0 < 1")
    gain = 1.0 / (1.0 + np.tan(np.pi * (w0 / Q) / 2.0))
    middle = -2.0 * np.cos(np.pi * w0)
    b = gain * np.stack([1.0, middle, 1.0]) if notch else (1.0 - gain) * np.array([1.0, 0.0, -1.0])
    return b, np.stack([1.0, gain * middle, 2.0 * gain - 1.0])


for _name, _notch in (("iirnotch", True), ("iirpeak", False)):
    expanded(patch(signal, _name), cases=lambda s: [case(s.number(0.2, 0.4), s.number(3.0, 5.0), 2.5)])(
        lambda w0, Q, fs=2.0, *, xp=None, device=None, notch=_notch: _resonator(w0, Q, fs, notch)
    )

traced_through("butter", lambda s: [
    case(2, s.number(0.2, 0.4)), case(1, np.array([0.2, 0.4]), "bandstop", output="zpk"),
])
traced_through("cheby1", lambda s: [case(2, 0.5, s.number(0.2, 0.4), output="zpk")])
traced_through("cheby2", lambda s: [case(2, 20.0, s.number(0.2, 0.4), output="zpk")])
traced_through("bessel", lambda s: [case(2, s.number(0.2, 0.4), output="zpk")])
traced_through("iirfilter", lambda s: [case(2, s.number(0.2, 0.4), btype="low", output="zpk")])
traced_through("firwin", lambda s: [
    case(5, s.number(0.2, 0.4)), case(5, np.array([0.2, 0.4])), case(5, s.number(0.2, 0.4), pass_zero="highpass"),
    case(4, s.number(0.2, 0.4), window="hann", scale=False), case(5, [0.2, 0.4], pass_zero=False, fs=2.0),
])  # fmt: skip
traced_through("firwin2", lambda s: [case(5, [0, 1], s(2)), case(5, [0, 1, 2], s(3), nfreqs=9, window=None, fs=4)])
