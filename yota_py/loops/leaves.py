"""What loops carry, take apart and put together: numbers and arrays in containers, checked leaf by leaf."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

from ..base.dispatch import is_traced, original
from ..base.types import ArrayType, Type, typeof
from ..base.unwinding import state
from ..registry.constants import as_constants
from ..registry.tangents import astype
from ..tape.operations import user_site
from ..tape.trees import flatten, outline

Spec = optree.PyTreeSpec


def name_of_leaf(root: str, spec: Spec, i: int) -> str:
    """What a leaf is called in the code: ``init['v'][0]``."""
    return root + "".join(f"[{key!r}]" for key in spec.paths()[i])


def described(x: Any) -> str:
    """A leaf in words."""
    t = typeof(x)
    return str(t) if isinstance(t, ArrayType) else "None" if x is None else f"a {type(x).__name__}"


def settled(x: Any) -> Any:
    """A leaf as NumPy has it: a number as a scalar, an array as a copy. Raises ``TypeError`` for anything else but
    ``None``."""
    if x is None:
        return None
    t = typeof(x)
    if not isinstance(t, ArrayType):
        raise TypeError(f"{type(x).__name__} is no number or array")
    if t.kind == "array":
        return np.copy(x) if t.shape else x[()]
    if t.kind == "python":
        return astype(x, t.dtype) if is_traced(x) else t.dtype.type(x)
    return x


def fitted(x: Any, want: Type) -> Any:
    """A leaf as it is carried on, also a number of Python's that its dtype takes; ``None`` if it cannot be."""
    t = typeof(x)
    if isinstance(t, ArrayType) and isinstance(want, ArrayType) and t.kind == "python" and t.dtype != want.dtype:
        weak: Any = t.dtype.type(0).item()
        if want.shape == () and original(np.result_type)(want.dtype, weak) == want.dtype:
            return astype(x, want.dtype) if is_traced(x) else want.dtype.type(x)
    if x is None or not isinstance(t, ArrayType):
        return None
    return settled(x) if isinstance(want, ArrayType) and (t.dtype, t.shape) == (want.dtype, want.shape) else None


def settled_leaves(tree: Any, root: str, who: str) -> tuple[list[Any], Spec]:
    """The leaves of a container as NumPy has them."""
    leaves, spec = flatten(tree)
    out = []
    for i, leaf in enumerate(leaves):
        try:
            out.append(settled(leaf))
        except TypeError:
            raise TypeError(f"{user_site()}: {who}: {name_of_leaf(root, spec, i)} is {described(leaf)}; numbers, "
                            "arrays and None can stand there, also in containers") from None
    return out, spec


def extent(named: Sequence[tuple[str, Any, int]], who: str, given: int | None = None) -> int:
    """The extent that arrays have in common along an axis each; raises ``ValueError`` if there is none."""
    extents = {name: typeof(x).shape[axis] for name, x, axis in named}  # type: ignore[union-attr]
    found = {*extents.values()} if given is None else {*extents.values(), given}
    if len(found) > 1:
        said = [f"{name} has {n}" for name, n in extents.items()] + [f"length is {given}"] * (given is not None)
        raise ValueError(f"{user_site()}: {who}: arrays are to have as many elements as one another: {', '.join(said)}")
    return found.pop()


def whole_number(value: Any, what: str) -> int:
    """A number of turns."""
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{user_site()}: {what} is a whole number; got {described(value)}") from None
    if n < 0:
        raise ValueError(f"{user_site()}: {what} is {n}; it cannot be negative")
    return n


def there(leaves: Sequence[Any]) -> list[Any]:
    """Leaves but for those that are ``None``."""
    return [x for x in leaves if x is not None]


def refilled(leaves: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Leaves with others in the places of those that are not ``None``."""
    rest = iter(others)
    return [None if x is None else next(rest) for x in leaves]


def row(x: Any, k: int) -> Any:
    """One element of an array along its first axis, which is not a view; ``None`` of ``None``."""
    if x is None:
        return None
    y = x[k]
    return np.copy(y) if len(typeof(x).shape) > 1 else y  # type: ignore[union-attr]


class Stacks:
    """What turns give, stacked leaf by leaf: structure and shapes are those of the first one."""

    def __init__(self, who: str, what: str) -> None:
        self._who, self._what = who, what
        self.spec: Spec | None = None
        self._columns: list[list[Any]] = []
        self._rest: list[Any] | None = None

    def add(self, tree: Any) -> None:
        """One turn more. Raises ``TypeError`` if it gives something else than the first."""
        leaves, spec = settled_leaves(tree, self._what, self._who)
        if self.spec is None:
            self.spec, self._columns = spec, [[] for _ in leaves]
        elif spec != self.spec:
            raise TypeError(f"{user_site()}: {self._who}: {self._what} is {outline(self.spec)} at first and "
                            f"{outline(spec)} later; it is to have one structure")
        for i, (column, leaf) in enumerate(zip(self._columns, leaves, strict=True)):
            if column and ((column[0] is None) != (leaf is None) or np.shape(column[0]) != np.shape(leaf)):
                raise TypeError(f"{user_site()}: {self._who}: {name_of_leaf(self._what, spec, i)} is "
                                f"{described(column[0])} at first and {described(leaf)} later; it is to have one shape")
            column.append(leaf)

    def firsts(self) -> list[Any]:
        """The leaves that the first turn gave."""
        return [column[0] for column in self._columns]

    def one_more(self, like: Stacks) -> list[Any]:
        """The leaves of one turn, but for ``None``. Raises ``TypeError`` if they are not of the types of another's."""
        if self.spec != like.spec or [*map(typeof, self.firsts())] != [*map(typeof, like.firsts())]:
            raise TypeError("a turn gives another type than the first")
        return there(self.firsts())

    def give(self, stacks: Sequence[Any]) -> None:
        """What all other turns give is known: an array for each leaf but ``None``."""
        self._rest = refilled(self.firsts(), stacks)

    def leaves(self, axes: Sequence[int], *, turned: bool = False, none: bool = False) -> list[Any]:
        """The stacks, along these axes, the last element first if they are ``turned``; empty ones with ``none``."""
        out: list[Any] = []
        for i, (column, axis) in enumerate(zip(self._columns, axes, strict=True)):
            if column[0] is None:
                out.append(None)
                continue
            if none:
                t: Any = typeof(column[0])
                stack = _constant(original(np.zeros)((0, *t.shape), t.dtype))
            elif any(map(is_traced, column)):
                stack = np.stack(column[:: -1 if turned else 1])  # which is found to be what a loop collects
            else:
                stack = _constant(original(np.stack)(column[:: -1 if turned else 1]))
            if self._rest is not None:
                stack = np.concatenate([stack, self._rest[i]][:: -1 if turned else 1])
            out.append(np.moveaxis(stack, 0, axis) if axis else stack)
        return out


def _constant(array: np.ndarray) -> Any:
    return as_constants(array) if state.traces else array


def blank(x: Any) -> Any:
    """An element of an array that has none: zeros."""
    if x is None:
        return None
    t: Any = typeof(x)
    return original(np.zeros)(t.shape[1:], t.dtype) if t.ndim > 1 else t.dtype.type(0)
