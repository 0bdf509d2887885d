"""The steps that a lowered tape is scheduled into."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from ...base.records import record
from ...registry import kernels
from ...tape.loop import Loop
from ...tape.operations import Variable
from ...tape.tape import Tape
from ..kernels.codegen import Method
from .indexing import Pick


@record()
class Item:
    """One operation of a cluster; ``reads`` are its operands, each with the dtype it is cast to."""

    var: Variable
    reads: tuple[tuple[Any, str], ...]
    dtype: str

    @property
    def variables(self) -> list[Variable]:
        """Those among the operands."""
        return [x for x, _ in self.reads if isinstance(x, Variable)]


@record()
class Map(Item):
    """An elementwise operation; if its ``kernel`` writes nothing, its only operand as another dtype."""

    kernel: kernels.Map


@record()
class Pad(Item):
    """An operand of this ``shape`` in a ``box``, given as ``(first, extent)`` per dimension, and zero outside.

    It may be computed there by ``inner`` operations of what is read.
    """

    box: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    inner: tuple[Map, ...] = ()


@record()
class Gather(Item):
    """Elements of an array: it reads the array, then the indices."""

    pick: Pick


@record()
class Scatter(Item):
    """Elements added to an array, or put into it: it reads them, then the indices.

    Without a step that says otherwise, the array is one of zeros.
    """

    pick: Pick
    puts: bool = False


@record()
class Reduce(Item):
    """An operand reduced over ``axes``."""

    mode: kernels.Reduction | Literal["argmax", "argmin"]
    axes: tuple[int, ...]


@record()
class Scan(Item):
    """An operand summed up, or multiplied, along an axis."""

    mode: Literal["cumsum", "cumprod"]
    axis: int


@record()
class Join(Item):
    """Complex numbers: it reads their real and imaginary parts, which are broadcast."""


@record()
class Require(Item):
    """A guard: it reads what was decided on; the mask that ``emit`` writes must be true in all elements."""

    emit: str


Pointwise = Map | Pad | Gather  # items that have a value at each point of the space


@record(frozen=False)
class Cluster:
    """Operations that run in one loop nest over ``space``."""

    space: tuple[int, ...]
    items: list[Item] = field(default_factory=list)


@record()
class Matmul:
    """A product of matrices or of a matrix and a vector, for BLAS."""

    var: Variable
    a: Variable
    b: Variable


@record()
class Linear:
    """A call of LAPACK for a matrix, or a stack of them, and perhaps right-hand sides of the same stack."""

    var: Variable
    routine: kernels.Routine
    a: Variable
    b: Variable | None = None
    upper: bool = False  # the triangle that is read
    finite: bool = False  # or it fails


@record()
class Sort:
    """An array in order along an axis, or the ``places`` of its elements in that order, by one of NumPy's functions."""

    var: Variable
    x: Variable
    axis: int
    method: Method
    places: bool


@record()
class Search:
    """Indices in a ``table``, which is in order, where the elements of an array belong; behind what is equal, if so."""

    var: Variable
    table: Variable
    x: Variable
    behind: bool


@record()
class Concatenate:
    """Arrays copied behind each other along an axis."""

    var: Variable
    parts: tuple[Any, ...]
    axis: int


@record()
class Assign:
    """A copy of an array with a ``value`` in some places: each is an index, and the row of the value that goes there,
    if it is not all of it."""

    var: Variable
    x: Variable
    value: Any
    places: tuple[tuple[Any, int | None], ...]


@record()
class Accumulate:
    """A copy of an array with what ``scatter`` reads added, or put, into it."""

    var: Variable
    x: Variable
    scatter: Scatter


@record()
class Repeat:
    """A loop: the steps of its body, in each turn."""

    var: Variable
    loop: Loop
    args: tuple[Any, ...]
    schedule: Schedule


@record()
class Python:
    """An operation that no kernel covers: called as it is."""

    var: Variable


@record()
class PythonCopy:
    """A copy of values that no kernel handles, as text, between two places."""

    source: Any
    target: Any


Step = Cluster | Matmul | Linear | Sort | Search | Concatenate | Assign | Accumulate | Repeat | Python


def written(step: Step) -> list[Variable]:
    """The variables that a step computes."""
    return [item.var for item in step.items] if isinstance(step, Cluster) else [step.var]


@record(frozen=False)
class Schedule:
    """The steps in order; ``views`` maps views, and results of loops, to the variables whose memory they share, their
    first arguments."""

    tape: Tape
    steps: list[Step]
    views: dict[Variable, Variable]
