"""Elementwise functions of complex numbers in terms of real and imaginary parts, as NumPy computes them.

A real operand counts as one whose imaginary part is zero, as in NumPy, where it is made complex first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.base.types import ArrayType, typeof
from yota_py.registry.tangents import Parts, astype

from .support import dtype_of


def _parts(*xs: Any) -> list[Any]:
    """Real and imaginary parts, in the dtype in which NumPy computes."""
    strong = [dtype for x in xs if (dtype := _strong(x)) is not None]
    parts = [part for x in xs for part in (x if type(x) is Parts else (x, 0.0))]
    if not strong:
        return parts
    weak = any(type(x) is Parts and _strong(x) is None for x in xs)
    dtype = np.empty(0, np.result_type(*strong, 0j if weak else 0.0)).real.dtype
    return [dtype.type(x) if type(x) is float else x if dtype_of(x) == dtype else astype(x, dtype) for x in parts]


def _strong(x: Any) -> Any:
    """The dtype of an operand, ``None`` of a number of Python's."""
    t = typeof(x.re if type(x) is Parts else x)
    if not isinstance(t, ArrayType) or t.kind == "python":
        return None
    return np.result_type(t.dtype, np.complex64) if type(x) is Parts else t.dtype


def add(a: Any, b: Any) -> Parts:
    """``a + b``."""
    ar, ai, br, bi = _parts(a, b)
    return Parts(ar + br, ai + bi)


def subtract(a: Any, b: Any) -> Parts:
    """``a - b``."""
    ar, ai, br, bi = _parts(a, b)
    return Parts(ar - br, ai - bi)


def multiply(a: Any, b: Any) -> Parts:
    """``a * b``."""
    ar, ai, br, bi = _parts(a, b)
    return Parts(ar * br - ai * bi, ar * bi + ai * br)


def strong_multiply(dy: Any, p: Any) -> Parts:
    """``strong_multiply(dy, p)``: zero where ``dy`` is."""
    re, im = _parts(dy)
    nothing = np.logical_and(np.equal(re, 0), np.equal(im, 0))
    return Parts(*(np.where(nothing, 0, part) for part in multiply(dy, p)))


def divide(a: Any, b: Any) -> Parts:
    """``a / b`` (Smith 1962, Algorithm 116: Complex division)."""
    ar, ai, br, bi = _parts(a, b)
    swap = np.less(np.abs(br), np.abs(bi))
    large, small = np.where(swap, bi, br), np.where(swap, br, bi)
    zero = np.logical_and(np.equal(large, 0), np.equal(small, 0))
    t = small / np.where(zero, 1, large)
    scale = np.divide(1, np.where(zero, np.abs(large), large + small * t))
    re, im = np.where(swap, ar * t + ai, ar + ai * t), np.where(swap, ai * t - ar, ai - ar * t)
    return Parts(np.where(zero, ar, re) * scale, np.where(zero, ai, im) * scale)


def reciprocal(z: Parts) -> Parts:
    """``1 / z``; NaN at zero, as NumPy's."""
    swap = np.less(np.abs(z.re), np.abs(z.im))
    large, small = np.where(swap, z.im, z.re), np.where(swap, z.re, z.im)
    t = small / large
    d = large + small * t
    return Parts(np.where(swap, t, 1) / d, -np.where(swap, 1, t) / d)


def square(z: Parts) -> Parts:
    """``z * z``."""
    return multiply(z, z)


def power(z: Any, p: Any) -> Any:
    """``z ** p`` for positive whole numbers that are known, as NumPy multiplies them."""
    return _product(z, p, from_one=4)


def power_of_numbers(z: Any, p: Any) -> Any:
    """The same of the operator: Python's numbers are always multiplied with one at first, which gives a zero another
    sign."""
    is_python = type(z) is Parts and typeof(z.re) == typeof(1.0)
    return _product(z, p, from_one=1 if is_python else 4)


def _product(z: Any, p: Any, *, from_one: int) -> Any:
    """A power by squares; from ``from_one`` on, the first factor is one."""
    if type(z) is not Parts or type(p) not in (int, float) or p != int(p) or not 0 < p < 100:
        return NotImplemented
    result, base, n = None if p < from_one else Parts(1.0, 0.0), z, int(p)
    while n:
        if n % 2:
            result = base if result is None else multiply(result, base)
        n //= 2
        base = multiply(base, base) if n else base
    return result


def angle(z: Parts, deg: bool = False) -> Any:
    """``np.angle``."""
    turn = np.arctan2(z.im, z.re)
    return turn * (180 / np.pi) if deg else turn


def negative(z: Parts) -> Parts:
    """``-z``."""
    return Parts(-z.re, -z.im)


def conjugate(z: Parts) -> Parts:
    """The imaginary part turned round."""
    return Parts(z.re, -z.im)


def absolute(z: Parts) -> Any:
    """``abs(z)``."""
    return np.hypot(z.re, z.im)


def equal(a: Any, b: Any) -> Any:
    """``a == b``."""
    ar, ai, br, bi = _parts(a, b)
    return np.logical_and(np.equal(ar, br), np.equal(ai, bi))


def not_equal(a: Any, b: Any) -> Any:
    """``a != b``."""
    return np.logical_not(equal(a, b))


def where(condition: Any, a: Any, b: Any) -> Any:
    """``np.where``."""
    if type(condition) is Parts:
        return NotImplemented
    ar, ai, br, bi = _parts(a, b)
    return Parts(np.where(condition, ar, br), np.where(condition, ai, bi))


def as_dtype(x: Any, dtype: Any) -> Any:
    """``astype`` from or to complex numbers."""
    if np.dtype(dtype).kind != "c":
        return NotImplemented
    part = np.empty(0, dtype).real.dtype
    re, im = _parts(x)
    return Parts(astype(re, part), im if type(im) is float else astype(im, part))


# Formulas of Abramowitz and Stegun, chapter 4; at infinities as C99 (annex G) has it.


def exp(z: Parts) -> Parts:
    """``exp(z)`` (4.3.47); what is not finite in the imaginary part does not matter beside an infinite real one."""
    e, endless = np.exp(z.re), np.logical_and(np.isinf(z.re), np.logical_not(np.isfinite(z.im)))
    flat = np.logical_or(np.equal(z.im, 0), np.logical_and(endless, np.equal(e, 0)))
    zero = np.copysign(0.0, z.im)
    return Parts(np.where(np.logical_or(np.equal(z.im, 0), endless), e, e * np.cos(z.im)),
                 np.where(flat, zero, e * np.sin(z.im)))  # fmt: skip


def _scaled(z: Parts) -> tuple[Any, Any, Any]:
    """The sizes of both parts, and a factor of the first four that keeps the size of the whole from overflow."""
    x, y = np.abs(z.re), np.abs(z.im)
    factor = np.where(np.maximum(x, y) > np.finfo(dtype_of(z.re)).max / 4, dtype_of(z.re).type(0.25), 1)
    return x, y, factor


def log(z: Parts) -> Parts:
    """``log(z)`` (4.1.2); near the unit circle by ``log1p`` of what the square of the size differs by from one."""
    x, y, factor = _scaled(z)
    large, small = np.maximum(x, y), np.minimum(x, y)
    h = np.hypot(x * factor, y * factor)
    near = np.logical_and(h > 0.5, h < 2)
    gap = np.where(near, (large - 1) * (large + 1) + small * small, 0)
    return Parts(np.where(near, np.log1p(gap) / 2, np.log(h) - np.log(factor)), np.arctan2(z.im, z.re))


def sqrt(z: Parts) -> Parts:
    """``sqrt(z)`` (3.7.27), without cancellation."""
    x, y, factor = _scaled(z)
    endless = np.isinf(z.im)
    t = np.sqrt(x * factor / 2 + np.hypot(x * factor, y * factor) / 2) / np.sqrt(factor)
    t = np.where(endless, np.inf, t)
    zero = np.equal(t, 0)
    rest = np.where(endless, np.inf, np.where(zero, 0, y / np.where(zero, 1, 2 * t)))
    right = np.greater_equal(z.re, 0)
    return Parts(np.where(right, t, rest), np.copysign(np.where(right, rest, t), z.im))


def _times(a: Any, b: Any) -> Any:
    """A product in which zero wins over infinity and NaN."""
    zero = np.logical_or(np.equal(a, 0), np.equal(b, 0))
    return np.where(zero, np.copysign(0.0, a) * np.copysign(1.0, b), a * b)


def sin(z: Parts) -> Parts:
    """``sin(z)`` (4.3.55)."""
    return Parts(_times(np.sin(z.re), np.cosh(z.im)), _times(np.cos(z.re), np.sinh(z.im)))


def cos(z: Parts) -> Parts:
    """``cos(z)`` (4.3.56)."""
    return Parts(_times(np.cos(z.re), np.cosh(z.im)), -_times(np.sin(z.re), np.sinh(z.im)))


def sinh(z: Parts) -> Parts:
    """``sinh(z)`` (4.5.49)."""
    return Parts(_times(np.sinh(z.re), np.cos(z.im)), _times(np.cosh(z.re), np.sin(z.im)))


def cosh(z: Parts) -> Parts:
    """``cosh(z)`` (4.5.50)."""
    return Parts(_times(np.cosh(z.re), np.cos(z.im)), _times(np.sinh(z.re), np.sin(z.im)))
