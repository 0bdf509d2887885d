"""What objects, functions and containers hold, as a tree, and the mirror of it that gradients make."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from ..base.containers import base_of, held_by, items_of, keys_of, with_items
from ..base.dispatch import is_traced
from ..base.ownership import is_library_code
from ..base.types import is_inexact
from ..tape.operations import user_site
from .kinds import IMMUTABLE, is_of_library
from .places import Attribute, Item
from .reach import Bound, Part, Spot, cells_of, defaults_of, is_object

MANY = 20  # numbers of Python's in a list, tuple or dict: more are data, and no parameters
Values: TypeAlias = dict[tuple[str, ...], Any]  # by the words of all leaves that they are


@dataclass(slots=True, eq=False)
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
        words, k = leaf.words, 1
        while leaf.words in given:
            k += 1
            leaf.words = f"{words} ({k})"
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
