"""Automatic differentiation for people who write plain NumPy."""
