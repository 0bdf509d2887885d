"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

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
    matrices,
    norms,
    power,
    raising,
    reductions,
    scipy,
    selection,
    shape,
    sorting,
    statistics,
    systems,
    ufuncs,
)  # fmt: skip

on_import("cmath", "yota_py.rules.complex_math")
on_import("numpy.testing", "yota_py.rules.assertions")
