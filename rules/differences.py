"""``np.gradient``: slopes by finite differences, of second order inside.

Weights of three places at distances h and k (Fornberg 1988): the slope of the parabola through them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.registry import case
from yota_py.registry.tangents import astype

from .support import Axis, along, axes_of, dtype_of, inexact, operand, shape_of


def _widths(spacing: Any, n: int) -> Any:
    """Distances between neighbours, or the one distance of all."""
    x = operand(spacing)
    if not shape_of(x):
        return x
    if len(shape_of(x)) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if shape_of(x)[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    x = inexact(x) if dtype_of(x).kind in "iub" else x
    return np.subtract(x[1:], x[:-1])


def _slopes(f: Any, axis: int, width: Any, edge_order: int) -> Any:
    ndim, n = len(shape_of(f)), shape_of(f)[axis]
    if n < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient, "
                         "at least (edge_order + 1) elements are required.")  # fmt: skip
    at = [f[along(axis, ndim, slice(i, i + 1))] for i in (0, 1, min(2, n - 1), max(n - 3, 0), n - 2, n - 1)]
    left, middle, right = (f[along(axis, ndim, slice(i, n - 2 + i))] for i in range(3))
    if not shape_of(width):
        inside = np.divide(np.subtract(right, left), np.multiply(2.0, width))
        h = k = before = after = width
    else:
        width = np.reshape(width, tuple(-1 if i == axis else 1 for i in range(ndim)))
        ends = [width[along(axis, ndim, slice(i, i + 1))] for i in (0, min(1, n - 2), max(n - 3, 0), n - 2)]
        h, k, before, after = ends
        inside = _parabola(left, middle, right, width[along(axis, ndim, slice(None, -1))],
                           width[along(axis, ndim, slice(1, None))], 0)  # fmt: skip
    if edge_order == 1:
        first, last = np.divide(np.subtract(at[1], at[0]), h), np.divide(np.subtract(at[5], at[4]), after)
    else:
        (a, b, c), (d, e, f_) = at[:3], at[3:]
        first, last = _parabola(a, b, c, h, k, -1), _parabola(d, e, f_, before, after, 1)
    y = np.concatenate((first, inside, last), axis)
    return y if dtype_of(y) == dtype_of(f) else astype(y, dtype_of(f))


def _parabola(a: Any, b: Any, c: Any, h: Any, k: Any, place: int) -> Any:
    """The slope of the parabola through three values at the first (-1), second (0) or third (1) of their places."""
    back, ahead = np.divide(np.subtract(b, a), h), np.divide(np.subtract(c, b), k)
    if place == 0:
        return np.divide(np.add(np.multiply(k, back), np.multiply(h, ahead)), np.add(h, k))
    bend = np.divide(np.subtract(ahead, back), np.add(h, k))
    return np.subtract(back, np.multiply(h, bend)) if place < 0 else np.add(ahead, np.multiply(k, bend))


@composite(np.gradient, cases=lambda s: [
    case(s(5), s.number(0.5)), case(s(4), edge_order=2), case(s(4), np.cumsum(s(4, low=0.2)), edge_order=2),
    case(s(3, 4), 0.5, axis=1),
    case(s(3, 4), 0.5, np.cumsum(s(4, low=0.2))), case(s(3, 2, 2), axis=(0, -1)), case(s(4, 3).T, 2.0),
    case(s(4, dtype=np.float32)), case(s(3, dtype=complex)), case(s(3), np.array([0, 1, 3])), case(s(2), 0.5),
    case(s(2, 3), axis=[0], edge_order=1), case(s(3), np.array([0.0, 0.5, 1.0])),
    case(s(4, dtype=np.float32), s(4)), case(s(3), s.number(0.5), edge_order=2),
])  # fmt: skip
def _gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    f = inexact(f)
    shape = shape_of(f)
    axes = axes_of(axis, len(shape))
    if len(varargs) not in (0, 1, len(axes)) or (len(varargs) == 1 != len(axes) and shape_of(varargs[0])):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    spacings = varargs if len(varargs) == len(axes) else (varargs or (1.0,)) * len(axes)
    slopes = [_slopes(f, i, _widths(h, shape[i]), edge_order) for i, h in zip(axes, spacings, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)
