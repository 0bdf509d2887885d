"""Captured arrays exchanged for tracers where they stand, for the time of a trace; what the function stores there."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from types import CellType, FunctionType
from typing import Any, TypeAlias

from ..base.containers import base_of, dict_of, refill, slots_of
from ..base.dispatch import is_traced
from ..base.records import record
from ..base.unwinding import Passing
from ..tracing.traces import Trace
from .kinds import IMMUTABLE
from .slots import Slot


@record(eq=False)
class Item:
    """An item of a list or dict, past what a class of the user's has to say about it."""

    holder: Any
    key: Any

    def read(self) -> Any:
        """What stands there, without the default that a dict may make for a key that is not there."""
        if isinstance(self.holder, dict) and not dict.__contains__(self.holder, self.key):
            raise KeyError(self.key)
        base: Any = base_of(type(self.holder))
        return base.__getitem__(self.holder, self.key)

    def write(self, value: Any) -> None:
        """Let a value stand there."""
        set_item(self.holder, self.key, value)


@record(eq=False)
class Attribute:
    """An attribute of an object, a module, a class, a closure's cell or a function."""

    holder: Any
    key: str

    def read(self) -> Any:
        """What stands there, past what the class of the object has to say about it."""
        own = dict_of(self.holder) or {}
        return own[self.key] if self.key in own else object.__getattribute__(self.holder, self.key)

    def write(self, value: Any) -> None:
        """Let a value stand there."""
        set_attribute(self.holder, self.key, value)


@record(eq=False)
class Builtin:
    """A global name that is not bound, so that it stands for the builtin."""

    holder: dict[str, Any]
    key: str

    def read(self) -> Any:
        """What the name stands for."""
        return self.holder.get(self.key, getattr(builtins, self.key))

    def write(self, value: Any) -> None:
        """Let it stand for a value."""
        if _is_builtin(self.key, value):
            del self.holder[self.key]
        else:
            self.holder[self.key] = value


_ATTRIBUTES = {CellType: ["cell_contents"], FunctionType: ["__defaults__", "__kwdefaults__"]}
Spot: TypeAlias = Item | Attribute | Builtin  # where a captured value stands


def replace_in(obj: Any, new_of: Callable[[Any], Any]) -> None:
    """Let there stand in an object, as its items and attributes, what ``new_of`` gives for what stands there."""
    for key, item in _items(obj) if isinstance(obj, dict | list | deque) else ():
        if (new := new_of(item)) is not item:
            set_item(obj, key, new)
    names = [*_ATTRIBUTES.get(type(obj), ()), *(dict_of(obj) or ())]
    names += ["args"] if isinstance(obj, BaseException) else []
    for name in names if isinstance(obj, type) else (*names, *slots_of(type(obj))):
        place = Attribute(obj, name)
        try:
            item = place.read()
        except (AttributeError, ValueError):  # an empty slot, or an empty cell
            continue
        if (new := new_of(item)) is not item:
            place.write(new)


def _items(container: Any) -> list[tuple[Any, Any]]:
    """Past what a class of the user's has to say about it."""
    base: Any = base_of(type(container))
    return list(base.items(container) if isinstance(container, dict) else enumerate(base.__iter__(container)))


def objects_in(keys: Iterable[Any]) -> Iterator[Any]:
    """Keys, and parts of those that are tuples, that may hold something."""
    for key in keys:
        if issubclass(type(key), tuple):
            yield from objects_in(tuple.__iter__(key))
        elif not issubclass(type(key), IMMUTABLE) and not is_traced(key):
            yield key


def _is_builtin(name: Any, value: Any) -> bool:
    return isinstance(name, str) and value is getattr(builtins, name, None) is not None


def set_item(container: Any, key: Any, value: Any) -> None:
    """Set an item past what the class of ``container`` has to say about it."""
    base: Any = base_of(type(container))
    base.__setitem__(container, key, value)


def set_attribute(obj: Any, name: str, value: Any) -> None:
    """Set an attribute past what the class of ``obj`` has to say about it."""
    own = dict_of(obj)
    if isinstance(own, dict) and name in own:
        own[name] = value
    else:
        (type.__setattr__ if isinstance(obj, type) else object.__setattr__)(obj, name, value)


@record(frozen=False)
class Holder:
    """Something whose items the function may replace.

    A list or dict, or an object of whose attributes those in ``names`` count. ``slots`` are the ways by which
    it is found again at another call; ``before`` is what it held before the function ran. For a container among the
    arguments, ``target`` is the caller's own, of which the function has been given a copy.
    """

    obj: Any
    slots: list[Slot]
    target: Any
    names: set[str] | None = None
    before: dict[Any, Any] = field(default_factory=dict)

    def read(self) -> dict[Any, Any]:
        """What it holds now."""
        if self.names is None:
            return dict(_items(self.obj))
        own = dict_of(self.obj) if isinstance(self.obj, type) else None
        held = {}
        for name in sorted(self.names):
            try:
                held[name] = Attribute(self.obj, name).read() if own is None else own[name]
            except (AttributeError, KeyError, ValueError):  # ValueError: an empty cell
                continue
        return held

    def has_grown(self) -> bool:
        """Whether items have been appended to those that it held before, which it still does."""
        now, before = [*self.read().values()], [*self.before.values()]
        return len(now) > len(before) and all(a is b for a, b in zip(now, before, strict=False))

    def put(self, key: Any, value: Any) -> None:
        """Replace an item of the caller's."""
        if self.names is None:
            set_item(self.target, key, value)
        else:
            set_attribute(self.target, key, value)

    def hold(self, items: dict[Any, Any]) -> None:
        """Let it hold these items and no others."""
        now = self.read()
        if self.names is None and list(now) != list(items):
            refill(self.obj, items if isinstance(self.obj, dict) else items.values())
            return
        for key in now.keys() - items.keys():
            (type.__delattr__ if isinstance(self.obj, type) else object.__delattr__)(self.obj, key)
        for key, value in items.items():
            if key not in now or now[key] is not value:
                (set_item if self.names is None else set_attribute)(self.obj, key, value)


class Exchange:
    """What one trace has exchanged, and the containers in which its tracers may be left behind."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.holders: dict[int, Holder] = {}
        self.originals: dict[int, Any] = {}  # by the identity of what stands in their places
        self._exchanged: list[tuple[Any, Any, Spot]] = []
        self._replaced: set[tuple[int, Any]] = set()  # by identity and key, items that the function has replaced
        self._empty: dict[int, Holder] = {}  # attributes of functions that have none

    def put(self, old: Any, new: Any, place: Spot) -> None:
        """Let ``new`` stand where ``old`` does."""
        self._exchanged.append((old, new, place))
        self.originals[id(new)] = old
        place.write(new)

    def take_back(self, place: Spot) -> None:
        """Let what stood in a place stand there again."""
        for old, new, known in self._exchanged:
            if known is place and place.read() is new:
                place.write(old)
        self._exchanged = [entry for entry in self._exchanged if entry[2] is not place]

    def look_after(self, obj: Any, slot: Slot, *names: str, seldom: bool = False) -> None:
        """A list or dict (also that of an object), or attributes of an object, that the function may write into.

        A dict into which it does so ``seldom`` counts only if it is no longer empty when the function ends.
        """
        holder = self.holders.get(id(obj))
        if holder is None and seldom and not obj:
            self._empty.setdefault(id(obj), Holder(obj, [slot], obj))
            return
        if holder is None or (holder.names is not None and not holder.names.issuperset(names)):
            wanted = set(names) if holder is None or holder.names is None else holder.names | set(names)
            known = Holder(obj, [] if holder is None else holder.slots, obj, wanted or None)
            held = {key: self.originals.get(id(value), value) for key, value in known.read().items()}
            if isinstance(obj, dict):  # builtins stand there for the time of the trace only
                own = {key for key, value in dict.items(obj) if value is held[key]}
                held = {key: value for key, value in held.items() if key in own or not _is_builtin(key, value)}
            if holder is not None and holder.names is not None:  # what was empty may have been filled since
                empty = holder.names - holder.before.keys()
                held = {key: value for key, value in (held | holder.before).items() if key not in empty}
            known.before = held
            holder = self.holders[id(obj)] = known  # as a whole: ``undo`` would believe a half of it
        if slot not in holder.slots:
            holder.slots.append(slot)

    def standing(self) -> list[tuple[Any, Any, Spot]]:
        """What still stands where it was put: what it stands for, itself, and the place."""
        return [(old, new, place) for old, new, place in self._exchanged if place.read() is new]

    def restore(self) -> bool:
        """Put back what still stands where it was put; whether something else stands there by now."""
        rebound = False
        for key, holder in self._empty.items():
            if holder.obj:
                self.holders.setdefault(key, holder)
        while self._exchanged:
            old, new, place = self._exchanged[-1]
            try:
                untouched = place.read() is new
            except (AttributeError, LookupError, ValueError):  # the function has deleted it
                untouched = False
            if untouched:
                place.write(old)
            else:  # perhaps by an equal number, or what had stood there before
                rebound = True
                if not isinstance(place, Builtin):
                    holders = place.holder, dict_of(place.holder)
                    self._replaced |= {(id(holder), place.key) for holder in holders if holder is not None}
            self._exchanged.pop()
        return rebound

    def changes(self, *, standing: bool = False) -> Iterator[tuple[Holder, Any, Any]]:
        """The items that the function has replaced or added; ``standing`` while what was exchanged still stands there,
        and not after ``restore``, when a stand-in is what the function has stored."""
        for holder in [*self.holders.values()]:
            for key, value in holder.read().items():
                old = self.originals.get(id(value), value) if standing else value
                new = old is not holder.before[key] if key in holder.before else not _is_builtin(key, old)
                if new or (id(holder.obj), key) in self._replaced:
                    yield holder, key, value

    def keys(self) -> Iterator[Any]:
        """What is a key now."""
        tables = (h.obj for h in [*self.holders.values()] if h.names is None and isinstance(h.obj, dict))
        return (key for table in tables for key, _ in _items(table))

    def undo(self) -> None:
        """Take back what the function has stored; a trace that ends so has not happened."""
        for holder in [*self.holders.values()]:
            holder.hold(holder.before)


class Paused(Passing):
    """A block in which everything stands where it stood; what is done there is no effect of the function."""

    def __init__(self, exchange: Exchange) -> None:
        self._holders = list(exchange.holders.values())
        self._back = exchange.standing()
        self._is_pending = next(exchange.changes(standing=True), None) is not None
        self._held: list[dict[Any, Any]] = []
        self._is_paused = False

    def begin(self) -> None:
        for old, _, place in reversed(self._back):
            place.write(old)
        self._is_paused = not self._is_pending

    def end(self) -> None:
        if self._is_paused:
            self._held = [holder.read() for holder in self._holders]
            self._is_paused = False
        for holder, held in zip(self._holders, self._held, strict=False):
            holder.before = held
        for old, new, place in self._back:
            if place.read() is old:
                place.write(new)
