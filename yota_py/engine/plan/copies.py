"""Steps that copy: arrays behind each other, and elements and slices that are assigned."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...tape.operations import Variable
from ..schedule.steps import Assign, Concatenate, Schedule
from .layout import Place
from .matrices import Memory


class Room(Memory, Protocol):
    """What knows where all lies: of results that are ``reserved``, too; and the ``buffers`` in the arena."""

    schedule: Schedule
    places: dict[Variable, Place]
    reserved: dict[Variable, Place]
    buffers: dict[Variable, tuple[int, int]]


def concatenate(room: Room, step: Concatenate) -> None:
    """Copy each part to its place."""
    target, at = room.place(step.var), 0
    for part in step.parts:
        source = room.place(part)
        if source.size:
            offset = target.offset + at * target.strides[step.axis]
            room.copy(source, Place(target.slot, offset, source.shape, target.strides, target.dtype))
        at += source.shape[step.axis]


def assign(room: Room, step: Assign, unused: Collection[Variable]) -> None:
    """Write into a copy, or into the array itself if it is ``unused`` after this step."""
    source = room.place(step.value) if isinstance(step.value, Variable) else None
    x = room.place(step.x)
    own = step.x in unused and step.x in room.buffers and step.var not in room.reserved
    if own and not _looks_at(room, step):
        room.places[step.var] = x
        room.buffers[step.var] = room.buffers.pop(step.x)
    else:
        room.copy(x, room.place(step.var))
    whole = room.place(step.var)
    source = room.number(step.value, whole.dtype) if source is None else source
    for index, row in step.places:
        target, given = whole.at(index), source if row is None else source.at(row)
        if target.size:
            room.copy(given, target)


def _looks_at(room: Room, step: Assign) -> bool:
    """Whether the value that is assigned is a view of the array."""
    base = step.value if isinstance(step.value, Variable) else None
    while base is not None and base != step.x:
        base = room.schedule.views.get(base)
    return base is not None
