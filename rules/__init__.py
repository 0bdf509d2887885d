"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

from . import (
    casting,
    complex,
    elementwise,
    indexing,
    joining,
    linalg,
    power,
    python_math,
    reductions,
    shape,
    special,
    statistics,
)

__all__ = [
    "casting",
    "complex",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "power",
    "python_math",
    "reductions",
    "shape",
    "special",
    "statistics",
]
