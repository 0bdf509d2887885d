"""Functions of samples in ``scipy.stats``: entropies, circular means, distances, transformations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.registry import Cases, case
from yota_py.registry.tangents import astype

from ..support import count_along, dtype_of, inexact, promoted, shape_of, stop_gradient, unsupported
from .stats_formulas import _exp
from .stats_samples import sampled

# ---------------------------------------------------------------------------------------------------------- entropies


@sampled("entropy", lambda s: [
    case(s(4, low=0.2)), case(s(4, low=0.2), s(4, low=0.2)), case(s(2, 3, low=0.2), base=2.0, axis=1),
    case(s(4, 3, low=0.2), s(4, 1, low=0.2)), case(s(3, low=0.2, dtype=np.float32)),
])  # fmt: skip
def _entropy(pk: Any, qk: Any = None, base: float | None = None, axis: Any = 0, keepdims: bool = False) -> Any:
    """Of sums without their scale, S(p / s) = S(p) / s + log s: a zero among them has an infinite slope of its own, and
    none through the others."""
    pk = inexact(pk)
    options = {"axis": axis, "keepdims": keepdims}
    if qk is None:
        total = np.sum(pk, **options)
        y = np.sum(special.entr(pk), **options) / total + np.log(total)
    else:
        shape = np.broadcast_shapes(shape_of(pk), shape_of(qk := inexact(qk)))
        pk, qk = np.broadcast_to(pk, shape), np.broadcast_to(qk, shape)
        total = np.sum(pk, **options)
        y = np.sum(special.rel_entr(pk, qk), **options) / total + np.log(np.sum(qk, **options)) - np.log(total)
    return y if base is None else y / math.log(base)


@sampled("differential_entropy", lambda s: [
    case(s(9)), case(s(12)), case(s(12), window_length=3, base=2.0, method="vasicek"), case(s(2, 9), axis=1),
])  # fmt: skip
def _differential_entropy(values: Any, window_length: int | None = None, base: float | None = None, axis: int = 0,
                          method: str = "auto", keepdims: bool = False) -> Any:  # fmt: skip
    """Vasicek 1976; van Es 1992; Ebrahimi, Pflughoeft & Soofi 1994."""
    x = np.sort(np.moveaxis(inexact(values), axis, -1), axis=-1)
    n = shape_of(x)[-1]
    m = math.floor(math.sqrt(n) + 0.5) if window_length is None else window_length
    if method == "auto":
        method = "van es" if n <= 10 else "ebrahimi" if n <= 1000 else "vasicek"
    if not 2 <= 2 * m < n or method not in ("van es", "ebrahimi", "vasicek"):
        raise unsupported("scipy.stats.differential_entropy with this method or window", "Take another one")
    if method == "van es":
        y = np.mean(np.log((n + 1) / m * (x[..., m:] - x[..., :-m])), axis=-1)
        y = y + sum(1 / k for k in range(m, n + 1)) + math.log(m) - math.log(n + 1)
    else:
        spaced = x[..., np.minimum(np.arange(n) + m, n - 1)] - x[..., np.maximum(np.arange(n) - m, 0)]
        i = np.arange(1, n + 1)
        ends = np.where(i <= m, 1 + (i - 1) / m, np.where(i <= n - m, 2, 1 + (n - i) / m))
        y = np.mean(np.log(n * spaced / ((ends if method == "ebrahimi" else 2) * m)), axis=-1)
    y = astype(y if base is None else y / math.log(base), dtype_of(x))
    return np.expand_dims(y, axis) if keepdims else y


# ---------------------------------------------------------------------------------------------------- circular means


def _resultant(samples: Any, high: Any, low: Any, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    turned = inexact(samples) * (2.0 * math.pi / (high - low))
    return (np.mean(np.sin(turned), axis=axis, keepdims=keepdims),
            np.mean(np.cos(turned), axis=axis, keepdims=keepdims))  # fmt: skip


_circular: Cases = lambda s: [  # noqa: E731
    case(s(5)), case(50 * s(5), 180.0), case(s(4, 3), high=3.0, low=-1.0, axis=0), case(s(4, dtype=np.float32)),
]  # fmt: skip


@sampled("circmean", _circular)
def _circmean(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, keepdims: bool = False) -> Any:
    s, c = _resultant(samples, high, low, axis, keepdims)
    return (np.arctan2(s, c) * ((high - low) / (2.0 * math.pi)) - low) % (high - low) + low


@sampled("circvar", _circular)
def _circvar(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, keepdims: bool = False) -> Any:
    return 1.0 - np.hypot(*_resultant(samples, high, low, axis, keepdims))


@sampled("circstd", lambda s: [*_circular(s), case(s(5), normalize=True)])
def _circstd(samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, normalize: bool = False,
             keepdims: bool = False) -> Any:  # fmt: skip
    y = np.sqrt(-2 * np.log(np.hypot(*_resultant(samples, high, low, axis, keepdims))))
    return y if normalize else y * ((high - low) / (2.0 * math.pi))


# -------------------------------------------------------------------------------------- distances, transformations


def _distance(p: int, u: Any, v: Any, u_weights: Any, v_weights: Any) -> Any:
    """The integral of the difference of two distribution functions, which jump at the values."""
    u, v = inexact(u), inexact(v)
    everywhere = np.sort(np.concatenate([u, v]))
    difference = _jumps(u, u_weights, everywhere[:-1]) - _jumps(v, v_weights, everywhere[:-1])
    return np.sum((np.abs(difference) if p == 1 else difference * difference) * np.diff(everywhere))


def _jumps(x: Any, weights: Any, at: Any) -> Any:
    order = np.argsort(x)
    below = np.searchsorted(stop_gradient(x[order]), stop_gradient(at), "right")
    if weights is None:
        return below / shape_of(x)[0]
    total = np.concatenate([np.zeros(1), np.cumsum(inexact(weights)[order])])
    return total[below] / total[-1]


_two: Cases = lambda s: [  # noqa: E731
    case(s(3), s(2)), case(s(3), s(2), s(3, low=0.5), s(2, low=0.5)),
]  # fmt: skip


@sampled("wasserstein_distance", _two)
def _wasserstein(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    return _distance(1, u_values, v_values, u_weights, v_weights)


@sampled("energy_distance", _two)
def _energy(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    return np.sqrt(2) * np.sqrt(_distance(2, u_values, v_values, u_weights, v_weights))


def _power(x: Any, lmbda: Any, cls: str) -> Any:
    if lmbda is None:
        raise unsupported(f"scipy.stats.{cls}, which searches for lmbda,", "Give lmbda")
    return _exp(lmbda, x)


@sampled("boxcox", lambda s: [case(s(3, low=0.2), s.number()), case(s(3, low=0.2), 0.0)])
def _boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    x = inexact(x)
    return astype(_power(np.log(x), lmbda, "boxcox"), promoted(x, lmbda))


@sampled("yeojohnson", lambda s: [case(s(3), s.number(0.1, 1.9)), case(np.array([0.5, -1.0]), 0.0)])
def _yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Yeo & Johnson 2000."""
    x = inexact(x)
    above, below = _logs(x)
    y = np.where(x >= 0, _power(above, lmbda, "yeojohnson"), -_exp(2 - lmbda, below))
    return astype(y, promoted(x, lmbda))


def _logs(x: Any) -> tuple[Any, Any]:
    """``log(1 + abs(x))`` of what is not below zero, and of what is; of all else zero."""
    return np.log1p(np.where(x >= 0, x, 0)), np.log1p(np.where(x >= 0, 0, -x))


@sampled("boxcox_llf", lambda s: [
    case(s.number(), s(4, 2, low=0.2)), case(0.0, s(3, low=0.2)),
])  # fmt: skip
def _boxcox_llf(lmb: Any, data: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    logs = np.log(inexact(data))
    n, var = count_along(shape_of(logs), axis), np.var(_exp(lmb, logs), axis=axis, keepdims=keepdims)
    var = astype(var, promoted(lmb, logs))
    return (lmb - 1) * np.sum(logs, axis=axis, keepdims=keepdims) - n / 2 * np.log(var)


@sampled("yeojohnson_llf", lambda s: [case(s.number(0.1, 1.9), s(4, 2), axis=1)])
def _yeojohnson_llf(lmb: Any, data: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    data = inexact(data)
    n, var = count_along(shape_of(data), axis), np.var(_yeojohnson(data, lmb), axis=axis, keepdims=keepdims)
    slope = np.sum(np.subtract(*_logs(data)), axis=axis, keepdims=keepdims)
    return (lmb - 1) * slope - n / 2 * np.log(var)
