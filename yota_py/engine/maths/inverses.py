"""Inverse trigonometric and hyperbolic functions, with selects in the place of branches.

* fdlibm (Sun Microsystems, 1993), `s_atan.c`, `e_asin.c`, `e_acos.c`: the arguments beyond the middle are mapped to
  small ones, and multiples of pi/4 are added in two parts;
* Abramowitz and Stegun, 4.6.20-22: the hyperbolic ones as logarithms, whose arguments are computed in two parts here.

Names: k the maths builder, x argument and a its absolute value, t reduced argument, z square, u what a logarithm is of.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .expansions import (
    as_float,
    fast_two_sum,
    polynomial,
    power_of_two,
    quotient,
    two_product,
    two_sum,
    unless_tiny,
)
from .exponentials import log_domain, log_split_pair, log_sum
from .llvm import Value

Pair = tuple[Value, Value]

# ------------------------------------------------------------------------------------------- trigonometric


def arcsin(k: Arithmetic, x: Value) -> Value:
    """asin(a) below 1/2, pi/2 - 2*asin(sqrt((1 - a)/2)) above."""
    near, t, rest = _arcsin_parts(k, x)
    times = k.select(near, k.const(1, x), k.const(-2, x))
    base = _either(k, near, _angle(k, 0, x), _angle(k, 2, x))
    return k.copysign(_sum(k, base, k.mul(times, t), k.mul(times, rest)), x)


def arccos(k: Arithmetic, x: Value) -> Value:
    """pi/2 - asin(x) in the middle, 2*asin(sqrt((1 - a)/2)) or pi minus that beyond."""
    near, t, rest = _arcsin_parts(k, x)
    times = k.select(near, k.neg(k.copysign(k.const(1, x), x)), k.copysign(k.const(2, x), x))
    left = _either(k, k.lt(x, k.const(0, x)), _angle(k, 4, x), _angle(k, 0, x))
    base = _either(k, near, _angle(k, 2, x), left)
    return _sum(k, base, k.mul(times, t), k.mul(times, rest))


def arctan(k: Arithmetic, x: Value) -> Value:
    """The angle of x over 1."""
    return k.copysign(_angle_of(k, k.abs(x), k.const(1, x), None), x)


def arctan2(k: Arithmetic, y: Value, x: Value) -> Value:
    """The angle of |y| over |x|, or pi minus that, with the sign of y."""
    return k.copysign(_angle_of(k, k.abs(y), k.abs(x), k.signbit(x)), y)


def _arcsin_parts(k: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """Whether a is below 1/2; t = a there and sqrt((1 - a)/2) above; asin(t) - t."""
    a, half = k.abs(x), k.const(0.5, x)
    near = k.lt(a, half)
    z = k.select(near, k.mul(a, a), k.mul(k.sub(k.const(1, x), a), half))
    t = k.select(near, a, k.sqrt(z))
    return near, t, k.mul(k.mul(t, z), polynomial(k, z, k.format(x).asin))


def _angle_of(k: Arithmetic, b: Value, a: Value, reflected: Value | None) -> Value:
    """atan(b/a) for b, a >= 0: of b/a when that is small, of -a/b + pi/2 when it is large, of (b-a)/(b+a) + pi/4
    between, where the difference is exact. Subtracted from pi where it is ``reflected``."""
    zero, bound = k.const(0, b), k.const(0.6, b)
    low = k.logical_or(k.lt(b, k.mul(a, bound)), k.eq(b, zero))
    high = k.lt(a, k.mul(b, bound))
    c, d = a, b
    if reflected is not None:  # a + b must not overflow
        scale = k.select(k.gt(b, k.const(1, b)), k.const(0.25, b), k.const(1, b))
        c, d = k.mul(a, scale), k.mul(b, scale)
    top = k.select(low, b, k.select(high, k.neg(a), k.sub(d, c)))
    bottom = k.select(low, a, k.select(high, b, k.add(d, c)))
    t = k.select(k.eq(a, b), zero, k.div(top, bottom))  # 0 over 0, and infinities of one size
    first, middle, last = _angle(k, 0, b), _angle(k, 1, b), _angle(k, 2, b)
    if reflected is not None:
        first = _either(k, reflected, _angle(k, 4, b), first)
        middle = _either(k, reflected, _angle(k, 3, b), middle)
        t = k.select(reflected, k.neg(t), t)
    z = k.mul(t, t)
    base = _either(k, low, first, _either(k, high, last, middle))
    return _sum(k, base, t, k.mul(k.mul(t, z), polynomial(k, z, k.format(b).atan)))


def _angle(k: Arithmetic, quarters: int, like: Value) -> Pair:
    """So many quarters of pi, in two parts."""
    high, low = k.format(like).angle(quarters)
    return k.const(high, like), k.const(low, like)


def _either(k: Arithmetic, mask: Value, a: Pair, b: Pair) -> Pair:
    return k.select(mask, a[0], b[0]), k.select(mask, a[1], b[1])


def _sum(k: Arithmetic, base: Pair, t: Value, rest: Value) -> Value:
    """The small terms first."""
    return k.add(base[0], k.add(t, k.add(rest, base[1])))


# ---------------------------------------------------------------------------------------------- hyperbolic


def arcsinh(k: Arithmetic, x: Value) -> Value:
    """log(a + sqrt(a^2 + 1))"""
    a = k.abs(x)
    root, root_low = _root(k, a, 1)
    u, error = two_sum(k, root, a)
    return unless_tiny(k, x, k.copysign(_log_of_sum(k, a, u, k.add(error, root_low)), x))


def arccosh(k: Arithmetic, x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)), and NaN below 1."""
    root, root_low = _root(k, x, -1)
    u, error = fast_two_sum(k, x, root)
    result = _log_of_sum(k, x, u, k.add(error, root_low))
    return k.select(k.lt(x, k.const(1, x)), k.const(float("nan"), x), result)


def arctanh(k: Arithmetic, x: Value) -> Value:
    """n*ln2/2 + atanh(s), where (1 + a)/(1 - a) = 2^n * (1 + s)/(1 - s)."""
    form, a, one = k.format(x), k.abs(x), k.const(1, x)
    (w, w_low), (v, v_low) = fast_two_sum(k, one, a), fast_two_sum(k, one, k.neg(a))
    # The bits of a number are nearly its logarithm: n is the one of the quotient, rounded.
    n = k.builder.sub(k.bits(w), k.bits(v))
    n = k.builder.ashr(k.builder.add(n, k.const(1 << (form.mantissa - 1), n)), k.const(form.mantissa, n))
    scale = power_of_two(k, n)
    v, v_low = k.mul(v, scale), k.mul(v_low, scale)
    total, total_low = two_sum(k, w, v)
    s = quotient(k, k.sub(w, v), k.sub(w_low, v_low), total, k.add(total_low, k.add(w_low, v_low)))
    z, whole = k.mul(s, s), as_float(k, n, form)
    high, low = (k.mul(whole, k.const(part / 2, x)) for part in form.ln2)
    result = k.add(high, k.add(s, k.fma(k.mul(s, z), polynomial(k, z, form.atanh), low)))
    result = k.select(k.lt(a, one), result, k.const(float("nan"), x))
    return k.copysign(k.select(k.eq(a, one), k.const(float("inf"), x), result), x)


def _root(k: Arithmetic, a: Value, sign: int) -> Pair:
    """sqrt(a^2 + sign) in two parts."""
    square, square_low = two_product(k, a, a)
    total, error = two_sum(k, square, k.const(sign, a))
    root = k.sqrt(total)
    rest = k.add(k.intrinsic("llvm.fma", k.neg(root), root, total), k.add(error, square_low))
    twice = k.add(root, root)
    return root, k.div(rest, k.select(k.eq(root, k.const(0, a)), k.const(1, a), twice))


def _log_of_sum(k: Arithmetic, a: Value, u: Value, low: Value) -> Value:
    """log(u + low), and log(2a) where the square of a would overflow."""
    large = k.ge(a, k.const(2.0 ** (k.format(a).mantissa // 2 + 4), a))
    u, low = k.select(large, a, u), k.select(large, k.const(0, a), low)
    n, f = log_split_pair(k, u, low)
    n = k.add(n, k.select(large, k.const(1, a), k.const(0, a)))
    return log_domain(k, u, log_sum(k, n, f))
