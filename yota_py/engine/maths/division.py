"""Division with a remainder, as NumPy defines it (`npy_divmod` in `npy_math_internal.h.src`, `loops.c.src`).

The exact remainder is C's `fmod`, with the sign of the dividend; what NumPy and Python call the remainder has the
sign of the divisor, and the quotient belongs to it: `floor(a / b)` would be off by one where `a / b` rounds up.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .formats import FORMATS
from .integers import truncated
from .llvm import Value


def fmod(k: Arithmetic, a: Value, b: Value) -> Value:
    """The remainder with the sign of a."""
    return k.lane_by_lane("fmod", a, b) if k.element(a) in FORMATS else truncated(k, a, b)[1]


def remainder(k: Arithmetic, a: Value, b: Value) -> Value:
    """The remainder with the sign of b."""
    zero, mod = k.const(0, a), fmod(k, a, b)
    adjusted = k.select(_signs_differ(k, mod, b), k.add(mod, b), mod)
    if k.element(a) not in FORMATS:
        return adjusted
    adjusted = k.select(k.eq(mod, zero), k.copysign(zero, b), adjusted)
    return k.select(k.eq(b, zero), mod, adjusted)


def floor_divide(k: Arithmetic, a: Value, b: Value) -> Value:
    """The integer (a - remainder) / b; a / b where b is zero, or zero of integers."""
    zero, one = k.const(0, a), k.const(1, a)
    if k.element(a) not in FORMATS:
        quotient, mod = truncated(k, a, b)
        quotient = k.select(_signs_differ(k, mod, b), k.sub(quotient, one), quotient)
        return k.select(k.eq(b, zero), zero, quotient)
    mod = fmod(k, a, b)
    ratio = k.div(a, b)
    # Nearly an integer, as a - mod is a multiple of b.
    quotient = k.div(k.sub(a, mod), b)
    quotient = k.select(_signs_differ(k, mod, b), k.sub(quotient, one), quotient)
    whole = k.floor(quotient)
    whole = k.select(k.gt(k.sub(quotient, whole), k.const(0.5, a)), k.add(whole, one), whole)
    whole = k.select(k.eq(quotient, zero), k.copysign(zero, ratio), whole)
    return k.select(k.eq(b, zero), ratio, whole)


def _signs_differ(k: Arithmetic, mod: Value, b: Value) -> Value:
    """Whether a remainder other than zero has not the sign of b."""
    zero = k.const(0, b)
    return k.logical_and(k.ne(mod, zero), k.logical_xor(k.lt(b, zero), k.lt(mod, zero)))
