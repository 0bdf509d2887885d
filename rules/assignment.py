"""Rules of assignments: ``x[i] = v`` and writes through views, as functions of values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from yota_py.functional import set_view, setitem
from yota_py.registry import Case, Sample, case, rrule
from yota_py.tangents import is_inexact, unbroadcast

from .indexing import is_basic

Pullback = Callable[[Any], Sequence[Any]]


def _setitem_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(5), 2, s.number()), case(s(5), -1, 1.5), case(s(5), slice(1, 4), s(3)), case(s(5), slice(None, None, -2), s(3)),
        case(s(3, 4), 1, s(4)), case(s(3, 4), (slice(None), 2), s(1)), case(s(3, 4), (1, 2), s()), case(s(3, 4), ..., s.number()),
        case(s(4), np.array([0, 2, -1]), s(3)), case(s(4), np.array([1, 1, 1]), s(3)), case(s(4), s.mask(4), s.number()),
        case(s(3, 4), (np.array([0, 2]), slice(1, 3)), s(2, 2)), case(s(3, 4), (0, None), s(1, 4)),
        case(s(3, dtype=np.float32), slice(0, 2), s(2)), case(s(3, dtype=complex), 1, s.number()), case(s(3), slice(1, 1), s(0)),
    ]  # fmt: skip


@rrule(setitem, cases=_setitem_cases)
def _setitem(x: Any, index: Any, value: Any) -> tuple[Any, Pullback]:
    """What is overwritten gets no cotangent; of values that meet in one element, the last one gets it."""

    def pullback(dy: Any) -> Sequence[Any]:
        dv = None
        if is_inexact(value):
            dv = dy[index]
            if not is_basic(index):
                order = np.reshape(np.arange(1, np.size(dv) + 1), np.shape(dv))
                last = setitem(np.zeros(np.shape(dy), np.int64), index, order)[index]
                dv = np.where(np.equal(last, order), dv, 0)
            dv = unbroadcast(dv, value)
        return setitem(dy, index, 0) if is_inexact(x) else None, None, dv

    return setitem(x, index, value), pullback


@rrule(set_view, cases=lambda s: [
    case(s(3, 4), s(4, 3), np.transpose, (), {}), case(s(3, 4), s(2, 6), np.reshape, ((2, 6),), {}),
    case(s(3, 4), s(4), operator.getitem, (1,), {}), case(s(3, 4), s(3, 2), operator.getitem, ((slice(None), slice(0, 4, 2)),), {}),
])  # fmt: skip
def _set_view(
    x: Any, value: Any, view: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, Pullback]:
    def pullback(dy: Any) -> Sequence[Any]:
        dv = unbroadcast(view(dy, *args, **kwargs), value) if is_inexact(value) else None
        zero = np.zeros(np.shape(view(np.empty(np.shape(dy)), *args, **kwargs)))
        return set_view(dy, zero, view, args, kwargs) if is_inexact(x) else None, dv, None, None, None

    return set_view(x, value, view, args, kwargs), pullback
