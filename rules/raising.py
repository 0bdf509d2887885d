"""Where operators and functions of Python numbers raise an exception, and machine code would give NaN or infinity.

What CPython does: a division raises for a divisor of zero; a function of ``math`` raises for NaN that no argument was
(``ValueError``), and for infinity made of finite arguments (``OverflowError``). Functions without ``raises`` never
raise, or are called in Python by compiled code too.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from yota_py.registry.registry import nondiff, primitive

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


def of_error(y: Any, *args: Any) -> Any:
    """NaN or infinity of nothing of the kind."""
    return fails(y, *(x for x in args if not isinstance(x, int)))  # which are finite


def at_infinity(y: Any, x: Any) -> Any:
    return not isinstance(x, int) and np.isinf(x)


def by_zero(y: Any, a: Any, b: Any) -> Any:
    return not isinstance(y, complex) and b == 0  # complex numbers are divided in Python


@primitive
def turns_complex(a: float, b: float) -> bool:
    """Whether ``a ** b`` is complex."""
    return -math.inf < a < 0 and math.isfinite(b) and b != math.floor(b)


def _turns_complex_kernel(k: Any, a: Any, b: Any) -> Any:
    negative = k.logical_and(k.lt(a, k.const(0, a)), k.isfinite(a))
    return k.logical_and(negative, k.logical_and(k.ne(b, k.floor(b)), k.isfinite(b)))


nondiff(turns_complex, kernel=_turns_complex_kernel, cases=numbers((-2.0, 2.0), (-2.0, 2.0)))


def by_power(y: Any, a: Any, b: Any) -> Any:
    """Complex powers are computed in Python; NumPy's scalars do not raise."""
    return not isinstance(y, int | complex | np.generic) and of_error(y, a, b)


def kind_of_power(a: Any, b: Any) -> Any:
    """Whole, floating or complex."""
    if isinstance(a, complex | np.generic) or isinstance(b, complex | np.generic):
        return False
    if isinstance(b, int):
        return isinstance(a, int) and b < 0
    whole = type(b) is float and b.is_integer()
    return not (whole or (type(a) is float and a >= 0)) and turns_complex(a, b)
