"""Sparse matrices of positions, and the indices of such with traced values."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbered(pattern: Any) -> Any:
    """A matrix with the positions of its values, from one on, in their places."""
    pattern = pattern.copy()
    pattern.data = np.arange(1, pattern.data.size + 1).reshape(pattern.data.shape)
    return pattern


def read_only(part: Any) -> Any:
    """Indices: what is written into them would move no value."""
    if isinstance(part, tuple):
        return tuple(map(read_only, part))
    if not isinstance(part, np.ndarray):
        return part
    part = part.view()
    part.flags.writeable = False
    return part
