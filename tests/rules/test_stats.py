"""Distributions and samples of ``scipy.stats`` as users write them: frozen, compiled, in all spellings, in models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import gamma as gamma_distribution
from scipy.stats import multivariate_normal, norm, poisson
from scipy.stats._distr_params import distcont, distdiscrete

from yota_py import grad, gradient, jit, value_and_grad
from yota_py.errors import YotaError
from yota_py.testing.checks import check_grads

X = np.array([0.3, 0.5, 1.7])
Y = np.array([1.0, 2.0, 0.4, 0.9])
Z = np.array([0.2, -1.0, 0.7, 1.5])
COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])

# -------------------------------------------------------------------------------------------- moments, discrete ones

MOMENTS = {
    "mean": lambda d, *a, **k: d.mean(*a, **k), "var": lambda d, *a, **k: d.var(*a, **k),
    "std": lambda d, *a, **k: d.std(*a, **k), "entropy": lambda d, *a, **k: d.entropy(*a, **k),
    "third": lambda d, *a, **k: d.moment(3, *a, **k),
    "shape": lambda d, *a, **k: sum(d.stats(*a, moments="sk", **k)), "median": lambda d, *a, **k: d.median(*a, **k),
}  # fmt: skip
ALL = "mean var std third shape median"
WITH_MOMENTS = {
    **dict.fromkeys("""alpha anglit arcsine bradford cauchy cosine dgamma dweibull expon exponnorm foldcauchy
        foldnorm gamma genexpon genlogistic gennorm gibrat gumbel_l gumbel_r halfcauchy halflogistic halfnorm hypsecant
        invgamma invgauss invweibull laplace laplace_asymmetric levy levy_l loggamma logistic loglaplace lognorm
        maxwell moyal norm powernorm rayleigh semicircular skewnorm triang uniform wald weibull_max
        weibull_min wrapcauchy""".split(), ""),
}  # fmt: skip
