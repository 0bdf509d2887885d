"""Distributions and sample statistics of ``scipy.stats``."""
