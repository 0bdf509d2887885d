"""Elementwise functions: arithmetic, exponentials, trigonometry, comparisons, rounding.

A row of the tables reads: function, one partial derivative per argument as a function of ``(y, *args)``, its kernel,
the domain that its tests draw from, the same function on Python numbers, and when that raises an exception.
Conventions for ties and singular points stand in ``docs/conventions.md``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from yota_py.base.dispatch import is_traced
from yota_py.registry.kernels import Emitter, Map, named
from yota_py.registry.patches import patch
from yota_py.registry.registry import Cases, case, describe, nondiff, primitive, scalar_rule, vjps
from yota_py.registry.tangents import conj, is_inexact, strong_multiply

from . import parts
from .raising import at_infinity, by_zero, of_error
from .samples import Domain, arrays, numbers
from .support import dtype_of, operand, zero_over_zero

REAL: Domain = (-2.0, 2.0)
POSITIVE: Domain = (0.2, 3.0)
UNIT: Domain = (-0.9, 0.9)
ABOVE_ONE: Domain = (1.2, 3.0)

LN2, LN10, DEGREE = math.log(2.0), math.log(10.0), math.pi / 180.0


def elementwise(
    fn: Callable[..., Any],
    *partials: Any,
    on: Sequence[Domain],
    kernel: Map | Emitter | str | None = None,
    python: Callable[..., Any] | str | None = None,
    complex: bool | Callable[..., Any] = False,
    raises: Callable[..., Any] | None = None,
) -> None:
    """A row of a table: ``scalar_rule`` with its test cases, also for the function of Python numbers (of ``math``, if
    it is a name), which may raise exceptions. What ``complex`` numbers give is perhaps written in their parts."""
    alias = patch(math, python) if isinstance(python, str) else python
    scalar_rule(fn, *partials, kernel=kernel, parts=complex if callable(complex) else None,
                aliases=[alias] if alias else [], cases=arrays(*on, complex=bool(complex)))  # fmt: skip
    if alias:
        describe(alias, cases=numbers(*on), raises=raises)


# -------------------------------------------------------------------------------------------- arithmetic

_division = partial(Map, integers=True, heavy=True)
elementwise(np.add, 1, 1, kernel=Map("add", integers=True), on=[REAL, REAL], python=operator.add, complex=parts.add)
elementwise(np.subtract, 1, -1, kernel=Map("sub", integers=True), on=[REAL, REAL], python=operator.sub,
            complex=parts.subtract)  # fmt: skip
elementwise(np.multiply, lambda y, a, b: b, lambda y, a, b: a, kernel=Map("mul", integers=True), on=[REAL, REAL],
            python=operator.mul, complex=parts.multiply)  # fmt: skip
elementwise(np.divide, lambda y, a, b: np.divide(1, b), lambda y, a, b: np.divide(-y, b), kernel=Map("div", light=True),
            on=[REAL, POSITIVE], python=operator.truediv, raises=by_zero, complex=parts.divide)  # fmt: skip
elementwise(np.negative, -1, kernel=Map("neg", integers=True), on=[REAL], python=operator.neg, complex=parts.negative)
elementwise(np.positive, 1, kernel=Map(integers=True), on=[REAL], python=operator.pos, complex=True)
elementwise(np.square, lambda y, x: 2 * x, kernel=Map("square", integers=True), on=[REAL], complex=parts.square)
elementwise(np.reciprocal, lambda y, x: -y * y, kernel=Map("reciprocal", light=True), on=[POSITIVE],
            complex=parts.reciprocal)  # fmt: skip
elementwise(np.sqrt, lambda y, x: np.divide(0.5, y), kernel=Map("sqrt", light=True), on=[POSITIVE], python="sqrt",
            raises=lambda y, x: x < 0, complex=parts.sqrt)  # fmt: skip
elementwise(np.cbrt, lambda y, x: np.divide(1, 3 * y * y), kernel="cbrt", on=[POSITIVE], python="cbrt")
elementwise(np.fabs, lambda y, x: np.sign(x), kernel="abs", on=[REAL], python="fabs")
elementwise(np.hypot, lambda y, a, b: zero_over_zero(a, y), lambda y, a, b: zero_over_zero(b, y), kernel="hypot",
            on=[REAL, POSITIVE])  # fmt: skip
elementwise(np.copysign, lambda y, a, b: np.sign(a) * np.copysign(1, b), None, kernel="copysign", on=[REAL, POSITIVE],
            python="copysign")  # fmt: skip
elementwise(np.remainder, 1, lambda y, a, b: -np.floor_divide(a, b), kernel=_division("remainder"),
            on=[REAL, POSITIVE], python=operator.mod, raises=by_zero)  # fmt: skip
elementwise(np.fmod, 1, lambda y, a, b: -np.trunc(np.divide(a, b)), kernel=_division("fmod"), on=[REAL, POSITIVE],
            python="fmod", raises=of_error)  # fmt: skip


def _to_radians(k: Any, x: Any) -> Any:
    return k.mul(x, k.const(DEGREE, x))


def _to_degrees(k: Any, x: Any) -> Any:
    return k.mul(x, k.const(1 / DEGREE, x))


elementwise(np.deg2rad, DEGREE, kernel=_to_radians, on=[REAL], python="radians")
elementwise(np.radians, DEGREE, kernel=_to_radians, on=[REAL])
elementwise(np.rad2deg, 1 / DEGREE, kernel=_to_degrees, on=[REAL], python="degrees")
elementwise(np.degrees, 1 / DEGREE, kernel=_to_degrees, on=[REAL])

# The gradient is dL/dRe + i dL/dIm, so that of |x| is the unit number x/|x|; partials get conjugated.
elementwise(np.absolute, lambda y, x: conj(zero_over_zero(x, y)) if np.iscomplexobj(x) else np.sign(x),
            kernel=Map("abs", integers=True), on=[REAL], python=operator.abs, complex=parts.absolute)  # fmt: skip

# ------------------------------------------------------------------------------ exponentials, logarithms

elementwise(np.exp, lambda y, x: y, kernel="exp", on=[REAL], python="exp", raises=of_error, complex=parts.exp)
elementwise(np.exp2, lambda y, x: y * LN2, kernel="exp2", on=[REAL], python="exp2", raises=of_error, complex=True)
elementwise(np.expm1, lambda y, x: np.exp(x), kernel="expm1", on=[REAL], python="expm1", raises=of_error, complex=True)
elementwise(np.log, lambda y, x: np.divide(1, x), kernel="log", on=[POSITIVE], complex=parts.log)
elementwise(np.log2, lambda y, x: np.divide(1 / LN2, x), kernel="log2", on=[POSITIVE], python="log2",
            raises=lambda y, x: x <= 0, complex=True)  # fmt: skip
elementwise(np.log10, lambda y, x: np.divide(1 / LN10, x), kernel="log10", on=[POSITIVE], python="log10",
            raises=lambda y, x: x <= 0, complex=True)  # fmt: skip
elementwise(np.log1p, lambda y, x: np.divide(1, 1 + x), kernel="log1p", on=[UNIT], python="log1p",
            raises=lambda y, x: x <= -1, complex=True)  # fmt: skip
elementwise(np.logaddexp, lambda y, a, b: _first_share(a, b, 1), lambda y, a, b: _first_share(b, a, 1),
            kernel="logaddexp", on=[REAL, REAL])  # fmt: skip
elementwise(np.logaddexp2, lambda y, a, b: _first_share(a, b, LN2), lambda y, a, b: _first_share(b, a, LN2),
            kernel="logaddexp2", on=[REAL, REAL])  # fmt: skip


def _first_share(a: Any, b: Any, scale: float) -> Any:
    return sigmoid(difference(a, b) * scale)


@primitive
def difference(a: Any, b: Any) -> Any:
    """``a - b``, and zero for infinities that are equal."""
    return np.where(np.equal(a, b), 0, np.subtract(a, b))[()]


def _difference(k: Any, a: Any, b: Any) -> Any:
    return k.select(k.eq(a, b), k.const(0, a), k.sub(a, b))


# A function of its own: the ``where`` would cut its derivative off where a and b are equal.
elementwise(difference, 1, -1, kernel=_difference, on=[REAL, REAL], complex=True)


@primitive
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))`` without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1)[()] / (1 + small)


@primitive
def bell(x: Any) -> Any:
    """The slope of the sigmoid, ``exp(-x) / (1 + exp(-x))**2``, which ``y * (1 - y)`` is not where y is nearly one."""
    small = np.exp(-np.abs(x))
    return small / np.square(1 + small)


def _bell(k: Any, x: Any) -> Any:
    small = k.exp(k.neg(k.abs(x)))
    return k.div(small, k.square(k.add(k.const(1, x), small)))


@primitive
def sech2(x: Any) -> Any:
    """The slope of tanh, ``1 / cosh(x)**2``, which ``1 - y * y`` is not where y is nearly one."""
    return np.square(np.reciprocal(np.cosh(x)))


def _sech2(k: Any, x: Any) -> Any:
    return k.mul(k.const(4, x), _bell(k, k.mul(k.const(2, x), x)))


elementwise(sigmoid, lambda y, x: bell(x), kernel="expit", on=[REAL])
elementwise(bell, lambda y, x: -y * np.tanh(x / 2), kernel=_bell, on=[REAL])
elementwise(sech2, lambda y, x: -2 * y * np.tanh(x), kernel=_sech2, on=[REAL])


# ------------------------------------------------------------------------ trigonometry, hyperbolic functions

def _from_one(x: Any) -> Any:
    """``sqrt(1 - x**2)``, on the cuts of complex numbers on the same side as the functions: signs of zeros are kept."""
    if np.iscomplexobj(x):
        return np.sqrt(-(x - 1)) * np.sqrt(1 + x)
    return np.sqrt((1 - x) * (1 + x))


elementwise(np.sin, lambda y, x: np.cos(x), kernel="sin", on=[REAL], python="sin", raises=at_infinity,
            complex=parts.sin)  # fmt: skip
elementwise(np.cos, lambda y, x: -np.sin(x), kernel="cos", on=[REAL], python="cos", raises=at_infinity,
            complex=parts.cos)  # fmt: skip
elementwise(np.tan, lambda y, x: 1 + y * y, kernel="tan", on=[UNIT], python="tan", raises=at_infinity, complex=True)
elementwise(np.arcsin, lambda y, x: np.divide(1, _from_one(x)), kernel="arcsin", on=[UNIT], python="asin",
            raises=lambda y, x: abs(x) > 1, complex=True)  # fmt: skip
elementwise(np.arccos, lambda y, x: np.divide(-1, _from_one(x)), kernel="arccos", on=[UNIT],
            python="acos", raises=lambda y, x: abs(x) > 1, complex=True)  # fmt: skip
elementwise(np.arctan, lambda y, x: np.divide(1, 1 + x * x), kernel="arctan", on=[UNIT], python="atan", complex=True)
elementwise(np.arctan2, lambda y, b, a: zero_over_zero(a, a * a + b * b),
            lambda y, b, a: zero_over_zero(-b, a * a + b * b), kernel="arctan2", on=[REAL, POSITIVE],
            python="atan2")  # fmt: skip
elementwise(np.sinh, lambda y, x: np.cosh(x), kernel="sinh", on=[REAL], python="sinh", raises=of_error,
            complex=parts.sinh)  # fmt: skip
elementwise(np.cosh, lambda y, x: np.sinh(x), kernel="cosh", on=[REAL], python="cosh", raises=of_error,
            complex=parts.cosh)  # fmt: skip
elementwise(np.tanh, lambda y, x: 1 - y * y if np.iscomplexobj(x) else sech2(x), kernel="tanh", on=[UNIT],
            python="tanh", complex=True)  # fmt: skip
elementwise(np.arcsinh, lambda y, x: np.divide(1, np.sqrt(1 + x * x)), kernel="arcsinh", on=[UNIT], python="asinh",
            complex=True)  # fmt: skip
elementwise(np.arccosh, lambda y, x: np.divide(1, np.sqrt(x - 1) * np.sqrt(x + 1)), kernel="arccosh", on=[ABOVE_ONE],
            python="acosh", raises=lambda y, x: x < 1, complex=True)  # fmt: skip
elementwise(np.arctanh, lambda y, x: np.divide(1, (1 - x) * (1 + x)), kernel="arctanh", on=[UNIT], python="atanh",
            raises=lambda y, x: abs(x) >= 1, complex=True)  # fmt: skip


def _sinc(k: Any, x: Any) -> Any:
    nowhere, t = k.eq(x, k.const(0, x)), k.mul(x, k.const(math.pi, x))
    return k.select(nowhere, k.const(1, x), k.div(k.sin(t), k.select(nowhere, k.const(1, x), t)))


def _sinc_slope(y: Any, x: Any) -> Any:
    """(cos(pi x) - sinc(x)) / x, and its series in t = pi x where the difference would cancel."""
    t = np.pi * x
    u = t * t
    near = np.abs(t) < 1.5
    series = 1 - u / 460
    for n in (378, 304, 238, 180, 130, 88, 54, 28, 10):
        series = 1 - u / n * series
    series = -np.pi / 3 * t * series
    return np.where(near, series, (np.cos(t) - y) / np.where(near, 1, x))


elementwise(np.sinc, _sinc_slope, kernel=_sinc, on=[REAL], complex=True)


# ------------------------------------------------------------------ nothing flows back: comparisons, rounding

_of_masks: Cases = lambda s: [case(s.mask(3, 4), s.mask(4)), case(s.mask(3), s.mask(3))]  # noqa: E731
_of_truths: Cases = lambda s: [*_of_masks(s), case(s(3), s.mask(3))]  # noqa: E731
_nowhere: list[tuple[Any, str, Any, Cases]] = [  # a ufunc, its kernel, the same on Python numbers, cases
    (np.less, "lt", operator.lt, arrays(REAL, REAL)), (np.less_equal, "le", operator.le, arrays(REAL, REAL)),
    (np.greater, "gt", operator.gt, arrays(REAL, REAL)), (np.greater_equal, "ge", operator.ge, arrays(REAL, REAL)),
    (np.equal, "eq", operator.eq, arrays(REAL, REAL)), (np.not_equal, "ne", operator.ne, arrays(REAL, REAL)),
    (np.bitwise_and, "bitwise_and", operator.and_, _of_masks), (np.bitwise_or, "bitwise_or", operator.or_, _of_masks),
    (np.bitwise_xor, "bitwise_xor", operator.xor, _of_masks), (np.isnan, "isnan", patch(math, "isnan"), arrays(REAL)),
    (np.isinf, "isinf", patch(math, "isinf"), arrays(REAL)), (np.floor, "floor", None, arrays(REAL)),
    (np.isfinite, "isfinite", patch(math, "isfinite"), arrays(REAL)), (np.ceil, "ceil", None, arrays(REAL)),
    (np.logical_and, "logical_and", None, _of_truths), (np.logical_or, "logical_or", None, _of_truths),
    (np.logical_xor, "logical_xor", None, _of_truths), (np.trunc, "trunc", None, arrays(REAL)),
]  # fmt: skip
_OF_PARTS = {np.equal: parts.equal, np.not_equal: parts.not_equal}
for _fn, _name, _python, _cases in _nowhere:
    nondiff(_fn, kernel=Map(_name, integers=True), parts=_OF_PARTS.get(_fn), aliases=[_python] if _python else [],
            cases=_cases)  # fmt: skip
for _fn in (np.invert, operator.invert):  # which gives integers for Python's truth values
    nondiff(_fn, kernel=Map("bitwise_not", integers=True), cases=lambda s: [case(s.mask(3, 4))])
nondiff(np.logical_not, kernel=Map("logical_not", integers=True), cases=lambda s: [case(s.mask(3, 4)), case(s(3))])
for _fn in (np.rint, np.signbit):
    nondiff(_fn, kernel=_fn.__name__, cases=arrays(REAL))
nondiff(np.floor_divide, kernel=_division("floor_divide"), cases=arrays(REAL, POSITIVE))
nondiff(operator.floordiv, kernel=_division("floor_divide"), raises=by_zero, cases=numbers(REAL, POSITIVE))
for _fn in (np.left_shift, np.right_shift):
    nondiff(_fn, kernel=Map(_fn.__name__, integers=True),
            cases=lambda s: [case(s.integers(3, high=9), s.integers(3, high=4)), case(s.integers(3, high=9), 2)])
for _fn in (np.spacing, np.isposinf, np.isneginf):
    nondiff(_fn, cases=arrays(REAL))
nondiff(np.allclose, cases=lambda s: [case(s(3), s(3)), case(s(2, 3), s(3), 1.0, atol=4.0), case(s(3), s(3), 0.1, 9.0)])
_equal: Cases = lambda s: [case(s(3), s(3)), case(s(2, 3), s(3)), case(np.ones(2), np.ones(2))]  # noqa: E731
nondiff(np.array_equiv, cases=_equal)
nondiff(np.array_equal, cases=lambda s: [*_equal(s), case(np.array([np.nan]), np.array([np.nan]), equal_nan=True)])
nondiff(patch(math, "isclose"), cases=lambda s: [
    case(s.number(), s.number()), case(1.0, 1.5, rel_tol=0.4), case(1.0, 1.5, abs_tol=1.0),
])  # fmt: skip


def _round(a: Any, decimals: int = 0, out: None = None) -> Any:
    if dtype_of(a).kind != "f" or is_traced(decimals):
        return NotImplemented
    scale = 10.0 ** abs(decimals)
    if not decimals:
        return np.rint(a)
    up, down = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    return down(np.rint(up(a, scale)), scale)


def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    a, b, rtol, atol = map(operand, (a, b, rtol, atol))
    if equal_nan or not {dtype_of(a).kind, dtype_of(b).kind} <= {"f"}:
        return NotImplemented
    near = np.less_equal(abs(a - b), atol + rtol * abs(b))  # where Python's numbers are weak
    return np.logical_or(np.logical_and(near, np.isfinite(b)), np.equal(a, b))


_roundable: Cases = lambda s: [  # noqa: E731
    case(s(3, 4)), case(10 * s(5), 1), case(100 * s(5), decimals=-1), case(s(3, dtype=np.float32)), case(s()),
]  # fmt: skip
nondiff(np.round, lowering=_round, aliases=(np.around,), method="round", cases=_roundable)
nondiff(round, cases=numbers(REAL))
if hasattr(np, "fix"):  # which NumPy 2.5 deprecates
    nondiff(np.fix, lowering=lambda x: np.trunc(x) if dtype_of(x).kind == "f" else NotImplemented, cases=arrays(REAL))
nondiff(np.isclose, lowering=_isclose, cases=lambda s: [
    case(s(3), s(3)), case(np.array([1.0, np.inf, np.nan]), np.array([1.0 + 1e-9, np.inf, np.nan])),
    case(s(2, 3), s(3), 1.0),
])  # fmt: skip

# ------------------------------------------------------------------------------- two results, our own functions


vjps(
    np.divmod, lambda dy, y, a, b: dy[1], lambda dy, y, a, b: None if dy[1] is None else strong_multiply(dy[1], -y[0]),
    lowering=lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)),
    cases=lambda s: [case(s(3, 4), s(4, low=0.3)), case(s.number(), 0.7)],
)  # fmt: skip


def _parts(x: Any) -> Any:
    """Both parts have the sign of ``x``, also if they are zero."""
    if not is_inexact(x):
        return NotImplemented
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), 0, np.subtract(x, whole)), x), whole


vjps(np.modf, lambda dy, y, x: dy[0], lowering=_parts,
     cases=lambda s: [case(s(3, 4)), case(s(3, dtype=np.float32)), case(s.number())])  # fmt: skip
vjps(np.ldexp, lambda dy, y, x, exponent: np.ldexp(dy, exponent), None,
     cases=lambda s: [case(s(3, 4), s.integers(4, low=-3, high=3)), case(s(3, dtype=np.float32), 2)])  # fmt: skip


def _strong(k: Any, dy: Any, partial: Any) -> Any:
    zero = k.const(0, dy)
    return k.select(k.eq(dy, zero), zero, k.mul(dy, partial))


scalar_rule(strong_multiply, lambda y, dy, p: p, lambda y, dy, p: dy, kernel=Map(named(_strong), light=True),
            parts=parts.strong_multiply, cases=arrays(REAL, REAL, complex=True))  # fmt: skip
