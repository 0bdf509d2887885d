"""Where values live: frame slots, offsets and strides; and how a loop nest's dimensions are merged."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.records import record
from ...base.types import ArrayType

HEAD_SLOT = 0  # the frame itself: numbers that come in, constants, numbers that go out
ARENA_SLOT = 2  # (slot 1 is the error flag) intermediate results
NEXT_SLOT = 3  # the next free frame
FIRST_SLOT = 4
LEAST_ROW = 8  # elements: a vector


def memory_dtype(t: ArrayType) -> str:
    """A dtype as what NumPy reads: of text, its name does not say which it is."""
    return t.dtype.str if t.dtype.kind in "SUV" else t.name


@record()
class Place:
    """A strided array in memory: a frame slot with a pointer, and from there in bytes."""

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def contiguous(self) -> bool:
        """Whether the elements stand in C order without gaps."""
        return self.strides == c_strides(self.shape, np.dtype(self.dtype).itemsize)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    def broadcast(self, shape: Sequence[int]) -> Place:
        """The same memory seen in a larger shape: stride 0 along new and repeated dimensions."""
        if shape == self.shape:
            return self
        lead = len(shape) - len(self.shape)
        strides = tuple(
            0 if d < lead or (self.shape[d - lead] == 1 and n != 1) else self.strides[d - lead]
            for d, n in enumerate(shape)
        )
        return replace(self, shape=tuple(shape), strides=strides)

    def at(self, index: Any) -> Place:
        """The place of ``array[index]``, of a basic index; of one element as well."""
        place = self.view(lambda array: array[to_the_end(index)])
        assert place is not None
        return place

    def view(self, fn: Callable[[np.ndarray], Any]) -> Place | None:
        """The place of ``fn(array)``, found by calling it on an array of this shape and these strides; ``None`` if it
        copies."""
        dummy = np.lib.stride_tricks.as_strided(_dummy(self), self.shape, self.strides, writeable=False)
        result = fn(dummy)
        if not isinstance(result, np.ndarray):  # an element is a number of its own
            return None
        start, origin = result.__array_interface__["data"][0], dummy.__array_interface__["data"][0]
        if result.size and not np.may_share_memory(result, dummy):
            return None
        dtype = self.dtype if result.dtype == dummy.dtype else result.dtype.name  # a part of complex numbers
        offset = self.offset + start - origin
        return replace(self, offset=offset, shape=result.shape, strides=result.strides, dtype=dtype)

    @property
    def parts(self) -> tuple[Place, Place]:
        """Of complex numbers the real and the imaginary parts."""
        re, im = self.view(np.real), self.view(np.imag)
        assert re is not None and im is not None
        return re, im


def to_the_end(index: Any) -> tuple[Any, ...]:
    """An index that takes views only, of single elements too."""
    parts = index if isinstance(index, tuple) else (index,)
    return parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)


def _dummy(place: Place) -> np.ndarray:
    """Memory that is reserved, never touched, and large enough on both sides for these strides."""
    reach = sum(abs(s) * max(0, n - 1) for s, n in zip(place.strides, place.shape, strict=True))
    dtype = np.dtype(place.dtype)
    memory = np.empty(2 * reach + dtype.itemsize * 2, np.uint8)
    at = reach - reach % dtype.itemsize
    return memory[at : at + dtype.itemsize].view(dtype)


def c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Byte strides of a C-contiguous array."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def ordered_strides(shape: Sequence[int], itemsize: int, order: Sequence[int]) -> tuple[int, ...]:
    """Byte strides of an array without gaps whose dimensions lie in memory in this order, the slowest first."""
    strides = c_strides([shape[d] for d in order], itemsize)
    return tuple(stride for _, stride in sorted(zip(order, strides, strict=True)))


def order_of(places: Sequence[Place], shape: Sequence[int]) -> tuple[int, ...]:
    """The order in memory of the dimensions of a result that is computed from these places, as NumPy chooses it: that
    of the operands where they have one in common, and of C where they do not."""
    dims = [d for d, n in enumerate(shape) if n > 1]
    orders = set()
    for place in places if len(dims) > 1 else ():
        strides = place.broadcast(shape).strides
        if all(strides[d] for d in dims):
            orders.add(tuple(sorted(dims, key=lambda d: -abs(strides[d]))))
    if len(orders) != 1:
        return tuple(range(len(shape)))
    return (*(d for d, n in enumerate(shape) if n <= 1), *orders.pop())


@record(frozen=False)
class Reference:
    """One memory operand of a loop nest: a stride per dimension, and what must agree where dimensions are merged."""

    place: Place
    strides: list[int]
    reduced: list[bool]
    box: list[tuple[int, int]] | None = None


def collapse(extents: Sequence[int], references: Sequence[Reference]) -> list[int]:
    """Drop dimensions of extent one, order the others as they lie in memory, and merge neighbours that all references
    walk through in one stride.

    Changes the references in place; returns the new extents.
    """
    dims = _ordered([d for d, n in enumerate(extents) if n != 1], extents, references)
    sizes = [extents[d] for d in dims]
    for r in references:
        if r.box is not None:  # a dimension of extent one is inside every box that is not empty
            r.box = [r.box[d] for d in dims]
        r.strides, r.reduced = [r.strides[d] for d in dims], [r.reduced[d] for d in dims]
    d = len(sizes) - 2
    while d >= 0:
        n = sizes[d + 1]
        if all(_mergeable(r, d, n) for r in references):
            for r in references:
                r.strides.pop(d)
                r.reduced.pop(d)
                if r.box is not None:
                    (first, extent), _ = r.box[d], r.box.pop(d + 1)
                    r.box[d] = (first * n, extent * n)
            sizes[d : d + 2] = [sizes[d] * n]
        d -= 1
    return sizes


def _ordered(dims: list[int], extents: Sequence[int], references: Sequence[Reference]) -> list[int]:
    """The loops from outside inwards."""
    out: list[int] = []
    for d in dims:
        at = len(out)
        while at and _inside(out[at - 1], d, extents, references):
            at -= 1
        out.insert(at, d)
    return out


def _inside(a: int, b: int, extents: Sequence[int], references: Sequence[Reference]) -> bool:
    """Whether the loop over ``a`` is to run inside of that over ``b``: if it makes the smaller steps in more references
    than the larger ones, and is not so short that its rows cost more than the steps."""
    steps = [(abs(r.strides[a]), abs(r.strides[b])) for r in references if r.strides[a] and r.strides[b]]
    smaller, larger = sum(x < y for x, y in steps), sum(x > y for x, y in steps)
    if smaller <= larger:
        return False
    total = any(r.reduced[a] and not r.reduced[b] for r in references)
    long = extents[a] >= min(LEAST_ROW, extents[b])
    merging = (r.strides[b] == r.strides[a] * extents[a] and r.reduced[a] == r.reduced[b] for r in references)
    return total or long or all(merging)


def _mergeable(r: Reference, d: int, n: int) -> bool:
    if r.strides[d] != r.strides[d + 1] * n or r.reduced[d] != r.reduced[d + 1]:
        return False
    return r.box is None or r.box[d + 1] == (0, n)


class Arena:
    """Offsets in a block of memory, reused when a buffer is dead: best fit over free intervals, none adjacent."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (length, start), sorted
        self._ends: dict[int, int] = {}  # by start
        self._starts: dict[int, int] = {}  # by end

    def take(self, nbytes: int) -> int:
        """The offset of a new buffer, aligned to a cache line."""
        n = aligned(nbytes)
        if (at := bisect_left(self._free, (n, 0))) < len(self._free):
            start = self._free[at][1]
        else:
            start = self._starts.get(self.size, self.size)  # the last interval grows
        end = self._ends.get(start, start)
        if start < end:
            self._remove(start, end)
        if start + n < end:
            self._add(start + n, end)
        self.size = max(self.size, start + n)
        return start

    def give(self, start: int, nbytes: int) -> None:
        """A buffer is dead."""
        end = start + aligned(nbytes)
        if (before := self._starts.get(start)) is not None:
            self._remove(before, start)
            start = before
        if (behind := self._ends.get(end)) is not None:
            self._remove(end, behind)
            end = behind
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._free, (end - start, start))
        self._ends[start], self._starts[end] = end, start

    def _remove(self, start: int, end: int) -> None:
        del self._free[bisect_left(self._free, (end - start, start))], self._ends[start], self._starts[end]


def aligned(nbytes: int) -> int:
    """So many bytes, filled up to a cache line."""
    return -(-max(nbytes, 1) // 64) * 64
