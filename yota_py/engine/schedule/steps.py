"""The steps that a lowered tape is scheduled into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ...tape.operations import Variable
from ...tape.tape import Tape


@dataclass(frozen=True, slots=True)
class Item:
    """One operation of a cluster.

    ``reads`` are its operands, each with the dtype it is cast to. A "pad" has its box as ``(first, extent)`` per
    dimension, a "reduce" its mode and the reduced axes; "gather" and "scatter" read data first, then the indices;
    "require" is a guard: it reads what was decided on, and its ``emit`` gives a mask that must be true in all elements.
    A "pad" has the ``shape`` of its operand, and may have ``inner`` items, which compute the operand anew from what
    they read.
    """

    var: Variable
    kind: Literal["map", "pad", "gather", "reduce", "scatter", "require"]
    reads: tuple[tuple[Any, str], ...]
    dtype: str
    emit: Any = None
    box: tuple[tuple[int, int], ...] = ()
    mode: str = ""
    axes: tuple[int, ...] = ()
    inner: tuple[Item, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(slots=True)
class Cluster:
    """Operations that run in one loop nest over ``space``."""

    space: tuple[int, ...]
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Matmul:
    """A product of matrices or of a matrix and a vector, for BLAS."""

    var: Variable
    a: Variable
    b: Variable


@dataclass(frozen=True, slots=True)
class Concatenate:
    """Arrays copied behind each other along an axis."""

    var: Variable
    parts: tuple[Any, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Python:
    """An operation that no kernel covers: called as it is."""

    var: Variable


@dataclass(frozen=True, slots=True)
class PythonCopy:
    """A copy of values that no kernel handles (complex numbers, small integers), between two places."""

    source: Any
    target: Any


Step = Cluster | Matmul | Concatenate | Python


@dataclass(slots=True)
class Schedule:
    """The steps in order; ``views`` maps a view to the variable whose memory it shares (its first argument)."""

    tape: Tape
    steps: list[Step]
    views: dict[Variable, Variable]
