"""A blurred signal made sharp again: least squares with total variation, products by the fast Fourier transform (Rudin,
Osher & Fatemi 1992; Vogel, Computational Methods for Inverse Problems, 2002)."""

import numpy as np
from scipy import signal
from scipy.optimize import minimize

from yota_py import value_and_grad

rng = np.random.default_rng(1)
n = 128
truth = np.zeros(n)
truth[20:50], truth[60:70], truth[80:110] = 1.0, 2.0, -1.0
psf = signal.windows.gaussian(15, std=2.5)
psf = psf / psf.sum()
data = signal.fftconvolve(truth, psf, mode="same") + 0.02 * rng.normal(size=n)


def objective(x, weight=0.02, eps=1e-4):
    residual = signal.fftconvolve(x, psf, mode="same") - data
    jumps = np.diff(x)
    return 0.5 * np.sum(residual**2) + weight * np.sum(np.sqrt(jumps**2 + eps))


def wiener(y, level=1e-2):
    H = np.fft.rfft(np.roll(np.pad(psf, (0, n - len(psf))), -7))
    return np.fft.irfft(np.fft.rfft(y) * np.conj(H) / (np.abs(H) ** 2 + level), n)


OBJECTIVE, POINT = objective, data

if __name__ == "__main__":
    fit = minimize(value_and_grad(objective), wiener(data), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    errors = [np.sqrt(np.mean((x - truth) ** 2)) for x in (data, wiener(data), fit.x)]
    print("root mean square error: blurred {:.3f}, Wiener {:.3f}, total variation {:.3f}".format(*errors))
