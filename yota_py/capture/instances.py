"""Objects that a function knows by their classes: others stand in their places at other calls.

Of such an object a program may rely on the class, and on what it reads of it; and on which of the objects of the class
are the same one, since Python compares objects by identity in more ways than ``is``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optree

from .attributes import Attributes
from .guards import Guards
from .slots import Slot


class Instances:
    """The objects of a trace that are known by their classes.

    ``paths`` are the outermost of them in the user's words, ``positions`` those among the arguments; ``addresses``
    are names by which the function may ask for what depends on where an object lies in memory; ``failed`` tells whether
    they have to be known by themselves.
    """

    def __init__(self, guards: Guards, attributes: Attributes) -> None:
        self.paths: set[str] = set()
        self.positions: set[int] = set()
        self.addresses: set[str] = set()
        self.failed = False
        self._guards, self._attributes = guards, attributes
        self._known: dict[int, tuple[Any, Slot]] = {}

    def slot(self, value: Any) -> Slot | None:
        """How one of them is read, in the guards and in the step; ``None`` if it is none of them."""
        return self._known.get(id(value), (None, None))[1]

    def expect(self, position: int, path: str) -> None:
        """The argument at this position is to be known by its class."""
        self.positions.add(position)
        self.paths.add(path)

    def meet(self, value: Any, slot: Slot) -> bool:
        """One is read; tells whether it is for the first time. Otherwise it has to be the same again."""
        if (known := self.slot(value)) is not None:
            self._guards.require_same(slot, known)
            return False
        self._known[id(value)] = value, slot
        if not self.hold(slot.words):
            self.paths.add(slot.words)
        return True

    def hold(self, path: str) -> bool:
        """Whether a path leads to one of them, or through it."""
        return path in self.paths or is_within(path, self.paths)

    def finish(self, problems: list[str]) -> None:
        """After the trace: no two objects that were different become one."""
        fixed = any(self._guards.knows(value) for value, _ in self._known.values())  # by ways that have come later
        if fixed or (self._known and self.addresses):
            self.failed = True
            problems.append("it may ask for what depends on where an object lies in memory, and others take its place")
        for cls in {type(value) for value, _ in self._known.values()}:
            self._guards.require_different(self._attributes.objects_of(cls), "an object under one name")


def is_within(path: str, holders: Iterable[str]) -> bool:
    """Whether a path leads through one of the holders' paths."""
    return any(path.startswith((f"{holder}.", f"{holder}[")) for holder in holders)


def places_of(in_spec: optree.PyTreeSpec) -> list[str]:
    """How each leaf of ``(args, kwargs)`` is read; empty texts for those in other containers than
    tuples, lists, dicts and dataclasses."""
    texts = []
    for accessor in optree.treespec_accessors(in_spec):
        plain = all(_is_plain(entry) for entry in accessor)
        texts.append(accessor[1:].codify(("args", "kwargs")[accessor[0].entry]) if plain else "")
    return texts


def _is_plain(entry: optree.PyTreeEntry) -> bool:
    """Whether an item of a container is read by its position, key or name, and nothing else happens."""
    known = entry.type in (tuple, list, dict) and type(entry.entry) in (int, str)
    return known or type(entry) is optree.DataclassEntry
