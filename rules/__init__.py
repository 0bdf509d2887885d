"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

from . import (
    casting,
    complex,
    decompositions,
    einsum,
    elementwise,
    indexing,
    joining,
    linalg,
    norms,
    power,
    python_math,
    reductions,
    shape,
    sorting,
    special,
    statistics,
)

__all__ = [
    "casting",
    "complex",
    "decompositions",
    "einsum",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "norms",
    "power",
    "python_math",
    "reductions",
    "shape",
    "sorting",
    "special",
    "statistics",
]
