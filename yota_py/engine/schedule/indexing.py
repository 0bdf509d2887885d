"""What an index picks of an array: elements by computed numbers in some of its dimensions, slices of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.records import record
from ...base.types import ArrayType
from ...tape.operations import Variable
from ...tape.tape import Tape

INDEXED, NEW = "indexed", "new"


@record()
class Pick:
    """Of each dimension of an array what is read: a range, or by ``INDEXED`` one element for each of the indices; where
    the result has a ``NEW`` dimension, there is one of these in between. The dimensions of the indices stand behind so
    many of the others, ``before``."""

    parts: tuple[Any, ...]
    before: int

    def indexed(self, of: Sequence[int]) -> tuple[int, ...]:
        """Those numbers of the array's that belong to dimensions which are indexed: extents, or strides."""
        dimensions = [part for part in self.parts if part != NEW]
        return tuple(n for part, n in zip(dimensions, of, strict=True) if part == INDEXED)

    def shape(self, lead: tuple[int, ...]) -> tuple[int, ...]:
        """Of the result, with that of the indices, which are broadcast."""
        rest = [1 if part == NEW else len(part) for part in self.parts if part != INDEXED]
        return (*rest[: self.before], *lead, *rest[self.before :])

    def steps(self, strides: Sequence[int]) -> tuple[int, list[int]]:
        """Where the element for indices of zero stands, and the strides of the dimensions that are not indexed."""
        offset, out, dimensions = 0, list[int](), iter(strides)
        for part in self.parts:
            stride = 0 if part == NEW else next(dimensions)
            if part != INDEXED:
                offset += 0 if part == NEW else part.start * stride
                out.append(0 if part == NEW else part.step * stride)
        return offset, out


def picked(tape: Tape, index: Any, shape: Sequence[int]) -> tuple[list[Any], Pick] | None:
    """The indices, whole numbers or arrays of such, and what they pick of an array; ``None`` of other indices, and if
    nothing of it is computed."""
    given = index if isinstance(index, tuple) else (index,)
    expanded, dimensions = expand(index, len(shape)), iter(shape)
    indices, parts = [], list[Any]()
    for part in expanded:
        if part is None:
            parts.append(NEW)
        elif isinstance(part, slice):
            if any(isinstance(x, Variable) for x in (part.start, part.stop, part.step)):
                return None
            parts.append(range(next(dimensions))[part])
        elif not _is_index(tape, part):
            return None
        else:
            next(dimensions)
            indices.append(part)
            parts.append(INDEXED)
    if not any(isinstance(part, Variable) for part in indices):
        return None
    at = [i for i, part in enumerate(given) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    together = at[-1] - at[0] == len(at) - 1
    return indices, Pick(tuple(parts), parts.index(INDEXED) if together else 0)


def _is_index(tape: Tape, part: Any) -> bool:
    t = tape.type_of(part)
    known = isinstance(part, Variable | int) and not isinstance(part, bool)
    return known and isinstance(t, ArrayType) and t.dtype.kind in "iu"


def shape_of_indices(tape: Tape, indices: Sequence[Any]) -> tuple[int, ...]:
    """Broadcast."""
    return np.broadcast_shapes(*(tape.type_of(i).shape for i in indices))


def expand(index: Any, ndim: int) -> list[Any]:
    """One part per dimension (and per ``None``): the ellipsis written out."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    return parts[:at] + [slice(None)] * (ndim - used) + parts[at + 1 :]


def box_of(index: Any, shape: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """First index and extent per dimension of a basic index; ``None`` if a step is not one."""
    parts = [p for p in expand(index, len(shape)) if p is not None]
    box = []
    for part, n in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            if step != 1:
                return None
            box.append((start, max(0, stop - start)))
        else:
            box.append((int(part) % n, 1))
    return tuple(box)
