"""Exponentials and logarithms as straight-line arithmetic, with selects in the place of branches.

* Cody and Waite, "Software Manual for the Elementary Functions" (1980): reduction by a split constant;
* fdlibm (Sun Microsystems, 1993), `e_log.c`, `e_log10.c`, `e_sinh.c`: the shape of the kernels, and which part is
  added to which.

Names: k the maths builder, x argument, n integer part of a reduction, r or f reduced argument, s power of two,
z square.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .expansions import (
    as_float,
    clamped,
    fast_two_sum,
    nearest_integer,
    polynomial,
    power_of_two,
    quotient,
    scaled,
    split_exponent,
    two_sum,
    unless_tiny,
)
from .llvm import Value

# --------------------------------------------------------------------------------------------- exponentials


def exp(k: Arithmetic, x: Value) -> Value:
    """e^x"""
    return _exp(k, x, 0)


def exp2(k: Arithmetic, x: Value) -> Value:
    """2^x, whose reduction is exact."""
    form = k.format(x)
    near = clamped(k, x, -float(form.bias + form.mantissa), form.bias + 1.5)
    n, whole = nearest_integer(k, k.add(near, k.const(form.magic, x)))
    r = k.mul(k.sub(near, whole), k.const(form.ln2[0] + form.ln2[1], x))
    return scaled(k, exp_poly(k, r), n, 0)


def expm1(k: Arithmetic, x: Value) -> Value:
    """e^x - 1"""
    form = k.format(x)
    n, r, error = exp_split(k, clamped(k, x, form.expm1_low, form.exp_high))
    # A quarter of the result, as 2^n itself may be too large.
    s = power_of_two(k, k.builder.sub(n, k.const(2, n)))
    p = k.fma(k.mul(r, r), polynomial(k, r, form.exp), error)
    # s*(1 + r + p) - 1/4, the small term last: r + p on its own would be rounded once more.
    quarter = k.fma(s, p, k.fma(s, r, k.sub(s, k.const(0.25, x))))
    return unless_tiny(k, x, k.mul(quarter, k.const(4, x)))


def sinh(k: Arithmetic, x: Value) -> Value:
    """A polynomial below 1, and h - 1/(4h) with h = exp(|x|)/2 above."""
    a, z = k.abs(x), k.mul(x, x)
    h = _exp(k, a, -1)
    above = k.copysign(k.sub(h, k.div(k.const(0.25, x), h)), x)
    below = k.fma(k.mul(x, z), polynomial(k, z, k.format(x).sinh), x)
    return k.select(k.lt(a, k.const(1, x)), below, above)


def cosh(k: Arithmetic, x: Value) -> Value:
    """h + 1/(4h) with h = exp(|x|)/2, which overflows later than exp."""
    h = _exp(k, k.abs(x), -1)
    return k.add(h, k.div(k.const(0.25, x), h))


def tanh(k: Arithmetic, x: Value) -> Value:
    """x + x*z*P(z)/Q(z) below 5/8, 1 - 2/(exp(2|x|) + 1) above: both are m + m*q, with one division."""
    form, one = k.format(x), k.const(1, x)
    a = clamped(k, k.abs(x), None, form.tanh_high)
    n, r, _ = exp_split(k, k.add(a, a))
    s, z = power_of_two(k, n), k.mul(a, a)
    bottom = k.add(k.fma(exp_poly(k, r), s, s), one)
    below = k.lt(a, k.const(0.625, x))
    top = k.select(below, k.mul(z, polynomial(k, z, form.tanh[0])), k.const(-2, x))
    q = k.div(top, k.select(below, polynomial(k, z, form.tanh[1]), bottom))
    m = k.select(below, a, one)
    return k.copysign(k.fma(m, q, m), x)


def expit(k: Arithmetic, x: Value) -> Value:
    """1/(1 + exp(-x)), or with z = exp(-|x|): z/(1+z) on the left, so that nothing overflows."""
    z = _exp(k, k.neg(k.abs(x)), 0)
    one = k.const(1, x)
    bottom, bottom_low = fast_two_sum(k, one, z)
    top = k.select(k.lt(x, k.const(0, x)), z, one)
    return quotient(k, top, None, bottom, bottom_low)


def log_expit(k: Arithmetic, x: Value) -> Value:
    """min(x, 0) - log1p(exp(-|x|))"""
    z = _exp(k, k.neg(k.abs(x)), 0)
    zero = k.const(-0.0, x)
    return k.sub(k.select(k.lt(x, zero), x, zero), log1p(k, z))


def logaddexp(k: Arithmetic, a: Value, b: Value) -> Value:
    """max(a, b) + log1p(exp(-|a - b|)); with b = 0 this is softplus."""
    z = _exp(k, k.neg(k.abs(k.sub(a, b))), 0)
    # Infinities of one sign have no difference.
    z = k.select(k.eq(a, b), k.const(1, a), z)
    return k.add(k.select(k.gt(a, b), a, b), log1p(k, z))


def logaddexp2(k: Arithmetic, a: Value, b: Value) -> Value:
    """max(a, b) + log1p(2^-|a - b|) / log(2)"""
    z = exp2(k, k.neg(k.abs(k.sub(a, b))))
    z = k.select(k.eq(a, b), k.const(1, a), z)
    y = k.mul(log1p(k, z), k.const(k.format(a).log2e[0], a))
    return k.add(k.select(k.gt(a, b), a, b), y)


# ---------------------------------------------------------------------------------------------- logarithms


def log(k: Arithmetic, x: Value) -> Value:
    """n*ln2 + log(1 + f), with x = 2^n * (1 + f)"""
    n, f = log_split(k, x)
    return log_domain(k, x, log_sum(k, n, f))


def log2(k: Arithmetic, x: Value) -> Value:
    """n + log(1 + f)*log2(e)"""
    n, f = log_split(k, x)
    nearest, rest = (k.const(c, x) for c in k.format(x).log2e)
    y = log_sum(k, None, f)
    return log_domain(k, x, k.fma(y, nearest, k.fma(y, rest, n)))


def log10(k: Arithmetic, x: Value) -> Value:
    """n*log10(2) + log(1 + f)*log10(e)"""
    n, f = log_split(k, x)
    high, low = (k.const(c, x) for c in k.format(x).log10_2)
    nearest, rest = (k.const(c, x) for c in k.format(x).log10e)
    y = log_sum(k, None, f)
    small = k.fma(y, nearest, k.fma(n, low, k.mul(y, rest)))
    return log_domain(k, x, k.fma(n, high, small))


def log1p(k: Arithmetic, x: Value) -> Value:
    """log(u) with u = 1 + x, where the rounding error of u is added to the reduced argument."""
    u, error = two_sum(k, k.const(1, x), x)
    return unless_tiny(k, x, log_domain(k, u, log_sum(k, *log_split_pair(k, u, error))))


def logit(k: Arithmetic, x: Value) -> Value:
    """log(x/(1-x)), and around one half ±log1p(|2x-1|/min(x, 1-x)), where all but the division is exact."""
    one, rest = k.const(1, x), k.sub(k.const(1, x), x)
    centred = k.sub(k.add(x, x), one)
    near = k.lt(k.abs(centred), k.const(0.5, x))
    least = k.select(k.lt(x, rest), x, rest)
    ratio = k.div(k.select(near, k.abs(centred), x), k.select(near, least, rest))
    return k.select(near, k.copysign(log1p(k, ratio), centred), log(k, ratio))


# --------------------------------------------------------------------------------------------------- parts


def exp_split(k: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """x = n*ln2 + r: n as an integer, r, and the error of r."""
    form = k.format(x)
    n, whole = nearest_integer(k, k.fma(x, k.const(form.log2e[0], x), k.const(form.magic, x)))
    minus_low = k.const(-form.ln2[1], x)
    exact = k.fma(whole, k.const(-form.ln2[0], x), x)
    r = k.fma(whole, minus_low, exact)
    return n, r, k.fma(whole, minus_low, k.sub(exact, r))


def _exp(k: Arithmetic, x: Value, shift: int) -> Value:
    """exp(x) * 2^shift"""
    form = k.format(x)
    n, r, _ = exp_split(k, clamped(k, x, form.exp_low, form.exp_high))
    return scaled(k, exp_poly(k, r), n, shift)


def exp_poly(k: Arithmetic, r: Value) -> Value:
    """exp(r) - 1"""
    return k.fma(k.mul(r, r), polynomial(k, r, k.format(r).exp), r)


def log_split(k: Arithmetic, x: Value) -> tuple[Value, Value]:
    """x = 2^n * (1 + f): n as a float, and f."""
    form = k.format(x)
    extra = form.mantissa + 2
    subnormal = k.lt(x, k.const(2.0 ** (1 - form.bias), x))
    n, m = split_exponent(k, k.select(subnormal, k.mul(x, k.const(2.0**extra, x)), x))
    offset = k.select(subnormal, k.const(extra, x), k.const(0, x))
    return k.sub(as_float(k, n, form), offset), k.sub(m, k.const(1, x))


def log_split_pair(k: Arithmetic, u: Value, low: Value) -> tuple[Value, Value]:
    """u + low = 2^n * (1 + f), for a low part that is small beside u: n as a float, and f."""
    n, m = split_exponent(k, u)
    # 2^(1-n), not 2^-n: for the largest n that is 0 and not infinite; the low part counts for nothing there.
    scale = power_of_two(k, k.builder.sub(k.const(1, n), n))
    f = k.fma(k.mul(low, k.const(0.5, u)), scale, k.sub(m, k.const(1, u)))
    return as_float(k, n, k.format(u)), f


def log_sum(k: Arithmetic, n: Value | None, f: Value) -> Value:
    """n*ln2 + log(1 + f), or log(1 + f): with s = f/(2+f), f - (f*f/2 - s*(f*f/2 + R(s*s)))."""
    form = k.format(f)
    s = k.div(f, k.add(f, k.const(2, f)))
    z = k.mul(s, s)
    half_square = k.mul(f, k.mul(f, k.const(0.5, f)))
    low = k.mul(s, k.fma(z, polynomial(k, z, form.log), half_square))
    if n is None:
        return k.sub(f, k.sub(half_square, low))
    low = k.fma(n, k.const(form.ln2[1], f), low)
    return k.fma(n, k.const(form.ln2[0], f), k.sub(f, k.sub(half_square, low)))


def log_domain(k: Arithmetic, x: Value, result: Value) -> Value:
    """The logarithm of x where x is neither positive nor finite."""
    inf, zero = k.const(float("inf"), x), k.const(0, x)
    result = k.select(k.lt(x, inf), result, x)
    result = k.select(k.eq(x, zero), k.const(float("-inf"), x), result)
    return k.select(k.lt(x, zero), k.const(float("nan"), x), result)
