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

from ..capture.attributes import is_within
from ..capture.kinds import FLOATS, is_watchable, is_whole
from .modes import TracedCall
from .variants import Signature

OFTEN = 3  # values of a whole number
MAX_STRUCTURES = 64  # of arguments


class Varying:
    """``paths`` are those of numbers that are read; whole numbers among the arguments are known by their positions.
    With ``objects``, so are objects in whose places others of their class come."""

    def __init__(self, *, objects: bool = False) -> None:
        self._objects = objects
        self.paths: frozenset[str] = frozenset()
        self.holders: set[str] = set()  # paths of objects that are known by their class
        self._whole: set[str] = set()
        self._of_class: set[str] = set()
        self._changes: Counter[str] = Counter()
        self._seen: dict[optree.PyTreeSpec, dict[tuple[int, bool], set[int]]] = {}  # by position and kind
        self._takes_any = self._takes_whole = True

    def positions(self, spec: optree.PyTreeSpec) -> frozenset[int]:
        """Of whole numbers among the arguments that are inputs, and of objects that are known by their class."""
        known = self._seen.get(spec, {}).items()
        takes = {True: self._takes_whole, False: self._objects}
        return frozenset(i for (i, whole), x in known if len(x) >= OFTEN and takes[whole])

    def inputs(self, spec: optree.PyTreeSpec) -> frozenset[str | int]:
        """Paths and positions."""
        return self.paths | self.positions(spec)

    def changed(self, numbers: Iterable[tuple[str, type]], *, itself: bool = False) -> None:
        """Numbers that are read have changed; the function ``itself`` has changed them."""
        for path, cls in numbers:
            self._changes[path] += 1
            number = cls is int or cls in FLOATS
            if not (self._takes_any if number else self._objects) or (cls is int and not self._takes_whole):
                continue
            held = is_within(path, self.holders)
            if cls in FLOATS or itself or held or self._changes[path] >= OFTEN:
                self.paths |= {path}
                self._whole |= {path} if cls is int else set()
                self._of_class |= set() if number else {path}

    def held(self, signature: Signature | None, spec: optree.PyTreeSpec, *call: Any) -> list[tuple[str, type]]:
        """Of what objects hold which are known by their class: what is another at this call than in the signature."""
        if not self.holders or signature is None or signature.structure.spec != spec:
            return []
        return [found for found in signature.guards.changed_numbers(*call) if is_within(found[0], self.holders)]

    def given(self, leaves: Sequence[Any], spec: optree.PyTreeSpec) -> None:
        """Arguments that no program is compiled for."""
        varying = [(i, x) for i, x in enumerate(leaves) if self._may_vary(x)]
        if not varying:
            return
        while spec not in self._seen and len(self._seen) >= MAX_STRUCTURES:
            self._seen.pop(next(iter(self._seen)), None)
        known = self._seen.setdefault(spec, {})
        for i, x in varying:
            whole = is_whole(x)
            values = known.setdefault((i, whole), set())
            if len(values) < OFTEN:
                values.add(x if whole else id(x))
            if len(values) > 1 and not whole:  # new objects may lie where others have lain
                values.update(range(OFTEN))

    def _may_vary(self, leaf: Any) -> bool:
        """Whether another argument may come in the place of this one."""
        if is_whole(leaf):
            return self._takes_whole and self._takes_any
        return self._objects and is_watchable(leaf)

    def replaced(self, before: Sequence[Any], after: Sequence[Any], spec: optree.PyTreeSpec) -> None:
        """The function has replaced numbers in its arguments, which are of this structure now."""
        for i, (a, b) in enumerate(zip(before, after, strict=False)):
            if (is_whole(a) and is_whole(b) and a != b) or (a is not b and type(a) is type(b) and self._may_vary(a)):
                self._seen.setdefault(spec, {})[i, is_whole(a)] = {*range(OFTEN)}

    def will_take_others(self, spec: optree.PyTreeSpec, recording: TracedCall) -> bool:
        """Whether the next trace takes other numbers as inputs, or objects as they are, so that it may be compiled."""
        if recording.captures is not None and recording.captures.instances.failed:
            return self.give_up_objects()
        return recording.passing or self.inputs(spec) != recording.inputs or self.give_up(whole=True)

    def give_up_objects(self) -> bool:
        """From now on, objects are known by themselves; tells whether any were not."""
        given, self._objects = self._objects, False
        self.paths -= self._of_class
        self.holders.clear()
        return given

    def give_up(self, *, whole: bool = False) -> bool:
        """Take no more (whole) numbers as inputs; tells whether there were any."""
        given = (len(x) >= OFTEN for known in self._seen.values() for (_, number), x in known.items() if number)
        if not ((self._whole if whole else self.paths) or (self._takes_whole and any(given))):
            return False
        self._takes_whole, self._takes_any = False, self._takes_any and whole
        self.paths = self.paths - self._whole if whole else frozenset()
        self._whole.clear()
        return True
