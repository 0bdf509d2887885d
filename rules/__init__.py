"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

import numpy as np

from yota_py.registry import on_import

from . import (
    assignment,
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
    statistics,
)

on_import("scipy.special", "yota_py.rules.special", also=(python_math.gamma_of_number, python_math.lgamma_of_number, np.i0))

__all__ = [
    "assignment",
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
    "statistics",
]
