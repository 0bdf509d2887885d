"""Rules of SciPy's functions: a file or several per subpackage, imported when somebody else has imported that."""

import numpy as np

from yota_py.registry.registry import on_import

from ..python_math import gamma_of_number, lgamma_of_number

# By the names of the subpackages.
FILES = {
    "special": "special special_bessel special_polynomials special_integrals special_elliptic special_elementary "
    "special_gamma special_equations special_incomplete special_distributions",
    "linalg": "linalg",
    "fft": "fft",
    "stats": "stats stats_private stats_formulas stats_discrete stats_moments stats_samples stats_measures "
    "stats_multivariate stats_tests stats_kde",
    "signal": "signal",
    "integrate": "integrate",
    "interpolate": "interpolate",
    "ndimage": "ndimage",
    "spatial": "spatial",
    "sparse": "sparse",
}

for _library, _files in FILES.items():
    _also = (gamma_of_number, lgamma_of_number, np.i0) if _library == "special" else ()
    for _file in _files.split():
        on_import(f"scipy.{_library}", f"yota_py.rules.scipy.{_file}", _also)
