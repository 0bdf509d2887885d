"""Filters and interpolation of images in ``scipy.ndimage``."""
