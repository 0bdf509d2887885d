"""Whole programs over the data structures of other libraries: fits that reach the optimum that plain arrays reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
import xarray as xr
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from yota_py import value_and_grad

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
TRUE = np.array([1.0, -0.5, 0.25])
LABELS = (RNG.uniform(size=60) < 1 / (1 + np.exp(-X @ TRUE))).astype(float)
ORDER = RNG.permutation(60)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"], index=ORDER).assign(y=LABELS, weight=RNG.uniform(0.5, 1.5, 60))
WEIGHTS = FRAME["weight"].to_numpy()
Loss = Callable[..., Any]


def best(loss: Loss, *data: Any) -> Any:
    """The optimum that SciPy finds with our gradients, from zero."""
    with_gradient = value_and_grad(loss)
    result = minimize(lambda w: with_gradient(w, *data), np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-7})
    assert result.nit > 2
    return result.x


def logistic(w: Any, X: Any, y: Any) -> Any:
    """The mean negative log-likelihood."""
    return np.mean(np.logaddexp(0.0, -(2 * y - 1) * (X @ w)))


def squares(w: Any, X: Any, y: Any) -> Any:
    """A ridge regression."""
    return np.sum((X @ w - y) ** 2) + 0.1 * np.sum(w**2)


def by_columns(w: Any, frame: Any) -> Any:
    """As one writes it with names of columns."""
    score = w[0] * frame["a"] + w[1] * frame["b"] + w[2] * frame["c"]
    return (np.log1p(np.exp(-score)) + (1 - frame["y"]) * score).mean()


def weighted(w: Any, frame: Any) -> Any:
    residual = frame[["a", "b", "c"]] @ w - frame["y"]
    return (frame["weight"] * residual**2).sum() / frame["weight"].sum()


def test_a_logistic_regression_on_a_frame() -> None:
    want = best(logistic, X, LABELS)
    assert_allclose(best(logistic, FRAME[["a", "b", "c"]], FRAME["y"]), want, atol=1e-5)
    assert_allclose(best(by_columns, FRAME), want, atol=1e-5)
    assert np.linalg.norm(want) > 0.3


def test_a_weighted_regression_on_a_frame() -> None:
    root = np.sqrt(WEIGHTS)
    want = np.linalg.lstsq(X * root[:, None], LABELS * root)[0]
    assert_allclose(best(weighted, FRAME), want, atol=1e-5)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_a_regression_with_a_sparse_design(make: Callable[..., Any]) -> None:
    dense = np.where(np.abs(X) > 0.5, X, 0.0)
    want = np.linalg.solve(dense.T @ dense + 0.1 * np.eye(3), dense.T @ LABELS)
    assert_allclose(best(squares, make(dense), LABELS), want, atol=1e-5)


def test_a_weighted_mean_of_a_labelled_array() -> None:
    area = xr.DataArray(np.linspace(0.5, 1.5, 3), dims="lat")
    target = xr.DataArray(X[:3, :3], dims=("lon", "lat"))

    def loss(w: Any) -> Any:
        difference = target - w
        return ((difference**2) * area).sum() / area.sum()

    assert_allclose(best(loss), target.mean("lon"), atol=1e-5)


def test_tensors_as_data() -> None:
    want = best(squares, X, LABELS)
    assert_allclose(best(lambda w, X, y: squares(w, X.numpy(), y.numpy()), torch.tensor(X), torch.tensor(LABELS)), want)
