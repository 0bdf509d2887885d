"""Fourier, cosine and sine transforms of ``scipy.fft``."""
