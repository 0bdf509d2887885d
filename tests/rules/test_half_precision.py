"""Means and deviations of more elements than half precision can count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, jit

X = np.tile(np.array([0.5, 0.25, 0.75, 0.0], np.float16), 25_000)
MASK = np.arange(len(X)) % 4 > 0


@pytest.mark.parametrize("options", [{}, {"where": MASK}, {"keepdims": True}], ids=["all", "where", "keepdims"])
@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean"])
def test_of_many_elements(name: str, options: dict[str, Any]) -> None:
    f = getattr(np, name)
    compiled = jit(lambda x: f(x, **options))
    want = f(X.astype(float), **options)
    _, (exact,) = grad(lambda x: 1000 * np.sum(f(x, **options)), X.astype(float))
    for _ in range(3):
        value = compiled(X)
        assert value.dtype == np.float16
        if "where" not in options:  # there NumPy sums in half precision, one after the other
            assert_allclose(value, want, rtol=1e-3)
        _, (slope,) = grad(lambda x: 1000 * np.sum(f(x, **options)), X)
        assert slope.dtype == np.float16
        assert_allclose(slope, exact, rtol=1e-3, atol=1e-5)
