"""Integrals of samples in ``scipy.integrate``."""
