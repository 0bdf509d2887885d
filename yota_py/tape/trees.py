"""Structures of containers, flattened to their leaves with optree."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import optree

from ..base.containers import LEAVES, NAMESPACE, has_gone, is_container, is_registered, items_of, kinds_of
from ..base.dispatch import is_traced
from ..base.types import ARITHMETIC, is_inexact, overrides
from ..base.unwinding import state
from ..errors import LostDerivativeError
from .operations import user_site

Leaf = Any
_DICTS = (dict, OrderedDict, defaultdict)  # those that optree looks into


def flatten(tree: Any, *, objects: bool = False) -> tuple[list[Leaf], optree.PyTreeSpec]:
    """Leaves and structure of a container; ``None`` is a leaf. With ``objects``, those of classes that the user has
    registered with optree are leaves as well."""
    try:
        _check_keys((tree,))
        leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError:
        raise RecursionError(f"{user_site()}: {_too_deep(tree)} contains itself, or is nested too deep, and cannot be "
                             "taken apart; pass containers of numbers and arrays") from None
    ordered, registered, *_ = _holds(spec)
    if ordered and (rebuilt := _rebuilt(tree)) is not tree:
        return flatten(rebuilt, objects=objects)
    if objects and registered:
        leaves, spec = optree.tree_flatten(
            tree, lambda part: is_registered(type(part)), none_is_leaf=True, namespace=NAMESPACE
        )
    classes = [cls for cls in {*map(type, leaves)} - LEAVES if dataclasses.is_dataclass(cls) and not is_registered(cls)]
    new = [cls for cls in classes if is_container(cls)]  # and it is known from now on
    return flatten(tree, objects=objects) if new else (leaves, spec)


def _check_keys(parts: Iterable[Any]) -> None:
    """Raise for a dict that does not find one of its own keys, as when that has changed since it was put in, and for a
    key whose hash raises: optree would end the process. In objects of the user's registered classes, nobody looks."""
    for part in parts:
        cls = type(part)
        if cls in LEAVES:
            continue
        if cls in _DICTS:
            _check_own_keys(part)
            _check_keys(part.values())
        elif cls is tuple or cls is list or (is_container(cls) and not is_registered(cls)):
            _check_keys(items_of(part) or ())


def _check_own_keys(table: dict[Any, Any]) -> None:
    """``_check_keys`` of one dict."""
    for key in table:
        if type(key) not in LEAVES and key not in table:
            raise LookupError(
                f"{user_site()}: a {type(table).__name__} does not find its own key, a {type(key).__name__}: the hash "
                "of a key must not change while it is in a dict"
            )


def _too_deep(tree: Any) -> str:
    """The argument of a call that cannot be flattened; else the tree itself."""
    if isinstance(tree, tuple) and len(tree) == 2 and isinstance(tree[0], tuple) and isinstance(tree[1], dict):
        for name, value in (*enumerate(tree[0]), *tree[1].items()):
            try:
                _check_keys((value,))
                optree.tree_flatten(value, none_is_leaf=True, namespace=NAMESPACE)
            except RecursionError:
                return f"argument {name}"
    return f"a {type(tree).__name__}"


def outline(spec: optree.PyTreeSpec) -> str:
    """A structure as a text, in which each leaf is a star: ``(*, {'a': *})``."""
    return str(spec).removeprefix("PyTreeSpec(").partition(", NoneIsLeaf")[0]


def as_call(spec: optree.PyTreeSpec) -> str:
    """The structure of the arguments of a call: ``(*, k=[*])``."""
    args, kwargs = spec.children()
    named = (f"{name}={outline(value)}" for name, value in zip(kwargs.entries(), kwargs.children(), strict=True))
    return f"({', '.join([*map(outline, args.children()), *named])})"


def _holds(spec: optree.PyTreeSpec) -> tuple[bool, ...]:
    """Whether there is an ``OrderedDict`` in a structure; an object of a class that the user has registered; a dict;
    a dict of something without leaves. A structure with traced values as keys is not remembered: it would be compared
    with others when their trace has ended."""
    if state.traces:
        before = state.hashes
        hash(spec)
        if state.hashes != before:
            return _looked_into(spec)
    return _remembered(spec)


def _looked_into(spec: optree.PyTreeSpec) -> tuple[bool, ...]:
    if spec.is_leaf():
        return False, False, False, False
    cls, below = spec.type, spec.children()
    keys = cls in _DICTS
    hollow = keys and not all(part.num_leaves for part in below)
    own = cls is OrderedDict, cls is not None and is_registered(cls), keys, hollow
    return tuple(map(any, zip(own, *map(_holds, below), strict=True)))


_remembered = lru_cache(maxsize=4096)(_looked_into)


def holds_keys(spec: optree.PyTreeSpec) -> bool:
    """Whether there are dicts in a structure of arguments, ``(args, kwargs, ...)``, besides ``kwargs`` itself."""
    args, kwargs, *others = spec.children()
    return any(_holds(part)[2] for part in (args, *kwargs.children(), *others))


def keys_in(spec: optree.PyTreeSpec) -> Hashable:
    """In what a structure may differ from one that is equal: ``kinds_of`` its keys."""
    found = kinds_of([*chain.from_iterable(spec.paths())])  # those that lead to leaves
    return (found, outline(spec)) if _holds(spec)[3] else found


def _rebuilt(tree: Any) -> Any:
    """A container whose ``OrderedDict``s have all been filled in their order. What ``move_to_end`` has moved stands
    elsewhere in the dict below, the order of which is optree's."""

    moved = False

    def is_moved(part: Any) -> bool:
        return type(part) is OrderedDict and [*part] != [*dict.__iter__(part)]

    def rebuild(part: Any) -> Any:
        nonlocal moved
        if not is_moved(part):
            return part
        moved = True
        return OrderedDict((key, _rebuilt(value)) for key, value in part.items())

    rebuilt = optree.tree_map(rebuild, tree, is_leaf=is_moved, none_is_leaf=True, namespace=NAMESPACE)
    return rebuilt if moved else tree


def opened(tree: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    """The items of a container, whatever they hold, and what puts them together again; of others, themselves."""
    if dataclasses.is_dataclass(type(tree)):
        is_container(type(tree))  # and it is known from now on
    outside = True

    def is_item(_: Any) -> bool:
        nonlocal outside
        first, outside = outside, False
        return not first

    tree = OrderedDict(tree) if type(tree) is OrderedDict else tree  # see _rebuilt
    if type(tree) in _DICTS:
        _check_own_keys(tree)
    return optree.tree_flatten(tree, is_item, none_is_leaf=True, namespace=NAMESPACE)


def unflatten(spec: optree.PyTreeSpec, leaves: Sequence[Leaf]) -> Any:
    """The container of this structure."""
    return optree.tree_unflatten(spec, leaves)


def is_traceable(leaf: Leaf) -> bool:
    """Whether a leaf becomes an input of the tape; ints, bools, strings and the like are static."""
    if has_gone(leaf):
        return False
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "fcbiu"
    return is_inexact(leaf)


def check_leaf(leaf: Leaf, name: str) -> Leaf:
    """An argument's leaf, as it is traced; raises for arrays of objects, for subclasses of ``ndarray``, and of Python's
    numbers if they compute in their own way."""
    if is_traced(leaf):
        return leaf
    if has_gone(leaf):  # the function is given it, and the tape has nothing to say of it
        return None
    if not isinstance(leaf, np.ndarray):
        if overrides(type(leaf), *ARITHMETIC):
            raise TypeError(
                f"{user_site()}: the argument {name} is a {type(leaf).__name__}, whose arithmetic differs from a "
                "number's; pass float(...) of it"
            )
        return leaf
    if leaf.dtype.hasobject:
        raise LostDerivativeError(
            f"{user_site()}: the argument {name} is an array of Python objects (dtype=object); pass a numeric array, "
            "or a list or dict of numbers and arrays"
        )
    if isinstance(leaf, np.memmap):
        leaf = leaf.view(np.ndarray)
    if not leaf.dtype.isnative:
        leaf = leaf.astype(leaf.dtype.newbyteorder("="))
    if type(leaf) is not np.ndarray:
        raise TypeError(
            f"{user_site()}: the argument {name} is a {type(leaf).__name__}, whose arithmetic differs from an array's; "
            "pass np.asarray(...) of it"
        )
    return leaf
