"""Which attributes of which objects a function reads and assigns, as the names in its code say."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import kinds
from .exchange import Exchange, attribute_of
from .guards import Guards
from .operations import Site

Read = Callable[..., None]  # guards a value: ``Captures.read``


class Attributes:
    """Objects met so far, and the names by which code reads the attributes of any object.

    Each name is looked up in each object, in whatever order they turn up.
    """

    def __init__(self, guards: Guards, exchange: Exchange, read: Read) -> None:
        self._guards, self._exchange, self._read = guards, exchange, read
        self._names: dict[str, Site | None] = {}  # with the line that reads them
        self._stored: set[str] = set()  # attributes that are assigned, perhaps without being read
        self._own: dict[int, dict[str, Site]] = {}  # by the identity of an object or class: attributes of it alone
        self._objects: dict[int, tuple[Any, str, set[str]]] = {}  # with the attributes that have been read

    def watch(self, obj: Any, expression: str) -> None:
        """From now on, the attributes of this object are read by the names that the code uses."""
        self._objects.setdefault(id(obj), (obj, expression, set()))

    def watches(self, obj: Any) -> bool:
        """Whether the attributes of this object are read."""
        return id(obj) in self._objects

    def add(self, names: Mapping[str, Site | None]) -> None:
        """Names by which the code reads attributes of any object."""
        self._names |= {name: site for name, site in names.items() if self._names.get(name) is None}

    def store(self, names: Iterable[str]) -> None:
        """Names of attributes that the code assigns."""
        self._stored |= set(names)

    def of(self, obj: Any, name: str, site: Site) -> None:
        """An attribute that is read of this object, perhaps found in its class."""
        for holder in (obj, *(obj if isinstance(obj, type) else type(obj)).__mro__):
            self._own.setdefault(id(holder), {}).setdefault(name, site)

    def settle(self) -> None:
        """Read attributes of known objects until no new object turns up."""
        while True:
            before = self._guards.reads
            for obj, expression, done in list(self._objects.values()):
                read = self._names.keys() | self._own.get(id(obj), {}).keys()
                names = (read | self._stored if kinds.is_namespace(obj) else read) - done
                done |= names
                self._attributes_of(obj, expression, names)
                assigned = {name for name in self._stored - done if f"={name}" not in done}
                done.update(f"={name}" for name in assigned)
                self._assigned(obj, expression, assigned)
            if self._guards.reads == before:
                return

    def _attributes_of(self, obj: Any, expression: str, names: set[str]) -> None:
        own, guards, held = getattr(obj, "__dict__", {}), self._guards, f"{expression}.__dict__"
        if isinstance(own, dict):
            self._exchange.look_after(own, held)
        if names and own:
            # a class's own names are seen through one proxy for all its life
            held = guards.constant(vars(obj)) if isinstance(obj, type) else guards.local(held, guards.path(expression))
        sites = {**self._own.get(id(obj), {}), **self._names}
        slots = () if kinds.is_namespace(obj) else kinds.slots_of(type(obj))
        for name in sorted(names):
            path, site = f"{guards.path(expression)}.{name}", sites.get(name)
            if name in own:
                if isinstance(obj, type):
                    self._exchange.look_after(obj, expression, name)
                self._read(own[name], f"{held}[{name!r}]", attribute_of(obj, name), path, site, name)
            elif isinstance(obj, types.FunctionType):
                pass
            elif name in slots and hasattr(obj, name):
                self._exchange.look_after(obj, expression, name)
                self._read(getattr(obj, name), f"{expression}.{name}", attribute_of(obj, name), path, site, name)
            elif hasattr(obj, "__dict__"):
                guards.require(f"{name!r} not in {held}", expression, f"without {name} of its own", minor=True)

    def _assigned(self, obj: Any, expression: str, names: set[str]) -> None:
        """Attributes that are assigned but not read: their values do not matter, unless the object would grow."""
        own = getattr(obj, "__dict__", None)
        if isinstance(own, dict) and names:
            self._exchange.look_after(own, f"{expression}.__dict__")
            for name in names & own.keys():
                self._guards.require(f"{name!r} in {expression}.__dict__", expression, f"with {name}", minor=True)
        for name in names & kinds.slots_of(type(obj)):
            self._exchange.look_after(obj, expression, name)
