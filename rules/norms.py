"""Norms, as compositions of absolute values, sums, extrema and singular values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.composites import rule_of_body
from yota_py.registry.registry import Case, Cases, Sample, case, primitive
from yota_py.registry.tangents import astype, is_inexact, strong_multiply

from .support import (
    Axis,
    Pullback,
    axes_of,
    dtype_of,
    given,
    inexact,
    rule_of_primitives,
    shape_of,
    spread,
    stop_gradient,
    unsupported,
    zero_over_zero,
)  # fmt: skip

Ord = float | str | None


def _two_norm(x: Any, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    """Root of the sum of squares: ``dx = dy x / y``, and zero where the norm is zero."""
    if dtype_of(x).kind == "c":
        re, im = np.real(x), np.imag(x)
        squares = np.add(np.multiply(re, re), np.multiply(im, im))
    else:
        squares = np.multiply(x, x)
    y = np.sqrt(np.sum(squares, axis=axes, **given(keepdims=keepdims)))
    return y, lambda dy: (np.multiply(spread(zero_over_zero(dy, y), shape_of(x), axes), x),)


@primitive
def size_power(x: Any, p: Any) -> Any:
    """``|x| ** p``."""
    return np.power(np.absolute(x), p)


@primitive
def signed_power(x: Any, p: Any) -> Any:
    """``|x| ** p`` with the sign of ``x``, zero at zero: with ``size_power`` closed under differentiation."""
    return np.where(np.equal(x, 0), 0, np.multiply(np.sign(x), np.power(np.absolute(x), p)))[()]


_powers: Cases = lambda s: [  # noqa: E731
    *(case(s(3), p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0)), case(s(2, 3, dtype=complex), 1.5), case(s(3), 2),
    case(s(3, dtype=np.float32), 1.5),
]  # fmt: skip


@rule_of_primitives(size_power, cases=_powers)
def _size_power(x: Any, p: Any) -> tuple[Any, Pullback]:
    y = np.power(np.absolute(x), p)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dx = strong_multiply(dy, strong_multiply(p, signed_power(x, p - 1)))
        return dx, _exponent(dy, y, x, p)

    return y, pullback


@rule_of_primitives(signed_power, cases=_powers)
def _signed_power(x: Any, p: Any) -> tuple[Any, Pullback]:
    y = x if type(p) is float and p == 1 else np.where(np.equal(x, 0), 0, np.sign(x) * np.power(np.absolute(x), p))[()]

    def pullback(dy: Any) -> tuple[Any, ...]:
        if dtype_of(x).kind != "c":
            return strong_multiply(dy, strong_multiply(p, size_power(x, p - 1))), _exponent(dy, y, x, p)
        unit = signed_power(x, (p - 1) / 2)  # what changes the size goes along x, what turns it across
        along = strong_multiply((p - 1) * np.real(np.conj(unit) * dy), unit)
        return strong_multiply(dy, size_power(x, p - 1)) + along, _exponent(np.real(np.conj(dy) * y), 1, x, p)

    return y, pullback


def _exponent(dy: Any, y: Any, x: Any, p: Any) -> Any:
    """The cotangent of the exponent: ``y log|x|``, zero at zero."""
    if not is_inexact(p):
        return None
    return strong_multiply(dy, y * np.log(np.where(np.equal(x, 0), 1, np.absolute(x))))


def _p_norm(x: Any, p: Any, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    """``sum(|x|**p)**(1/p)``: ``dx = dy y**(1 - p) sign(x) |x|**(p - 1)``, and zero where the norm is zero.

    ``dp = dy y / p (sum((|x| / y)**p log|x|) - log y)``.
    """
    y = np.power(np.sum(size_power(x, p), axis=axes, **given(keepdims=keepdims)), 1.0 / p)

    def pullback(dy: Any) -> tuple[Any, ...]:
        nowhere = np.equal(y, 0)
        positive = np.where(nowhere, 1, y)
        size = stop_gradient(positive)  # by which all is divided: its powers may be too large, or too small
        scaled = np.divide(x, spread(size, shape_of(x), axes))
        each = np.where(nowhere, 0, dy) * np.power(np.divide(positive, size), 1 - p)
        dx = strong_multiply(spread(each, shape_of(x), axes), signed_power(scaled, p - 1))
        if not is_inexact(p):
            return (dx,)
        scaled = np.divide(x, spread(positive, shape_of(x), axes))
        logs = np.log(np.where(np.equal(x, 0), 1, np.absolute(x)))
        slope = np.sum(size_power(scaled, p) * logs, axis=axes, **given(keepdims=keepdims)) - np.log(positive)
        return dx, np.sum(dy * y / p * slope)

    return y, pullback


def _of_nothing(x: Any) -> dict[str, Any]:
    """The largest of no sizes is zero, as in NumPy."""
    return {"initial": 0} if 0 in shape_of(x) else {}


def _vector_norm(x: Any, ord: Ord, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    options = {"axis": axes, **given(keepdims=keepdims)}
    if isinstance(ord, float) and np.isfinite(ord) and ord != 0:  # differentiable in the order too
        return _p_norm(x, ord, axes, keepdims)
    if ord is None or ord == 2:
        return _two_norm(x, axes, keepdims)
    if ord == np.inf:
        return rule_of_body(lambda x: np.max(np.absolute(x), **options, **_of_nothing(x)), [x])
    if ord == -np.inf:
        return rule_of_body(lambda x: np.min(np.absolute(x), **options), [x])
    if ord == 1:
        return rule_of_body(lambda x: np.sum(np.absolute(x), **options), [x])
    if ord == 0:
        count = np.sum(astype(np.not_equal(x, 0), np.finfo(dtype_of(x)).dtype), **options)
        return count, lambda dy: (None,)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    return _p_norm(x, ord, axes, keepdims)


def _matrix_norm(x: Any, ord: Ord, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    if ord in (None, "fro", "f"):
        return _two_norm(x, axes, keepdims)
    pick: Any = {2: np.max, 1: np.max, np.inf: np.max, "nuc": np.sum}.get(ord, np.min)
    options = _of_nothing(x) if pick is np.max else {}
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = axes if ord in (1, -1) else axes[::-1]
        if not keepdims and inner < outer:
            outer -= 1
        options |= given(keepdims=keepdims)
        return rule_of_body(lambda x: pick(np.sum(np.absolute(x), inner, **given(keepdims=keepdims)), outer, **options),
                            [x])  # fmt: skip
    if ord in (2, -2, "nuc"):

        def of_singular_values(x: Any) -> Any:
            y = pick(np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False), axis=-1, **options)
            return np.expand_dims(y, axes) if keepdims else y

        return rule_of_body(of_singular_values, [x])
    orders = "None, 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
    raise unsupported(f"the matrix norm with ord={ord!r}", f"Orders of matrix norms: {orders}")


def _norm_cases(s: Sample) -> Iterable[Case]:
    vectors = [case(s(4), ord) for ord in (None, 1, 2, np.inf, -np.inf, 3, 1.5, 0)]
    matrices = [case(s(2, 3), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]
    return [
        *vectors, *matrices, case(s(2, 3)), case(s(2, 3, 2)), case(s(2, 3), axis=1), case(s(2, 3), 1, 0, True),
        case(s(2, 3), axis=-1, ord=3), case(s(2, 3, 2), axis=(0, 2)), case(s(2, 3, 2), 1, (2, 0)),
        case(s(2, 3, 2), 2, (0, 1), keepdims=True), case(s(2, 3), keepdims=True), case(s(4, dtype=np.float32)),
        case(s(3, dtype=np.complex128)), case(s(3, dtype=np.complex128), 3), case(s(3, 2).T),
        case(s(3, 2).T, axis=1, ord=np.inf), case(s(1)), case(s(0)),
    ]  # fmt: skip


@rule_of_primitives(np.linalg.norm, cases=_norm_cases)
def norm_rule(x: Any, ord: Ord = None, axis: Axis = None, keepdims: bool = False) -> tuple[Any, Pullback]:
    """``norm`` of a vector, matrix or array; the derivative at zero is zero."""
    x = inexact(x)
    ndim = len(shape_of(x))
    if axis is None and (ord is None or (ord in ("f", "fro") and ndim == 2)):
        return _two_norm(x, tuple(range(ndim)), keepdims)
    axes = axes_of(axis, ndim)
    if len(axes) not in (1, 2):
        raise ValueError("Improper number of dimensions to norm.")
    y, pullback = (_vector_norm if len(axes) == 1 else _matrix_norm)(x, ord, axes, keepdims)
    if isinstance(ord, float) and np.isinf(ord):  # which is the limit of other orders
        return y, lambda dy: (pullback(dy)[0], None)
    return y, pullback


@rule_of_primitives(np.linalg.vector_norm, cases=lambda s: [
    case(s(4)), case(s(2, 3)), case(s(2, 3), ord=1), case(s(2, 3), axis=0, ord=np.inf),
    case(s(2, 3, 2), axis=(0, 1), keepdims=True), case(s(2, 3), ord=3),
])  # fmt: skip
def vector_norm_rule(x: Any, *, axis: Axis = None, keepdims: bool = False, ord: Ord = 2) -> tuple[Any, Pullback]:
    """``vector_norm``: over all elements, or over some axes."""
    x = inexact(x)
    return _vector_norm(x, ord, axes_of(axis, len(shape_of(x))), keepdims)


@rule_of_primitives(
    np.linalg.matrix_norm,
    cases=lambda s: [case(s(2, 3)), case(s(2, 3, 2), ord=1), case(s(2, 3, 2), keepdims=True, ord="nuc")],
)
def matrix_norm_rule(x: Any, *, keepdims: bool = False, ord: Ord = "fro") -> tuple[Any, Pullback]:
    """``matrix_norm``: of the last two axes."""
    x = inexact(x)
    n = len(shape_of(x))
    return _matrix_norm(x, ord, (n - 2, n - 1), keepdims)
