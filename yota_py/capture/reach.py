"""What a function or an object can reach, with the places in which it stands: closures, global names, defaults,
attributes, items. What it holds is a tree, of which gradients make a mirror."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, is_dataclass
from enum import Enum
from gc import get_referents
from itertools import count
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from ..base.containers import base_of, dict_of, held_by, items_of, keys_of, with_items
from ..base.dispatch import is_traced
from ..base.ownership import is_library, is_library_code
from ..base.records import record
from ..base.types import is_inexact
from ..base.unwinding import Passing
from ..tape.operations import user_site
from .bytecode import names_of, nested
from .kinds import IMMUTABLE, is_of_library, is_watchable
from .places import Attribute, Item


@record(eq=False)
class Part:
    """An item of a tuple, which is replaced by another tuple where it stands."""

    holder: Any  # the place of the tuple
    key: int

    def read(self) -> Any:
        """What stands there."""
        return self.holder.read()[self.key]

    def write(self, value: Any) -> None:
        """Let a value stand there."""
        old = self.holder.read()
        self.holder.write(with_items(old, [value if k == self.key else x for k, x in enumerate(old)]))


@record(eq=False)
class Bound:
    """The arguments of a ``functools.partial``: ``"args"`` or ``"keywords"``."""

    holder: Any
    key: str

    def read(self) -> Any:
        """What stands there."""
        return getattr(self.holder, self.key)

    def write(self, value: Any) -> None:
        """Let a value stand there."""
        _, (func,), (_, args, keywords, attributes) = self.holder.__reduce__()
        new = {"args": args, "keywords": keywords} | {self.key: value}
        self.holder.__setstate__((func, new["args"], new["keywords"], attributes))


Spot: TypeAlias = Item | Attribute | Part | Bound
MANY = 20  # numbers of Python's in a list, tuple or dict: more are data, and no parameters
Values: TypeAlias = dict[tuple[str, ...], Any]  # by the words of all leaves that they are

HIDDEN = "in "  # before the words for what stands in something that is not followed


def reach(start: Sequence[tuple[Any, str]]) -> Iterator[tuple[Any, Spot | None, str]]:
    """What functions and objects can reach: each value with its place and the words for it, once per place."""
    seen: dict[int, Any] = {}
    waiting = deque[tuple[Any, Spot | None, str]]((value, None, words) for value, words in start)
    while waiting:
        value, spot, words = waiting.popleft()
        yield value, spot, words
        if id(value) not in seen and not isinstance(value, (np.ndarray, *IMMUTABLE)):
            seen[id(value)] = value
            waiting.extend(_children(value, spot, words))


def _children(value: Any, spot: Spot | None, words: str) -> Iterator[tuple[Any, Spot | None, str]]:
    if isinstance(value, FunctionType):
        yield from _of_function(value, words)
    elif isinstance(value, MethodType):
        yield value.__self__, None, words.rpartition(".")[0] or "self"
        yield value.__func__, None, words
    elif isinstance(value, functools.partial):
        yield value.func, None, words
        yield value.args, Bound(value, "args"), f"{words}.args"
        yield value.keywords, Bound(value, "keywords"), f"{words}.keywords"
    elif isinstance(value, tuple):
        yield from ((x, Part(spot, k) if spot else None, f"{words}[{k}]") for k, x in enumerate(value))
    elif isinstance(value, list | deque):
        yield from ((x, Item(value, k), f"{words}[{k}]") for k, x in enumerate(value))
    elif isinstance(value, dict):
        yield from ((x, Item(value, key), f"{words}[{key!r}]") for key, x in list(value.items()))
    elif isinstance(value, type):
        if not is_of_library(value):
            for cls in value.__mro__:
                yield from _attributes(cls, vars(cls), words) if not is_of_library(cls) else ()
    elif isinstance(value, property):
        yield from ((fn, None, words) for fn in (value.fget, value.fset) if fn is not None)
    elif isinstance(value, staticmethod | classmethod | functools.cached_property):
        yield getattr(value, "__func__", None) or value.func, None, words  # type: ignore[union-attr]
    elif "__wrapped__" in (dict_of(value) or ()):  # what has been made of a function
        yield value.__wrapped__, None, words
    elif is_object(value):
        yield from _attributes(value, held_by(value), words)
        yield type(value), None, type(value).__name__
    elif not isinstance(value, ModuleType | BuiltinFunctionType | np.ufunc | np.generic | Enum):
        inside = words if words.startswith(HIDDEN) else f"{HIDDEN}a {type(value).__name__} ({words})"
        held = get_referents(value)
        yield from ((x, None, inside) for x in held if not isinstance(x, ModuleType | type | FunctionType))


def _attributes(obj: Any, held: Mapping[str, Any], words: str) -> Iterator[tuple[Any, Spot, str]]:
    return ((x, Attribute(obj, name), f"{words}.{name}") for name, x in list(held.items()))


def _of_function(fn: FunctionType, words: str) -> Iterator[tuple[Any, Spot | None, str]]:
    yield from ((x, Attribute(fn, name), f"{words}.{name}") for name, x in fn.__dict__.items())
    if is_library_code(fn.__code__, fn.__globals__):
        return
    yield from ((value, place, name) for name, value, place in (*cells_of(fn), *defaults_of(fn)))
    codes = [*nested(fn.__code__)]
    names = {name for code in codes for name in (*names_of(code).globals, *names_of(code).stored_globals)}
    for name in sorted(names & fn.__globals__.keys()):
        value = fn.__globals__[name]
        yield value, Item(fn.__globals__, name), name
        if isinstance(value, ModuleType) and not is_library(value.__name__):
            held = vars(value)
            read = {key for code in codes for key in code.co_names} & held.keys()
            yield from ((held[key], Item(held, key), f"{name}.{key}") for key in sorted(read))


def cells_of(fn: FunctionType) -> list[tuple[str, Any, Spot]]:
    """What stands in the closure of a user's function, by name."""
    found: list[tuple[str, Any, Spot]] = []
    if is_library_code(fn.__code__, fn.__globals__):
        return found
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        place = Attribute(cell, "cell_contents")
        with suppress(ValueError):  # an empty cell
            found.append((name, place.read(), place))
    return found


class Exchanged(Passing):
    """The block in which other values stand in some places: those that are ``put`` there when it begins."""

    def __init__(self) -> None:
        self._put: list[tuple[Any, Any, Any]] = []  # places, with what stood and what stands there

    def put(self, spot: Any, new: Any) -> None:
        """Let a value stand in a place."""
        place = spot
        while isinstance(place, Part):  # the tuple is another one then
            place = place.holder
        old = place.read()
        spot.write(new)
        self._put.append((place, old, place.read()))

    def end(self) -> None:
        for place, old, new in reversed(self._put):
            if read_now(place) is new:  # and not what somebody else has put there
                place.write(old)


class Replaced(Exchanged):
    """The block in which others stand in the places of functions: ``new_of`` them, which is asked for each once."""

    def __init__(
        self, start: Sequence[tuple[Any, str]], is_wanted: Callable[[Any], bool], new_of: Callable[[Any], Any]
    ) -> None:
        super().__init__()
        self.found: dict[int, tuple[Any, Any]] = {}  # by identity, what is replaced and by what
        self._places: list[tuple[Any, Any]] = []
        for value, spot, _ in reach(start):
            if spot is not None and (id(value) in self.found or is_wanted(value)):
                _, new = self.found.setdefault(id(value), (value, new_of(value)))
                self._places.append((spot, new))

    def begin(self) -> None:
        for spot, new in self._places:
            self.put(spot, new)


def read_now(spot: Spot) -> Any:
    """What stands in a place; ``None`` if there is nothing any more."""
    try:
        return spot.read()
    except (LookupError, AttributeError, ValueError):
        return None


def another(words: str, given: Container[str]) -> str:
    """These words, or with a number behind them if others have them already."""
    return words if words not in given else next(w for k in count(2) if (w := f"{words} ({k})") not in given)


def is_object(value: Any) -> bool:
    """Whether a value is an object of a user's class, whose attributes may be parameters."""
    return not isinstance(value, type | FunctionType | ModuleType | Enum) and is_watchable(value)


def defaults_of(fn: FunctionType) -> list[tuple[str, Any, Spot]]:
    """The defaults of a function's parameters, by name."""
    code, defaults, named = fn.__code__, fn.__defaults__ or (), fn.__kwdefaults__ or {}
    names, place = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], Attribute(fn, "__defaults__")
    found: list[tuple[str, Any, Spot]] = [
        (name, x, Part(place, i)) for i, (name, x) in enumerate(zip(names, defaults, strict=True))
    ]
    return found + [(name, x, Item(named, name)) for name, x in named.items()]


def is_function(value: Any) -> bool:
    """Whether a value is a function that holds something: a closure, a method, a ``functools.partial``."""
    if isinstance(value, FunctionType):  # also what a transform has made
        made = value.__closure__ is not None or hasattr(value, "__wrapped__")
        return made or value.__defaults__ is not None or value.__kwdefaults__ is not None
    return isinstance(value, MethodType | functools.partial)


# -- trees, and mirrors of them


@record(frozen=False, eq=False)
class Node:
    """A value, its places and what stands in it: ``below`` has, by their keys, items and attributes. ``words`` are its
    own, and never those of another one."""

    value: Any
    spots: Sequence[Spot]
    words: str
    below: dict[Any, Node] = field(default_factory=dict)

    @property
    def holds_floats(self) -> bool:
        """Whether something below is a floating-point number or array."""
        return any(is_inexact(leaf.value) for leaf in leaves_of(self, {}))

    @property
    def is_leaf(self) -> bool:
        """Whether this is no container, and no object with attributes."""
        return not self.below


def node_of(value: Any, spots: Sequence[Spot], words: str, known: dict[int, Node]) -> Node:
    """A value that was found in these places, with all that stands in it."""
    if is_traced(value) or isinstance(value, (np.ndarray, *IMMUTABLE)):
        return Node(value, spots, words)
    if id(value) in known:
        return known[id(value)]
    known[id(value)] = node = Node(value, spots, words)
    inside: list[tuple[Any, Any, list[Spot], str]] = []
    if isinstance(value, list | dict | deque | tuple) and _are_data(value):
        return node
    if isinstance(value, list | dict | deque):
        inside = [(key, x, [Item(value, key)], f"{words}[{key!r}]") for key, x in items_by_key(value)]
    elif isinstance(value, tuple):
        inside = [(key, x, [Part(spot, key) for spot in spots], f"{words}[{key!r}]") for key, x in items_by_key(value)]
    elif isinstance(value, MethodType):
        inside = [("__self__", value.__self__, [], words)]
    elif isinstance(value, FunctionType) and is_library_code(value.__code__, value.__globals__):
        inside = [(name, x, [], words) for name, x in vars(value).items() if name == "__wrapped__"]  # by a transform
    elif isinstance(value, FunctionType):
        inside = [(name, x, [spot], f"{words}.{name}") for name, x, spot in (*cells_of(value), *defaults_of(value))]
    elif isinstance(value, functools.partial):
        parts: list[tuple[str, Any]] = [("args", value.args), ("keywords", value.keywords)]
        inside = [("func", value.func, [], words)]
        inside += [(name, x, [Bound(value, name)], f"{words}.{name}") for name, x in parts]
    elif is_object(value):
        inside = [(key, x, [Attribute(value, key)], f"{words}.{key}") for key, x in held_by(value).items()]
    node.below = {key: node_of(x, at, said, known) for key, x, at, said in inside}
    return node


def _are_data(value: Any) -> bool:
    """Whether a container has many numbers, and nothing else; raises ``ValueError`` for one of a user's class that has
    parameters in its attributes as well."""
    if not is_of_library(type(value)) and any(is_inexact(x) for x in held_by(value).values()):
        raise ValueError(f"{user_site()}: derivatives are wanted in a {type(value).__name__}, which has items, and "
                         "arrays or numbers in attributes besides; put them into attributes of an object that is no "
                         f"{base_of(type(value)).__name__}")
    items = items_of(value) or ()
    return len(items) > MANY and all(type(x) in (bool, int, float, complex) for x in items)


def with_own_words(top: Node) -> Node:
    """The same, where no leaf has the words of another one."""
    given: set[str] = set()
    for leaf in leaves_of(top, {}):
        leaf.words = another(leaf.words, given)
        given.add(leaf.words)
    return top


def leaves_of(node: Node, seen: dict[int, Node]) -> Iterator[Node]:
    if id(node) not in seen:
        seen[id(node)] = node
        if node.is_leaf:
            yield node
        for part in node.below.values():
            yield from leaves_of(part, seen)


def items_by_key(value: Any) -> list[tuple[Any, Any]]:
    items = None if is_traced(value) else items_of(value)
    return [] if items is None else [*zip(keys_of(value), items, strict=True)]


def mirror(top: Node, gradients: Values) -> Any:
    """The gradients in the structure of what is wanted: for an object of a plain class, a ``SimpleNamespace`` with the
    names of its attributes; ``None`` for what has none."""
    found = {words: dx if k == 0 else _copy(dx) for group, dx in gradients.items() for k, words in enumerate(group)}
    made: dict[int, Any] = {}

    def of(node: Node) -> Any:
        if id(node) in made:
            return made[id(node)]
        value = node.value
        for name in ("__self__", "__wrapped__"):  # of a method, or of what has been made of a function
            if isinstance(value, MethodType | FunctionType) and name in node.below:
                return of(node.below[name])
        if node.is_leaf:
            return found.get(node.words, None if items_of(value) else _empty(value))
        if isinstance(value, list | dict | deque):  # which may hold themselves
            made[id(node)] = new = _empty(value)
            for key, part in node.below.items():
                new.__setitem__(key, of(part)) if isinstance(value, dict) else new.append(of(part))
            return new
        if isinstance(value, tuple) or (items_of(value) is not None and not is_dataclass(value)):
            return with_items(value, [of(part) for part in node.below.values()])
        made[id(node)] = obj = object.__new__(type(value)) if is_dataclass(value) else SimpleNamespace()
        for name, part in node.below.items():
            object.__setattr__(obj, name, of(part))
        return obj

    return of(top)


def _copy(dx: Any) -> Any:
    """Of the gradient that several places have each has its own."""
    return dx.copy() if type(dx) is np.ndarray else dx


def _empty(value: Any) -> Any:
    """A container of a library's class with nothing in it; for other values ``None``."""
    if not isinstance(value, list | dict | deque | tuple):
        return None
    if isinstance(value, deque):
        return deque(maxlen=value.maxlen)
    base: Any = base_of(type(value))
    return base() if base in (list, dict, OrderedDict) else value if len(value) == 0 else None
