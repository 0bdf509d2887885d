"""Powers: ``x ** p`` in all its spellings.

d(x**p)/dx = p x**(p-1) and d(x**p)/dp = x**p log(x). At p = 0 the first is zero, also for x = 0; at x = 0 the
second is zero; for a negative real base the second does not exist and is NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from yota_py.base.types import typeof
from yota_py.registry.kernels import Emitter
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, primitive, vjps
from yota_py.registry.tangents import conj, strong_multiply, zeros_like

from . import parts
from .raising import by_power, kind_of_power, of_error
from .samples import arrays, numbers
from .support import dtype_of, promoted, shape_of


def _is_number(p: Any) -> bool:
    """Whether an exponent is a plain number: then it is a constant of the program."""
    return type(p) in (int, float)


def _base(dy: Any, y: Any, x: Any, p: Any) -> Any:
    if _is_number(p) and p == 2 and type(x) is np.float64:  # as below, sooner: no power is asked for more
        return strong_multiply(dy, 2 * x)
    if np.iscomplexobj(y) and not np.iscomplexobj(x):  # Python's (-2.0) ** 0.5
        partial = p * y / x
    elif not _is_number(p):
        partial = strong_multiply(p, np.power(x, p - 1))  # zero at p = 0, whose derivative in p is not
    elif p == 0:
        return zeros_like(x)
    else:
        partial = p if p == 1 else p * np.power(x, p - 1)
    return strong_multiply(dy, conj(partial))


def _exponent(dy: Any, y: Any, x: Any, p: Any) -> Any:
    return strong_multiply(dy, conj(_slope(y, x)))


def _slope(y: Any, x: Any) -> Any:
    """d(x**p)/dp: zero at x = 0, NaN for negative real x (without the warning of ``np.log``)."""
    x = float(x) if type(x) is int else x  # of any size
    base = np.where(x == 0, 1, x)
    if not np.iscomplexobj(x):
        base = np.where(base < 0, np.nan, base)
    return strong_multiply(np.log(base), y)


def _unsigned(k: Any, x: Any) -> Any:
    """Zeros and infinities without a sign: their powers have none, unlike their roots."""
    infinity = k.const(math.inf, x)
    return k.select(k.eq(x, k.neg(infinity)), infinity, k.add(x, k.const(0, x)))


def _special(fn: Callable[..., Any], p: float, kernel: Emitter) -> Callable[[Any], Any]:
    """``fn(x, p)`` as a function of its own."""

    @primitive
    def power_of(x: Any) -> Any:
        return fn(x, p)

    power_of.__name__ = f"power_{p}"

    vjps(power_of, lambda dy, y, x: _base(dy, y, x, p), kernel=kernel,
         cases=lambda s: [case(s(3, low=0.3)), case(s.number(0.3))])  # fmt: skip
    return power_of


def _root_and_more(k: Any, x: Any) -> Any:
    y = _unsigned(k, x)
    return k.mul(y, k.sqrt(y))


# Constant exponents that need no logarithm, on arrays: ``np.power`` takes the square root itself. The results are
# within 1.5 ulp, also where they are subnormal.
_CHEAP: dict[float, Callable[[Any], Any]] = {
    -2: lambda x: np.square(np.reciprocal(x)),
    -1: np.reciprocal,
    -0.5: _special(np.power, -0.5, lambda k, x: k.reciprocal(k.sqrt(_unsigned(k, x)))),
    0.5: np.sqrt,
    1: np.positive,
    1.5: _special(np.power, 1.5, _root_and_more),
    2: np.square,
    3: lambda x: x * np.square(x),
    4: lambda x: np.square(np.square(x)),
}
# On numbers, which stay of their kind.
_CHEAP_NUMBER: dict[float, Callable[[Any], Any]] = {
    0.5: _special(operator.pow, 0.5, lambda k, x: k.sqrt(_unsigned(k, x))),
    1: operator.pos,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    4: lambda x: (x * x) * (x * x),
}


@primitive
def _power_of_arrays(x: Any, p: Any) -> Any:
    return np.power(x, p)


vjps(
    _power_of_arrays, _base, _exponent,
    kernel=lambda k, x, p: k.select(k.eq(p, k.const(0.5, p)), k.sqrt(x), k.pow(x, p)),
    cases=arrays((0.3, 2.0), (-2.0, 2.0)),
)  # fmt: skip


def _lowered(x: Any, p: Any) -> Any:
    """One exponent for all elements may be one of those for which NumPy takes a shorter way."""
    if dtype_of(x).char not in "fd":
        return NotImplemented
    if shape_of(p) == () and not _is_number(p):
        return _power_of_arrays(x, p) if promoted(x, p) == dtype_of(x) else NotImplemented
    cheap = _CHEAP.get(p) if _is_number(p) else None
    return NotImplemented if cheap is None else cheap(x)


def _lowered_number(x: Any, p: Any) -> Any:
    cheap = _CHEAP_NUMBER.get(p) if _is_number(p) and dtype_of(x).char in "fdl" else None
    return NotImplemented if cheap is None or (dtype_of(x).kind == "i" and type(p) is float) else cheap(x)


def _lowered_math(x: Any, p: Any) -> Any:
    """Of Python's own floats, as the result is one."""
    return _lowered_number(x, p) if typeof(x) == typeof(1.0) else NotImplemented


def _cases(s: Sample) -> Iterable[Case]:
    yield from arrays((0.3, 2.0), (-2.0, 2.0), complex=True)(s)
    for p in (0, 1, 2, 3, 4, -1, -2, -3):
        yield case(s(3, low=-2.0, high=-0.3), p)
        yield case(s(3, low=-2.0, high=-0.3, dtype=np.float32), p)
    for q in (0.5, 1.5, -0.5, 2.5):
        yield case(s(3, low=0.3), q)
    yield case(s(2, 3, low=-2.0, high=-0.3), s.integers(3, high=4))
    yield case(2, s(3))
    yield case(s(3, low=0.3, dtype=complex), 2)


vjps(np.power, _base, _exponent, kernel="pow", lowering=_lowered, parts=parts.power, cases=_cases)
vjps(np.float_power, _base, _exponent, kernel="pow", cases=_cases)


def _number_cases(s: Sample) -> Iterable[Case]:
    return [*numbers((0.3, 2.0), (-2.0, 2.0))(s), *(case(-s.number(0.3), p) for p in (0, 1, 2, 3))]


vjps(operator.pow, _base, _exponent, kernel="pow", lowering=_lowered_number, parts=parts.power_of_numbers,
     raises=by_power, decides=kind_of_power, unasked=True, cases=_number_cases)  # fmt: skip
vjps(patch(math, "pow"), _base, _exponent, kernel="pow", lowering=_lowered_math, raises=of_error, cases=_number_cases)
