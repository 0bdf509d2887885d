"""scipy.signal and the integrals of samples as their users write them: cached, compiled, in all spellings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.signal as ss
from scipy import signal
from scipy.signal import butter, find_peaks, lfilter, savgol_filter
from scipy.signal.windows import gaussian

from yota_py import check_grads, grad, jit, trace, value_and_grad

T = np.linspace(0.0, 1.0, 24)
X = np.sin(9 * T) + 0.3 * np.cos(40 * T) + 0.2
B, A = ss.butter(3, 0.3)
SOS = ss.butter(4, 0.3, output="sos")
KERNEL = np.outer(*[[1.0, 2.0, 1.0]] * 2)
SHORT = ss.ShortTimeFFT(np.hanning(8), 4, 1.0)
smooth = savgol_filter

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a filter from a module": lambda x: signal.lfilter(B, A, x),
    "a filter from an import": lambda x: lfilter(B, A, x, zi=ss.lfilter_zi(B, A) * x[0])[0],
    "an alias": lambda x: smooth(x, 5, 2),
    "filtfilt": lambda x: ss.filtfilt(B, A, x),
    "sosfilt": lambda x: ss.sosfilt(SOS, x),
    "sosfiltfilt": lambda x: ss.sosfiltfilt(ss.butter(1, 0.3, output="sos"), x),
    "the design of a filter": lambda x: ss.lfilter(*butter(2, 0.2 + 0.1 * x[0]), x),
    "deconvolution": lambda x: ss.deconvolve(ss.convolve(x, [1.0, 0.5]), [1.0, 0.4])[0],
    "an image": lambda x: ss.convolve2d(np.reshape(x, (4, 6)), KERNEL, mode="same", boundary="symm"),
    "two images": lambda x: ss.correlate2d(np.reshape(x, (4, 6)), np.reshape(x[:4], (2, 2)), "valid"),
    "fftconvolve along an axis": lambda x: ss.fftconvolve(np.reshape(x, (4, 6)), np.ones((4, 2)), "same", axes=1),
    "a median": lambda x: ss.medfilt(x, 3),
    "a window in its parameter": lambda x: x[:8] * gaussian(8, std=1.0 + x[0]) * ss.get_window("hann", 8),
    "a Wiener filter": lambda x: ss.wiener(x, 5),
    "polyphase": lambda x: ss.resample_poly(x, 3, 2),
    "decimation": lambda x: ss.decimate(x, 2, ftype="fir", n=4),
    "detrend": lambda x: ss.detrend(x),
    "lombscargle": lambda x: ss.lombscargle(T, x, np.array([3.0, 5.0])),
    "peaks": lambda x: x[find_peaks(x)[0]],
    "prominences": lambda x: find_peaks(x, prominence=0.01)[1]["prominences"],
    "widths": lambda x: ss.peak_widths(x, ss.find_peaks(x)[0])[0],
    "extrema": lambda x: x[ss.argrelmax(x)],
    "a response": lambda x: np.abs(ss.freqz(x[:3], [1.0, 0.2], worN=8)[1]),
    "a chirp": lambda x: ss.chirp(T, f0=1.0 + x[0], t1=1.0, f1=1.0 + x[0]),
    "splines": lambda x: ss.cspline1d_eval(ss.cspline1d(x), np.array([0.5, 3.2, 30.0])),
    "a simulated system": lambda x: ss.lsim(([1.0], [1.0, 2.0]), x, np.arange(24.0))[1],
    "a simulated discrete system": lambda x: ss.dlsim(([0.5], [1.0, 0.3], 1.0), x)[1],
    "trapezoid": lambda x: si.trapezoid(x, T) + si.trapezoid(x, dx=0.1) + si.trapezoid(y=x, x=T * x[0]),
    "simpson": lambda x: si.simpson(x, x=T) + si.simpson(x[1:], dx=0.5),
    "cumulative sums of areas": lambda x: si.cumulative_trapezoid(x, T, initial=0)[::3] * si.cumulative_simpson(x[:9]),
    "romb": lambda x: si.romb(x[:17]),
    "fixed_quad": lambda x: si.fixed_quad(lambda t: t**2 * x[0], 0.0, 1.0 + x[1])[0],
}  # fmt: skip
SPECTRA: dict[str, Callable[[Any], Any]] = {
    "hilbert": lambda x: np.abs(ss.hilbert(x)),
    "resample": lambda x: ss.resample(x, 30),
    "periodogram": lambda x: ss.periodogram(x, 10.0)[1],
    "welch": lambda x: ss.welch(x, fs=2.0, nperseg=8)[1],
    "stft and back": lambda x: ss.istft(ss.stft(x, nperseg=8)[2] * 2, nperseg=8)[1],
}
TRACED_EACH_TIME: dict[str, Callable[[Any], Any]] = {
    "a made ShortTimeFFT": lambda x: SHORT.spectrogram(x),
    "a ShortTimeFFT": lambda x: np.abs(ss.ShortTimeFFT.from_window("hann", 1.0, 8, 4).stft(x)),
    "sections of a design": lambda x: ss.sosfilt(butter(2, 0.2 + 0.1 * x[0], output="sos"), x),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *SPECTRA, *TRACED_EACH_TIME])
def test_gradients_on_other_inputs(name: str) -> None:
    f = (PROGRAMS | SPECTRA | TRACED_EACH_TIME)[name]

    def loss(x: Any) -> Any:
        return np.sum(np.square(f(x)))

    if name not in TRACED_EACH_TIME:
        grad.compile(loss, X)
    direction = np.cos(3 * T)
    for scale in (1.0, 0.99, 1.01):
        x, h = scale * X, 1e-6
        value, (dx,) = grad(loss, x)
        assert np.isclose(value, loss(x), rtol=1e-12)
        assert np.isclose(dx @ direction, (loss(x + h * direction) - loss(x - h * direction)) / (2 * h), rtol=1e-5)


def test_all_arguments_of_a_filter_together() -> None:
    def f(b: Any, a: Any, x: Any, zi: Any) -> Any:
        y, zf = ss.lfilter(b, a, x, axis=0, zi=zi)
        return np.sum(y**2) + np.sum(zf)

    rng = np.random.default_rng(0)
    a = np.array([1.5, 0.3, -0.2, 0.1])
    check_grads(f, rng.normal(size=3), a, rng.normal(size=(5, 2)), rng.normal(size=(3, 2)))
    check_grads(lambda z, p, k: ss.zpk2tf([z, np.conj(z)], [p, np.conj(p)], k)[0], 0.3 + 0.2j, 0.5j, 2.0)


def test_second_derivatives_where_slopes_are_divided_by_zero() -> None:
    chirp = lambda f0, f1: np.sum(ss.chirp(T, f0, 1.0, f1, "log") + ss.chirp(T, f0, 1.0, f1, "hyp"))  # noqa: E731
    check_grads(chirp, 2.0, 2.0)
    zero = value_and_grad(lambda x: np.sum(ss.lfilter(x[:2], [1.0, 0.5], np.zeros(3))))(np.zeros(2))
    assert np.array_equal(zero[1], np.zeros(2))


def test_kinds_of_input() -> None:
    x = X.astype("f4")
    x.setflags(write=False)
    value, (dx,) = grad(lambda x: np.sum(ss.lfilter(B.astype("f4"), A.astype("f4"), x)), x)
    assert value.dtype == dx.dtype == np.float32
    assert grad(lambda a: np.sum(ss.convolve([a, 2.0], [1.0, 3.0])), 1.0) == (12.0, (4.0,))
    assert np.allclose(jit(lambda x: ss.lfilter(B, A, x))(X), ss.lfilter(B, A, X))
    with pytest.raises(ValueError, match="same dimensionality"):
        grad(lambda x: np.sum(ss.fftconvolve(x, np.ones((2, 2)))), X)
    with pytest.raises(ValueError, match="window_length"):
        grad(lambda x: np.sum(ss.savgol_filter(x, 99, 2)), X)


def test_two_functions_after_each_other() -> None:
    for mode, want in (("full", 3.0), ("same", 2.0), ("valid", 1.0)):
        dx = grad(lambda x, mode=mode: np.sum(ss.convolve(x, np.ones(3), mode)), np.ones(4))[1][0]
        assert dx[0] == want


def test_no_peaks_and_arguments_by_keyword() -> None:
    flat, widths, found = np.linspace(0.1, 0.9, 8), np.linspace(0.1, 0.9, 8), []

    def f(x: Any) -> Any:
        found.append([
            signal.find_peaks_cwt(flat, widths), signal.find_peaks_cwt(vector=X, widths=np.arange(1, 4)),
            signal.find_peaks_cwt(X, widths=np.arange(1, 4)), signal.argrelmax(data=X), signal.argrelmax(flat),
        ])  # fmt: skip
        return x * x

    f(1.0)
    want = found.pop()
    trace(f, 1.0)
    for a, b in zip(found.pop(), want, strict=True):
        assert str(a) == str(b) and np.asarray(a).dtype == np.asarray(b).dtype
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'vector'"):
        trace(lambda x: x * len(signal.find_peaks_cwt(widths=widths)), 1.0)


def test_a_filter_of_one_coefficient_reads_no_outputs() -> None:
    y = np.ones((3, 2))
    assert jit(lambda b: signal.lfiltic(b, 2.0, y))(B).shape == signal.lfiltic(B, 2.0, y).shape
