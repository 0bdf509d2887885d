"""What only integers have: division with a remainder, and shifts, as NumPy defines them (`loops.c.src`).

A division by zero gives zero, and so does its remainder; the least number by -1 is itself, as there is no greater one.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .llvm import DOUBLE, FLOAT, Value


def truncated(k: Arithmetic, a: Value, b: Value) -> tuple[Value, Value]:
    """The quotient rounded toward zero, and the remainder that belongs to it, which has the sign of a; of a division by
    zero a and 0."""
    one = k.const(1, a)
    alone = k.eq(b, k.const(0, b))
    if k.signed(a):
        least = k.const(-(2 ** (k.element(a).width - 1)), a)
        alone = k.builder.or_(alone, k.builder.and_(k.eq(a, least), k.eq(b, k.const(-1, b))))
    divisor = k.select(alone, one, b)
    quotient = _quotient(k, a, divisor)
    return quotient, k.sub(a, k.mul(quotient, divisor))


def _quotient(k: Arithmetic, a: Value, b: Value) -> Value:
    """Rounded toward zero. Machines divide no vectors of integers. Of floats with two more bits than both numbers the
    quotient is never rounded up to a whole number: it is less than one by a part 1 / (|a| + |b|) at least."""
    element = k.element(a)
    if element.width > 32:
        return (k.builder.sdiv if k.signed(a) else k.builder.udiv)(a, b)
    wide = FLOAT if element.width <= 16 else DOUBLE
    return k.cast(k.div(k.cast(a, wide), k.cast(b, wide)), element)


def left_shift(k: Arithmetic, a: Value, count: Value) -> Value:
    """Zero where nothing is left."""
    return k.select(_within(k, count), k.builder.shl(a, count), k.const(0, a))


def right_shift(k: Arithmetic, a: Value, count: Value) -> Value:
    """The sign, or zero, where nothing else is left."""
    if k.signed(a):
        return k.builder.ashr(a, k.select(_within(k, count), count, k.const(k.element(a).width - 1, a)))
    return k.select(_within(k, count), k.builder.lshr(a, count), k.const(0, a))


def _within(k: Arithmetic, count: Value) -> Value:
    """Whether it is neither negative nor too large."""
    return k.builder.icmp_unsigned("<", count, k.const(k.element(count).width, count))
