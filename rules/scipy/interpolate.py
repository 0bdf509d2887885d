"""Interpolators of ``scipy.interpolate``."""
