"""Distances and rotations of ``scipy.spatial``."""
