"""Arrays and numbers that a function reads from elsewhere: inputs of the tape, read by reference at each call.

Where two captured arrays look at the same memory and one of them is written into (weights that are tied by a stored
``w.T``), the array that owns the memory is the input, and the others are expressions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dispatch import is_traced
from ..tracing.tracer import Tracer
from ..tracing.traces import Trace
from .guards import Guards
from .slots import Slot

Index = tuple[Any, ...]
Layout = tuple[int, tuple[Any, ...]]
standing: dict[int, Any] = {}  # by their identity, the parameters that stand in their places (``parameters.py``)


class Captured:
    """``values`` in the order of capture; ``views`` are stored views of others: array and slot by the identity of
    their tracer. ``tied`` are owners of memory at which several arrays are known to look, by identity."""

    def __init__(self, trace: Trace, guards: Guards, tied: Mapping[int, Any]) -> None:
        self._trace, self._guards, self._tied = trace, guards, tied
        self.values: list[Any] = []
        self.views: dict[int, tuple[np.ndarray, Slot]] = {}
        self._known: dict[int, tuple[Any, Tracer, Slot]] = {}  # values, tracers and slots

    def array(self, value: np.ndarray, slot: Slot) -> Any:
        """What takes the place of an array: a tracer, if it holds numbers."""
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.kind not in "fcbiu":
            self._guards.require_is(slot, value)
            self._trace.problems.append(f"it reads an array of type {type(value).__name__} with dtype {value.dtype}")
            return value
        if id(value) in self._known:  # two names of one array
            _, tracer, known = self._known[id(value)]
            self._guards.require(f"{slot} is {known}", slot, f"the array {known.words}")
            return tracer
        if (view := self._view(value, slot)) is not None:
            return view
        tracer = self._capture(value, slot)
        self._known[id(value)] = value, tracer, slot
        return tracer

    def _capture(self, value: Any, slot: Slot) -> Tracer:
        self._guards.captured.append(slot)
        self.values.append(value)  # before the trace has a root for it: an interrupt may come in between
        is_native = not isinstance(value, np.ndarray) or value.dtype.isnative
        return self._trace.capture(value if is_native else value.astype(value.dtype.newbyteorder("=")))

    def _view(self, value: np.ndarray, slot: Slot) -> Tracer | None:
        """The tracer of an array that looks at one to which others are tied; ``None`` if it does not."""
        owner = owner_of(value)
        if owner is value or id(owner) not in self._tied or not owner.dtype.isnative:
            return None
        if (made := expression_of(value, owner)) is None:
            return None
        base = self.array(owner, self._guards.local(slot.attribute("base")))
        part, layout = self._guards.constant(is_part), self._guards.constant(layout_of(value, owner))
        _, _, known = self._known[id(owner)]
        same = f"{part}({slot}, {known}, {layout}, {self._guards.reference(value)})"
        self._guards.require(same, slot, f"a view of {known.words}")
        tracer: Tracer = made(base)
        self._known[id(value)] = value, tracer, slot
        self.views[id(tracer)] = value, slot
        return tracer

    def number(self, value: Any, slot: Slot) -> Tracer:
        """The tracer of a number of which it is known that it will be another one."""
        tracer = self._capture(value, slot)
        self._known[id(tracer)] = value, tracer, slot
        return tracer

    def again(self, tracer: Any, slot: Slot) -> bool:
        """Whether a traced value is one of these, in a container that is reached by two ways; or a parameter, which is
        an argument that was found there."""
        if id(tracer) in standing:
            return True
        for _, known, first in self._known.values():
            if known is tracer:
                self._guards.require_same(slot, first)
                return True
        return False

    def is_computed(self, value: Any) -> bool:
        """Whether a value is one that the function itself has computed, in this trace or in one inside of it."""
        trace = getattr(value, "_ledger", None) if is_traced(value) else None
        if not isinstance(trace, Trace) or trace.level < self._trace.level or id(value) in standing:
            return False
        return all(known is not value for _, known, _ in self._known.values())

    def arrays(self) -> dict[Slot, np.ndarray]:
        """The arrays that are read, by how."""
        return {known: value for value, _, known in self._known.values() if isinstance(value, np.ndarray)}


# -- stored views: an array that looks at another one's memory, as an expression of that one


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory an array looks at; itself, if that is no array's."""
    base = array.base
    return base if type(base) is np.ndarray and base.base is None else array


def layout_of(part: np.ndarray, owner: np.ndarray) -> Layout:
    """Where ``part`` looks at the memory of ``owner``, in bytes from its start, and how."""
    return _address(part) - _address(owner), _form(part, owner)


def _form(part: np.ndarray, owner: np.ndarray) -> tuple[Any, ...]:
    return part.shape, part.strides, part.dtype, owner.shape, owner.strides


def is_part(part: Any, owner: Any, layout: Layout, known: Any = None) -> bool:
    """Whether an array looks at the memory of ``owner`` as ``layout`` says, and may be written through; a ``known`` one
    does not begin at another place than before."""
    if type(part) is not np.ndarray or type(owner) is not np.ndarray or part.base is not owner:
        return False
    if not part.flags.writeable or _form(part, owner) != layout[1]:
        return False
    return part is known or _address(part) - _address(owner) == layout[0]


def expression_of(part: np.ndarray, owner: np.ndarray) -> Callable[[Any], Any] | None:
    """What makes ``part`` of ``owner``, or of a traced array that stands for it, by slices, transpositions and
    reshapes; ``None`` if they are not enough."""
    if part.dtype != owner.dtype or not part.size or not is_part(part, owner, layout_of(part, owner)):
        return None
    if not owner.flags.c_contiguous:
        made = _expression_of_rows(part, owner.T) if owner.flags.f_contiguous else None
        return None if made is None else lambda x: made(x.transpose())
    return _expression_of_rows(part, owner)


def _expression_of_rows(part: np.ndarray, owner: np.ndarray) -> Callable[[Any], Any] | None:
    """``expression_of`` for a C-contiguous owner."""
    axes = [k for k in range(part.ndim) if part.shape[k] > 1]
    order = sorted(axes, key=lambda k: -abs(part.strides[k]))
    index = _index(part, owner, order) or None
    start = (_address(part) - _address(owner)) // part.itemsize
    back = tuple(order.index(k) for k in axes)
    lengths = tuple(slice(None) if k in axes else None for k in range(part.ndim))
    shape, stop = tuple(part.shape[k] for k in order), start + part.size

    def sliced(x: Any) -> Any:
        return _placed(x[index], back, lengths)

    def flat(x: Any) -> Any:
        return _placed(x.reshape(-1)[start:stop].reshape(shape), back, lengths)

    if index is not None and _is_same(sliced(owner), part):
        return sliced
    return flat if start >= 0 and stop <= owner.size and _is_same(flat(owner), part) else None


def _index(part: np.ndarray, owner: np.ndarray, order: Sequence[int]) -> Index | None:
    """The index by which ``part`` is taken out of ``owner``, but for the order of axes and those of length one."""
    offset = _address(part) - _address(owner)
    left, index = [*order], list[Any]()
    for stride, extent in zip(owner.strides, owner.shape, strict=True):
        at, offset = divmod(offset, stride)
        axis = next((k for k in left if not part.strides[k] % stride), None) if extent > 1 else None
        if axis is None:
            index.append(at)
            continue
        left.remove(axis)
        step = part.strides[axis] // stride
        last = at + step * (part.shape[axis] - 1)
        if not (0 <= at < extent and 0 <= last < extent):
            return None
        stop = last + (1 if step > 0 else -1)
        index.append(slice(at, stop if stop >= 0 else None, step))
    return tuple(index) if not left and not offset else None


def _placed(x: Any, back: tuple[int, ...], lengths: Index) -> Any:
    """Axes in their own order, and those of length one."""
    if back != tuple(range(len(back))):
        x = x.transpose(back)
    return x[lengths] if None in lengths else x


def _is_same(made: np.ndarray, part: np.ndarray) -> bool:
    """Whether two arrays are one view; how long steps along an axis of length one are does not matter."""
    if made.shape != part.shape or _address(made) != _address(part):
        return False
    return all(n == 1 or a == b for a, b, n in zip(made.strides, part.strides, part.shape, strict=True))


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
