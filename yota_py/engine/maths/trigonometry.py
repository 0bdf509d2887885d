"""Sine, cosine and tangent: reduced by pi/2 in three parts (Cody and Waite), then the polynomials of fdlibm's
`k_sin.c` and `k_cos.c`; angles too large for that reduction go to libm.

They append basic blocks: the builder then stands at the end of another block.

Names: k the maths builder, x argument, n quadrant, r reduced argument and y its error, z square.
"""

from __future__ import annotations

from collections.abc import Callable

from .arithmetic import Arithmetic
from .expansions import fast_two_sum, nearest_integer, polynomial, quotient, two_sum, unless_any, unless_tiny
from .llvm import Value


def sin(k: Arithmetic, x: Value) -> Value:
    """sin(x), by quadrant ± sin or cos of what is left."""
    return unless_tiny(k, x, _trigonometric(k, "sin", x, _sin))


def cos(k: Arithmetic, x: Value) -> Value:
    """cos(x), by quadrant."""
    return _trigonometric(k, "cos", x, _cos)


def tan(k: Arithmetic, x: Value) -> Value:
    """tan(x), by quadrant."""
    return unless_tiny(k, x, _trigonometric(k, "tan", x, _tan))


def _trigonometric(k: Arithmetic, name: str, x: Value, finish: Callable[..., Value]) -> Value:
    """finish(k, n, r, y) with x = n*pi/2 + r + y; if a lane is too large for that, all lanes by libm."""
    result = finish(k, *_half_pi_split(k, x))
    large = k.ge(k.abs(x), k.const(k.format(x).trig_high, x))
    return unless_any(k, large, result, lambda: k.lane_by_lane(name, x))


def _half_pi_split(k: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """x = n*pi/2 + r + y: n as an integer, and r and its error y."""
    form = k.format(x)
    n, whole = nearest_integer(k, k.fma(x, k.const(1 / form.half_pi[0], x), k.const(form.magic, x)))
    first, second, third = (k.const(-part, x) for part in form.half_pi)
    # A true fma: the difference is exact, as it has no bits below those of pi/2.
    r = k.intrinsic("llvm.fma", whole, first, x)
    product = k.builder.fmul(whole, second)
    product_error = k.intrinsic("llvm.fma", whole, second, k.neg(product))
    r, error = two_sum(k, r, product)
    return n, r, k.fma(whole, third, k.add(error, product_error))


def _sin_and_cos(k: Arithmetic, r: Value, y: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """sin(r + y) and cos(r + y), each as a pair with a small second part to subtract."""
    form = k.format(r)
    one, half = k.const(1, r), k.const(0.5, r)
    z = k.mul(r, r)
    v, h = k.mul(z, r), k.mul(z, half)
    u = k.sub(k.mul(half, y), k.mul(v, polynomial(k, z, form.sin[1:])))
    sine = k.sub(k.sub(k.mul(z, u), y), k.mul(v, k.const(form.sin[0], r)))
    w = k.sub(one, h)
    cosine = k.sub(k.mul(r, y), k.mul(z, k.mul(z, polynomial(k, z, form.cos))))
    return (r, sine), (w, k.sub(cosine, k.sub(k.sub(one, w), h)))


def _sin(k: Arithmetic, n: Value, r: Value, y: Value) -> Value:
    (a, b), (c, d) = _sin_and_cos(k, r, y)
    odd = _bit(k, n, 0)
    return _negate_if_bit(k, n, 1, k.sub(k.select(odd, c, a), k.select(odd, d, b)))


def _cos(k: Arithmetic, n: Value, r: Value, y: Value) -> Value:
    """One quadrant further: cos(x) = sin(x + pi/2)."""
    return _sin(k, k.builder.add(n, k.const(1, n)), r, y)


def _tan(k: Arithmetic, n: Value, r: Value, y: Value) -> Value:
    """sin/cos, or -cos/sin."""
    (a, b), (c, d) = (fast_two_sum(k, p, k.neg(q)) for p, q in _sin_and_cos(k, r, y))
    odd = _bit(k, n, 0)
    top, top_low = k.select(odd, c, a), k.select(odd, d, b)
    bottom, bottom_low = k.select(odd, a, c), k.select(odd, b, d)
    return _negate_if_bit(k, n, 0, quotient(k, top, top_low, bottom, bottom_low))


def _bit(k: Arithmetic, n: Value, position: int) -> Value:
    return k.ne(k.builder.and_(n, k.const(1 << position, n)), k.const(0, n))


def _negate_if_bit(k: Arithmetic, n: Value, position: int, x: Value) -> Value:
    bit = k.builder.and_(n, k.const(1 << position, n))
    sign = k.builder.shl(bit, k.const(k.format(x).integer.width - 1 - position, n))
    return k.number(k.builder.xor(k.bits(x), sign))
