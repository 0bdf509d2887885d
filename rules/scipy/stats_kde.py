"""``scipy.stats.gaussian_kde``, in the points, the data, the weights and a bandwidth that is a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import gaussian_kde

from yota_py.base.dispatch import find_traced, original
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch, states
from yota_py.registry.registry import Cases, case

from ..support import inexact, shape_of, unsupported
from .special import logsumexp

_HOLDS = ("dataset", "_weights", "factor")


def _init(self: Any, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
    """Scott 1992, Silverman 1986: the bandwidth is a factor of the samples' covariance."""
    if find_traced((dataset, bw_method, weights)) is None:
        original(gaussian_kde.__init__)(self, dataset, bw_method, weights)
        return
    dataset = inexact(dataset)
    self.dataset = np.reshape(dataset, (1, -1)) if len(shape_of(dataset)) < 2 else dataset
    self.d, self.n = d, n = shape_of(self.dataset)
    if weights is not None:
        weights = inexact(weights)
        self._weights = weights / np.sum(weights)
    neff = n if weights is None else 1 / np.sum(self._weights**2)
    if bw_method is None or bw_method == "scott":
        self.factor = neff ** (-1.0 / (d + 4))
    elif bw_method == "silverman":
        self.factor = (neff * (d + 2.0) / 4.0) ** (-1.0 / (d + 4))
    elif callable(bw_method):
        raise unsupported("gaussian_kde with a function for bw_method", "Give a number")
    else:
        self.factor = bw_method
    weights = np.full(n, 1 / n) if weights is None else self._weights
    self.covariance = _covariance(self, weights)


def _covariance(self: Any, weights: Any) -> Any:
    """That of the samples, scaled by the bandwidth."""
    centred = self.dataset - np.sum(self.dataset * weights, axis=1, keepdims=True)
    return (centred * weights) @ centred.T / (1 - np.sum(weights * weights)) * self.factor**2


patch(gaussian_kde, "__init__", _init)


def _terms(self: Any, points: Any) -> tuple[Any, Any, Any]:
    """The weights of the samples, half the squared distances (point, sample), the logarithm of the constant."""
    points, d, n = inexact(points), self.d, self.n
    points = np.reshape(points, (1, -1)) if len(shape_of(points)) < 2 else points
    if shape_of(points)[0] != d:
        points = np.reshape(points, (d, 1))
    weights = self.__dict__.get("_weights")
    weights = np.full(n, 1 / n) if weights is None else weights
    factor = np.linalg.cholesky(_covariance(self, weights))
    left, right = np.linalg.solve(factor, points), np.linalg.solve(factor, self.dataset)
    half = 0.5 * np.sum((left[:, :, None] - right[:, None, :]) ** 2, axis=0)
    return weights, half, d / 2 * math.log(2 * math.pi) + np.sum(np.log(np.diagonal(factor)))


def _density(self: Any, points: Any) -> Any:
    weights, half, log = _terms(self, points)
    return np.sum(weights * np.exp(-half - log), axis=1)


def _log_density(self: Any, x: Any) -> Any:
    weights, half, log = _terms(self, x)
    return logsumexp(np.log(weights) - half, axis=1) - log


states[gaussian_kde] = lambda kde: (kde.dataset, kde.__dict__.get("_weights", 0), kde.factor)
_kde = stats.gaussian_kde([0.0, 1.0, 3.0, 4.5])
_points: Cases = lambda s: [case(_kde, s(3)), case(_kde, s(1))]  # noqa: E731
for _name in ("evaluate", "pdf", "__call__"):
    expanded(patch(gaussian_kde, _name, holds=_HOLDS), cases=_points)(_density)
expanded(patch(gaussian_kde, "logpdf", holds=_HOLDS), cases=_points)(_log_density)
