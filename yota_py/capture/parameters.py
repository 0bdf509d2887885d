"""Parameters: what a function reads besides its arguments and derivatives are wanted in, found where it stands.

``value_and_grad(loss, wrt=(W, b))`` finds an array by its identity in what the function can reach: cells, global names,
defaults, attributes, items. Of an object, a list or a dict, the attributes and items are looked up anew at each call.
While the function runs, tracers stand in the places of the values; then these are put back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from itertools import islice
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from ..base import locks
from ..base.containers import LEAVES, held_by, is_proxy, items_of, keys_of, with_items
from ..base.dispatch import is_traced, mode_of
from ..base.types import is_inexact
from ..base.unwinding import Holding, Passing, state
from ..errors import NotDifferentiableError
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from ..tracing.views import overlap
from .captured import standing
from .kinds import IMMUTABLE
from .places import Attribute, Item
from .reach import Bound, Part, Spot, cells_of, is_function, is_object, reach

MAX_LEAVES = 1000  # of an argument
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
        """Whether something below is a floating-point number or array, and they are no data in the form of a list."""
        leaves = [*islice((leaf for leaf in _leaves(self, {}) if is_inexact(leaf.value)), MAX_LEAVES + 1)]
        return 0 < len(leaves) <= MAX_LEAVES

    @property
    def is_leaf(self) -> bool:
        """Whether this is no container, and no object with attributes."""
        return not self.below


class Parameters:
    """What derivatives of a function are wanted in: ``wrt`` as in ``value_and_grad``."""

    def __init__(self, f: Callable[..., Any], wrt: Any) -> None:
        self.f, self._wrt = f, wrt
        self._found: dict[int, tuple[Any, list[Spot], str]] = {}  # by identity, where the wanted values were found
        self._arrays: list[tuple[np.ndarray, str]] = []  # all others
        with Holding(locks.tracing):  # while no other thread's tracers stand there
            self._search([(f, name_of(f))])
        self._is_alone = not self._missing(wrt)  # without an argument that is an object
        self.words = (*(leaf.words for leaf in _leaves(self.nodes(), {})),) if self._is_alone else ("of arguments",)

    def __reduce__(self) -> Any:
        """What is found by its identity is looked for again in another process."""
        return Parameters, (self.f, self._wrt)

    def _search(self, start: Sequence[tuple[Any, str]]) -> None:
        """Find the wanted values in what these can reach."""
        wanted = {id(x): x for x in _wanted(self._wrt) if not isinstance(x, IMMUTABLE)}  # one number is in many places
        self._found, self._arrays = {}, []
        for value, spot, words in reach(start):
            if id(value) in wanted and (spot is not None or is_object(value)):
                _, spots, _ = self._found.setdefault(id(value), (value, [], words))
                spots += [spot] if spot is not None else []
            elif isinstance(value, np.ndarray) and spot is not None:
                self._arrays.append((value, words))

    def nodes(self, args: Sequence[Any] = ()) -> Node:
        """What is wanted, as it stands now; raises ``ValueError`` for what the function cannot reach."""
        if not self._is_alone:
            self._search([(self.f, name_of(self.f)), *((x, f"args[{i}]") for i, x in enumerate(args) if is_object(x))])
            for x in self._missing(self._wrt):
                raise self._not_read(x)
        return _with_own_words(self._placed(self._wrt, {}))

    def _missing(self, tree: Any) -> list[Any]:
        if id(tree) in self._found or tree is None:
            return []
        return [tree] if items_of(tree) is None else [x for _, item in _items(tree) for x in self._missing(item)]

    def _not_read(self, x: Any) -> ValueError:
        site, who = user_site(), name_of(self.f)
        if isinstance(x, np.ndarray) or is_object(x):
            kind = f"an array of shape {x.shape}" if isinstance(x, np.ndarray) else f"an object of {type(x).__name__}"
            return ValueError(f"{site}: wrt has {kind} that {who} does not read: it is looked for by its identity, in "
                              "closures, global names, defaults, and what these hold. Give the object itself, not a "
                              "copy of it, or make it an argument")
        return ValueError(f"{site}: wrt has {x!r}; it wants arrays, objects, and containers of them, which are known "
                          "by their identity. Of a number, give what holds it: an object, a list or a dict")

    def _placed(self, wanted: Any, known: dict[int, Node]) -> Node:
        """The node of a part of ``wrt``: where it was found, or of its items."""
        if (found := self._found.get(id(wanted))) is not None:
            _, spots, words = found
            now = [spot.read() for spot in spots] or [wanted]
            if any(x is not now[0] for x in now):
                raise ValueError(f"{user_site()}: {words}, in which derivatives are wanted, stands no longer in all "
                                 "places where it stood. Put the same object in all of them, or write into it")
            return _node(now[0], spots, words, known)
        return Node(wanted, (), "", {key: self._placed(item, known) for key, item in _items(wanted)})

    def read(self, args: Sequence[Any] = ()) -> tuple[Node, Values]:
        """What is wanted, and its numbers and arrays; raises as ``nodes``, and ``NotDifferentiableError`` if there are
        none. An array in several places is one, and so it has one gradient."""
        top = self.nodes(args)
        if not state.traces and any(is_traced(leaf.value) for leaf in _leaves(top, {})):  # of another thread
            with Holding(locks.tracing):
                top = self.nodes(args)
        groups: dict[Any, tuple[Any, list[str]]] = {}
        for leaf in _leaves(top, {}):
            if is_inexact(leaf.value):
                is_array = is_traced(leaf.value) or isinstance(leaf.value, np.ndarray)
                groups.setdefault(id(leaf.value) if is_array else leaf.words, (leaf.value, []))[1].append(leaf.words)
        if not groups:
            raise NotDifferentiableError(f"{user_site()}: wrt has no floating-point number or array")
        values = {(*words,): value for value, words in groups.values()}
        self._check_memory(values)
        return top, values

    def _check_memory(self, values: Values) -> None:
        """Refuse arrays that look at one another's memory: what flows back to the other would be missed."""
        arrays = [(x, words[0]) for words, x in values.items() if isinstance(x, np.ndarray) and not is_traced(x)]
        for i, (x, words) in enumerate(arrays):
            for y, others in (*arrays[i + 1 :], *self._arrays):
                if y is not x and overlap(x, y):
                    raise ValueError(f"{user_site()}: {words}, in which derivatives are wanted, shares memory with "
                                     f"{others}. Make one of them a copy, or make one out of the other in "
                                     f"{name_of(self.f)}")


class Given(Parameters):
    """The objects and functions among the arguments at some positions, as far as they hold numbers or arrays."""

    def __init__(self, f: Callable[..., Any], positions: Sequence[int]) -> None:
        self.f, self._positions, self._arrays = f, positions, []
        self.words = "of arguments", *map(str, positions)

    def __reduce__(self) -> Any:
        return Given, (self.f, self._positions)

    def nodes(self, args: Sequence[Any] = ()) -> Node:
        known: dict[int, Node] = {}
        found = {i: Node(None, (), "", objects_in(args[i], f"args[{i}]", known)) for i in self._positions}
        return _with_own_words(Node(None, (), "", found))


def objects_in(tree: Any, words: str, known: dict[int, Node]) -> dict[int, Node]:
    """The objects and functions in an argument that hold numbers or arrays, by their positions among its leaves."""
    if not _may_hold(tree):
        return {}
    leaves = [(k, x) for k, x in enumerate(flatten(tree)[0]) if _may_hold(x) and (is_object(x) or is_function(x))]
    nodes = {k: _node(x, (), f"{words}[{k}]" if k else words, known) for k, x in leaves}
    return {k: node for k, node in nodes.items() if node.holds_floats}


def are_given(f: Callable[..., Any], args: Sequence[Any], wanted: Iterable[int]) -> bool:
    """Whether a function is given objects or functions that hold numbers or arrays, where derivatives are wanted."""
    if isinstance(mode_of(f), Named):
        return False  # they are taken care of
    return any(i < len(args) and objects_in(args[i], "", {}) for i in wanted)


def with_mirrors(tree: Any, gradient: Any, objects: dict[int, Node], gradients: Values) -> Any:
    """The gradient in an argument with those in its objects, which had none."""
    if not objects:
        return gradient
    leaves, spec = flatten(tree)
    found = [None] * len(leaves) if gradient is None else spec.flatten_up_to(gradient)
    return unflatten(spec, [mirror(objects[k], gradients) if k in objects else dx for k, dx in enumerate(found)])


def _may_hold(x: Any) -> bool:
    return not (type(x) in LEAVES or is_proxy(x) or isinstance(x, (np.ndarray, *IMMUTABLE)) or is_traced(x))


class Standing(Passing):
    """The block in which values stand in the places of what is wanted: of ``nodes``."""

    def __init__(self, top: Node, values: Values) -> None:
        self._top, self._new = top, {words: value for group, value in values.items() for words in group}
        self._values = values
        self._put: list[tuple[Any, Any, Any]] = []  # places, with what stood and what stands there

    def begin(self) -> None:
        standing.update({id(value): value for value in self._values.values()})
        self._stand(self._top, {})

    def _stand(self, node: Node, seen: dict[int, Node]) -> None:
        """Put the values into a node's places."""
        new = self._placed(node, seen)
        if new is not node.value:
            for spot in node.spots:
                holder: Any = spot
                while isinstance(holder, Part):
                    holder = holder.holder
                old = holder.read()
                spot.write(new)
                self._put.append((holder, old, holder.read()))

    def _placed(self, node: Node, seen: dict[int, Node]) -> Any:
        """What is to stand in the place of a node, in which the values stand then."""
        if node.is_leaf or id(node) in seen:
            return self._new.get(node.words, node.value) if node.is_leaf else node.value
        seen[id(node)] = node
        if isinstance(node.value, tuple) and node.spots:
            new = [self._placed(part, seen) for part in node.below.values()]
            changed = any(x is not part.value for x, part in zip(new, node.below.values(), strict=True))
            return with_items(node.value, new) if changed else node.value
        for part in node.below.values():
            self._stand(part, seen)
        return node.value

    def end(self) -> None:
        for spot, old, new in reversed(self._put):
            if spot.read() is new:  # and not what the function has put there
                spot.write(old)
        for value in self._values.values():
            standing.pop(id(value), None)


@dataclass(frozen=True, slots=True)
class Named:
    """What marks a function that is given parameters, for caches and guards: their words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Mark:
    mode: Named


def with_parameters(f: Callable[..., Any], parameters: Parameters) -> Callable[..., Any]:
    """A function ``(values, *args, **kwargs)`` that runs ``f`` while the values stand in the places of parameters."""

    @functools.wraps(f)
    def with_values(values: Values, *args: Any, **kwargs: Any) -> Any:
        with Holding(locks.tracing), Standing(parameters.nodes(args), values):
            return f(*args, **kwargs)

    with_values.__yota_cache__ = _Mark(Named(parameters.words))  # type: ignore[attr-defined]
    return with_values


def mirror(top: Node, gradients: Values) -> Any:
    """The gradients in the structure of what is wanted: for an object of a plain class, a ``SimpleNamespace`` with the
    names of its attributes; ``None`` for what has none."""
    found = {words: dx for group, dx in gradients.items() for words in group}
    made: dict[int, Any] = {}

    def of(node: Node) -> Any:
        if id(node) in made:
            return made[id(node)]
        value = node.value
        for name in ("__self__", "__wrapped__"):  # of a method, or of what has been made of a function
            if isinstance(value, MethodType | FunctionType) and name in node.below:
                return of(node.below[name])
        if node.is_leaf:
            return found.get(node.words, value if items_of(value) is not None else None)
        if isinstance(value, list | dict):  # which may hold themselves
            made[id(node)] = new = with_items(value, [None] * len(node.below))
            for key, part in node.below.items():
                new[key] = of(part)
            return new
        if items_of(value) is not None and not is_dataclass(value):
            return with_items(value, [of(part) for part in node.below.values()])
        made[id(node)] = obj = object.__new__(type(value)) if is_dataclass(value) else SimpleNamespace()
        for name, part in node.below.items():
            object.__setattr__(obj, name, of(part))
        return obj

    return of(top)


def _wanted(tree: Any) -> Iterator[Any]:
    """The parts of ``wrt``: itself, and what containers in it hold."""
    yield tree
    for _, item in _items(tree):
        yield from _wanted(item)


def _items(value: Any) -> list[tuple[Any, Any]]:
    items = None if is_traced(value) else items_of(value)
    return [] if items is None else [*zip(keys_of(value), items, strict=True)]


def _node(value: Any, spots: Sequence[Spot], words: str, known: dict[int, Node]) -> Node:
    """A value that was found in these places, with all that stands in it."""
    if is_traced(value) or isinstance(value, (np.ndarray, *IMMUTABLE)):
        return Node(value, spots, words)
    if id(value) in known:
        return known[id(value)]
    known[id(value)] = node = Node(value, spots, words)
    inside: list[tuple[Any, Any, list[Spot], str]] = []
    if isinstance(value, list | dict):
        inside = [(key, x, [Item(value, key)], f"{words}[{key!r}]") for key, x in _items(value)]
    elif isinstance(value, tuple):
        inside = [(key, x, [Part(spot, key) for spot in spots], f"{words}[{key!r}]") for key, x in _items(value)]
    elif isinstance(value, MethodType):
        inside = [("__self__", value.__self__, [], words)]
    elif isinstance(value, FunctionType) and (type(value) is not FunctionType or not cells_of(value)):
        inside = [(name, x, [], words) for name, x in vars(value).items() if name == "__wrapped__"]  # by a transform
    elif isinstance(value, FunctionType):
        inside = [(name, x, [spot], f"{words}.{name}") for name, x, spot in cells_of(value)]
    elif isinstance(value, functools.partial):
        parts: list[tuple[str, Any]] = [("args", value.args), ("keywords", value.keywords)]
        inside = [("func", value.func, [], words)]
        inside += [(name, x, [Bound(value, name)], f"{words}.{name}") for name, x in parts]
    elif is_object(value):
        inside = [(key, x, [Attribute(value, key)], f"{words}.{key}") for key, x in held_by(value).items()]
    node.below = {key: _node(x, at, said, known) for key, x, at, said in inside}
    return node


def _with_own_words(top: Node) -> Node:
    """The same, where no leaf has the words of another one."""
    given: set[str] = set()
    for leaf in _leaves(top, {}):
        words, k = leaf.words, 1
        while leaf.words in given:
            k += 1
            leaf.words = f"{words} ({k})"
        given.add(leaf.words)
    return top


def _leaves(node: Node, seen: dict[int, Node]) -> Iterator[Node]:
    if id(node) not in seen:
        seen[id(node)] = node
        if node.is_leaf:
            yield node
        for part in node.below.values():
            yield from _leaves(part, seen)
