"""Methods of ufuncs that have no function of their own: ``logaddexp.reduce``, ``hypot.accumulate``."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.registry import case, rrule
from yota_py.registry.tangents import add, astype, is_inexact, like
from yota_py.registry.writes import ufunc_accumulate, ufunc_reduce, ufunc_reduceat

from .indices import unindex
from .reductions import linear_scan
from .support import NOTHING, Axis, Pullback, along, axes_of, axis_of, dtype_of, rule_of, shape_of


def _partials(ufunc: Any, results: Any, x: Any) -> tuple[Any, Any]:
    """Along the last axis, the derivatives of each result but the first by the one before and by its own element."""
    before, own = results[..., :-1], x[..., 1:]
    partials = rule_of(ufunc, before, own)[1](np.ones(shape_of(own), dtype_of(results)))
    return tuple(np.zeros_like(before) if d is None else d for d in partials)  # type: ignore[return-value]


def _passing_over(ufunc: Any, x: Any, mask: Any) -> Any:
    """``ufunc.accumulate`` along the last axis of the elements that a mask has, after the first."""
    results = [x[..., :1]]
    for k in range(1, shape_of(x)[-1]):
        each = slice(k, k + 1)
        results.append(like(np.where(mask[..., each], ufunc(results[-1], x[..., each]), results[-1]), x))
    return np.concatenate(results, axis=-1)


def _chain(dy: Any, by_before: Any, by_own: Any) -> Any:
    """The cotangents of the elements, of those of all results: each result also counts through those behind it."""
    last = np.zeros((*shape_of(dy)[:-1], 1), dtype_of(dy))
    total = linear_scan(np.concatenate((by_before, last), axis=-1), dy)
    return np.concatenate((total[..., :1], total[..., 1:] * by_own), axis=-1)


@rrule(ufunc_reduce, cases=lambda s: [
    case(np.logaddexp, s(4), 0), case(np.hypot, s(2, 3), 1), case(np.subtract, s(3, 2), 0, None, True),
    case(np.fmax, s(2, 3, 2), (0, 2)), case(np.divide, s(3, low=0.5), 0, None, False, s.number()),
    case(np.logaddexp, s(2, 3), None, None, False, NOTHING, s.mask(2, 3)), case(np.hypot, s(3, dtype=np.float32), 0),
    case(np.fmin, s(2, 3), 1, None, False, 0.25, s.mask(2, 3)),
    case(np.divide, s(2, 4, low=0.5), 1, None, False, s.number(1.0), s.mask(2, 4)),
    case(np.hypot, s(0, 2), 0), case(np.hypot, s(2), ()),
])  # fmt: skip
def _reduce(
    ufunc: Any, a: Any, axis: Axis, dtype: Any = None, keepdims: bool = False, initial: Any = NOTHING, where: Any = True
) -> tuple[Any, Pullback]:
    y = ufunc_reduce(ufunc, a, axis, dtype, keepdims, initial, where)
    shape, start = shape_of(a), ufunc.identity if initial is NOTHING else initial

    def pullback(dy: Any) -> tuple[Any, ...]:
        x = astype(a, dtype_of(y))
        axes = axes_of(axis, len(shape))
        last = tuple(range(len(shape) - len(axes), len(shape)))

        def lines(x: Any) -> Any:
            moved = np.moveaxis(x, axes, last)
            kept = shape_of(moved)[: len(shape) - len(axes)]
            return np.reshape(moved, (*kept, int(np.prod([shape[i] for i in axes]))))

        elements = lines(x)
        mask = None if where is True else lines(np.broadcast_to(where, shape))
        if start is not None:
            first = np.broadcast_to(astype(start, dtype_of(y)), (*shape_of(elements)[:-1], 1))
            elements = np.concatenate((first, elements), axis=-1)
            mask = None if mask is None else np.concatenate((np.ones(shape_of(first), bool), mask), axis=-1)
        n = shape_of(elements)[-1]
        if not n:
            return None, np.zeros_like(x)
        results = ufunc_accumulate(ufunc, elements, -1) if mask is None else _passing_over(ufunc, elements, mask)
        by_before, by_own = _partials(ufunc, results, elements)
        if mask is not None:
            by_before, by_own = np.where(mask[..., 1:], by_before, 1), np.where(mask[..., 1:], by_own, 0)
        dlast = np.reshape(dy, (*shape_of(elements)[:-1], 1))
        dlines = _chain(np.concatenate((np.zeros_like(elements[..., 1:]), dlast), axis=-1), by_before, by_own)
        if mask is not None:
            dlines = np.where(mask, dlines, 0)
        dfirst = dlines[..., 0] if is_inexact(initial) else None
        moved = tuple(n for i, n in enumerate(shape) if i not in axes) + tuple(shape[i] for i in axes)
        dx = np.moveaxis(np.reshape(dlines[..., int(start is not None) :], moved), last, axes)
        return None, dx, None, None, None, dfirst

    return y, pullback


@rrule(ufunc_accumulate, cases=lambda s: [
    case(np.logaddexp, s(4), 0), case(np.hypot, s(2, 3), 1), case(np.subtract, s(3, 2), -2), case(np.maximum, s(5), 0),
    case(np.divide, s(3, low=0.5), 0), case(np.hypot, s(2, 0), 1),
    case(np.hypot, s(3, dtype=np.float32), 0, np.float64),
])  # fmt: skip
def _accumulate(ufunc: Any, a: Any, axis: int, dtype: Any = None) -> tuple[Any, Pullback]:
    y = ufunc_accumulate(ufunc, a, axis, dtype)

    def pullback(dy: Any) -> tuple[Any, ...]:
        if not shape_of(a)[axis]:
            return None, np.zeros_like(y)
        x = np.moveaxis(astype(a, dtype_of(y)), axis, -1)
        dx = _chain(np.moveaxis(dy, axis, -1), *_partials(ufunc, np.moveaxis(y, axis, -1), x))
        return None, np.moveaxis(dx, -1, axis)

    return y, pullback


@rrule(ufunc_reduceat, cases=lambda s: [
    case(np.add, s(5), [0, 2, 1, 4], 0), case(np.maximum, s(2, 4), [0, 2], 1), case(np.logaddexp, s(4), [3, 0], -1),
])  # fmt: skip
def _reduceat(ufunc: Any, a: Any, starts: Any, axis: int, dtype: Any = None) -> tuple[Any, Pullback]:
    """Each part is a reduction of its own."""
    y = ufunc_reduceat(ufunc, a, starts, axis, dtype)
    shape = shape_of(a)
    at = axis_of(axis, len(shape))
    n = shape[at]
    ends = [max(start + 1, end) for start, end in zip(starts, [*starts[1:], n], strict=True)]

    def pullback(dy: Any) -> tuple[Any, ...]:
        dx = None
        for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
            part = along(at, len(shape), slice(start, end))
            back = rule_of(ufunc_reduce, ufunc, a[part], at, dtype, False, None)[1]
            dx = add(dx, unindex(back(dy[along(at, len(shape), i)])[1], part, shape))
        return None, np.zeros_like(a) if dx is None else dx

    return y, pullback


@rrule(np.frexp, cases=lambda s: [case(s(3)), case(s(2, 2, dtype=np.float32)), case(s.number())])
def _frexp(x: Any) -> tuple[Any, Pullback]:
    """The exponent is a step function, of which the mantissa is a multiple."""
    y = np.frexp(x)
    return y, lambda dy: (None if dy[0] is None else np.ldexp(dy[0], np.negative(y[1])),)
