"""Containers: flattened with optree; dataclasses are containers of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import optree

from . import locks
from .dispatch import is_traced
from .errors import LostDerivativeError
from .operations import is_library, user_site
from .types import is_inexact

NAMESPACE = "yota_py"  # of containers registered with optree
Leaf = Any
_registered: set[type] = set()


def flatten(tree: Any) -> tuple[list[Leaf], optree.PyTreeSpec]:
    """Leaves and structure of a container; ``None`` is a leaf."""
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    classes = {type(leaf) for leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)}
    new = [cls for cls in classes - _registered if not is_library(cls.__module__)]
    if not new:
        return leaves, spec
    for cls in new:
        _register(cls)
    return flatten(tree)


def unflatten(spec: optree.PyTreeSpec, leaves: Sequence[Leaf]) -> Any:
    """The container of this structure."""
    return optree.tree_unflatten(spec, leaves)


def map_items(fn: Callable[[Any], Any], structure: Any) -> Any:
    """A tuple, list or dict with ``fn`` of each item; anything else as it is."""
    if isinstance(structure, tuple | list):
        return rebuild(structure, map(fn, structure))
    if isinstance(structure, dict):
        return {key: fn(item) for key, item in structure.items()}
    return structure


def rebuild(like: tuple[Any, ...] | list[Any], items: Iterable[Any]) -> Any:
    """A tuple, namedtuple or list of the kind of ``like`` with other items."""
    return tuple.__new__(type(like), items) if isinstance(like, tuple) else type(like)(items)


def _register(cls: type) -> None:
    """Make a dataclass a container; its instances are rebuilt without ``__init__``, which might reject tracers."""
    names = tuple(field.name for field in dataclasses.fields(cls))

    def take_apart(obj: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(obj, name) for name in names), None, names

    def put_together(_: Any, values: Iterable[Any]) -> Any:
        obj: Any = object.__new__(cls)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(obj, name, value)
        return obj

    with locks.containers:
        if cls not in _registered:
            _registered.add(cls)
            optree.register_pytree_node(cls, take_apart, put_together, namespace=NAMESPACE)


def is_traceable(leaf: Leaf) -> bool:
    """Whether a leaf becomes an input of the tape; ints, bools, strings and the like are static."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "fcbiu"
    return is_inexact(leaf)


def check_leaf(leaf: Leaf, name: str) -> Leaf:
    """An argument's leaf, as it is traced; raises for arrays of objects and for subclasses of ``ndarray``."""
    if not isinstance(leaf, np.ndarray) or is_traced(leaf):
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


# The order of a dict's keys is part of its structure: a function may iterate over it.
# In force while this object lives.
_ordered = optree.dict_insertion_ordered(True, namespace=NAMESPACE)
_ordered.__enter__()
