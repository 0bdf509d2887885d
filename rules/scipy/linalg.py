"""Solving, factorizations and functions of matrices in ``scipy.linalg``."""
