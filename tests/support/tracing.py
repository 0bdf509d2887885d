"""What tests of tracers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[[Any], Any]
NUMBERS = (2.17, 3.31, 0.62, 7.43)
ARRAYS = (np.array([1.1, 2.2, 3.3]), np.array([3.1, -2.2, 0.5]), np.array([0.3, 0.25, 0.15]), np.array([2.2, 4.5, 1.2]))


def slope(f: Function, x: Any) -> Any:
    """Central differences in every element."""
    h = 1e-6
    if not isinstance(x, np.ndarray):
        return (f(x + h) - f(x - h)) / (2 * h)
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size).reshape(-1, *x.shape)]).reshape(
        x.shape
    )
