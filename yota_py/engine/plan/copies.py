"""Steps that copy: arrays behind each other, and elements and slices that are assigned."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ...tape.operations import Variable
from ..schedule.steps import Assign, Concatenate
from .layout import Place

if TYPE_CHECKING:
    from .plan import Planner


def concatenate(planner: Planner, step: Concatenate) -> None:
    """Copy each part to its place."""
    target, at = planner.place(step.var), 0
    for part in step.parts:
        source = planner.place(part)
        if source.size:
            offset = target.offset + at * target.strides[step.axis]
            planner.copy(source, Place(target.slot, offset, source.shape, target.strides, target.dtype))
        at += source.shape[step.axis]


def assign(planner: Planner, step: Assign, unused: Collection[Variable]) -> None:
    """Write into a copy, or into the array itself if it is ``unused`` after this step."""
    source = planner.place(step.value) if isinstance(step.value, Variable) else None
    x = planner.place(step.x)
    own = step.x in unused and step.x in planner.buffers and step.var not in planner.reserved
    if own and not _looks_at(planner, step):
        planner.places[step.var] = x
        planner.buffers[step.var] = planner.buffers.pop(step.x)
    else:
        planner.copy(x, planner.place(step.var))
    whole = planner.place(step.var)
    source = planner.number(step.value, whole.dtype) if source is None else source
    for index, row in step.places:
        target, given = whole.at(index), source if row is None else source.at(row)
        if target.size:
            planner.copy(given, target)


def _looks_at(planner: Planner, step: Assign) -> bool:
    """Whether the value that is assigned is a view of the array."""
    base = step.value if isinstance(step.value, Variable) else None
    while base is not None and base != step.x:
        base = planner.schedule.views.get(base)
    return base is not None
