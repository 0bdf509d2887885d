"""Where operators and functions of Python numbers raise an exception, and machine code would give NaN or infinity.

What CPython does: a division raises for a divisor of zero; a function of ``math`` raises for NaN that no argument was
(``ValueError``), and for infinity made of finite arguments (``OverflowError``). Functions that are missing here never
raise, or are called in Python by compiled code too.
"""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import numpy as np

from yota_py.registry.registry import deciding, nondiff, patched, primitive, raising

from .python_math import log_of_number
from .samples import numbers


@primitive
def fails(y: float, *args: float) -> bool:
    """Whether ``y`` is a result of these arguments that CPython reports as an error."""
    if math.isnan(y):
        return not any(map(math.isnan, args))
    return math.isinf(y) and all(map(math.isfinite, args))


def _fails_kernel(k: Any, y: Any, *args: Any) -> Any:
    invalid = reduce(k.logical_and, (k.eq(x, x) for x in args), k.isnan(y))
    overflow = reduce(k.logical_and, map(k.isfinite, args), k.isinf(y))
    return k.logical_or(invalid, overflow)


nondiff(fails, kernel=_fails_kernel, cases=numbers((-2.0, 2.0), (-2.0, 2.0)))


def _fails(y: Any, *args: Any) -> Any:
    return fails(y, *(x for x in args if not isinstance(x, int)))  # which are finite


def _at_infinity(y: Any, x: Any) -> Any:
    return not isinstance(x, int) and np.isinf(x)


def _by_zero(y: Any, a: Any, b: Any) -> Any:
    return not isinstance(y, complex) and b == 0  # complex numbers are divided in Python


@primitive
def turns_complex(a: float, b: float) -> bool:
    """Whether ``a ** b`` is complex."""
    return -math.inf < a < 0 and math.isfinite(b) and b != math.floor(b)


def _turns_complex_kernel(k: Any, a: Any, b: Any) -> Any:
    negative = k.logical_and(k.lt(a, k.const(0, a)), k.isfinite(a))
    return k.logical_and(negative, k.logical_and(k.ne(b, k.floor(b)), k.isfinite(b)))


nondiff(turns_complex, kernel=_turns_complex_kernel, cases=numbers((-2.0, 2.0), (-2.0, 2.0)))


def _by_power(y: Any, a: Any, b: Any) -> Any:
    """Complex powers are computed in Python; NumPy's scalars do not raise."""
    return not isinstance(y, int | complex | np.generic) and _fails(y, a, b)


def _kind_of_power(a: Any, b: Any) -> Any:
    """Whole, floating or complex."""
    if isinstance(a, complex | np.generic) or isinstance(b, complex | np.generic):
        return False
    if isinstance(b, int):
        return isinstance(a, int) and b < 0
    whole = type(b) is float and b.is_integer()
    return not (whole or (type(a) is float and a >= 0)) and turns_complex(a, b)


raising.update(dict.fromkeys([operator.truediv, operator.floordiv, operator.mod], _by_zero))
raising[operator.pow], deciding[operator.pow] = _by_power, _kind_of_power
for _names, _raises in {
    "sin cos tan": _at_infinity,
    "sqrt": lambda y, x: x < 0,
    "log2 log10": lambda y, x: x <= 0,
    "log1p": lambda y, x: x <= -1,
    "acosh": lambda y, x: x < 1,
    "asin acos": lambda y, x: abs(x) > 1,
    "atanh": lambda y, x: abs(x) >= 1,
    "exp exp2 expm1 sinh cosh lgamma fmod pow": _fails,
}.items():
    raising.update((patched[math, _name], _raises) for _name in _names.split())
raising[log_of_number] = lambda y, x: x <= 0
