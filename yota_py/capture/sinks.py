"""Lists that a traced function only appends to, such as the history of a loss, which is longer at each call.

While the function is traced, a ``Sink`` stands in the place of such a list. What is appended to it is noted, in order,
and appended to the list itself when the trace has ended. The list is never read, so that a program does not depend on
what it holds. A function that does read it is traced once more, with the list itself in its place.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence
from dataclasses import field
from functools import partial
from types import FrameType, FunctionType
from typing import Any, NoReturn

from ..base.containers import attribute_of, items_of, mapped
from ..base.dispatch import find_held
from ..base.ownership import is_library_frame, is_ours
from ..base.records import record
from ..base.unwinding import state
from ..tracing.tracer import Tracer
from ..tracing.traces import Trace
from .bytecode import GROWING, only_grown
from .guards import Guards
from .places import Exchange, Holder
from .slots import Slot

MAX_ATTEMPTS = 5
MAX_DEPTH = 4  # of containers in which a library may find a list
_KINDS = (list, deque)
_GROWING = (*_KINDS, dict, defaultdict)
Arguments = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]  # a function with what it is called with


@record(frozen=False)
class Attempts:
    """How many attempts to trace one call with its effects have failed, and what is known since for the next one; the
    caller's objects are known by identity.

    Of lists, those that the function has ``read`` (``None`` if no list is to be exchanged), and those that it has
    ``grown``; ``items`` tells whether items of containers are taken for lists that are only appended to where the code
    says so. ``tied`` are arrays at which several captured ones look, one of which is written into.
    """

    count: int = 0
    read: dict[int, Any] | None = field(default_factory=dict)
    grown: dict[int, Any] = field(default_factory=dict)
    items: bool = True
    tied: dict[int, Any] = field(default_factory=dict)

    def again(self) -> bool:
        """Whether there may be another attempt; the last one exchanges no lists."""
        self.count += 1
        if self.count == MAX_ATTEMPTS - 1:
            self.read = None
        return self.count < MAX_ATTEMPTS


class Appending(partial[Any]):
    """A function with those of its arguments to which it only appends, which are so what it reads."""


def appending(f: Callable[..., Any]) -> Callable[..., Arguments] | None:
    """What makes a call of ``f`` one of an ``Appending`` if lists or deques are among its arguments to which it only
    appends, or dicts of them; ``None`` if it has no such parameters. A list that is longer at each call would be
    another argument."""
    function = attribute_of(f, "__func__", f)
    if not isinstance(function, FunctionType) or not (grown := only_grown(function.__code__)):
        return None
    code = function.__code__
    names = code.co_varnames[int(function is not f) : code.co_argcount]

    def given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        named = dict(zip(names, args, strict=False))
        if len(args) > len(names) or not named.keys().isdisjoint(kwargs):  # f raises
            return f, args, kwargs
        named |= kwargs
        lists = {name: named.pop(name) for name in grown if type(named.get(name)) in _GROWING}
        return (Appending(f, **lists), (), named) if lists else (f, args, kwargs)

    return given


class Sink:
    """What stands in the place of a list or deque; to other threads, and when the trace has ended, it is that."""

    __slots__ = ("_list", "_sinks")

    def __init__(self, of: Any, sinks: Sinks) -> None:
        self._list, self._sinks = of, sinks

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return type(self._list)

    def __yota_open__(self) -> Any:
        """The list itself, to be read."""
        if self._sinks.is_tracing():
            self._sinks.read(self)
        return self._list

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._list, name):
            return getattr(self._list, name)  # raises what the list does
        if name in GROWING and self._sinks.is_tracing():
            return partial(self._sinks.grow, self, name)
        return getattr(self.__yota_open__(), name)

    def __iadd__(self, values: Iterable[Any]) -> Any:
        if self._sinks.is_tracing():
            self._sinks.grow(self, "extend", values)
            return self
        self._list += values
        return self._list

    def __radd__(self, other: Any) -> Any:
        return other + self.__yota_open__()


def _reading(name: str) -> Callable[..., Any]:
    def method(self: Sink, *args: Any) -> Any:
        return getattr(self.__yota_open__(), name)(*args)

    return method


# All other special methods of lists, which Python looks up in the class.
for _name in (
    "add contains delitem eq format ge getitem gt hash imul iter le len lt mul ne reduce reduce_ex repr reversed "
    "rmul setitem sizeof str"
).split():
    setattr(Sink, f"__{_name}__", _reading(f"__{_name}__"))
MutableSequence.register(Sink)  # for ``match``


class Sinks:
    """Those of one trace. ``names`` are those of what the code appends to (``"[]"`` for items), ``noted`` what it has
    appended: sink, method and value."""

    def __init__(
        self, trace: Trace, guards: Guards, exchange: Exchange, attempts: Attempts | None,
        give_up: Callable[[str], NoReturn],
    ) -> None:  # fmt: skip
        self._trace, self._guards, self._exchange, self._give_up = trace, guards, exchange, give_up
        self._attempts = attempts or Attempts(read=None)
        self.names: set[str] = set()
        self.holders: dict[int, Holder] = {}  # by the identity of the list: its sink, and where it is found
        self.noted: list[tuple[Sink, str, Any]] = trace.appended
        self.was_read = False
        self._expected: set[int] = set()  # identities of lists among the arguments
        self._items: set[int] = set()  # identities of lists that are items of containers

    def stand_in(self, value: Any, slot: Slot, name: str) -> Sink | None:
        """What takes the place of a list that was found under a name; ``None`` if it stays."""
        if type(value) is Sink:  # in a container that is reached by two ways
            value = value._list
        elif type(value) not in _KINDS:
            return None
        if (known := self.holders.get(id(value))) is not None:
            if not name:  # among defaults, it is on its way into the function already
                self.read(known.obj)
            self._guards.require_same(slot, known.slots[0])
            return known.obj  # type: ignore[no-any-return]
        if not (name and self._only_grows(value, name)) or id(value) in self._exchange.holders:
            return None
        self._guards.require_type(slot, type(value), minor=False)
        sink = Sink(value, self)
        self.holders[id(value)] = Holder(sink, [slot], value, before=dict(enumerate(value)))
        self._items |= {id(value)} if name == "[]" else set()
        return sink

    def _only_grows(self, value: Any, name: str) -> bool:
        """Whether it is believed of a list, until it is read."""
        known = self._attempts
        if known.read is None or id(value) in known.read:
            return False
        if id(value) in known.grown or id(value) in self._expected:
            return True
        return name in self.names and (known.items or name != "[]")

    def expect(self, f: Any) -> None:
        """The function to be traced, perhaps with lists to which it only appends."""
        self._expected.update(map(id, f.keywords.values()) if type(f) is Appending else ())

    def is_tracing(self) -> bool:
        """Whether this is the thread that traces, and it still does."""
        return self._trace.alive and self._trace.thread == threading.get_ident()

    def grow(self, sink: Sink, method: str, value: Any) -> None:
        """Note what is appended."""
        if method.startswith("append"):
            self.noted.append((sink, method, self._own(sink, value)))
            return
        for item in value:  # one after the other, as the list would take them before one raises
            self.noted.append((sink, method.replace("extend", "append"), self._own(sink, item)))

    def _own(self, sink: Sink, value: Any) -> Any:
        """What a function that is differentiated appends, as this trace knows it."""
        if state.traces[-1] is self._trace:
            return value
        while isinstance(value, Tracer) and value._ledger is not self._trace:
            value = value._current()[1]
        if find_held((value,)) is not None:  # an object that holds traced values
            self.read(sink)
        return value if isinstance(value, Tracer) else mapped(partial(self._own, sink), value)

    def read(self, sink: Sink) -> NoReturn:
        """End the trace: it needs to know what is in the list."""
        self._note_read(sink)
        self._give_up("it reads a list that it appends to")

    def _note_read(self, sink: Sink) -> None:
        self.was_read = True
        if self._attempts.read is not None:
            self._attempts.items &= id(sink._list) not in self._items
            self._attempts.read[id(sink._list)] = sink._list

    def finish(self) -> None:
        """After the trace: let lists be as they were that the function has found by another way, and changed."""
        for holder in self.holders.values():
            own, before = Holder(holder.target, [], holder.target), [*holder.before.values()]
            if [*map(id, own.read().values())] != [*map(id, before)]:
                own.hold(holder.before)
                self._note_read(holder.obj)

    def stores(self, plain: Callable[[Any], Any]) -> Iterator[Callable[[], None]]:
        """What appends to the lists what was noted, made ``plain``; done again, it makes no difference."""
        for holder in self.holders.values():
            grown = holder.target.copy()
            for sink, method, value in self.noted:
                if sink is holder.obj:
                    getattr(grown, method)(plain(value))
            yield partial(Holder(holder.target, [], holder.target).hold, dict(enumerate(grown)))

    def heed(self, frame: FrameType) -> None:
        """A function is called that may look into its arguments past their methods, as C code does."""
        if self.holders and is_library_frame(frame) and not is_ours(frame):
            found = _find(frame.f_locals.values(), MAX_DEPTH)
            if found is not None:
                self.read(found)


def _find(values: Iterable[Any], depth: int) -> Sink | None:
    """A sink among values, or in containers in them."""
    for value in [*values]:
        if type(value) is Sink:
            return value
        if depth and (items := items_of(value)) and (found := _find(items, depth - 1)) is not None:
            return found
    return None
