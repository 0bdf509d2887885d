"""Captured arrays exchanged for tracers where they stand, for the time of a trace; what the function stores there."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..base.containers import base_of, refill
from ..base.unwinding import Passing
from ..tracing.traces import Trace

Place = tuple[Callable[[], Any], Callable[[Any], None]]  # where a captured value stands: reading it, replacing it


def item_of(container: Any, key: Any) -> Place:
    """An item of a list or dict, past what a class of the user's has to say about it."""
    base: Any = base_of(type(container))
    read = _item_of_dict if isinstance(container, dict) else base.__getitem__
    return partial(read, container, key), partial(base.__setitem__, container, key)


def _item_of_dict(container: dict[Any, Any], key: Any) -> Any:
    """Without the default that a dict may make for a key that is not there."""
    if not dict.__contains__(container, key):
        raise KeyError(key)
    return dict.__getitem__(container, key)


def set_item(container: Any, key: Any, value: Any) -> None:
    """Set an item past what the class of ``container`` has to say about it."""
    item_of(container, key)[1](value)


def builtin_of(namespace: dict[str, Any], name: str) -> Place:
    """A global name that is not bound, so that it stands for the builtin."""
    builtin = getattr(builtins, name)

    def write(value: Any) -> None:
        if value is builtin:
            del namespace[name]
        else:
            namespace[name] = value

    return lambda: namespace.get(name, builtin), write


def _is_builtin(name: Any, value: Any) -> bool:
    return isinstance(name, str) and value is getattr(builtins, name, None) is not None


def attribute_of(obj: Any, name: str) -> Place:
    """An attribute of an object, a module, a class, a closure's cell or a function."""
    return partial(_attribute, obj, name), partial(set_attribute, obj, name)


def _attribute(obj: Any, name: str) -> Any:
    own = getattr(obj, "__dict__", None)
    return own[name] if own is not None and name in own else object.__getattribute__(obj, name)


def set_attribute(obj: Any, name: str, value: Any) -> None:
    """Set an attribute past what the class of ``obj`` has to say about it."""
    own = getattr(obj, "__dict__", None)
    if isinstance(own, dict) and name in own:
        own[name] = value
    else:
        (type.__setattr__ if isinstance(obj, type) else object.__setattr__)(obj, name, value)


@dataclass(slots=True)
class Holder:
    """Something whose items the function may replace.

    A list or dict, or an object of whose attributes those in ``names`` count. ``texts`` are the expressions by which
    it is found again at another call; ``before`` is what it held before the function ran. For a container among the
    arguments, ``target`` is the caller's own, of which the function has been given a copy.
    """

    obj: Any
    texts: list[str]
    target: Any
    names: set[str] | None = None
    before: dict[Any, Any] = field(default_factory=dict)

    def read(self) -> dict[Any, Any]:
        """What it holds now."""
        if self.names is None:  # an object of a user's class may have methods of its own
            obj: Any = self.obj
            base: Any = base_of(type(obj))
            return dict(base.items(obj) if isinstance(obj, dict) else enumerate(base.__iter__(obj)))
        own = vars(self.obj) if isinstance(self.obj, type) else None
        held = {}
        for name in sorted(self.names):
            try:
                held[name] = getattr(self.obj, name) if own is None else own[name]
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
            item_of(self.target, key)[1](value)
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
                place = item_of(self.obj, key) if self.names is None else attribute_of(self.obj, key)
                place[1](value)


class Exchange:
    """What one trace has exchanged, and the containers in which its tracers may be left behind."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.holders: dict[int, Holder] = {}
        self.originals: dict[int, Any] = {}  # by the identity of what stands in their places
        self._exchanged: list[tuple[Any, Any, Place]] = []
        self._replaced: set[tuple[int, Any]] = set()  # by identity and key, items that the function has replaced
        self._empty: dict[int, Holder] = {}  # attributes of functions that have none

    def put(self, old: Any, new: Any, place: Place) -> None:
        """Let ``new`` stand where ``old`` does."""
        self._exchanged.append((old, new, place))
        self.originals[id(new)] = old
        place[1](new)

    def take_back(self, new: Any, place: Place) -> None:
        """Let what stood in a place stand there again."""
        for old, _, _ in [entry for entry in self._exchanged if entry[1] is new and entry[2] is place]:
            if place[0]() is new:
                place[1](old)
        self._exchanged = [entry for entry in self._exchanged if not (entry[1] is new and entry[2] is place)]

    def look_after(self, obj: Any, text: str, *names: str, seldom: bool = False) -> None:
        """A list or dict (also that of an object), or attributes of an object, that the function may write into.

        A dict into which it does so ``seldom`` counts only if it is no longer empty when the function ends.
        """
        holder = self.holders.get(id(obj))
        if holder is None and seldom and not obj:
            self._empty.setdefault(id(obj), Holder(obj, [text], obj))
            return
        if holder is None or (holder.names is not None and not holder.names.issuperset(names)):
            wanted = set(names) if holder is None or holder.names is None else holder.names | set(names)
            known = Holder(obj, [] if holder is None else holder.texts, obj, wanted or None)
            held = {key: self.originals.get(id(value), value) for key, value in known.read().items()}
            if isinstance(obj, dict):  # builtins stand there for the time of the trace only
                own = {key for key, value in dict.items(obj) if value is held[key]}
                held = {key: value for key, value in held.items() if key in own or not _is_builtin(key, value)}
            known.before = held if holder is None else held | holder.before
            holder = self.holders[id(obj)] = known  # as a whole: ``undo`` would believe a half of it
        if text not in holder.texts:
            holder.texts.append(text)

    def standing(self) -> list[tuple[Any, Any, Place]]:
        """What still stands where it was put: what it stands for, itself, and the place."""
        return [(old, new, place) for old, new, place in self._exchanged if place[0]() is new]

    def restore(self) -> bool:
        """Put back what still stands where it was put; whether something else stands there by now."""
        rebound = False
        for key, holder in self._empty.items():
            if holder.obj:
                self.holders.setdefault(key, holder)
        while self._exchanged:
            old, new, (read, write) = self._exchanged[-1]
            try:
                untouched = read() is new
            except (AttributeError, LookupError, ValueError):  # the function has deleted it
                untouched = False
            if untouched:
                write(old)
            else:
                rebound = True
                self._note(read)
            self._exchanged.pop()
        return rebound

    def _note(self, read: Callable[[], Any]) -> None:
        """What stood in a place has been replaced, perhaps by an equal number or what had stood there before."""
        if isinstance(read, partial):
            obj, key = read.args
            self._replaced |= {(id(holder), key) for holder in (obj, getattr(obj, "__dict__", obj))}

    def changes(self, *, standing: bool = False) -> Iterator[tuple[Holder, Any, Any]]:
        """The items that the function has replaced or added; ``standing`` while what was exchanged still stands there,
        and not after ``restore``, when a stand-in is what the function has stored."""
        for holder in self.holders.values():
            for key, value in holder.read().items():
                old = self.originals.get(id(value), value) if standing else value
                new = old is not holder.before[key] if key in holder.before else not _is_builtin(key, old)
                if new or (id(holder.obj), key) in self._replaced:
                    yield holder, key, value

    def undo(self) -> None:
        """Take back what the function has stored; a trace that ends so has not happened."""
        for holder in self.holders.values():
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
            place[1](old)
        self._is_paused = not self._is_pending

    def end(self) -> None:
        if self._is_paused:
            self._held = [holder.read() for holder in self._holders]
            self._is_paused = False
        for holder, held in zip(self._holders, self._held, strict=False):
            holder.before = held
        for old, new, place in self._back:
            if place[0]() is old:
                place[1](new)
