"""Random number generators that a function is given, or reads: where they are found again at each call."""

from __future__ import annotations

import types
from typing import Any

from ..base.generators import NUMPYS, PYTHONS
from ..tracing.shells import is_recordable, is_recording, real, recording
from .guards import Guards
from .places import Exchange
from .slots import Slot, literal


class Generators:
    """Those of one trace. Another generator of the class may take the place of each: what it draws is drawn anew."""

    def __init__(self, guards: Guards, exchange: Exchange) -> None:
        self._guards, self._exchange = guards, exchange
        self._known: dict[int, tuple[Any, Any, Slot]] = {}  # by identity: itself, what stands for it, and where it is

    def given(self, leaf: Any) -> Any:
        """What a function is given in the place of an argument."""
        if not is_recordable(leaf):
            return leaf
        if id(leaf) not in self._known:
            shell = recording(leaf, self._exchange.trace)
            self._known[id(leaf)] = leaf, shell, Slot("")
            self._exchange.originals[id(shell)] = leaf
        return self._known[id(leaf)][1]

    def stand_in(self, value: Any, slot: Slot) -> Any:
        """What takes the place of a generator, or of a method that is bound to one; ``None`` for all else."""
        if isinstance(value, types.BuiltinFunctionType | types.MethodType):
            of = value.__self__
            if not (is_recordable(of) or is_recording(of)) or real(of) in (NUMPYS, PYTHONS):
                return None
            shell = self.stand_in(of, self._guards.local(slot.attribute("__self__")))
            name = literal(value.__name__)
            self._guards.require(f"{slot}.__name__ == {name}", slot, value.__name__)
            return getattr(shell, value.__name__)
        value = real(value)
        if not is_recordable(value):
            return None
        self._guards.require_type(slot, type(value))
        shell = self.given(value)
        _, _, first = self._known[id(value)]
        if first.code:
            self._guards.require_same(slot, first)
        else:
            self._known[id(value)] = value, shell, slot
        return shell

    def finish(self) -> None:
        """Other generators may take their places, but not one that of two."""
        slots = [slot for _, _, slot in self._known.values() if slot.code]
        self._guards.require_different(slots, "a generator under one name")

    def slot(self, generator: Any) -> Slot | None:
        """Where a generator is found; ``None`` if it was reached by another way."""
        _, _, slot = self._known.get(id(generator), (None, None, Slot("")))
        return slot if slot.code else None
