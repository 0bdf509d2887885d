"""Filters, convolutions and spectra of ``scipy.signal``."""
