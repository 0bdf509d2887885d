"""Rules of SciPy's functions: a file or several per subpackage, imported when somebody else has imported that."""

import numpy as np

from yota_py.registry.registry import on_import

from ..python_math import gamma_of_number, lgamma_of_number

# By the names of the subpackages.
FILES = {
    "special": "special special_bessel special_polynomials special_integrals special_elliptic special_elementary "
    "special_gamma special_equations special_incomplete special_distributions special_constants",
    "linalg": "linalg linalg_factors linalg_spaces linalg_eigenvalues linalg_functions linalg_equations linalg_banded "
    "linalg_special linalg_schur",
    "fft": "fft",
    "stats": "stats stats_private stats_formulas stats_centres stats_discrete stats_moments stats_samples "
    "stats_measures stats_multivariate stats_tests stats_kde",
    "signal": "signal signal_filters signal_spectra signal_design signal_windows signal_systems signal_peaks",
    "integrate": "integrate",
    "interpolate": "interpolate interpolate_splines interpolate_fits interpolate_grids interpolate_scattered "
    "interpolate_polynomials",
    "ndimage": "ndimage ndimage_order ndimage_samples ndimage_labels",
    "spatial": "spatial spatial_nearest spatial_rotation",
    "sparse": "sparse sparse_making sparse_operands sparse_solving sparse_factors",
    "sparse.csgraph": "sparse_graphs",
    "optimize": "optimize",
}

for _library, _files in FILES.items():
    _also = (gamma_of_number, lgamma_of_number, np.i0) if _library == "special" else ()
    for _file in _files.split():
        on_import(f"scipy.{_library}", f"yota_py.rules.scipy.{_file}", _also)
