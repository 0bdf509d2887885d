"""Metrics of ``scipy.spatial.distance`` along the last axis: of two vectors, or of all pairs of rows at once.

Each takes points ``u`` and ``v`` that broadcast, and its keywords. Where a distance is zero, so are its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.tangents import astype

from ..norms import size_power
from ..support import dtype_of, inexact, quotient, shape_of, stop_gradient

Metric = Callable[..., Any]


def root(x: Any, p: Any = 2) -> Any:
    """``x ** (1 / p)``, and zero with all derivatives where ``x`` is zero."""
    nowhere = np.equal(x, 0)
    positive = np.where(nowhere, 1, x)
    y = np.sqrt(positive) if type(p) in (int, float) and p == 2 else np.power(positive, np.divide(1, p))
    return np.where(nowhere, 0, y)[()]


def weights(w: Any) -> Any:
    """Weights as SciPy takes them: of double precision, and not negative."""
    w = np.multiply(np.float64(1), inexact(w))
    if np.ndim(w) != 1:
        raise ValueError("Input vector should be 1-D.")
    if np.any(w < 0):
        raise ValueError("Input weights should be all non-negative")
    return w


def weighted(x: Any, w: Any) -> Any:
    return x if w is None else np.multiply(weights(w), x)


def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """``sum(w |u - v|**p) ** (1/p)``; of order infinity, the largest size with a weight."""
    if p <= 0:
        raise ValueError("p must be greater than 0")
    d = u - v
    if w is None or p == np.inf:
        d = d if w is None else np.where(np.not_equal(weights(w), 0), d, 0)
        return np.linalg.norm(d, int(p) if type(p) is float and p.is_integer() else p, axis=-1)
    return root(np.sum(weighted(size_power(d, p), w), axis=-1), p)


def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    return np.sum(weighted((u - v) * (u - v), w), axis=-1)


def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return np.sum(weighted(np.abs(u - v), w), axis=-1)


def cosine(u: Any, v: Any, w: Any = None, centered: bool = False) -> Any:
    """``1 - <u, v> / (|u| |v|)``. It is clipped to 0 ... 2, as rounding takes it out of that, and its derivatives are
    those without: it is smooth where vectors coincide."""
    if w is not None:
        w = weights(w)
        w = w / np.sum(w)
    if centered:
        u, v = (x - (np.mean(x, -1, keepdims=True) if w is None else np.sum(x * w, -1, keepdims=True)) for x in (u, v))
    dot = [np.sum(a * b if w is None else a * b * w, axis=-1) for a, b in ((u, v), (u, u), (v, v))]
    y = 1.0 - dot[0] / np.sqrt(dot[1] * dot[2])
    return y + (np.clip(stop_gradient(y), 0.0, 2.0) - stop_gradient(y))


def canberra(u: Any, v: Any, w: Any = None) -> Any:
    """``sum(w |u - v| / (|u| + |v|))``, where 0 / 0 is 0."""
    size = np.abs(u) + np.abs(v)
    return np.sum(weighted(quotient(np.abs(u - v), size, np.equal(size, 0)), w), axis=-1)


def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    return np.sum(weighted(np.abs(u - v), w), axis=-1) / np.sum(weighted(np.abs(u + v), w), axis=-1)


def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    d = u - v
    return root(np.sum(np.matmul(d, VI) * d, axis=-1))


def seuclidean(u: Any, v: Any, V: Any) -> Any:
    d = (u - v) / np.sqrt(V)
    return root(np.sum(d * d, axis=-1))


def jensenshannon(p: Any, q: Any, base: Any = None, axis: int = -1, keepdims: bool = False) -> Any:
    """``sqrt((D(p, m) + D(q, m)) / 2)`` of ``p`` and ``q`` divided by their sums, with ``m`` their mean.

    Each divergence is written in what is not divided yet, ``D(p, m) = sum(rel_entr(p, (p + q s/t) / 2)) / s`` with
    the sums s and t: so a slope that is infinite where an element is zero stays with this element.
    """
    s, t = np.sum(p, axis=axis, keepdims=True), np.sum(q, axis=axis, keepdims=True)
    nowhere = np.logical_and(np.equal(p, 0), np.equal(q, 0))
    p, q = np.where(nowhere, 1, p), np.where(nowhere, 1, q)

    def divergence(p: Any, q: Any, s: Any, t: Any) -> Any:
        return np.where(nowhere, 0, special.rel_entr(p, (p + q * (s / t)) / 2) / s)

    y = np.sum(divergence(p, q, s, t) + divergence(q, p, t, s), axis=axis, keepdims=keepdims)
    if base is not None:  # in place, but of numbers
        y = astype(y / np.log(base), dtype_of(y)) if shape_of(y) else y / np.log(base)
    return root(y / 2)


def hamming(u: Any, v: Any, w: Any = None) -> Any:
    unequal = np.where(np.not_equal(u, v), 1.0, 0.0)
    return np.mean(unequal, axis=-1) if w is None else np.sum(weighted(unequal, w), axis=-1) / np.sum(weights(w))


def jaccard(u: Any, v: Any, w: Any = None) -> Any:
    a, b = np.not_equal(u, 0), np.not_equal(v, 0)
    unequal, some = (np.sum(weighted(np.where(x, 1.0, 0.0), w), axis=-1) for x in (a ^ b, a | b))
    return quotient(unequal, some, np.equal(some, 0))[()]


def _of_counts(fn: Callable[..., Any]) -> Metric:
    """A metric of truth values, ``fn`` of the sums of weights where both, only ``u``, only ``v`` and none is true.

    Of fractions, all are as true as they say.
    """

    def metric(u: Any, v: Any, w: Any = None) -> Any:
        return fn(*(np.sum(weighted(x, w), axis=-1) for x in (u * v, u * (1 - v), (1 - u) * v, (1 - u) * (1 - v))))

    return metric


COUNTS: dict[str, Metric] = {
    "dice": _of_counts(lambda tt, tf, ft, ff: (tf + ft) / (2 * tt + tf + ft)),
    "rogerstanimoto": _of_counts(lambda tt, tf, ft, ff: 2 * (tf + ft) / (tt + ff + 2 * (tf + ft))),
    "russellrao": _of_counts(lambda tt, tf, ft, ff: (tf + ft + ff) / (tt + tf + ft + ff)),
    "sokalsneath": _of_counts(lambda tt, tf, ft, ff: 2 * (tf + ft) / (tt + 2 * (tf + ft))),
    "yule": _of_counts(lambda tt, tf, ft, ff: quotient(2 * tf * ft, tt * ff + tf * ft, np.equal(tf * ft, 0))[()]),
    "hamming": hamming,
    "jaccard": jaccard,
}

# Those of which ``cdist`` and ``pdist`` take fractions as they are, not as true.
OF_FRACTIONS = ("hamming", "dice")


def dice_of_pairs(u: Any, v: Any, w: Any) -> Any:
    """Dice's metric as SciPy has it for pairs of rows with weights: of where two numbers differ and where none is 0."""
    both = np.logical_and(np.not_equal(u, 0), np.not_equal(v, 0))
    unequal, tt = (np.sum(weighted(np.where(x, 1.0, 0.0), w), axis=-1) for x in (np.not_equal(u, v), both))
    return unequal / (2 * tt + unequal)


# By the first of their names.
METRICS: dict[str, Metric] = {
    "minkowski": minkowski, "euclidean": partial(minkowski, p=2), "chebyshev": partial(minkowski, p=np.inf),
    "sqeuclidean": sqeuclidean, "cityblock": cityblock, "cosine": cosine, "correlation": partial(cosine, centered=True),
    "canberra": canberra, "braycurtis": braycurtis, "mahalanobis": mahalanobis, "seuclidean": seuclidean,
    "jensenshannon": jensenshannon,
}  # fmt: skip
