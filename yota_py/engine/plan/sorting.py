"""Arrays that are put in order, and searches in them: NumPy sorts lines of neighbours, each in place."""

from __future__ import annotations

from dataclasses import replace

from ..kernels.ir import Lines, Places
from ..kernels.store import SearchSpec, SortSpec
from ..schedule.steps import Search, Sort
from .layout import Place
from .matrices import Memory


def sort(memory: Memory, step: Sort) -> None:
    """Along another axis than the last, lines are copied, and back."""
    x, y = _lines(memory.place(step.x), step.axis), _lines(memory.place(step.var), step.axis)
    lines = y if y.contiguous else memory.temporary(y.shape, y.dtype)
    if step.places:
        x = memory.contiguous(x)
    else:
        memory.copy(x, lines)
    n = y.shape[-1]
    words = Lines(x.slot, x.offset, lines.slot, lines.offset, y.size // n, n).words()
    memory.emit(SortSpec(x.dtype, step.method, step.places), words)
    if lines is not y:
        memory.copy(lines, y)


def search(memory: Memory, step: Search) -> None:
    """One after the other, as they lie in memory."""
    table, x, y = (memory.place(var) for var in (step.table, step.x, step.var))
    table, x = memory.contiguous(table), memory.contiguous(x)
    places = y if y.contiguous else memory.temporary(y.shape, y.dtype)
    words = Places(table.slot, table.offset, table.size, x.slot, x.offset, x.size, places.slot, places.offset).words()
    memory.emit(SearchSpec(x.dtype, step.behind), words)
    if places is not y:
        memory.copy(places, y)


def _lines(place: Place, axis: int) -> Place:
    """The same with this axis last."""
    def moved(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:axis], *values[axis + 1 :], values[axis])

    return replace(place, shape=moved(place.shape), strides=moved(place.strides))
