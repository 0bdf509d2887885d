"""Arrays and numbers that a function reads from elsewhere: inputs of the tape, read by reference at each call.

Where two captured arrays look at the same memory and one of them is written into (weights that are tied by a stored
``w.T``), the array that owns the memory is the input, and the others are expressions of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tracing.tracer import Tracer
from ..tracing.traces import Trace
from .guards import Guards
from .parts import expression_of, is_part, layout_of, owner_of
from .slots import Slot


class Captured:
    """``values`` in the order of capture; ``views`` are stored views of others: array and slot by the identity of
    their tracer. ``tied`` are owners of memory at which several arrays are known to look, by identity."""

    def __init__(self, trace: Trace, guards: Guards, tied: Mapping[int, Any]) -> None:
        self._trace, self._guards, self._tied = trace, guards, tied
        self.values: list[Any] = []
        self.views: dict[int, tuple[np.ndarray, Slot]] = {}
        self._known: dict[int, tuple[Any, Tracer, Slot]] = {}  # values, tracers and slots

    def array(self, value: np.ndarray, slot: Slot) -> Any:
        """What takes the place of an array: a tracer, if it holds numbers."""
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.kind not in "fcbiu":
            self._guards.require_is(slot, value)
            self._trace.problems.append(f"it reads an array of type {type(value).__name__} with dtype {value.dtype}")
            return value
        if id(value) in self._known:  # two names of one array
            _, tracer, known = self._known[id(value)]
            self._guards.require(f"{slot} is {known}", slot, f"the array {known.words}")
            return tracer
        if (view := self._view(value, slot)) is not None:
            return view
        tracer = self._capture(value, slot)
        self._known[id(value)] = value, tracer, slot
        return tracer

    def _capture(self, value: Any, slot: Slot) -> Tracer:
        self._guards.captured.append(slot)
        self.values.append(value)  # before the trace has a root for it: an interrupt may come in between
        is_native = not isinstance(value, np.ndarray) or value.dtype.isnative
        return self._trace.capture(value if is_native else value.astype(value.dtype.newbyteorder("=")))

    def _view(self, value: np.ndarray, slot: Slot) -> Tracer | None:
        """The tracer of an array that looks at one to which others are tied; ``None`` if it does not."""
        owner = owner_of(value)
        if owner is value or id(owner) not in self._tied or not owner.dtype.isnative:
            return None
        if (made := expression_of(value, owner)) is None:
            return None
        base = self.array(owner, self._guards.local(slot.attribute("base")))
        part, layout = self._guards.constant(is_part), self._guards.constant(layout_of(value, owner))
        _, _, known = self._known[id(owner)]
        same = f"{part}({slot}, {known}, {layout}, {self._guards.reference(value)})"
        self._guards.require(same, slot, f"a view of {known.words}")
        tracer: Tracer = made(base)
        self._known[id(value)] = value, tracer, slot
        self.views[id(tracer)] = value, slot
        return tracer

    def number(self, value: Any, slot: Slot) -> Tracer:
        """The tracer of a number of which it is known that it will be another one."""
        tracer = self._capture(value, slot)
        self._known[id(tracer)] = value, tracer, slot
        return tracer

    def again(self, tracer: Any, slot: Slot) -> bool:
        """Whether a traced value is one of these, in a container that is reached by two ways."""
        for _, known, first in self._known.values():
            if known is tracer:
                self._guards.require_same(slot, first)
                return True
        return False

    def arrays(self) -> dict[Slot, np.ndarray]:
        """The arrays that are read, by how."""
        return {known: value for value, _, known in self._known.values() if isinstance(value, np.ndarray)}
