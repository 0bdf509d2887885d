"""Rules of assignments: ``x[i] = v`` and writes through views, as functions of values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced
from yota_py.base.types import ArrayType, is_basic, typeof
from yota_py.registry.applied import apply_rule
from yota_py.registry.kernels import Accumulate, Assign
from yota_py.registry.registry import Case, Sample, case, rrule
from yota_py.registry.tangents import astype, is_inexact, like
from yota_py.registry.writes import accumulated, set_view, setitem

from .indices import getitem, unindex
from .support import Pullback, dtype_of


def _setitem_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(5), 2, s.number()), case(s(5), -1, 1.5), case(s(5), slice(1, 4), s(3)),
        case(s(5), slice(None, None, -2), s(3)), case(s(3, 4), 1, s(4)), case(s(3, 4), (slice(None), 2), s(1)),
        case(s(3, 4), (1, 2), s()), case(s(3, 4), ..., s.number()), case(s(4), np.array([0, 2, -1]), s(3)),
        case(s(4), np.array([1, 1, 1]), s(3)), case(s(4), s.mask(4), s.number()),
        case(s(3, 4), (np.array([0, 2]), slice(1, 3)), s(2, 2)), case(s(3, 4), (0, None), s(1, 4)),
        case(s(3, dtype=np.float32), slice(0, 2), s(2)), case(s(3, dtype=complex), 1, s.number()),
        case(s(3), slice(1, 1), s(0)), case(s(), (), s()), case(s(), ..., s.number()),
    ]  # fmt: skip


def _written(x: Any, value: Any, view: Callable[[Any], Any]) -> Any:
    """``x`` with ``value`` where ``view`` looks at it: gathered from the value, by positions known beforehand."""
    shape, places = np.shape(x), view(np.reshape(np.arange(np.size(x)), np.shape(x)))
    source = np.full(np.size(x), -1)
    source[np.ravel(places)] = np.arange(np.size(places))
    source = np.reshape(source, shape)
    if np.ndim(value):
        value = np.ravel(_fitted(value, np.shape(places)))[np.maximum(source, 0)]
    return like(np.where(source >= 0, value, x), x)


def _fitted(value: Any, shape: tuple[int, ...]) -> Any:
    """The value as an assignment spreads it, which may have more axes of length one in front."""
    have = np.shape(value)
    return np.broadcast_to(np.reshape(value, have[max(0, len(have) - len(shape)) :]), shape)


def _lowered_setitem(x: Any, index: Any, value: Any) -> Any:
    """A choice between the old elements and the new, unless there are few new ones: then a copy is quicker."""
    if not np.size(x):
        return NotImplemented
    if find_traced((index,)) is not None:
        return _spread(x, index, value)
    empty = np.empty(np.shape(x))
    taken = empty[index]
    is_whole = taken.shape == empty.shape and is_basic(index)
    if is_whole and (not taken.ndim or _where(taken) == _where(empty)):  # of x[()] NumPy makes a number
        return like(_fitted(value, taken.shape), x)
    if _FEW * taken.size < np.size(x):
        return NotImplemented
    if not is_basic(index) or np.ndim(value) == 0:
        return _written(x, value, lambda positions: positions[index])
    inside = np.zeros(np.shape(x), bool)
    inside[index] = True
    return like(np.where(inside, unindex(_fitted(value, taken.shape), index, np.shape(x)), x), x)


def _spread(x: Any, index: Any, value: Any) -> Any:
    """With a computed index: the value in the shape and dtype of what it replaces."""
    taken, have = typeof(getitem(x, index)), typeof(value)
    assert isinstance(taken, ArrayType)
    if isinstance(have, ArrayType) and (have.shape, have.dtype) == (taken.shape, taken.dtype):
        return NotImplemented
    return setitem(x, index, like(_fitted(value, taken.shape), x))


def _where(array: np.ndarray) -> tuple[Any, ...]:
    """Where an array lies, and how."""
    return array.ctypes.data, array.strides


_FEW = 32  # a loop over many elements would choose anew among all of them for each


def _lowered_set_view(x: Any, value: Any, view: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if find_traced((args, dict(kwargs))) is not None or not np.size(x):
        return NotImplemented
    part = view(np.empty(np.shape(x), dtype_of(x)), *args, **kwargs)
    if part.dtype != dtype_of(x) or _FEW * part.size < np.size(x):  # it may be the real or imaginary parts
        return NotImplemented
    return _written(x, value, lambda positions: view(positions, *args, **kwargs))


@rrule(setitem, kernel=Assign(), lowering=_lowered_setitem, cases=_setitem_cases)
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
        return setitem(dy, index, 0) if is_inexact(x) else None, None, dv

    return setitem(x, index, value), pullback


@rrule(set_view, lowering=_lowered_set_view, cases=lambda s: [
    case(s(3, 4), s(4, 3), np.transpose, (), {}), case(s(3, 4), s(2, 6), np.reshape, ((2, 6),), {}),
    case(s(3, 4), s(4), operator.getitem, (1,), {}),
    case(s(3, 4), s(3, 2), operator.getitem, ((slice(None), slice(0, 4, 2)),), {}),
    case(s(3, dtype=complex), s(3), np.real, (), {}), case(s(2, 2, dtype=complex), s(2, 2), np.imag, (), {}),
])  # fmt: skip
def _set_view(x: Any, value: Any, view: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Pullback]:
    def pullback(dy: Any) -> Sequence[Any]:
        dy = like(dy, x)
        dv = view(dy, *args, **kwargs)
        return set_view(dy, np.zeros(np.shape(dv)), view, args, kwargs), dv, None, None, None

    return set_view(x, value, view, args, kwargs), pullback


def _lowered_accumulated(ufunc: Any, x: Any, index: Any, *values: Any) -> Any:
    if ufunc not in (np.add, np.subtract) or not np.size(x):
        return NotImplemented
    (value,) = values
    have, given = typeof(x).dtype, typeof(value).dtype  # type: ignore[union-attr]
    if have.kind == "b" or (have.kind in "iu" and given != have):  # the sum is cast, not what is added
        return NotImplemented
    taken = np.shape(np.empty(np.shape(x))[index]) if find_traced((index,)) is None else np.shape(x[index])
    value = like(value, x) if typeof(value).dtype.kind in "fc" else astype(value, x.dtype)  # type: ignore[union-attr]
    return ufunc(x, unindex(_fitted(value, taken), index, np.shape(x)))


@rrule(accumulated, kernel=Accumulate(), lowering=_lowered_accumulated, cases=lambda s: [
    case(np.add, s(4), np.array([0, 2, 2]), s(3)), case(np.subtract, s(4), np.array([1, 1]), s.number()),
    case(np.add, s(3, 4), (np.array([0, 0, 2]), np.array([1, 1, 3])), s(3)), case(np.add, s(3, 4), 1, s(4)),
    case(np.subtract, s(3, 4), (slice(None), np.array([1, 1])), s(3, 1)), case(np.add, s(3), s.mask(3), s.number()),
    case(np.multiply, s(4), np.array([0, 2, 2, 2]), s(4)), case(np.maximum, s(3, 4), (..., np.array([1, 1])), s(3, 2)),
    case(np.sin, s(4), np.array([1, 1])), case(np.divide, s(3, dtype=np.float32), slice(1, None), s(2, low=0.5)),
])  # fmt: skip
def _accumulated(ufunc: Any, x: Any, index: Any, *values: Any) -> tuple[Any, Pullback]:
    """Repeated indices add up, so each of their values gets the whole cotangent; with another ufunc they are rounds."""

    def pullback(dy: Any) -> Sequence[Any]:
        return None, dy, None, dy[index] if ufunc is np.add else -dy[index]

    y = accumulated(ufunc, x, index, *values)
    return y, pullback if ufunc in (np.add, np.subtract) else _by_rounds(ufunc, x, index, *values)


def _by_rounds(ufunc: Any, x: Any, index: Any, *values: Any) -> Pullback:
    """The pullback of ``ufunc.at`` as of assignments one after the other, in none of which an element repeats."""
    places = np.reshape(np.arange(np.size(x)), np.shape(x))[index]
    at, shape = np.ravel(places), np.shape(places)
    flat, steps = np.reshape(x, (-1,)), []
    operands = [np.ravel(_fitted(value, shape)) for value in values]
    for chosen in _rounds(at):
        y, back = apply_rule(ufunc, [flat[at[chosen]], *(operand[chosen] for operand in operands)], {}, None)
        steps.append((chosen, back))
        flat = setitem(flat, at[chosen], y)

    def pullback(dy: Any) -> Sequence[Any]:
        dx, dvs = np.reshape(dy, (-1,)), [np.zeros(at.size, typeof(x).dtype) for _ in values]  # type: ignore[union-attr]
        for chosen, back in reversed(steps):
            dtaken, *dothers = back(dx[at[chosen]])
            dx = setitem(dx, at[chosen], 0 if dtaken is None else dtaken)
            dvs = [dv if d is None else setitem(dv, chosen, d) for dv, d in zip(dvs, dothers, strict=True)]
        return None, np.reshape(dx, np.shape(x)), None, *(np.reshape(dv, shape) for dv in dvs)

    return pullback


def _rounds(at: np.ndarray) -> Iterator[np.ndarray]:
    """The positions in an index array by how often their elements have been met before."""
    order = np.argsort(at, kind="stable")
    first = np.searchsorted(at[order], at[order])
    met = np.empty(at.size, int)
    met[order] = np.arange(at.size) - first
    for k in range(int(met.max(initial=-1)) + 1):
        yield np.flatnonzero(met == k)
