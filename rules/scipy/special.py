"""Functions of ``scipy.special``. Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from yota_py.base.dispatch import find_traced
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, primitive, scalar_rule, vjps
from yota_py.registry.tangents import MISSING, astype, conj, strong_multiply

from ..elementwise import LN2, LN10, POSITIVE, REAL, UNIT, bell, difference, elementwise
from ..python_math import SQRT_PI, gamma_of_number, lgamma_of_number
from ..raising import of_error
from ..samples import Domain, numbers
from ..support import (
    Pullback,
    dtype_of,
    inexact,
    operand,
    quotient,
    rule_of,
    rule_of_primitives,
    shape_of,
    stop_gradient,
    unsupported,
)

SQRT_2, SQRT_2_PI = math.sqrt(2), math.sqrt(2 / math.pi)
FRACTION: Domain = (0.1, 0.9)

# ------------------------------------------------------------------------------------ sigmoid, logarithms

elementwise(special.expit, lambda y, x: bell(x), kernel="expit", on=[REAL])
elementwise(special.log_expit, lambda y, x: special.expit(-x), kernel="log_expit", on=[REAL])
elementwise(special.logit, lambda y, x: np.divide(1, x * (1 - x)), kernel="logit", on=[FRACTION])
elementwise(special.log1p, lambda y, x: np.divide(1, 1 + x), kernel="log1p", on=[UNIT], complex=True)
elementwise(special.expm1, lambda y, x: np.exp(x), kernel="expm1", on=[REAL], complex=True)
elementwise(special.exp2, lambda y, x: y * LN2, kernel="exp2", on=[REAL])
elementwise(special.exp10, lambda y, x: y * LN10, kernel=lambda k, x: k.pow(k.const(10, x), x), on=[REAL])
elementwise(special.cbrt, lambda y, x: np.divide(1, 3 * y * y), kernel="cbrt", on=[POSITIVE])
elementwise(special.cosm1, lambda y, x: -np.sin(x), on=[REAL])


def _log_or_zero(k: Any, log: Callable[[Any], Any], x: Any, y: Any) -> Any:
    zero = k.const(0, x)
    return k.select(k.logical_and(k.eq(x, zero), k.logical_not(k.isnan(y))), zero, k.mul(x, log(y)))


# x log(y) is 0 at x = 0 for any y, so its derivative in y is zero there.
elementwise(special.xlogy, lambda y, a, b: np.log(b), lambda y, a, b: _quotient(a, b), on=[REAL, POSITIVE],
            kernel=lambda k, x, y: _log_or_zero(k, k.log, x, y))  # fmt: skip
elementwise(special.xlog1py, lambda y, a, b: np.log1p(b), lambda y, a, b: _quotient(a, 1 + b), on=[REAL, POSITIVE],
            kernel=lambda k, x, y: _log_or_zero(k, k.log1p, x, y))  # fmt: skip
elementwise(special.entr, lambda y, x: -np.log(x) - 1, on=[POSITIVE])
elementwise(special.rel_entr, lambda y, a, b: np.log(np.divide(a, b)) + 1, lambda y, a, b: -np.divide(a, b),
            on=[POSITIVE, POSITIVE])  # fmt: skip
elementwise(special.kl_div, lambda y, a, b: np.log(np.divide(a, b)), lambda y, a, b: np.divide(b - a, b),
            on=[POSITIVE, POSITIVE])  # fmt: skip


def _quotient(a: Any, b: Any) -> Any:
    """``a / b``, and zero if both are zero."""
    return quotient(a, b, np.logical_and(np.equal(a, 0), np.equal(b, 0)))


# --------------------------------------------------------------------------- error and normal functions (7.2)

elementwise(special.erf, lambda y, x: 2 / SQRT_PI * np.exp(-x * x), kernel="erf", on=[REAL])
elementwise(special.erfc, lambda y, x: -2 / SQRT_PI * np.exp(-x * x), kernel="erfc", on=[REAL])
elementwise(special.erfcx, lambda y, x: _unless_far(x, 2 * x * y - 2 / SQRT_PI, 2 / SQRT_PI, -1), on=[REAL])
elementwise(special.erfi, lambda y, x: 2 / SQRT_PI * np.exp(x * x), on=[REAL])
elementwise(special.erfinv, lambda y, x: SQRT_PI / 2 * np.exp(y * y), on=[UNIT])
elementwise(special.erfcinv, lambda y, x: -SQRT_PI / 2 * np.exp(y * y), on=[FRACTION])
elementwise(special.dawsn, lambda y, x: _unless_far(x, 1 - 2 * x * y, -1, 1), on=[REAL])
elementwise(special.ndtr, lambda y, x: _normal(x * x), on=[REAL])
elementwise(special.ndtri, lambda y, x: np.divide(1, _normal(y * y)), on=[FRACTION])
elementwise(special.log_ndtr, lambda y, x: mills(x), on=[REAL])


@primitive
def mills(x: Any) -> Any:
    """The normal density over the distribution function, which is about -x far to the left."""
    return np.divide(SQRT_2_PI, special.erfcx(-x / SQRT_2))


elementwise(mills, lambda y, x: _unless_far(-x / SQRT_2, -y * (x + y), y * y, -1), on=[REAL])


def _unless_far(x: Any, slope: Any, scale: Any, sign: int) -> Any:
    """A slope, and where that would cancel scale * (sign/z + 3/z**2 + 15 sign/z**3 + ...) with z = 2 x**2."""
    if dtype_of(x).kind == "c":  # the series does not hold in all directions
        return slope
    far = x > 8 if sign < 0 else np.abs(x) > 8
    u = np.divide(sign, 2 * np.square(np.where(far, x, 8)))
    series = 1.0
    for n in range(29, 1, -2):
        series = 1 + n * u * series
    return np.where(far, scale * u * series, slope)


def _normal(square: Any) -> Any:
    return np.exp(-0.5 * square) / math.sqrt(2 * math.pi)


# ------------------------------------------------------- gamma function and relatives (5.2, 5.15)

polygamma = patch(special, "polygamma")

elementwise(special.gamma, lambda y, x: y * special.digamma(x), on=[POSITIVE], python=gamma_of_number)


def _gammaln(k: Any, x: Any) -> Any:
    """C's function is inf at -inf, SciPy's -inf."""
    return k.select(k.eq(x, k.const(-math.inf, x)), x, k.lgamma(x))


elementwise(special.gammaln, lambda y, x: special.digamma(x), kernel=_gammaln, on=[POSITIVE])
scalar_rule(lgamma_of_number, lambda y, x: special.digamma(x), kernel="lgamma", raises=of_error,
            cases=numbers(POSITIVE))  # fmt: skip
elementwise(special.loggamma, lambda y, x: special.digamma(x), on=[POSITIVE])


def rgamma_slope(y: Any, x: Any) -> Any:
    """To the left by reflection, ``1 / gamma(x) = gamma(1 - x) sin(pi x) / pi``: gamma has poles, this has none."""
    left = np.less(x, 0.5)
    z, right = np.where(left, x, 0), np.where(left, 1, x)
    turn = np.pi * (z - 2 * np.round(np.real(z) / 2))
    reflected = special.gamma(1 - z) * (np.cos(turn) - special.digamma(1 - z) * np.sin(turn) / np.pi)
    return np.where(left, reflected, -special.rgamma(right) * special.digamma(right))


elementwise(special.rgamma, rgamma_slope, on=[POSITIVE])


def _trigamma(y: Any, x: Any) -> Any:
    if dtype_of(x).kind == "c":
        raise unsupported("scipy.special.digamma of complex numbers", "SciPy has polygamma of real numbers only")
    return polygamma(1, x)


elementwise(special.digamma, _trigamma, on=[POSITIVE])
elementwise(special.beta, lambda y, a, b: y * _beta_slope(a, b), lambda y, a, b: y * _beta_slope(b, a),
            on=[POSITIVE, POSITIVE])  # fmt: skip
elementwise(special.betaln, lambda y, a, b: _beta_slope(a, b), lambda y, a, b: _beta_slope(b, a),
            on=[POSITIVE, POSITIVE])  # fmt: skip


def _beta_slope(a: Any, b: Any) -> Any:
    return special.digamma(a) - special.digamma(np.add(a, b))


vjps(polygamma, MISSING, lambda dy, y, n, x: dy * polygamma(n + 1, x), cases=lambda s: [
    case(1, s(3, low=0.5)), case(s.integers(3, low=1, high=4), s(3, low=0.5)), case(2, 1.3),
])  # fmt: skip


# ------------------------------------------------------------------------------------ logsumexp and softmax
# These do not dispatch; their rules are compositions, value included, so that a lowered tape holds primitives only.
# Their pullbacks are formulas in the result, which neither divide nor take a logarithm again.


def _stand_in(name: str) -> Callable[..., Any]:
    """A primitive in the place of ``scipy.special.<name>``, which also takes a list of traced numbers."""
    prim: Callable[..., Any] = primitive(getattr(special, name))

    def stand_in(x: Any, *args: Any, **kwargs: Any) -> Any:
        listed = isinstance(x, list | tuple) and find_traced(x) is not None
        return prim(np.stack(x) if listed else x, *args, **kwargs)

    patch(special, name, stand_in)
    return prim


logsumexp, softmax, log_softmax = map(_stand_in, ("logsumexp", "softmax", "log_softmax"))


def _exponentials(a: Any, axis: Any, b: Any) -> tuple[Any, Any, Any]:
    """The largest element m, ``exp(a - m)`` with its weight (one where a is m, though both be infinite), the sum.

    Nothing depends on m, which therefore is a constant; what has the weight zero counts as nothing even if it is
    infinite, though its derivative in the weight does not.
    """
    x = np.real(a) if dtype_of(a).kind == "c" else a
    if b is not None:
        x = np.where(np.equal(b, 0), -np.inf, x)
    m = stop_gradient(np.max(x, axis=axis, keepdims=True, **_EMPTY if 0 in shape_of(x) else {}))
    e = np.exp(difference(a, m))
    weighted = e if b is None else strong_multiply(b, e)
    return m, e, weighted


_EMPTY: Any = {"initial": -np.inf}


def _dropped(y: Any, axis: Any, keepdims: bool) -> Any:
    if keepdims or not isinstance(y, np.ndarray):
        return y
    return np.squeeze(y, axis=axis)[()]


@rule_of_primitives(logsumexp, cases=lambda s: [
    case(s(3, 4)), case(s(3, 4), 0), case(s(3, 4), axis=-1, keepdims=True), case(s(3, 4), axis=(0, 1)), case(s(5)),
    case(s(3, 4), 1, s(3, 4, low=0.5)), case(s(3, 4), 1, s(4, low=0.5)), case(s(4, dtype=np.float32)), case(s(1)),
    case(s(3, 4), 1, s(3, 4), False, True), case(s(2, 3, 4), axis=1), case(s(3), b=np.array([0.5, 0.0, 1.0])),
    case(s(3, dtype=complex)), case(s(2, 3, dtype=complex), 1, s(2, 3)), case(s(3), None, s(3, dtype=complex)),
    case(s(2, 3, dtype=complex), 0, s(2, 3, dtype=complex), False, True), case(np.zeros(3)), case(np.ones((2, 2)), 1),
    case(np.array([0.3, -1.2, 0.8]), None, np.array([0.5, 0.0, 1.0])), case(s(3), None, s(3), True, True),
])  # fmt: skip
def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> tuple[Any, Pullback]:
    x, b = inexact(a), None if b is None else operand(b)
    m, e, weighted = _exponentials(x, axis, b)
    s = np.sum(weighted, axis=axis, keepdims=True)
    logs = _dropped(np.log(np.abs(s) if return_sign else s) + m, axis, keepdims)
    if return_sign and not np.size(x):  # of nothing, SciPy gives the logarithm as it gives the sign
        logs = astype(logs, dtype_of(s))
    sign, from_sign = rule_of(np.sign, s)

    def pullback(dy: Any) -> Sequence[Any]:
        dlogs, dsign = dy if return_sign else (dy, None)
        ds = None if dlogs is None else np.reshape(dlogs, shape_of(s)) / conj(s)
        if dsign is not None and (turned := from_sign(np.reshape(dsign, shape_of(s)))[0]) is not None:
            ds = turned if ds is None else ds + turned
        if ds is None:
            return None, None, None
        return ds * conj(weighted), None, None if b is None else strong_multiply(ds, conj(e))

    return ((logs, _dropped(sign, axis, keepdims)) if return_sign else logs), pullback


_softmax_cases = lambda s: [  # noqa: E731
    case(s(3, 4)), case(s(3, 4), 0), case(s(3, 4), axis=-1), case(s(5)), case(s(4, dtype=np.float32)),
    case(s(2, 3, 4), (1, 2)), case(s(2, 3, dtype=complex), 1), case(s(3, dtype=complex)), case(np.zeros((2, 3)), 1),
]  # fmt: skip


@rule_of_primitives(softmax, cases=_softmax_cases)
def _softmax(x: Any, axis: Any = None) -> tuple[Any, Pullback]:
    """dy/dx is diag(y) - y y^T along the axis."""
    e = np.exp(x - stop_gradient(np.max(x, axis=axis, keepdims=True)))
    y = e / np.sum(e, axis=axis, keepdims=True)
    return y, lambda dy: (conj(y) * (dy - np.sum(dy * conj(y), axis=axis, keepdims=True)),)


@rule_of_primitives(log_softmax, cases=_softmax_cases)
def _log_softmax(x: Any, axis: Any = None) -> tuple[Any, Pullback]:
    """dy/dx is I - softmax(x) 1^T along the axis."""
    m = np.max(x, axis=axis, keepdims=True)
    shifted = x - stop_gradient(np.where(np.isfinite(m), m, 0))
    y = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return y, lambda dy: (dy - np.exp(conj(y)) * np.sum(dy, axis=axis, keepdims=True),)
