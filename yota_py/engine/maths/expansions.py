"""What the expansions of functions share: powers of two, polynomials, sums and quotients with their rounding errors.

Knuth, TAOCP vol. 2, 4.2.2, and Dekker, Numer. Math. 18 (1971): the error of a sum.

Names: k the maths builder, x argument, n integer part of a reduction, s power of two.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from .arithmetic import Arithmetic
from .formats import BINARY32, BINARY64, Format
from .llvm import I64, Value


def nearest_integer(k: Arithmetic, shifted: Value) -> tuple[Value, Value]:
    """The integer n in x + magic, as an integer and as a float (AVX2 has no conversion to i64)."""
    magic = k.format(shifted).magic
    bits = k.bits(shifted)
    n = k.builder.sub(bits, k.const(k.format(shifted).bits(magic), bits))
    return n, k.sub(shifted, k.const(magic, shifted))


def as_float(k: Arithmetic, n: Value, form: Format) -> Value:
    """An integer as a float, by the same trick backwards."""
    shifted = k.number(k.builder.add(n, k.const(form.bits(form.magic), n)))
    return k.sub(shifted, k.const(form.magic, shifted))


def power_of_two(k: Arithmetic, n: Value) -> Value:
    """2^n as a float of the integer's width, for n in the range of normal numbers."""
    form = BINARY64 if k.element(n) == I64 else BINARY32
    biased = k.builder.add(n, k.const(form.bias, n))
    return k.number(k.builder.shl(biased, k.const(form.mantissa, n)))


def scaled(k: Arithmetic, p: Value, n: Value, shift: int) -> Value:
    """(1 + p) * 2^(n + shift) in two steps, of which only the second can leave the normal numbers; what is added to it
    is added to that, an infinity too, so that they are not contracted."""
    half = k.builder.ashr(n, k.const(1, n))
    rest = k.builder.sub(n, half)
    if shift:
        rest = k.builder.add(rest, k.const(shift, n))
    s = power_of_two(k, half)
    return k.builder.fmul(k.fma(p, s, s), power_of_two(k, rest))


def split_exponent(k: Arithmetic, x: Value) -> tuple[Value, Value]:
    """x = 2^n * m with m between sqrt(1/2) and sqrt(2): n as an integer, and m."""
    form, bits = k.format(x), k.bits(x)
    n = k.builder.sub(bits, k.const(form.bits(0.5**0.5), bits))
    n = k.builder.ashr(n, k.const(form.mantissa, n))
    return n, k.number(k.builder.sub(bits, k.builder.shl(n, k.const(form.mantissa, n))))


def unless_any(k: Arithmetic, rare: Value, usual: Value, otherwise: Callable[[], Value]) -> Value:
    """A usual value; if any lane is rare, what is written ``otherwise``, for all lanes. It appends basic blocks."""
    if k.lanes > 1:
        mask = k.builder.bitcast(rare, ir.IntType(k.lanes))
        rare = k.builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))
    near = k.builder.block
    far, done = (k.builder.append_basic_block(label) for label in ("rare", "done"))
    k.builder.cbranch(rare, far, done).set_weights([1, 1000])
    k.builder.position_at_end(far)
    value = otherwise()
    far = k.builder.block
    k.builder.branch(done)
    k.builder.position_at_end(done)
    phi = k.builder.phi(usual.type)
    phi.add_incoming(usual, near)
    phi.add_incoming(value, far)
    return phi


def clamped(k: Arithmetic, x: Value, low: float | None, high: float) -> Value:
    """x between two bounds; NaN compares false and passes through."""
    top = k.const(high, x)
    x = k.select(k.gt(x, top), top, x)
    if low is None:
        return x
    bottom = k.const(low, x)
    return k.select(k.lt(x, bottom), bottom, x)


def unless_tiny(k: Arithmetic, x: Value, result: Value) -> Value:
    """The result, but x where f(x) = x + O(x^2) is x."""
    return k.select(k.lt(k.abs(x), k.const(k.format(x).tiny, x)), x, result)


def polynomial(k: Arithmetic, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Two Horner chains in x^2: half the latency of one, for one more multiplication."""
    even, odd = coefficients[0::2], coefficients[1::2]
    square = k.mul(x, x)
    return k.fma(_horner(k, square, odd), x, _horner(k, square, even))


def _horner(k: Arithmetic, x: Value, coefficients: tuple[float, ...]) -> Value:
    total = k.const(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        total = k.fma(total, x, k.const(c, x))
    return total


def two_sum(k: Arithmetic, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error (Knuth); no flags: contraction would break it."""
    fadd, fsub = k.builder.fadd, k.builder.fsub
    total = fadd(a, b)
    from_b = fsub(total, a)
    return total, fadd(fsub(a, fsub(total, from_b)), fsub(b, from_b))


def fast_two_sum(k: Arithmetic, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error, for |a| >= |b| (Dekker)."""
    total = k.builder.fadd(a, b)
    return total, k.builder.fadd(k.builder.fsub(a, total), b)


def two_product(k: Arithmetic, a: Value, b: Value) -> tuple[Value, Value]:
    """a * b and its rounding error."""
    product = k.builder.fmul(a, b)
    return product, k.intrinsic("llvm.fma", a, b, k.neg(product))


def quotient(k: Arithmetic, a: Value, a_low: Value | None, b: Value, b_low: Value) -> Value:
    """(a + a_low) / (b + b_low), corrected once by the remainder."""
    inverse = k.reciprocal(b)
    q = k.mul(a, inverse)
    remainder = k.intrinsic("llvm.fma", k.neg(q), b, a)
    if a_low is not None:
        remainder = k.add(remainder, a_low)
    return k.fma(k.sub(remainder, k.mul(q, b_low)), inverse, q)
