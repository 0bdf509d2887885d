"""Indexing and its adjoint, and the functions that pick elements by position. Sorting stands in ``sorting.py``."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.dispatch import dispatching, find_traced, is_traced
from yota_py.registry import Case, Sample, case

from .support import Pullback, array_rule, dtype_of, shape_of


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``, recorded also if only the index is traced."""
    if not is_traced(x) and (traced := find_traced((index,))) is not None:
        return type(traced).__yota_record__(operator.getitem, (x, index), {})
    return x[index]


@dispatching
def unindex(dy: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of ``shape`` with ``dy`` added at ``index``: the adjoint of ``x[index]``; repeated indices add up."""
    dx = np.zeros(shape, dtype_of(dy))
    if is_basic(index):
        dx[index] = dy
    else:
        np.add.at(dx, index, dy)
    return dx


def is_basic(index: Any) -> bool:
    """Whether an index takes a view: made of integers, slices, ``None`` and ``...`` only."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None
        or part is Ellipsis
        or isinstance(part, slice)
        or (isinstance(part, int | np.integer) and not isinstance(part, bool))
        for part in parts
    )


def _getitem_cases(s: Sample) -> Iterable[Case]:
    basic = [
        (s(5), 2), (s(5), -1), (s(5), slice(1, -1)), (s(5), slice(None, None, -2)), (s(3, 4), 1), (s(3, 4), (slice(None), -1)),
        (s(3, 4), (slice(0, 2), slice(3, 0, -1))), (s(3, 4), (Ellipsis, None, 2)), (s(3, 4), (None, slice(1, 3))),
        (s(3, 4), (1, 2)), (s(2, 3, 4), (1, Ellipsis)), (s(), ()), (s(), Ellipsis), (s(), None), (s(5), slice(2, 2)),
        (s(4, 3).T, (slice(1, None), 0)), (np.asfortranarray(s(3, 4)), 2), (s(5, dtype=np.float32), slice(1, 3)),
    ]  # fmt: skip
    fancy = [
        (s(5), np.array([0, 2, 2, -1])), (s(5), [3, 3]), (s(5), np.array([], dtype=int)), (s(5), np.array([[0, 1], [1, 4]])),
        (s(3, 4), np.array([2, 0, 2])), (s(3, 4), (np.array([0, 1, 0]), np.array([3, 1, 3]))), (s(3, 4), (slice(None), [1, 1])),
        (s(3, 4), (np.array([[0], [2]]), np.array([1, 3]))), (s(2, 3, 4), (np.array([1, 0]), slice(None), 2)),
        (s(3, 4), (1, np.array([0, 0]))), (s(3, 4), s.mask(3, 4)), (s(3, 4), s.mask(3)), (s(3, 4), (slice(None), s.mask(4))),
        (s(3, 4), np.zeros((3, 4), bool)), (s(3, 4), (None, np.array([0, 2]))), (s(6, 4)[::2, ::-1], np.array([1, 1])),
        (s(5, dtype=np.float32), np.array([1, 1])), (s(3, dtype=np.complex128), np.array([2, 0])),
        (s(5), s.integers(7, high=5)),
    ]  # fmt: skip
    return [case(x, index) for x, index in basic + fancy]


@array_rule(operator.getitem, kind="index", cases=_getitem_cases)
def getitem_rule(x: Any, index: Any) -> tuple[Any, Pullback]:
    """``x[index]``: the cotangent goes back to where the elements came from."""
    shape = shape_of(x)
    return getitem(x, index), lambda dy: (unindex(dy, index, shape), None)


@array_rule(
    unindex,
    kind="unindex",
    cases=lambda s: [
        case(s(2), slice(1, 3), (5,)), case(s(), 2, (4,)), case(s(3), np.array([0, 0, 2]), (4,)),
        case(s(2, 3), (slice(None), np.array([1, 1, 0])), (2, 2)), case(s(2, 1), (Ellipsis, None, 1), (2, 3)),
        case(s(2, dtype=np.float32), [1, 1], (3,)),
    ],
)  # fmt: skip
def unindex_rule(dy: Any, index: Any, shape: tuple[int, ...]) -> tuple[Any, Pullback]:
    """``unindex``: its adjoint is indexing."""
    return unindex(dy, index, shape), lambda dz: (getitem(dz, index),)
