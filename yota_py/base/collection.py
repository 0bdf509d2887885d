"""Python's garbage collector, switched off for a while.

It runs whatever finalizers and callbacks there are, at any moment: in a trace they would be taken for what the traced
function does.
"""

from __future__ import annotations

import gc
from typing import ClassVar

from . import locks
from .unwinding import Passing


class Uncollected(Passing):
    """A block in which nothing is collected; blocks of several threads may overlap."""

    _blocks: ClassVar[set[Uncollected]] = set()
    _was_on: ClassVar[bool] = False

    def begin(self) -> None:
        with locks.tables:
            if not self._blocks:
                Uncollected._was_on = gc.isenabled()
            self._blocks.add(self)
            gc.disable()

    def end(self) -> None:
        with locks.tables:
            if self._blocks == {self} and self._was_on:
                gc.enable()
            self._blocks.discard(self)
