"""Rules, kernels and test cases of NumPy's and SciPy's functions: one file per area, one place per function."""

from yota_py.registry.registry import on_import

from . import (  # noqa: F401 - they register what they have
    assignment,
    blocks,
    bodies,
    casting,
    casts,
    complex,
    convolutions,
    decompositions,
    determinants,
    differences,
    einsum,
    elementwise,
    flat,
    fourier,
    indexing,
    joining,
    layout,
    linalg,
    lists,
    mapping,
    matrices,
    norms,
    parts,
    polynomials,
    power,
    quantiles,
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
on_import("numpy.ma", "yota_py.rules.masked")
on_import("numpy.polynomial", "yota_py.rules.polynomial_series")
on_import("numpy.testing", "yota_py.rules.assertions")
