"""Which arguments a program serves: their containers, and those that are no inputs of it."""

from __future__ import annotations

import weakref
from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from ..base.containers import is_proxy
from ..base.types import native_type
from ..capture.kinds import is_watchable, is_whole
from ..tape.trees import flatten, holds_keys, is_traceable, keys_in
from ..tracing.shells import is_recordable


class Static:
    """An argument that is no input of the tape: equal numbers and strings, other objects by identity, or ``of_class``
    by their class."""

    def __init__(self, leaf: Any, *, of_class: bool = False) -> None:
        self.of_class = of_class
        self.comparable = not is_proxy(leaf) and isinstance(leaf, int | str | bytes | np.integer | np.bool_ | None)
        self.kind = type(leaf)
        try:
            self.value = leaf if self.comparable else weakref.ref(leaf)
        except TypeError:
            self.value = lambda: leaf

    def fits(self, leaf: Any) -> bool:
        """Whether another call's argument is the same."""
        if self.of_class:
            return type(leaf) is self.kind
        if not self.comparable:
            return leaf is self.value()
        return leaf is self.value or (type(leaf) is self.kind and bool(leaf == self.value))


def key_of(leaves: Sequence[Any], spec: optree.PyTreeSpec, numbers: Container[int] = ()) -> Hashable:
    """What arguments have in common that can share programs: structure, types, and static values; at the positions
    ``numbers`` whole numbers may have any value, and objects be any of their class."""
    return spec, keys_in(spec) if holds_keys(spec) else None, *[
        native_type(x) if is_traceable(x) or (i in numbers and is_whole(x)) else _static_key(x, i in numbers)
        for i, x in enumerate(leaves)
    ]


def _static_key(leaf: Any, any_of_class: bool) -> Hashable:
    known = Static(leaf)
    if known.comparable:
        return known.kind, leaf
    return (known.kind,) if is_recordable(leaf) or (any_of_class and is_watchable(leaf)) else id(leaf)


class Structure:
    """The arguments and the seed of the calls that a program may serve; ``given`` are the positions of its inputs among
    their leaves, of which the last is the seed. With ``bare``, the leaves are just the positional arguments.

    ``traced`` are positions of inputs, besides numbers and arrays; at ``of_class`` objects are known by their class.
    """

    def __init__(
        self, leaves: Sequence[Any], spec: optree.PyTreeSpec, traced: Container[int], of_class: Container[int] = (), *,
        objects: bool = False,
    ) -> None:  # fmt: skip
        self.spec, self._objects = spec, objects
        self._keys = keys_in(spec) if holds_keys(spec) else None
        self.static = {i: Static(x, of_class=i in of_class) for i, x in enumerate(leaves)
                       if not (i in traced or is_traceable(x))}
        self.given = [i for i in range(len(leaves)) if i not in self.static]
        args, last = spec.child(0), len(leaves) - 1
        alone = args.num_leaves == last and all(child.is_leaf() for child in args.children())
        self.bare = alone and self.static.keys() == {last} and leaves[last] is None

    def leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> list[Any] | None:
        """The leaves of a call; ``None`` if they are not as these."""
        try:
            leaves, spec = flatten((args, dict(kwargs), seed), objects=self._objects)
        except RecursionError:  # containers that hold themselves
            return None
        same = spec == self.spec and (self._keys is None or keys_in(spec) == self._keys)
        return leaves if same and self.fits(leaves) else None

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether those of these leaves that are no inputs are the same."""
        return all(known.fits(leaves[i]) for i, known in self.static.items())
