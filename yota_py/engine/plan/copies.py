"""Steps that copy: arrays behind each other, and elements and slices that are assigned, or added to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...tape.operations import Variable
from ..schedule.steps import Accumulate, Assign, Cluster, Concatenate, Schedule
from .layout import Place
from .matrices import Memory
from .nest import nest_of


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
    _begin(room, step, unused)
    whole = room.place(step.var)
    source = room.number(step.value, whole.dtype) if source is None else source
    for index, row in step.places:
        target, given = whole.at(index), source if row is None else source.at(row)
        if target.size:
            room.copy(given, target)


def accumulate(room: Room, step: Accumulate, unused: Collection[Variable]) -> None:
    """Add to a copy, or to the array itself, as in ``assign``."""
    for x in step.scatter.variables:
        room.place(x)
    _begin(room, step, unused)
    value = step.scatter.reads[0][0]
    room.emit(*nest_of(Cluster(room.schedule.tape.type_of(value).shape, [step.scatter]), set(), room))


def _begin(room: Room, step: Assign | Accumulate, unused: Collection[Variable]) -> None:
    """Give a step's result a place with what is in the array that it starts from: a copy, or that array's own."""
    x = room.place(step.x)
    own = step.x in unused and step.x in room.buffers and step.var not in room.reserved
    if own and not _looks_at(room, step):
        room.places[step.var] = x
        room.buffers[step.var] = room.buffers.pop(step.x)
    elif room.place(step.var) != x:
        room.copy(x, room.place(step.var))


def _looks_at(room: Room, step: Assign | Accumulate) -> bool:
    """Whether what is written is a view of the array."""
    values = step.scatter.variables if isinstance(step, Accumulate) else [step.value]
    for base in values:
        while isinstance(base, Variable) and base != step.x:
            base = room.schedule.views.get(base)
        if base == step.x:
            return True
    return False
