"""Python's garbage collector, switched off for a while.

It runs whatever finalizers and callbacks there are, at any moment: in a trace they would be taken for what the traced
function does.
"""

from __future__ import annotations

import gc

from .locks import collection


class _Off:
    """A block in which nothing is collected; blocks of several threads may overlap."""

    def __init__(self) -> None:
        self._blocks = 0
        self._was_on = False

    def __enter__(self) -> None:
        with collection:
            if self._blocks == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def __exit__(self, *error: object) -> None:
        with collection:
            self._blocks -= 1
            if self._blocks == 0 and self._was_on:
                gc.enable()


off = _Off()
