"""Differences along an axis, and the area under a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from yota_py.registry.registry import case
from yota_py.registry.tangents import conj, is_inexact, like, unbroadcast

from .indices import unindex
from .support import (
    NOTHING,
    Pullback,
    along,
    axis_of,
    dtype_of,
    operand,
    rule_of,
    rule_of_primitives,
    shape_of,
    spread,
)  # fmt: skip


def _difference(a: Any, axis: int) -> tuple[Any, Callable[[Any], Any]]:
    shape = shape_of(a)
    upper, lower = along(axis, len(shape), slice(1, None)), along(axis, len(shape), slice(None, -1))
    minus = np.not_equal if dtype_of(a).kind == "b" else np.subtract  # as NumPy has it
    return minus(a[upper], a[lower]), lambda dy: np.subtract(unindex(dy, upper, shape), unindex(dy, lower, shape))


@rule_of_primitives(
    np.diff,
    cases=lambda s: [
        case(s(4)), case(s(4), 2), case(s(3, 4), axis=0), case(s(3, 4), 1, 1), case(s(4), n=0), case(s(1)),
        case(s(3), prepend=0.5),
        case(s(2, 3), axis=0, append=s(1, 3)), case(s(3), 1, -1, s.number(), s(2)), case(s(4, dtype=np.float32)),
        case(s(4, 3).T),
    ],
)  # fmt: skip
def diff_rule(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = NOTHING, append: Any = NOTHING
) -> tuple[Any, Pullback]:
    """``diff``: each difference goes back to the two elements it was taken of."""
    a, shape = operand(a), shape_of(operand(a))
    if n < 0:
        raise ValueError(f"np.diff: the order must not be negative, it is {n}")
    if n == 0:  # whatever the ends and the axis are
        return a, lambda dy: (dy,)
    at = axis_of(axis, len(shape))
    line = (*shape[:at], 1, *shape[at + 1 :])
    ends = [
        None if e is NOTHING or e is None else (e if shape_of(e) else np.broadcast_to(e, line))
        for e in (prepend, append)
    ]
    x, join = a, None
    if any(e is not None for e in ends):
        x, join = rule_of(np.concatenate, tuple(part for part in (ends[0], a, ends[1]) if part is not None), at)
    y, steps = x, []
    for _ in range(n):
        y, step = _difference(y, at)
        steps.append(step)

    def back(dy: Any) -> tuple[Any, ...]:
        dx = dy
        for step in reversed(steps):
            dx = step(dx)
        if join is None:
            return (dx,)
        parts = list(join(dx)[0])
        first = parts.pop(0) if ends[0] is not None else None
        last = parts.pop() if ends[1] is not None else None
        dends = (None if d is None else unbroadcast(d, e) for d, e in ((first, prepend), (last, append)))
        return (parts[0], None, None, *dends)

    return y, back


@rule_of_primitives(
    np.trapezoid,
    cases=lambda s: [
        case(s(4)), case(s(2, 3)), case(s(2, 3), axis=0), case(s(4), s(4)), case(s(4), dx=0.5),
        case(s(3), None, s.number()),
        case(s(2, 3), s(3)), case(s(3, 2), s(3), axis=0), case(s(2, 3), s(2, 3)), case(s(4, dtype=np.float32)),
        case(s(3), s(2, 3)), case(s(3), None, s(4, 1)), case(s(2, 3), s(2, 2, 3), axis=-2),
    ],
)  # fmt: skip
def trapezoid_rule(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> tuple[Any, Pullback]:
    """``trapezoid``: means of neighbours times widths, summed."""
    y, shape = operand(y), shape_of(operand(y))
    at = axis_of(axis, len(shape))
    upper, lower = along(at, len(shape), slice(1, None)), along(at, len(shape), slice(None, -1))
    width, from_width = dx, None
    if x is not None:
        x = operand(x)
        in_line = len(shape_of(x)) == 1
        places = np.reshape(x, (-1, *(1,) * (len(shape) - at - 1))) if in_line else x
        width, from_width = _difference(places, 0 if in_line else axis_of(axis, len(shape_of(x))))
    heights = np.divide(np.add(y[upper], y[lower]), 2)
    area = np.multiply(width, heights)
    along_sum = axis_of(axis, len(shape_of(area)))  # which may have more dimensions than y

    def pullback(dz: Any) -> tuple[Any, ...]:
        each = spread(dz, shape_of(area), along_sum)
        dheight = unbroadcast(np.divide(np.multiply(each, conj(width)), 2), heights)
        dwidth = np.multiply(each, conj(heights))
        dy = like(np.add(unindex(dheight, upper, shape), unindex(dheight, lower, shape)), y) if is_inexact(y) else None
        if from_width is None:
            return dy, None, unbroadcast(dwidth, dx) if is_inexact(dx) else None
        return dy, np.reshape(from_width(unbroadcast(dwidth, width)), shape_of(x)) if is_inexact(x) else None

    return np.sum(area, axis=along_sum), pullback
