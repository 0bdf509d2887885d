"""What a function reads of lists, tuples and dicts: how many items there are, under which keys, and each of them; of
large tables of numbers and texts, that all is as it was."""

from __future__ import annotations

import marshal
import reprlib
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from ..base.containers import base_of, dict_of, kinds_of, refill, with_items
from . import kinds
from .guards import Guards, in_words
from .places import Exchange, Item
from .slots import Slot, literal

_ATOMS = frozenset({int, float, complex, bool, str, type(None)})  # not bytes, as which arrays are written
_PLAIN_TEXT = 2  # the version of marshal's format in which equal values of equal types are the same bytes


class Items:
    """Containers in one another. ``read_place`` and ``value`` are those of ``Captures``."""

    def __init__(
        self, guards: Guards, exchange: Exchange, read_place: Callable[..., None], value: Callable[[Any, Slot], Any],
        problems: list[str],
    ) -> None:  # fmt: skip
        self._guards, self._exchange, self._problems = guards, exchange, problems
        self._read, self._value = read_place, value
        self.tuples: dict[int, tuple[Any, Any, Slot]] = {}  # by identity: in whose place they stand, and where that is
        self.containers: dict[int, tuple[Any, Slot]] = {}  # lists and dicts by identity, and where they are found
        self._sets: list[tuple[set[Any], set[Any]]] = []  # with what was in them
        self._path: list[int] = []  # the containers around the one being read

    def read_set(self, value: set[Any], slot: Slot) -> None:
        """Guard a set of constants."""
        self._sets.append((value, set(value)))
        members, classes = self._guards.constant({*map(repr, value)}), self._guards.constant({*map(type, value)})
        same = f"{{*map(type, {slot})}} == {classes} and {{*map(repr, {slot})}} == {members}"
        self._guards.require(same, slot, "another set")

    def found(self) -> dict[Slot, Any]:
        """The containers, by how they are read."""
        containers = {slot: value for value, slot in self.containers.values()}
        return containers | {slot: value for _, value, slot in self.tuples.values()}

    def undo(self) -> None:
        """Let sets be as they were."""
        for now, before in self._sets:
            if now != before:
                refill(now, before)

    def members(self) -> Iterator[Any]:
        """What is in the sets now."""
        return (member for now, _ in self._sets for member in [*set.__iter__(now)])

    def changed_sets(self) -> list[set[Any]]:
        """Those that are not as they were."""
        return [now for now, before in self._sets if now != before]

    def read(self, value: Any, slot: Slot) -> Any:
        """Guard the items of a container; returns what takes its place while tracing: of a tuple, perhaps another."""
        if id(value) in self._path:
            self._problems.append(f"it reads a {type(value).__name__} that contains itself")
            return value
        kind, guards = type(value), self._guards
        if (known := self.containers.get(id(value))) is not None:
            guards.require_same(slot, known[1])
            self._exchange.look_after(value, slot)
            return value
        if (text := self._text_of(value)) is not None:
            self._table(value, slot)
            still, was = guards.constant(_is_still), guards.constant(text)
            guards.require(f"{still}({slot}, {was})", slot, f"a table of {len(value)} items")
            return value
        base: Any = base_of(kind)
        guards.require_type(slot, kind)
        if isinstance(value, dict):
            listed = tuple(base.__iter__(value))
            keys = slot if base is kind else f"{guards.constant(base.__iter__)}({slot})"
            found = guards.constant(kinds_of(listed))
            same = f"(now := (*{keys},)) == {guards.constant(listed)} and {guards.constant(kinds_of)}(now) == {found}"
            guards.require(same, slot, f"a dict of {reprlib.repr(listed)}")
        else:
            size = base.__len__(value)
            length = "len" if base is kind else guards.constant(base.__len__)
            guards.require(f"{length}({slot}) == {size}", slot, f"a {kind.__name__} of {size}")
        if not isinstance(value, tuple):
            self.containers[id(value)] = value, slot
            self._exchange.look_after(value, slot)
        self._path.append(id(value))
        new = []
        items = base.items(value) if isinstance(value, dict) else enumerate(base.__iter__(value))
        for key, item in list(items):
            if not kinds.is_key(key):
                self._problems.append("it reads a dict with keys that are not numbers or strings")
                break
            known_key = literal(key) if type(key) in (int, str) else guards.constant(key, in_words(key))
            at = slot.item(known_key)
            if base is not kind:
                at = slot.given_to(guards.constant(base.__getitem__), at.words, known_key)
            if isinstance(value, tuple):
                new.append(self._value(item, self._guards.local(at)))
            else:
                self._read(item, at, Item(value, key))
        self._path.pop()
        made = value
        if any(a is not b for a, b in zip(new, base.__iter__(value), strict=False)):
            made = with_items(value, new)
            if (own := dict_of(value)) is not None:
                object.__setattr__(made, "__dict__", own)  # the same one: the function may write into it
        if kind is not list and kind is not dict:
            self.tuples[id(made)] = made, value, slot
        return made

    def _text_of(self, value: Any) -> bytes | None:
        """The contents of a table whose items would be too many to be read one by one; ``None`` of what is none."""
        count, pending, met = 0, [value], set[int]()
        while pending:
            table = pending.pop()
            if id(table) in met or type(table) not in (list, tuple, dict):
                return None
            met.add(id(table))
            items = table.values() if type(table) is dict else table
            classes = {*map(type, items)} - _ATOMS
            if not classes <= {list, tuple, dict} or (type(table) is dict and not all(map(_is_key, table))):
                return None
            count += len(items)
            pending += [item for item in items if type(item) in classes] if classes else ()
            if count > kinds.MAX_TABLE:
                return None
        if count + self._guards.reads <= kinds.MAX_READS:
            return None
        try:
            return marshal.dumps(value, _PLAIN_TEXT)
        except ValueError:  # lists in lists in lists
            return None

    def _table(self, value: Any, slot: Slot) -> None:
        """Look after a table, and those in it."""
        if type(value) is not tuple:
            self.containers[id(value)] = value, slot
            self._exchange.look_after(value, slot)
        items = value.items() if type(value) is dict else enumerate(value)
        for key, item in [(key, item) for key, item in items if type(item) in (list, tuple, dict)]:
            self._table(item, slot.item(literal(key) if type(key) in (int, str) else self._guards.constant(key)))


def _is_key(key: Any) -> bool:
    """Whether a key of a table is a number or a text, or a tuple of them."""
    return type(key) in _ATOMS or (type(key) is tuple and _ATOMS.issuperset(map(type, key)))


def _is_still(value: Any, text: bytes) -> bool:
    """Whether a table is as it was."""
    try:
        return marshal.dumps(value, _PLAIN_TEXT) == text
    except ValueError:
        return False


def implementations(fn: Any, slot: Slot, guards: Guards) -> Iterator[tuple[Any, Slot]]:
    """The functions of ``functools.singledispatch`` behind one, and where each is found."""
    if isinstance(table := getattr(fn, "registry", None), MappingProxyType):
        values = guards.local(Slot(f"tuple({slot}.registry.values())", slot.words))
        known = guards.constant(tuple(table.values()))
        guards.require(f"{values} == {known}", slot, f"with {len(table)} implementations")
        yield from ((implementation, values.item(literal(i))) for i, implementation in enumerate(table.values()))
