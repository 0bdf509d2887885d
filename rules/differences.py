"""Differences along an axis, and the area under a line."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.registry import case

from .support import NOTHING, along, axis_of, dtype_of, operand, shape_of


def _difference(a: Any, axis: int) -> Any:
    n = len(shape_of(a))
    minus = np.not_equal if dtype_of(a).kind == "b" else np.subtract  # as NumPy has it
    return minus(a[along(axis, n, slice(1, None))], a[along(axis, n, slice(None, -1))])


@composite(
    np.diff,
    cases=lambda s: [
        case(s(4)), case(s(4), 2), case(s(3, 4), axis=0), case(s(3, 4), 1, 1), case(s(4), n=0), case(s(1)),
        case(s(3), prepend=0.5),
        case(s(2, 3), axis=0, append=s(1, 3)), case(s(3), 1, -1, s.number(), s(2)), case(s(4, dtype=np.float32)),
        case(s(4, 3).T),
    ],
)  # fmt: skip
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NOTHING, append: Any = NOTHING) -> Any:
    y, shape = operand(a), shape_of(operand(a))
    if n < 0:
        raise ValueError(f"np.diff: the order must not be negative, it is {n}")
    if n == 0:  # whatever the ends and the axis are
        return y
    at = axis_of(axis, len(shape))
    line = (*shape[:at], 1, *shape[at + 1 :])
    first, last = (
        () if e is NOTHING or e is None else (e if shape_of(e) else np.broadcast_to(e, line),)
        for e in (prepend, append)
    )
    if first or last:
        y = np.concatenate((*first, y, *last), at)
    for _ in range(n):
        y = _difference(y, at)
    return y


@composite(
    np.trapezoid,
    cases=lambda s: [
        case(s(4)), case(s(2, 3)), case(s(2, 3), axis=0), case(s(4), s(4)), case(s(4), dx=0.5),
        case(s(3), None, s.number()),
        case(s(2, 3), s(3)), case(s(3, 2), s(3), axis=0), case(s(2, 3), s(2, 3)), case(s(4, dtype=np.float32)),
        case(s(3), s(2, 3)), case(s(3), None, s(4, 1)), case(s(2, 3), s(2, 2, 3), axis=-2),
    ],
)  # fmt: skip
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Means of neighbours times widths, summed."""
    y, shape = operand(y), shape_of(operand(y))
    at = axis_of(axis, len(shape))
    width = dx
    if x is not None:
        x = operand(x)
        in_line = len(shape_of(x)) == 1
        places = np.reshape(x, (-1, *(1,) * (len(shape) - at - 1))) if in_line else x
        width = _difference(places, 0 if in_line else axis_of(axis, len(shape_of(x))))
    upper, lower = along(at, len(shape), slice(1, None)), along(at, len(shape), slice(None, -1))
    area = np.multiply(width, np.divide(np.add(y[upper], y[lower]), 2))
    return np.sum(area, axis=axis_of(axis, len(shape_of(area))))  # which may have more dimensions than y
