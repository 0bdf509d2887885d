"""What a kernel is: one loop nest over memory operands, elementwise operations, and stores or reductions.

A ``KernelSpec`` is the identity of compiled code. Sizes, strides, offsets and constants are not part of it: they are
*words* that the kernel reads at run time. The planner writes them (``words_of``), the emitter reads them in the same
order (``KernelSpec.read``), so that what is a number there is the load of one here.

A kernel is ``void kernel(int64 *frame, int64 *words, int64 begin, int64 end)``: it runs over this part of its outer
dimension, whose extent is the first word. What it reduces over that dimension is reduced over the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields
from typing import Generic, Literal, Self, TypeVar

from ...base.records import record, written

T = TypeVar("T")

# The stride of the innermost dimension: one element (vector loads), two (as the parts of complex numbers have), zero
# (one value for all), or any other.
Inner = Literal["unit", "pair", "zero", "any"]
Access = Literal["plain", "pad", "gather", "box"]
Reduction = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod"]
Writing = Literal["store", "scatter", "put", "require", "join"] | Reduction

DTYPES = {
    "float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


@record()
class Window(Generic[T]):
    """Where an operand or output stands in memory: a frame slot with an address, or none if it is in the frame itself;
    from there, in bytes, an offset and strides. Of "pad" and "box" also the ``firsts`` and ``extents`` of the box, of
    "gather", "scatter" and "put" the ``bounds`` and ``steps`` (in bytes) of the indices."""

    slot: T | None
    offset: T
    strides: Sequence[T]
    firsts: Sequence[T] = ()
    extents: Sequence[T] = ()
    bounds: Sequence[T] = ()
    steps: Sequence[T] = ()

    def words(self) -> list[T]:
        """All of them, in their order."""
        parts = self.strides, self.firsts, self.extents, self.bounds, self.steps
        start = (self.offset,) if self.slot is None else (self.slot, self.offset)
        return [*start, *(word for part in parts for word in part)]

    @classmethod
    def read(cls, word: Callable[[], T], rank: int, boxed: bool, indices: int, framed: bool) -> Window[T]:
        """The same from what ``word`` gives, one after the other."""
        slot, counts = None if framed else word(), (rank, rank * boxed, rank * boxed, indices, indices)
        return cls(slot, word(), *([word() for _ in range(n)] for n in counts))


@record()
class _Words(Generic[T]):
    """Words of a call of a library, one for each field."""

    def words(self) -> list[T]:
        """All of them, in their order."""
        return list(astuple(self))

    @classmethod
    def read(cls, word: Callable[[], T]) -> Self:
        """The same from what ``word`` gives, one after the other."""
        return cls(*(word() for _ in fields(written(cls))))


@record()
class Product(_Words[T]):
    """The words of C = op(A) op(B) in Fortran's order: slots, offsets; sizes; leading dimensions; whether A and B are
    transposed; of a stack of them how many, and bytes from one to the next."""

    a: T
    a_offset: T
    b: T
    b_offset: T
    c: T
    c_offset: T
    m: T
    n: T
    k: T
    lda: T
    ldb: T
    ldc: T
    a_transposed: T
    b_transposed: T
    count: T
    a_step: T
    b_step: T
    c_step: T


@record()
class Matrices(_Words[T]):
    """The words of a call of LAPACK on a stack of square matrices, each in Fortran's order: slots and offsets of the
    matrices, of right-hand sides or other results, of pivots; how many matrices, rows, and right-hand sides."""

    a: T
    a_offset: T
    b: T
    b_offset: T
    pivots: T
    pivots_offset: T
    count: T
    n: T
    k: T


@record()
class Lines(_Words[T]):
    """The words of a call that sorts: slots and offsets of what is read and of what is written; so many lines of so
    many elements."""

    source: T
    source_offset: T
    target: T
    target_offset: T
    count: T
    n: T


@record()
class Places(_Words[T]):
    """The words of a call that searches: slots and offsets of the table, of what is searched for, so many numbers, and
    of their indices."""

    table: T
    table_offset: T
    n: T
    x: T
    x_offset: T
    count: T
    target: T
    target_offset: T


@record()
class Operand:
    """A value read from memory. "pad" reads zero outside a box; "gather" adds indices given by other operands; "box" is
    no memory but the mask of a box. One that reads the second elements of pairs may stand ``beside`` an operand that
    reads the first. Numbers that are in the frame itself are ``framed``."""

    dtype: str
    inner: Inner
    access: Access = "plain"
    indices: tuple[int, ...] = ()
    beside: int = -1
    framed: bool = False


@record()
class Node:
    """An elementwise operation on values: operands are numbered first, then nodes.

    ``emit`` is the name of what writes it (``registry.kernels``); without one the only operand is cast to ``dtype``.
    """

    emit: str
    operands: tuple[int, ...]
    dtype: str


@record()
class Output:
    """A value written to memory, or reduced over the dimensions marked in ``reduced``, or summed up (or multiplied)
    along the one that is marked there, or scatter-added.

    To "require" a ``mask`` means to write the value, if it is one number, only where the mask is false, and to report
    the place. To "join" an ``imaginary`` value means to write it behind the value, at each element. Of "argmax" and
    "argmin" the ``extrema`` are another output, behind it.
    """

    value: int
    dtype: str
    inner: Inner
    mode: Writing = "store"
    reduced: tuple[bool, ...] = ()
    indices: tuple[int, ...] = ()
    mask: int = -1
    imaginary: int = -1
    extrema: int = -1
    framed: bool = False


@record()
class KernelSpec:
    """The structure of a kernel: its identity in the cache of compiled code. Rows are short unless it is ``wide``."""

    rank: int
    wide: bool
    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]

    def read(self, word: Callable[[], T]) -> tuple[list[T], list[Window[T]], list[Window[T]]]:
        """Extents and the windows of operands and outputs, from what ``word`` gives, one after the other."""
        extents = [word() for _ in range(self.rank)]
        boxed = ("pad", "box")
        loads = [Window.read(word, self.rank, o.access in boxed, len(o.indices), o.framed) for o in self.operands]
        return extents, loads, [Window.read(word, self.rank, False, len(o.indices), o.framed) for o in self.outputs]


def words_of(extents: Sequence[int], windows: Iterable[Window[int]]) -> list[int]:
    """A kernel's words: its extents, then the windows of its operands and outputs."""
    return [*extents, *(word for window in windows for word in window.words())]
