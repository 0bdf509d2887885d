"""What a kernel is: one loop nest over memory operands, elementwise operations, and stores or reductions.

A ``KernelSpec`` is the identity of compiled code. Sizes, strides, offsets and constants are not part of it: they are
*words* that the kernel reads at run time, in this order: the extents of the dimensions; per operand its frame slot,
byte offset and byte strides (then, for "pad" and "box", first index and extent per dimension; for "gather" and
"scatter", extent and byte stride per index); per output the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

# The stride of the innermost dimension: one element (vector loads), zero (one value for all), or any other.
Inner = Literal["unit", "zero", "any"]
Mode = Literal["store", "sum", "prod", "max", "min", "scatter", "require"]

DTYPES = {"float64": 8, "float32": 4, "int64": 8, "int32": 4, "bool": 1}


@dataclass(frozen=True, slots=True)
class Operand:
    """A value read from memory. "pad" reads zero outside a box; "gather" adds indices given by other operands; "box" is
    no memory but the mask of a box."""

    dtype: str
    inner: Inner
    access: Literal["plain", "pad", "gather", "box"] = "plain"
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """An elementwise operation on values: operands are numbered first, then nodes.

    ``emit`` writes it with a maths builder; ``None`` casts the only operand to ``dtype``.
    """

    emit: Callable[..., Any] | None
    operands: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Output:
    """A value written to memory, or reduced over the dimensions marked in ``reduced``, or scatter-added.

    To "require" a ``mask`` means to write the value, if it is one number, only where the mask is false, and to report
    the place.
    """

    value: int
    dtype: str
    inner: Inner
    mode: Mode = "store"
    reduced: tuple[bool, ...] = ()
    indices: tuple[int, ...] = ()
    mask: int = -1


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The structure of a kernel: its identity in the cache of compiled code. Rows are short unless it is ``wide``."""

    rank: int
    wide: bool
    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]


def words_of(access: str, rank: int, indices: int) -> int:
    """How many words describe one operand or output."""
    return 2 + rank + (2 * rank if access in ("pad", "box") else 0) + 2 * indices
