"""Which attributes of which objects a function reads and assigns, as the names in its code say."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..base.containers import is_proxy, slots_of
from ..base.dispatch import is_traced
from ..tape.operations import Site
from . import kinds
from .bytecode import copies
from .guards import Guards
from .places import Attribute, Exchange
from .slots import Slot, literal

Read = Callable[..., None]  # guards a value: ``Captures.read``


class Attributes:
    """Objects met so far, and the names by which code reads the attributes of any object.

    Each name is looked up in each object, in whatever order they turn up.
    """

    def __init__(self, guards: Guards, exchange: Exchange, read: Read) -> None:
        self._guards, self._exchange, self._read = guards, exchange, read
        self._names: dict[str, Site | None] = {}  # with the line that reads them
        self._stored: set[str] = set()  # attributes that are assigned, perhaps without being read
        self._asked: set[str] = set()  # of which hasattr has been asked
        self._own: dict[int, dict[str, Site | None]] = {}  # by the identity of an object: attributes of it alone
        self._objects: dict[int, tuple[Any, Slot, set[str]]] = {}  # with the attributes that have been read
        self._copied: set[int] = set()  # objects all of whose attributes are read
        self.counts = False  # whether it may matter which attributes objects have besides those read by name

    def watch(self, obj: Any, slot: Slot) -> None:
        """From now on, the attributes of this object are read by the names that the code uses."""
        self._objects.setdefault(id(obj), (obj, slot, set()))

    def watches(self, obj: Any) -> bool:
        """Whether the attributes of this object are read."""
        return id(obj) in self._objects

    def objects_of(self, cls: type) -> list[Slot]:
        """How the objects of a class are read whose attributes are."""
        return [slot for obj, slot, _ in self._objects.values() if type(obj) is cls]

    def add(self, names: Mapping[str, Site | None]) -> None:
        """Names by which the code reads attributes of any object."""
        self._names |= {name: site for name, site in names.items() if self._names.get(name) is None}

    def ask(self, names: Mapping[str, Site | None]) -> None:
        """Names of which the code asks whether any object has attributes of these names."""
        self.add(names)
        self._asked |= names.keys()
        self.counts |= bool(names)

    def store(self, names: Iterable[str]) -> None:
        """Names of attributes that the code assigns."""
        self._stored |= set(names)

    def of(self, obj: Any, name: str, site: Site) -> None:
        """An attribute that is read of this object, perhaps found in its class."""
        if is_proxy(obj):
            return
        for holder in (obj, *(obj if isinstance(obj, type) else type(obj)).__mro__):
            self._own.setdefault(id(holder), {}).setdefault(name, site)

    def all_of_arguments(self, frame: types.FrameType) -> None:
        """A library's function is called that may read any attributes of its arguments: ``copy.copy(o)``."""
        code = frame.f_code
        self.counts |= copies(code)
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            obj = frame.f_locals.get(name)
            if self.watches(obj) and not kinds.is_namespace(obj):
                own = getattr(obj, "__dict__", ())
                if id(obj) not in self._copied and isinstance(own, dict):
                    slot, names = self._objects[id(obj)][1], self._guards.constant(tuple(own))
                    same = f"tuple({slot.own()}) == {names}"
                    self._guards.require(same, slot, f"with the attributes {', '.join(own)}")
                self._copied.add(id(obj))
                self._own.setdefault(id(obj), {}).update(dict.fromkeys([*own, *slots_of(type(obj))]))
        self.settle()

    def settle(self) -> None:
        """Read attributes of known objects until no new object turns up."""
        while True:
            before = self._guards.reads
            for obj, slot, done in list(self._objects.values()):
                read = self._names.keys() | self._own.get(id(obj), {}).keys()
                names = (read | (self._stored if kinds.is_namespace(obj) else self._kept(obj))) - done
                done |= names
                self._attributes_of(obj, slot, names)
                assigned = {name for name in self._stored if f"={name}" not in done}
                self._assigned(obj, slot, assigned, done)
                done.update(f"={name}" for name in assigned)
                if isinstance(obj, types.FunctionType):
                    self._of_function(obj, slot, done)
            if self._guards.reads == before:
                return

    def _kept(self, obj: Any) -> set[str]:
        """Attributes that are assigned and perhaps not read, but to which the very object may be assigned that they
        hold, which nobody would see. (Of an array, a traced one is; and a float can be copied.)"""
        own = getattr(obj, "__dict__", {})
        held = self._stored & (own.keys() if isinstance(own, dict) else set())
        return {name for name in held if not isinstance(own[name], np.ndarray) and not kinds.is_float(own[name])
                and not is_traced(own[name])}

    def _attributes_of(self, obj: Any, slot: Slot, names: set[str]) -> None:
        own, guards, held = getattr(obj, "__dict__", None), self._guards, slot.own()
        if isinstance(own, dict):
            self._exchange.look_after(own, held, seldom=isinstance(obj, types.FunctionType))
        own = {} if own is None else own
        if names and own:
            # a class's own names are seen through one proxy for all its life
            held = guards.constant(vars(obj), slot.words) if isinstance(obj, type) else guards.local(held)
        sites = {**self._own.get(id(obj), {}), **self._names}
        slots = () if kinds.is_namespace(obj) else slots_of(type(obj))
        for name in sorted(names):
            words, site = f"{slot.words}.{name}", sites.get(name)
            if name in own:
                if isinstance(obj, type):  # which only shows its dict
                    self._exchange.look_after(obj, slot, name)
                self._read(own[name], held.item(literal(name)), Attribute(obj, name), words, site, name)
            elif isinstance(obj, types.FunctionType):
                pass  # all at once: they are many, and have no attributes
            elif name in slots and not _is_filled(obj, name):
                empty = f"not {guards.constant(_is_filled)}({slot}, {name!r})"
                guards.require(empty, slot, f"without {name}", minor=True)
            elif name in slots:
                self._exchange.look_after(obj, slot, name)
                self._read(getattr(obj, name), slot.attribute(name), Attribute(obj, name), words, site, name)
            elif hasattr(obj, "__dict__"):
                guards.require(f"{name!r} not in {held}", slot, f"without {name} of its own", minor=True)

    def _assigned(self, obj: Any, slot: Slot, names: set[str], read: set[str]) -> None:
        """Attributes that are assigned: if they are not read, their values do not matter, unless the object would
        grow."""
        own = getattr(obj, "__dict__", None)
        if isinstance(own, dict) and names:
            self._exchange.look_after(own, slot.own(), seldom=isinstance(obj, types.FunctionType))
            for name in (names & own.keys()) - read:
                self._guards.require(f"{name!r} in {slot.own()}", slot, f"with {name}", minor=True)
                if kinds.is_float(own[name]):
                    self._exchange.put(own[name], own[name] * type(own[name])(1), Attribute(obj, name))
        for name in names if isinstance(obj, type) else names & slots_of(type(obj)):
            self._exchange.look_after(obj, slot, name)

    def _of_function(self, fn: types.FunctionType, slot: Slot, done: set[str]) -> None:
        """A function without attributes, where the code asks whether objects have some, or reads what it assigns."""
        if not (fn.__dict__ or "" in done) and (self._asked or self._names.keys() & self._stored):
            done.add("")
            self._guards.require(f"not {slot.own()}", slot, "without attributes", minor=True)


def _is_filled(obj: Any, name: str) -> bool:
    """Whether a slot holds something."""
    try:
        object.__getattribute__(obj, name)
    except AttributeError:
        return False
    return True
