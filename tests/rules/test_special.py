"""Derivatives of special functions where their formulas have poles that they do not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from yota_py import grad, gradient
from yota_py.registry.registry import primitive_of


def test_reciprocal_gamma_at_the_poles_of_gamma() -> None:
    slope = gradient(special.rgamma)
    for n in range(5):
        assert_allclose(slope(float(-n)), (-1) ** n * math.factorial(n), rtol=1e-13)
    x = np.array([0.0, -1.0, -2.0, 0.5, 3.0, -0.5])
    want = np.where(x == np.floor(x), 0, -special.rgamma(x) * special.digamma(x + 0.25 * (x == np.floor(x))))
    want[[0, 1, 2, 4]] = 1, -1, 2, -special.rgamma(3.0) * special.digamma(3.0)
    for _ in range(3):
        assert_allclose(gradient(lambda x: np.sum(special.rgamma(x)))(x), want, rtol=1e-12)


def test_second_derivatives_of_the_reciprocal_gamma() -> None:
    slope, second = gradient(special.rgamma), gradient(gradient(special.rgamma))
    assert_allclose(second(0.0), 2 * np.euler_gamma, rtol=1e-12)
    for x in (-2.0, -1.0, 0.25, 1.5, -0.3):
        assert_allclose(second(x), (slope(x + 1e-5) - slope(x - 1e-5)) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("name", ["jv", "iv", "erfcx", "dawsn", "loggamma", "erf", "expm1", "log1p"])
def test_slopes_at_complex_numbers(name: str) -> None:
    """dL/dRe + i dL/dIm, so for an analytic function the conjugate of its derivative."""
    fn = getattr(special, name)
    f: Callable[[Any], Any] = (lambda z: fn(1.5, z)) if name in ("jv", "iv") else fn
    z = np.array([0.6 + 0.3j, -0.4 - 0.7j, 1.2j, 9j if name == "dawsn" else 1.5 + 0.2j])
    h = 1e-6
    want = np.conj((f(z + h) - f(z - h)) / (2 * h))
    for _ in range(3):
        assert_allclose(gradient(lambda z: np.sum(np.real(f(z))))(z), want, rtol=1e-8)
        assert_allclose(gradient(lambda z: np.sum(np.imag(f(z))))(z), 1j * want, rtol=1e-8)


def test_ufuncs_of_scipy_are_the_librarys() -> None:
    """So they are dead code where nothing needs them, and what their formulas give is fitted to the arguments."""
    for fn in (special.jv, special.expit, special.gammaln):
        entry = primitive_of(fn)
        assert entry is not None and not (entry.users or entry.fails)


@pytest.mark.parametrize("fn", [special.betaincinv, special.betainccinv])
def test_inverses_beyond_the_range_of_numbers(fn: Any) -> None:
    """Values are SciPy's, slopes NaN or finite, and nothing is raised."""
    value, _ = grad(lambda x: fn(1e-300, 1.5, x), 0.5)
    assert value == fn(1e-300, 1.5, 0.5)
    value, _ = grad(lambda x: fn(x, 1.5, 0.5), 1e-300)
    assert value == fn(1e-300, 1.5, 0.5)
