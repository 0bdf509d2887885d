"""Parameters: what a function reads besides its arguments and derivatives are wanted in, found where it stands.

``value_and_grad(loss, wrt=(W, b))`` finds an array by its identity in what the function can reach: cells, global names,
defaults, attributes, items. Of an object, a list or a dict, the attributes and items are looked up anew at each call.
While the function runs, tracers stand in the places of the values; then these are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import locks
from ..base.containers import LEAVES, is_proxy, items_of, with_items
from ..base.dispatch import is_traced, mode_of
from ..base.records import record
from ..base.signatures import wraps
from ..base.types import is_inexact
from ..base.unwinding import Holding, state
from ..errors import MutationError, NotDifferentiableError
from ..tape.operations import Constant, Variable, operands, user_site
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from ..tracing.views import overlap, overlapping
from .captured import standing
from .kinds import IMMUTABLE
from .places import replace_in
from .reach import (
    HIDDEN,
    Bound,
    Exchanged,
    Node,
    Spot,
    Values,
    another,
    is_function,
    is_object,
    items_by_key,
    leaves_of,
    mirror,
    node_of,
    reach,
    read_now,
    with_own_words,
)


class Parameters:
    """What derivatives of a function are wanted in: ``wrt`` as in ``value_and_grad``."""

    def __init__(self, f: Callable[..., Any], wrt: Any) -> None:
        self.f, self._wrt = f, wrt
        self._found: dict[int, tuple[Any, list[Spot], str]] = {}  # by identity, where the wanted values were found
        self.others: dict[str, Spot] = {}  # where arrays stand, by words for the places
        with Holding(locks.tracing):  # while no other thread's tracers stand there
            self._search([(f, name_of(f))])
        self._is_alone = not self._missing(wrt)  # without an argument that is an object
        self._tree = self._plan(wrt)  # tracers may stand in it later
        self.words = (*(leaf.words for leaf in leaves_of(self.nodes(), {})),) if self._is_alone else ("of arguments",)

    def __reduce__(self) -> Any:
        """What is found by its identity is looked for again in another process."""
        return Parameters, (self.f, self._wrt)

    def _search(self, start: Sequence[tuple[Any, str]]) -> None:
        """Find the wanted values in what these can reach."""
        wanted = {id(x): x for x in _wanted(self._wrt) if not isinstance(x, IMMUTABLE)}  # one number is in many places
        self._found, self.others = {}, {}
        for value, spot, words in reach(start):
            if id(value) in wanted and spot is None and words.startswith(HIDDEN):
                raise ValueError(f"{user_site()}: {name_of(self.f)} reads something in which derivatives are wanted, "
                                 f"{words}, which cannot be followed. Put it into attributes, lists or dicts, or make "
                                 "it an argument")
            if id(value) in wanted and (spot is not None or is_object(value)):
                _, spots, _ = self._found.setdefault(id(value), (value, [], words))
                spots += [spot] if spot is not None else []
            if spot is not None and (isinstance(value, np.ndarray) or is_traced(value)):
                self.others[another(words, self.others)] = spot

    def _plan(self, wanted: Any) -> Any:
        """A part of ``wrt``: what was found, or the items of a container that stands nowhere, with their keys."""
        if id(wanted) in self._found:
            return wanted
        return Fresh(wanted, {key: self._plan(x) for key, x in items_by_key(wanted)})

    def nodes(self, args: Sequence[Any] = ()) -> Node:
        """What is wanted, as it stands now; raises ``ValueError`` for what the function cannot reach."""
        if not self._is_alone:
            self._search([(self.f, name_of(self.f)), *((x, f"args[{i}]") for i, x in enumerate(args) if is_object(x))])
            for x in self._missing(self._wrt):
                raise self._not_read(x)
            self._tree = self._plan(self._wrt)
        return with_own_words(self._placed(self._tree, {}))

    def _missing(self, tree: Any) -> list[Any]:
        if id(tree) in self._found or tree is None:
            return []
        return [tree] if items_of(tree) is None else [x for _, item in items_by_key(tree) for x in self._missing(item)]

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
        if isinstance(wanted, Fresh):
            return Node(wanted.like, (), "", {key: self._placed(item, known) for key, item in wanted.items.items()})
        _, spots, words = self._found[id(wanted)]
        now = [spot.read() for spot in spots] or [wanted]
        first = next(filter(is_traced, now), now[0])  # not all places may be followed in a trace
        if not is_traced(first) and any(x is not first for x in now):
            raise ValueError(f"{user_site()}: {words}, in which derivatives are wanted, stands no longer in all places "
                             "where it stood. Put the same object in all of them, or write into it")
        return node_of(first, spots, words, known)

    def read(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> tuple[Node, Values]:
        """What is wanted, and its numbers and arrays; raises as ``nodes``, and ``NotDifferentiableError`` if there are
        none. An array in several places is one, and so it has one gradient."""
        top = self.nodes(args)
        if not state.traces and any(is_traced(leaf.value) for leaf in leaves_of(top, {})):  # of another thread
            with Holding(locks.tracing):
                top = self.nodes(args)
        groups: dict[Any, tuple[Any, list[str]]] = {}
        places = set[tuple[int, Any]]()
        for leaf in leaves_of(top, {}):
            if is_inexact(leaf.value):
                is_array = is_traced(leaf.value) or isinstance(leaf.value, np.ndarray)
                groups.setdefault(id(leaf.value) if is_array else leaf.words, (leaf.value, []))[1].append(leaf.words)
                places.update((id(spot.holder), spot.key) for spot in leaf.spots)
        if not groups:
            raise NotDifferentiableError(f"{user_site()}: wrt has no floating-point number or array")
        for words, spot in self.others.items():
            group = groups.get(id(read_now(spot)))
            if group is not None and words not in group[1] and (id(spot.holder), spot.key) not in places:
                group[1].append(OTHER + words)
        values = {(*words,): value for value, words in groups.values()}
        self._check_memory(values)
        self._check_arguments(values, {**dict(enumerate(args)), **(kwargs or {})})
        return top, values

    def _check_memory(self, values: Values) -> None:
        """Refuse arrays that look at one another's memory: what flows back to the other would be missed."""
        arrays = [(x, words[0]) for words, x in values.items() if isinstance(x, np.ndarray) and not is_traced(x)]
        others = [(x, words) for words, spot in self.others.items() if isinstance(x := read_now(spot), np.ndarray)]
        for i, (x, words) in enumerate(arrays):
            for y, told in (*arrays[i + 1 :], *others):
                if y is not x and not is_traced(y) and overlap(x, y):
                    raise ValueError(f"{user_site()}: {words}, in which derivatives are wanted, shares memory with "
                                     f"{told}. Make one of them a copy, or make one out of the other in "
                                     f"{name_of(self.f)}")

    def _check_arguments(self, values: Values, args: Mapping[Any, Any]) -> None:
        """Refuse arguments that are what derivatives are wanted in, or look at its memory: they would be constants."""
        for key, arg in args.items():
            arrays = [arg] if type(arg) is np.ndarray else _arrays_in(arg)
            if not arrays or (not state.traces and not overlapping([*values.values()], arrays)):  # which is fast
                continue
            for words, x in values.items():
                if any(y is x or overlap(x, y) for y in arrays):
                    told = key if isinstance(key, str) else f"args[{key}]"
                    raise ValueError(f"{user_site()}: {told} of {name_of(self.f)} shares memory with {words[0]}, in "
                                     "which derivatives are wanted: what flows back to the argument would be missed. "
                                     "Give a copy of it, or let the function read it instead")


def _arrays_in(arg: Any) -> list[Any]:
    """The arrays in an argument, which is no object: those of one are looked for elsewhere."""
    leaves = () if is_object(arg) else flatten(arg)[0]
    return [x for x in leaves if is_traced(x) or isinstance(x, np.ndarray)]


OTHER = "also "  # before the words for a place of the same array that is no part of wrt


@record(frozen=False, eq=False)
class Fresh:
    """A container in ``wrt`` that stands nowhere, as it was."""

    like: Any
    items: dict[Any, Any]


class Given(Parameters):
    """The objects and functions among the arguments at some positions, as far as they hold numbers or arrays."""

    def __init__(self, f: Callable[..., Any], positions: Sequence[int]) -> None:
        self.f, self._positions, self.others = f, positions, {}
        self.words = "of arguments", *map(str, positions)

    def __reduce__(self) -> Any:
        return Given, (self.f, self._positions)

    def nodes(self, args: Sequence[Any] = ()) -> Node:
        known: dict[int, Node] = {}
        found = {i: Node(None, (), "", objects_in(args[i], f"args[{i}]", known)) for i in self._positions}
        return with_own_words(Node(None, (), "", found))


def objects_in(tree: Any, words: str, known: dict[int, Node]) -> dict[int, Node]:
    """The objects and functions in an argument that hold numbers or arrays, by their positions among its leaves."""
    if not _may_hold(tree):
        return {}
    try:
        flat, _ = flatten(tree)
    except RecursionError:  # which is told of the whole call
        return {}
    leaves = [(k, x) for k, x in enumerate(flat) if _may_hold(x) and (is_object(x) or is_function(x))]
    nodes = {k: node_of(x, (), f"{words}[{k}]" if k else words, known) for k, x in leaves}
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


class Standing(Exchanged):
    """The block in which values stand in the places of what is wanted: of a node, and ``others`` of the same arrays."""

    def __init__(self, top: Node, values: Values, others: Mapping[str, Spot]) -> None:
        super().__init__()
        self._top, self._new = top, {words: value for group, value in values.items() for words in group}
        self._values, self._others = values, others

    def begin(self) -> None:
        standing.update({id(value): value for value in self._values.values()})
        self._stand(self._top, {})
        for words, value in self._new.items():
            if words.startswith(OTHER):
                self.put(self._others[words.removeprefix(OTHER)], value)

    def _stand(self, node: Node, seen: dict[int, Node]) -> None:
        """Put the values into a node's places."""
        new = self._placed(node, seen)
        if new is not node.value:
            for spot in node.spots:
                self.put(spot, new)

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
        super().end()
        stood = {id(new): old for _, old, new in self._put}
        holders = {id(place.holder): place.holder for place, _, _ in self._put if not isinstance(place, Bound)}
        for holder in holders.values():  # in which the function may have moved things
            replace_in(holder, lambda x: stood.get(id(x), x))
        for value in self._values.values():
            standing.pop(id(value), None)


@record()
class Named:
    """What marks a function that is given parameters, for caches and guards: their words."""

    words: tuple[str, ...]


@record()
class _Mark:
    mode: Named


def with_parameters(f: Callable[..., Any], parameters: Parameters) -> Callable[..., Any]:
    """A function ``(values, *args, **kwargs)`` that runs ``f`` while the values stand in the places of parameters."""

    @wraps(f)
    def with_values(values: Values, *args: Any, **kwargs: Any) -> Any:
        with Holding(locks.tracing), Standing(parameters.nodes(args), values, parameters.others):
            out = f(*args, **kwargs)
        if state.traces:
            _heed(state.traces[-1], values, f, is_given=isinstance(parameters, Given))
        return out

    with_values.__yota_cache__ = _Mark(Named(parameters.words))  # type: ignore[attr-defined]
    return with_values


def _heed(trace: Any, values: Values, f: Callable[..., Any], *, is_given: bool) -> None:
    """Refuse what would be lost: writes into parameters, and derivatives that flow through what is no parameter."""
    names = {id(x): words[0] for words, x in values.items() if is_traced(x)}
    roots = {names[id(root)]: var for var, root in trace.roots.items() if id(root) in names}
    for words, var in roots.items():
        if trace.roots[var]._is_written():
            raise MutationError(f"{user_site()}: {name_of(f)} writes into {words}, in which derivatives are wanted. "
                                "Put a new array there")
    used = set[Variable]() if is_given else {x for op in trace.tape.ops for x in operands(op)}
    for var in used:
        op = trace.tape[var]
        for words, root in roots.items() if isinstance(op, Constant) else ():
            value = trace[root]
            if op.value is value or overlap(op.value, value):
                raise ValueError(f"{user_site()}: {name_of(f)} reads {words}, in which derivatives are wanted, in "
                                 "another way as well, which cannot be followed. Reach it by names, attributes, and "
                                 "items of lists and dicts, or make it an argument")


def _wanted(tree: Any) -> Iterator[Any]:
    """The parts of ``wrt``: itself, and what containers in it hold."""
    yield tree
    for _, item in items_by_key(tree):
        yield from _wanted(item)
