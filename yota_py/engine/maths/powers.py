"""Powers, cube roots, and roots of sums of squares.

* fdlibm (Sun Microsystems, 1993), `e_pow.c`: the logarithm in two parts, as its error is multiplied by the exponent;
* C11, F.10.4.4: the special values of `pow`;
* Householder's method of the third order for the inverse cube root, which needs no division, from a guess as Kahan's
  (1991, "Computing a real cube root");
* Borges, ACM Trans. Math. Softw. 47 (2021), "Algorithm 1014: An improved algorithm for hypot(a, b)".

Names: k the maths builder, x base and a its absolute value, y exponent, n integer part of a logarithm, f and s reduced
arguments, z square.
"""

from __future__ import annotations

from fractions import Fraction

from .arithmetic import Arithmetic
from .expansions import as_float, clamped, fast_two_sum, nearest_integer, polynomial, scaled, two_product, unless_any
from .exponentials import exp_split, log_split
from .llvm import FLOAT, Value

# (1 - h)^(-1/3) - 1 over h for |h| <= 0.1021, to 3e-6
_INVERSE_CBRT = (0.333327518567896, 0.22347281445051115, 0.1747269970551058)
_LOWER = {23: 9, 52: 32}  # bits of a float that are left out, by those of its mantissa, so that the others fit into one


def cbrt(k: Arithmetic, x: Value) -> Value:
    """x * y^2 with the inverse root y, of which integer arithmetic guesses a first digit."""
    form, a, third = k.format(x), k.abs(x), k.const(1 / 3, x)
    up = (form.bias + 1) * 3 // 16  # so that no rest of a small number is subnormal
    small = k.lt(a, k.const(2.0 ** (-3 * up), x))
    a = k.select(small, k.mul(a, k.const(2.0 ** (3 * up), x)), a)
    y = _inverse_cbrt(k, a)
    h = k.sub(k.const(1, x), k.mul(k.mul(a, y), k.mul(y, y)))
    y = k.fma(k.mul(y, h), polynomial(k, h, _INVERSE_CBRT), y)
    if form.mantissa > 23:
        h = k.sub(k.const(1, x), k.mul(k.mul(a, y), k.mul(y, y)))
        y = k.fma(k.mul(y, h), third, y)
    squared = k.mul(y, y)
    t = k.mul(a, squared)
    # One step of Newton's, with the rest a - t^3 as it is.
    square, square_low = two_product(k, t, t)
    rest = k.sub(k.intrinsic("llvm.fma", k.neg(square), t, a), k.mul(square_low, t))
    t = k.fma(rest, k.mul(squared, third), t)
    t = k.select(small, k.mul(t, k.const(2.0**-up, x)), t)
    return k.select(k.lt(a, k.const(float("inf"), x)), k.copysign(t, x), x)


def _inverse_cbrt(k: Arithmetic, a: Value) -> Value:
    """a^(-1/3), to 3.5 %: a float's bits are nearly its logarithm; the upper ones fit into a float."""
    form, bits = k.format(a), k.bits(a)
    lower = _LOWER[form.mantissa]
    shift = k.const(lower, bits)
    upper = as_float(k, k.builder.lshr(bits, shift), form)
    most = round((4 / 3 * form.bias - 0.06805) * 2 ** (form.mantissa - lower))
    n, _ = nearest_integer(k, k.fma(upper, k.const(-1 / 3, a), k.const(form.magic + most, a)))
    return k.number(k.builder.shl(n, shift))


def hypot(k: Arithmetic, x: Value, y: Value) -> Value:
    """sqrt(a^2 + b^2), with a >= b, both scaled by the power of two that takes a into [2, 4), and with the rest of the
    root's square divided by the root, for which few digits of it will do; infinite if either is, beside NaN too."""
    form, infinity = k.format(x), k.const(float("inf"), x)
    x, y = k.abs(x), k.abs(y)
    larger = k.gt(x, y)
    a, b = k.select(larger, x, y), k.select(larger, y, x)
    infinite = k.logical_or(k.eq(a, infinity), k.eq(b, infinity))
    exponent = k.builder.and_(k.bits(a), k.const(form.bits(float("inf")), k.bits(a)))
    exponent = k.maximum(exponent, k.const(1 << form.mantissa, exponent))
    scale = k.number(k.sub(k.const(2 * form.bias + 1 << form.mantissa, exponent), exponent))
    a, b = k.mul(a, scale), k.mul(b, scale)
    square, rest = two_product(k, a, a)
    other, other_rest = two_product(k, b, b)
    total, error = fast_two_sum(k, square, other)
    h = k.intrinsic("llvm.sqrt", total)
    rest = k.add(k.intrinsic("llvm.fma", k.neg(h), h, total), k.add(error, k.add(rest, other_rest)))
    tiny = k.const(2.0**-100, x)  # for h = 0; all others are larger by far
    rough = k.cast(k.reciprocal(k.cast(k.add(h, tiny), FLOAT)), k.element(x))
    half = k.const(0.5, x)
    h = k.mul(k.mul(k.fma(k.mul(rest, rough), half, h), half), k.number(exponent))
    return k.select(infinite, infinity, h)


def pow(k: Arithmetic, x: Value, y: Value) -> Value:
    """exp(y * log(x)) where x is positive and both are finite."""
    a, infinity = k.abs(x), k.const(float("inf"), x)
    high, low = _log_pair(k, a)
    product, error = two_product(k, y, high)
    result = _exp_of_pair(k, product, k.fma(y, low, error))
    usual = k.logical_and(k.gt(x, k.const(0, x)), k.logical_and(k.lt(x, infinity), k.lt(k.abs(y), infinity)))
    return unless_any(k, k.logical_not(usual), result, lambda: _any_power(k, x, y, result))


def _any_power(k: Arithmetic, x: Value, y: Value, result: Value) -> Value:
    """The power of any x and y, given what it is for |x| if that is positive and finite."""
    a, zero, one, infinity = k.abs(x), k.const(0, x), k.const(1, x), k.const(float("inf"), x)
    at_end = k.logical_or(k.eq(a, zero), k.eq(a, infinity))
    grows = k.logical_xor(k.gt(a, one), k.lt(y, zero))
    result = k.select(at_end, k.select(grows, infinity, zero), result)
    result = k.select(k.isnan(a), a, k.select(k.isnan(y), y, result))
    whole, half = k.eq(y, k.trunc(y)), k.mul(y, k.const(0.5, y))
    odd = k.logical_and(whole, k.ne(half, k.trunc(half)))
    result = k.select(odd, k.copysign(result, x), result)
    finite_root = k.logical_and(k.logical_and(k.lt(x, zero), k.lt(a, infinity)), k.logical_not(whole))
    result = k.select(finite_root, k.const(float("nan"), x), result)
    sure = k.logical_or(k.eq(y, zero), k.eq(x, one))
    sure = k.logical_or(sure, k.logical_and(k.eq(a, one), k.eq(k.abs(y), infinity)))
    return k.select(sure, one, result)


def _log_pair(k: Arithmetic, a: Value) -> tuple[Value, Value]:
    """log(a) = n*ln2 + 2s + s^3*(2/3 + z*R(z)) with s = f/(2 + f), as a sum of two numbers, for a positive and finite
    a."""
    form = k.format(a)
    n, f = log_split(k, a)
    bottom, bottom_low = fast_two_sum(k, k.const(2, a), f)
    inverse = k.reciprocal(bottom)
    s = k.mul(f, inverse)
    s_low = k.mul(k.sub(k.intrinsic("llvm.fma", k.neg(s), bottom, f), k.mul(s, bottom_low)), inverse)
    z, z_low = two_product(k, s, s)
    z_low = k.fma(k.add(s, s), s_low, z_low)
    cube, cube_low = two_product(k, s, z)
    cube_low = k.fma(s, z_low, k.fma(s_low, z, cube_low))
    c, c_low = (k.const(part, a) for part in form.pair(Fraction(2, 3)))
    term, term_low = two_product(k, cube, c)
    term_low = k.fma(cube_low, c, k.fma(cube, c_low, term_low))
    rest = k.mul(k.mul(cube, z), polynomial(k, z, form.log_rest))
    high, error = fast_two_sum(k, k.add(s, s), term)
    low = k.add(error, k.add(k.add(s_low, s_low), k.add(term_low, rest)))
    ln2, ln2_low = (k.const(part, a) for part in form.ln2)
    total, error = fast_two_sum(k, k.mul(n, ln2), high)
    return fast_two_sum(k, total, k.add(error, k.fma(n, ln2_low, low)))


def _exp_of_pair(k: Arithmetic, x: Value, low: Value) -> Value:
    """exp(x)*(1 + low), for a low part that is small beside x; it counts for nothing beyond the bounds."""
    form = k.format(x)
    near = clamped(k, x, form.exp_low, form.exp_high)
    n, r, error = exp_split(k, near)
    low = k.add(k.select(k.eq(x, near), low, k.const(0, x)), error)
    q = k.mul(k.mul(r, r), polynomial(k, r, form.exp))
    return scaled(k, k.add(r, k.add(q, k.fma(k.add(r, q), low, low))), n, 0)
