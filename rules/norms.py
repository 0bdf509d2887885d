"""Norms, as compositions of absolute values, sums, extrema and singular values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry import Case, Sample, case
from yota_py.tangents import astype, is_inexact, like

from .statistics import zero_over_zero
from .support import (
    Axis,
    Pullback,
    axes_of,
    composite,
    dtype_of,
    given,
    operand,
    pipeline,
    shape_of,
    spread,
    unsupported,
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


def _p_norm(x: Any, p: float, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    """``sum(|x|**p)**(1/p)``: ``dx = dy sign(x) (|x| / y)**(p - 1)``, and zero where x is zero.

    ``dp = dy y / p (sum((|x| / y)**p log|x|) - log y)``.
    """
    size = np.absolute(x)
    y = np.power(np.sum(np.power(size, p), axis=axes, **given(keepdims=keepdims)), 1.0 / p)

    def pullback(dy: Any) -> tuple[Any, ...]:
        absent = np.equal(size, 0)
        safe = np.where(absent, 1, size)
        positive = np.where(np.equal(y, 0), 1, y)
        ratio = np.power(np.divide(safe, spread(positive, shape_of(x), axes)), p - 1)
        dx = np.where(absent, 0, spread(dy, shape_of(x), axes) * ratio * np.divide(x, safe))
        if not is_inexact(p):
            return (dx,)
        logs = np.where(absent, 0, np.power(safe / spread(positive, shape_of(x), axes), p) * np.log(safe))
        slope = np.sum(logs, axis=axes, **given(keepdims=keepdims)) - np.log(positive)
        return dx, like(np.sum(dy * y / p * slope), p)

    return y, pullback


def _vector_norm(x: Any, ord: Ord, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    options = {"axis": axes, **given(keepdims=keepdims)}
    if isinstance(ord, float) and np.isfinite(ord):  # differentiable in the order too
        return _p_norm(x, ord, axes, keepdims)
    if ord is None or ord == 2:
        return _two_norm(x, axes, keepdims)
    if ord == np.inf:
        return pipeline(x, (np.absolute,), (np.max, options))
    if ord == -np.inf:
        return pipeline(x, (np.absolute,), (np.min, options))
    if ord == 1:
        return pipeline(x, (np.absolute,), (np.sum, options))
    if ord == 0:
        count = np.sum(astype(np.not_equal(x, 0), np.finfo(dtype_of(x)).dtype), **options)
        return count, lambda dy: (None,)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    return _p_norm(x, ord, axes, keepdims)


def _matrix_norm(x: Any, ord: Ord, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Pullback]:
    if ord in (None, "fro", "f"):
        return _two_norm(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        pick: Any = np.max if ord > 0 else np.min  # type: ignore[operator]
        inner, outer = axes if ord in (1, -1) else axes[::-1]
        if not keepdims and inner < outer:
            outer -= 1
        return pipeline(
            x,
            (np.absolute,),
            (np.sum, {"axis": inner, **given(keepdims=keepdims)}),
            (pick, {"axis": outer, **given(keepdims=keepdims)}),
        )
    if ord in (2, -2, "nuc"):
        pick = {2: np.max, -2: np.min, "nuc": np.sum}[ord]  # type: ignore[index]
        back = [(np.expand_dims, axes)] if keepdims else []
        singular = (np.linalg.svd, {"compute_uv": False})
        return pipeline(x, (np.moveaxis, axes, (-2, -1)), singular, (pick, {"axis": -1}), *back)
    orders = "None, 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
    raise unsupported(f"the matrix norm with ord={ord!r}", f"Orders of matrix norms: {orders}")


def _inexact(x: Any) -> Any:
    x = operand(x)
    return x if dtype_of(x).kind in "fc" else astype(x, np.dtype(np.float64))


def _norm_cases(s: Sample) -> Iterable[Case]:
    vectors = [case(s(4), ord) for ord in (None, 1, 2, np.inf, -np.inf, 3, 1.5, 0)]
    matrices = [case(s(2, 3), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]
    return [
        *vectors, *matrices, case(s(2, 3)), case(s(2, 3, 2)), case(s(2, 3), axis=1), case(s(2, 3), 1, 0, True),
        case(s(2, 3), axis=-1, ord=3),
        case(s(2, 3, 2), axis=(0, 2)), case(s(2, 3, 2), 1, (2, 0)), case(s(2, 3, 2), 2, (0, 1), keepdims=True),
        case(s(2, 3), keepdims=True),
        case(s(4, dtype=np.float32)), case(s(3, dtype=np.complex128)), case(s(3, dtype=np.complex128), 3),
        case(s(3, 2).T),
        case(s(3, 2).T, axis=1, ord=np.inf), case(s(1)), case(s(0)),
    ]  # fmt: skip


@composite(np.linalg.norm, cases=_norm_cases)
def norm_rule(x: Any, ord: Ord = None, axis: Axis = None, keepdims: bool = False) -> tuple[Any, Pullback]:
    """``norm`` of a vector, matrix or array; the derivative at zero is zero."""
    x = _inexact(x)
    ndim = len(shape_of(x))
    if axis is None and (ord is None or (ord in ("f", "fro") and ndim == 2)):
        return _two_norm(x, tuple(range(ndim)), keepdims)
    axes = axes_of(axis, ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@composite(
    np.linalg.vector_norm,
    cases=lambda s: [
        case(s(4)), case(s(2, 3)), case(s(2, 3), ord=1), case(s(2, 3), axis=0, ord=np.inf),
        case(s(2, 3, 2), axis=(0, 1), keepdims=True),
        case(s(2, 3), ord=3),
    ],
)  # fmt: skip
def vector_norm_rule(x: Any, *, axis: Axis = None, keepdims: bool = False, ord: Ord = 2) -> tuple[Any, Pullback]:
    """``vector_norm``: over all elements, or over some axes."""
    x = _inexact(x)
    return _vector_norm(x, ord, axes_of(axis, len(shape_of(x))), keepdims)


@composite(
    np.linalg.matrix_norm,
    cases=lambda s: [case(s(2, 3)), case(s(2, 3, 2), ord=1), case(s(2, 3, 2), keepdims=True, ord="nuc")],
)
def matrix_norm_rule(x: Any, *, keepdims: bool = False, ord: Ord = "fro") -> tuple[Any, Pullback]:
    """``matrix_norm``: of the last two axes."""
    x = _inexact(x)
    n = len(shape_of(x))
    return _matrix_norm(x, ord, (n - 2, n - 1), keepdims)
