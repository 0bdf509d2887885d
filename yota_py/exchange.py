"""Captured arrays exchanged for tracers where they stand, for the time of a trace; what the function stores there."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .containers import mapped
from .dispatch import find_traced, is_traced
from .trace import Trace
from .tracer import shadow

Place = tuple[Callable[[], Any], Callable[[Any], None]]  # where a captured value stands: reading it, replacing it


def item_of(container: Any, key: Any) -> Place:
    """An item of a list or dict."""
    return functools.partial(operator.getitem, container, key), functools.partial(operator.setitem, container, key)


def builtin_of(namespace: dict[str, Any], name: str) -> Place:
    """A global name that is not bound, so that it stands for the builtin."""
    builtin = getattr(builtins, name)

    def write(value: Any) -> None:
        if value is builtin:
            del namespace[name]
        else:
            namespace[name] = value

    return lambda: namespace.get(name, builtin), write


def attribute_of(obj: Any, name: str) -> Place:
    """An attribute of an object, a module, a class, a closure's cell or a function."""
    return functools.partial(getattr, obj, name), functools.partial(set_attribute, obj, name)


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
        if self.names is None:
            return dict(self.obj) if isinstance(self.obj, dict) else dict(enumerate(self.obj))
        own = vars(self.obj) if isinstance(self.obj, type) else None
        held = {}
        for name in sorted(self.names):
            try:
                held[name] = getattr(self.obj, name) if own is None else own[name]
            except (AttributeError, KeyError, ValueError):  # ValueError: an empty cell
                continue
        return held

    def put(self, key: Any, value: Any) -> None:
        """Replace an item of the caller's."""
        if self.names is None:
            self.target[key] = value
        else:
            set_attribute(self.target, key, value)

    def hold(self, items: dict[Any, Any]) -> None:
        """Let it hold these items and no others."""
        now = self.read()
        if self.names is None and list(now) != list(items):
            self.obj.clear()
            (self.obj.update if isinstance(self.obj, dict) else self.obj.extend)(
                items if isinstance(self.obj, dict) else items.values()
            )
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

    def put(self, old: Any, new: Any, place: Place) -> None:
        """Let ``new`` stand where ``old`` does."""
        place[1](new)
        self._exchanged.append((old, new, place))
        self.originals[id(new)] = old

    def look_after(self, obj: Any, text: str, *names: str) -> None:
        """A list or dict (also that of an object), or attributes of an object, that the function may write into."""
        holder = self.holders.get(id(obj))
        if holder is None:
            holder = self.holders[id(obj)] = Holder(obj, [], obj, set(names) if names else None)
        elif holder.names is not None and not holder.names.issuperset(names):
            holder.names.update(names)
        else:
            names = ()
        if text not in holder.texts:
            holder.texts.append(text)
        if names or len(holder.texts) == 1:
            held = {key: self.originals.get(id(value), value) for key, value in holder.read().items()}
            holder.before = held | holder.before

    def restore(self) -> None:
        """Put back what still stands where it was put.

        In a trace without effects, traced values that the function has left behind become plain values.
        """
        rebound = False
        while self._exchanged:
            old, new, (read, write) = self._exchanged.pop()
            try:
                untouched = read() is new
            except (AttributeError, LookupError, ValueError):  # the function has deleted it
                untouched = False
            if untouched:
                write(old)
            else:
                rebound = True
        if self.trace.effects:
            return
        if rebound:
            self.trace.problems.append("it rebinds or replaces a captured array while it runs")
        for holder, key, value in self.changes():
            if find_traced((value,)) is not None:
                holder.put(key, self._plain(value))
                self.trace.problems.append("it stores traced values outside of itself")

    def changes(self) -> Iterator[tuple[Holder, Any, Any]]:
        """The items that the function has replaced or added."""
        for holder in self.holders.values():
            for key, value in holder.read().items():
                if key not in holder.before or value is not holder.before[key]:
                    yield holder, key, value

    def undo(self) -> None:
        """Take back what the function has stored; a trace that ends so has not happened."""
        for holder in self.holders.values():
            holder.hold(holder.before)

    def _plain(self, value: Any) -> Any:
        if is_traced(value):
            return shadow(value) if value._trace is self.trace else value
        return mapped(self._plain, value)
