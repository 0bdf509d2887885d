"""Which numbers the programs of a function take as inputs, because they were seen to change.

A number that a function reads is a constant of its programs until it changes; then the next program reads it anew. A
whole number may decide a shape or how often a loop runs, so it has to change more often, unless the function itself
counts; and where programs cannot compute with it, it stays a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import optree

from .kinds import is_whole

OFTEN = 3  # values of a whole number
MAX_STRUCTURES = 64  # of arguments


class Varying:
    """``paths`` are those of numbers that are read; whole numbers among the arguments are known by their positions."""

    def __init__(self) -> None:
        self.paths: frozenset[str] = frozenset()
        self._whole: set[str] = set()
        self._changes: Counter[str] = Counter()
        self._seen: dict[optree.PyTreeSpec, dict[int, set[int]]] = {}
        self._takes_any = self._takes_whole = True

    def positions(self, spec: optree.PyTreeSpec) -> frozenset[int]:
        """Of the arguments that are inputs although they are whole numbers."""
        known = self._seen.get(spec)
        if not (known and self._takes_whole):
            return frozenset()
        return frozenset(i for i, values in known.items() if len(values) >= OFTEN)

    def inputs(self, spec: optree.PyTreeSpec) -> frozenset[str | int]:
        """Paths and positions."""
        return self.paths | self.positions(spec)

    def changed(self, numbers: Iterable[tuple[str, type]], *, itself: bool = False) -> None:
        """Numbers that are read have changed; the function ``itself`` has changed them."""
        for path, cls in numbers:
            self._changes[path] += 1
            if not self._takes_any or (cls is int and not self._takes_whole):
                continue
            if cls is not int or itself or self._changes[path] >= OFTEN:
                self.paths |= {path}
                self._whole |= {path} if cls is int else set()

    def given(self, leaves: Sequence[Any], spec: optree.PyTreeSpec) -> None:
        """Arguments that no program is compiled for."""
        whole = [(i, x) for i, x in enumerate(leaves) if is_whole(x)]
        if not (whole and self._takes_whole and self._takes_any):
            return
        while spec not in self._seen and len(self._seen) >= MAX_STRUCTURES:
            self._seen.pop(next(iter(self._seen)), None)
        known = self._seen.setdefault(spec, {})
        for i, x in whole:
            values = known.setdefault(i, set())
            if len(values) < OFTEN:
                values.add(x)

    def replaced(self, before: Sequence[Any], after: Sequence[Any], spec: optree.PyTreeSpec) -> None:
        """The function has replaced numbers in its arguments, which are of this structure now."""
        for i, (a, b) in enumerate(zip(before, after, strict=False)):
            if is_whole(a) and is_whole(b) and a != b:
                self._seen.setdefault(spec, {})[i] = {a, b, *range(OFTEN)}

    def give_up(self, *, whole: bool = False) -> bool:
        """Take no more (whole) numbers as inputs; tells whether there were any."""
        taken = self._whole or any(map(self.positions, self._seen)) if whole else self.paths
        self._takes_whole, self._takes_any = False, self._takes_any and whole
        self.paths = self.paths - self._whole if whole else frozenset()
        self._whole.clear()
        return bool(taken)
