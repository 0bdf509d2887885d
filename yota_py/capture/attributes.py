"""What a function reads and assigns of objects and classes: attributes, by the names in its code.

Of an object that is known by its class, since others stand in its place at other calls, a program may rely on the
class, on what it reads of the object, and on which objects of the class are the same one: Python compares objects by
identity in more ways than ``is``.
"""

from __future__ import annotations

import abc
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import optree

from ..base.containers import dict_of, is_proxy, shows_dict, slots_of
from ..base.dispatch import is_traced
from ..registry.contents import is_known, others_of
from ..tape.operations import Site
from ..tracing.disguise import settling
from . import kinds
from .bytecode import Names
from .guards import Guards
from .places import Attribute, Exchange
from .slots import Slot, literal

_MAKING = ("__new__", "__init__")  # entered where an object is made
_READ_BY_PYTHON = (
    types.FunctionType, types.NoneType, functools.partialmethod, staticmethod, classmethod, property,
)  # fmt: skip


class Attributes:
    """Objects and classes met so far, and the names by which code reads the attributes of any object.

    Each name is looked up in each object, in whatever order they turn up. ``read`` and ``value`` are those of
    ``Captures``. What ``is_computed`` stands in an attribute because the function has assigned it, which it will do
    the next time.
    """

    def __init__(
        self, guards: Guards, exchange: Exchange, read: Callable[..., None], value: Callable[[Any, Slot], Any],
        is_computed: Callable[[Any], bool],
    ) -> None:  # fmt: skip
        self._guards, self._exchange, self._read, self._value = guards, exchange, read, value
        self._is_computed = is_computed
        self._names: dict[str, Site | None] = {}  # with the line that reads them
        self._stored: set[str] = set()  # attributes that are assigned, perhaps without being read
        self._is_asked = False  # hasattr, of any object
        self._own: dict[int, dict[str, Site | None]] = {}  # by the identity of an object: attributes of it alone
        self._objects: dict[int, tuple[Any, Slot, set[str]]] = {}  # with the attributes that have been read
        self._copied: set[int] = set()  # objects all of whose attributes are read
        self._classes: set[int] = set()  # that have been read, with those that they derive from
        self._is_walking = False  # more objects and names turn up before it is worth looking
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

    def heed(self, names: Names, namespace: Mapping[str, Any], *, effects: bool) -> None:
        """Names by which the code reads attributes of any object, asks whether it has some, and assigns them; those
        that patterns read by position are known by the class."""
        for name, site in names.matched.items():
            cls = namespace.get(name)
            if isinstance(found := getattr(cls, "__match_args__", None), tuple):
                self.add(dict.fromkeys(found, site))
                known, matched = self._guards.constant(cls, name), self._guards.constant(found)
                same = f"{known}.__match_args__ is {matched}"
                self._guards.require(same, known, "a class that is matched by position", minor=True)
        self.add(names.attributes)
        self.add(names.asked)
        self._is_asked |= bool(names.asked)
        self.counts |= bool(names.asked)
        self._stored |= names.stored_attributes.keys()
        if not effects:
            self.add(dict.fromkeys(names.stored_attributes))

    def of(self, obj: Any, name: str, site: Site) -> None:
        """An attribute that is read of this object, perhaps found in its class."""
        if is_proxy(obj):
            return
        for holder in (obj, *(obj if isinstance(obj, type) else type(obj)).__mro__):
            self._own.setdefault(id(holder), {}).setdefault(name, site)

    def all_of_arguments(self, frame: types.FrameType) -> None:
        """A library's function is called that may read any attributes of its arguments: ``copy.copy(o)``."""
        code = frame.f_code
        self.counts |= "__dict__" in code.co_names  # it may copy all that an object holds
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            self.all_of(frame.f_locals.get(name))
        self.settle()

    def all_of(self, obj: Any) -> None:
        """All attributes of an object are read, and which there are."""
        if not self.watches(obj) or kinds.is_namespace(obj):
            return
        own = dict_of(obj)
        if id(obj) not in self._copied and isinstance(own, dict):
            slot, names = self._objects[id(obj)][1], self._guards.constant(tuple(own))
            same = f"tuple({self._own_of(obj, slot)}) == {names}"
            self._guards.require(same, slot, f"with the attributes {', '.join(own)}")
        self._copied.add(id(obj))
        self._own.setdefault(id(obj), {}).update(dict.fromkeys([*(own or ()), *slots_of(type(obj))]))

    def ask(self, name: str, site: Site | None, *, whether: bool) -> None:
        """An attribute is read of some object; or the code asks ``whether`` there is one."""
        self.add({name: site})
        self._is_asked |= whether
        self.counts |= whether
        self.settle()

    def assign(self, name: str, *, effects: bool) -> None:
        """An attribute is assigned to some object."""
        self._stored.add(name)
        if not effects:
            self.add({name: None})
        self.settle()

    @contextmanager
    def together(self) -> Iterator[None]:
        """The objects and names that the block meets are settled at its end, all at once."""
        if self._is_walking:
            yield
            return
        self._is_walking = True
        try:
            yield
            self._settle()
        finally:
            self._is_walking = False

    def settle(self) -> None:
        """Read attributes of known objects until no new object turns up."""
        with self.together():
            pass

    def _settle(self) -> None:
        first = 0  # of those that are looked at; in a linked list each shows one more
        while True:
            before, asked = self._guards.reads, self._asked()
            objects = list(self._objects.values())
            for obj, slot, done in objects[first:]:
                read = self._names.keys() | self._own.get(id(obj), {}).keys()
                names = (read | (self._stored if kinds.is_namespace(obj) else self._kept(obj))) - done
                own = (dict_of(obj) or {}) if names else {}
                names = {name for name in names if not (name in own and self._is_computed(own[name]))}
                done |= names
                self._attributes_of(obj, slot, names)
                assigned = {name for name in self._stored if f"={name}" not in done}
                self._assigned(obj, slot, assigned, done)
                done.update(f"={name}" for name in assigned)
                if isinstance(obj, types.FunctionType):
                    self._of_function(obj, slot, done)
            if self._guards.reads == before:
                return
            first = len(objects) if self._asked() == asked else 0

    def _asked(self) -> tuple[int, ...]:
        """Another one when attributes are read, or assigned, that were not before."""
        return len(self._names), len(self._stored), sum(map(len, self._own.values())), self._is_asked

    def _kept(self, obj: Any) -> set[str]:
        """Attributes that are assigned and perhaps not read, but to which the very object may be assigned that they
        hold, which nobody would see. (Of an array, a traced one is; and a float can be copied.)"""
        own = dict_of(obj)
        if not isinstance(own, dict):
            return set()
        held = self._stored & own.keys()
        return {name for name in held if not isinstance(own[name], np.ndarray) and not kinds.is_float(own[name])
                and not is_traced(own[name])}

    def _attributes_of(self, obj: Any, slot: Slot, names: set[str]) -> None:
        own, guards, held = dict_of(obj), self._guards, self._own_of(obj, slot)
        if isinstance(own, dict):
            self._exchange.look_after(own, held, seldom=isinstance(obj, types.FunctionType))
        has_own, own = own is not None, own or {}
        if names and own:
            # a class's own names are seen through one proxy for all its life
            held = guards.constant(own, slot.words) if isinstance(obj, type) else guards.local(held)
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
            elif name in slots and not self._is_computed(object.__getattribute__(obj, name)):
                self._exchange.look_after(obj, slot, name)
                place = Attribute(obj, name)
                self._read(place.read(), self._slot_of(obj, slot, name), place, words, site, name)
            elif has_own:
                guards.require(f"{name!r} not in {held}", slot, f"without {name} of its own", minor=True)

    def _assigned(self, obj: Any, slot: Slot, names: set[str], read: set[str]) -> None:
        """Attributes that are assigned: if they are not read, their values do not matter, unless the object would
        grow."""
        own = dict_of(obj) if names else None
        if isinstance(own, dict):
            held = self._own_of(obj, slot)
            self._exchange.look_after(own, held, seldom=isinstance(obj, types.FunctionType))
            for name in (names & own.keys()) - read:
                self._guards.require(f"{name!r} in {held}", slot, f"with {name}", minor=True)
                if kinds.is_float(own[name]):
                    self._exchange.put(own[name], own[name] * type(own[name])(1), Attribute(obj, name))
        for name in names if isinstance(obj, type) else names & slots_of(type(obj)):
            self._exchange.look_after(obj, slot, name)

    def _own_of(self, obj: Any, slot: Slot) -> Slot:
        """How the dict of an object is read, so that no code of the user's hears of it."""
        return slot.own(None if shows_dict(type(obj)) else self._guards.constant(dict_of))

    def _slot_of(self, obj: Any, slot: Slot, name: str) -> Slot:
        """How a slot of an object is read, likewise."""
        cls: Any = type(obj)
        if cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, "__getattr__"):
            return slot.attribute(name)
        reader = self._guards.constant(object.__getattribute__)
        return slot.given_to(reader, f"{slot.words}.{name}", literal(name))

    def _of_function(self, fn: types.FunctionType, slot: Slot, done: set[str]) -> None:
        """A function without attributes, where the code asks whether objects have some, or reads what it assigns."""
        if not (fn.__dict__ or "" in done) and (self._is_asked or self._names.keys() & self._stored):
            done.add("")
            self._guards.require(f"not {slot.own()}", slot, "without attributes", minor=True)

    # -- classes

    def read_class(self, cls: type) -> None:
        """A class, those that it derives from, and its metaclass, as far as they are the user's."""
        if id(cls) in self._classes:
            return
        self._classes.add(id(cls))
        own = [base for base in cls.__mro__[:-1] if not kinds.is_of_library(base)]
        for base in own:
            if not self.watches(base):
                self._class(base)
        guards = self._guards
        if own and len(cls.__mro__) > 2:  # no class takes the place of object
            known, bases = guards.constant(cls, cls.__name__), guards.constant(cls.__mro__)
            guards.require(f"{known}.__mro__ is {bases}", known, "a class that derives from others", minor=True)
        if isinstance(cls, abc.ABCMeta) and id(abc) not in self._classes:
            self._classes.add(id(abc))
            token, now = guards.constant(abc.get_cache_token), abc.get_cache_token()
            guards.require(f"{token}() == {now!r}", token, "with fewer registered classes", minor=True)
        if not kinds.is_of_library(type(cls)):
            self.read_class(type(cls))

    def _class(self, cls: type) -> None:
        """Attributes by name; how many there are, as special methods count from when they are there; and these."""
        known = self._guards.constant(cls, cls.__name__)
        self.watch(cls, known)
        own = self._guards.constant(vars(cls), cls.__name__)
        size = len(vars(cls))
        self._guards.require(f"len({own}) == {size}", known, f"a class of {size} attributes", minor=True)
        for name, value in list(vars(cls).items()):
            if not name.startswith("__") or name in _MAKING or name == "__doc__":
                continue
            if isinstance(value, _READ_BY_PYTHON) or not kinds.is_of_library(type(value)):
                new = self._value(value, self._guards.local(own.item(literal(name)), f"{cls.__name__}.{name}"))
                if new is not value:
                    self._exchange.put(value, new, Attribute(cls, name))
                elif isinstance(value, types.FunctionType) and (method := settling(name, value)) is not value:
                    self._exchange.put(value, method, Attribute(cls, name))

    def functions_of(self, value: property, slot: Slot) -> bool:
        """What the functions of a property read that does not show when they are called; whether it cannot be read."""
        opaque = False
        for name in ("fget", "fset", "fdel"):
            function = getattr(value, name)
            if function is not None and not kinds.holds_nothing(function):
                read = self._value(function, self._guards.local(slot.attribute(name)))
                opaque |= read is not function
        return opaque

    def function_of(self, code: types.CodeType, first: Any) -> tuple[types.FunctionType, Slot] | None:
        """The method of this code that ``first`` has, and how it is read; ``None`` if there is none."""
        for cls in (*(first.__mro__ if isinstance(first, type) else ()), *type(first).__mro__):
            own = vars(cls)
            for name in (code.co_name, *(() if kinds.is_of_library(cls) else own)):  # it may stand under another one
                found = own.get(name)
                inner = found.__func__ if isinstance(found, staticmethod | classmethod) else found
                if isinstance(inner, types.FunctionType) and inner.__code__ is code:
                    slot = self._guards.constant(own, cls.__name__).item(literal(name))
                    return inner, slot if inner is found else slot.attribute("__func__")
        return None

    def finish(self) -> None:
        """After the trace: what the methods of a library may have read of the user's objects of its classes."""
        for obj, slot, _ in self._objects.values():
            own = None if isinstance(obj, type) or not is_known(type(obj)) else dict_of(obj)
            if own is not None:
                watched = frozenset(self._names.keys() | self._stored | self._own.get(id(obj), {}).keys())
                read, others, known = map(self._guards.constant, (others_of, watched, others_of(obj, watched)))
                self._guards.require(f"{read}({slot}, {others}) == {known}", slot, "with other attributes", minor=True)


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
        self._attributes.finish()
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


def _is_filled(obj: Any, name: str) -> bool:
    """Whether a slot holds something."""
    try:
        object.__getattribute__(obj, name)
    except AttributeError:
        return False
    return True
