"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

import numpy as np

from yota_py.registry.registry import on_import

from . import (  # noqa: F401 - they register what they have
    assignment,
    blocks,
    casting,
    casts,
    complex,
    decompositions,
    determinants,
    einsum,
    elementwise,
    flat,
    indexing,
    joining,
    layout,
    linalg,
    lists,
    norms,
    power,
    python_math,
    raising,
    reductions,
    selection,
    shape,
    sorting,
    statistics,
    ufuncs,
)  # fmt: skip

_need_special = (python_math.gamma_of_number, python_math.lgamma_of_number, np.i0)
on_import("cmath", "yota_py.rules.complex_math")
on_import("numpy.testing", "yota_py.rules.assertions")
on_import("scipy.special", "yota_py.rules.special", also=_need_special)
