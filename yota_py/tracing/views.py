"""Views: which traced arrays share memory, and how each looks at the other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy import ndarray

from ..base.containers import LEAVES, items_of, keys_of, mapped, with_items
from ..base.dispatch import decided, find_traced, shadow
from ..base.records import record
from ..registry.kernels import View
from ..registry.registry import primitive_of
from ..registry.tangents import getfield
from ..registry.writes import set_view
from .tracer import Tracer, heed_layout, make_tracer

MAX_WORK = 100_000  # candidates tried to find an element that two arrays share; more of them count as overlapping


@record()
class Part:
    """``fn`` as a function of what stands at ``place`` in its ``(args, kwargs)`` (keys, one after the other), and of
    its result what stands at ``item``. Its other arguments are those of ``fn``, whatever they have at the place."""

    fn: Callable[..., Any]
    place: tuple[Any, ...]
    item: tuple[Any, ...]

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _put((args, kwargs), self.place, x)
        return reduce(getfield, self.item, self.fn(*args, **kwargs))


@record()
class Look:
    """How a view looks at its parent: ``fn(parent, *args, **kwargs)``."""

    parent: Tracer
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def again(self) -> Any:
        """The view of what the parent stands for now."""
        record = self.parent._ledger.record
        if self.fn is operator.getitem and (known := self.parent._ledger.noted_at(self.parent, *self.args)) is not None:
            return known
        if not isinstance(self.fn, Part):
            return record(self.fn, (self.parent, *self.args), self.kwargs)
        args, kwargs = _put((self.args, dict(self.kwargs)), self.fn.place, self.parent)
        result = record(self.fn.fn, args, kwargs)
        return reduce(getfield, self.fn.item, result)

    def of(self, array: np.ndarray) -> Any:
        """The same view of another array."""
        return self.fn(array, *shadow(self.args), **shadow(dict(self.kwargs)))

    def written(self, value: Any) -> Any:
        """What the parent is after ``value`` has been written through the view."""
        return set_view(self.parent, value, self.fn, self.args, dict(self.kwargs))


def follow_views(
    result: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], item: tuple[Any, ...] = ()
) -> None:
    """Let the traced arrays that a call has given remember at which of its arguments they look."""
    if isinstance(result, Tracer):
        _follow(result, fn, args, kwargs, item)
    elif type(result) not in LEAVES and (items := items_of(result)):
        for key, each in zip(keys_of(result), items, strict=True):
            follow_views(each, fn, args, kwargs, (*item, key))


def _follow(
    result: Tracer, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], item: tuple[Any, ...]
) -> None:
    if not isinstance(value := shadow(result), ndarray):
        return
    if kwargs or not all(type(x) in LEAVES or isinstance(x, Tracer) for x in args):
        given = [*_traced_places((args, dict(kwargs)))]
    else:  # as most calls
        given = [((0, i), x) for i, x in enumerate(args) if isinstance(x, Tracer)]
    if value.base is None and not any(shadow(x) is value for _, x in given):
        _heed_copy(fn, args)
        return
    parents = [
        (of is not value, of.size, number)
        for number, (_, x) in enumerate(given)
        if x._ledger is result._ledger and isinstance(of := shadow(x), np.ndarray)
        and (value is of or (value.base is not None and np.may_share_memory(value, of)))
    ]  # fmt: skip
    if parents:
        *_, number = min(parents)  # of two arguments that share memory, the one that has less of it
        place, parent = given[number]
        entry = primitive_of(fn)
        if place == (0, 0) and not item and entry is not None and entry.rule is not None:
            look = Look(parent, fn, _frozen(args[1:]), _frozen(dict(kwargs)))
        else:
            look = Look(parent, Part(fn, place, item), *_frozen(_put((args, dict(kwargs)), place, None)))
        result._look_at(look)
    else:
        _heed_copy(fn, args)


def _traced_places(structure: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tracer]]:
    """The traced values in a structure, each with the keys that lead to it."""
    if isinstance(structure, Tracer):
        yield place, structure
    elif type(structure) not in LEAVES and (items := items_of(structure)):
        for key, item in zip(keys_of(structure), items, strict=True):
            yield from _traced_places(item, (*place, key))


def _put(structure: Any, place: tuple[Any, ...], x: Any) -> Any:
    """A structure with another value at the place to which the keys lead."""
    if not place:
        return x
    pairs = zip(keys_of(structure), items_of(structure) or (), strict=True)
    return with_items(structure, [_put(item, place[1:], x) if key == place[0] else item for key, item in pairs])


def _heed_copy(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """What has copied an array gives a view of one that lies otherwise."""
    array, entry = shadow(args[0]) if args else None, primitive_of(fn)
    if isinstance(array, ndarray) and not array.flags.c_contiguous and entry and isinstance(entry.kernel, View):
        heed_layout()


def _frozen(structure: Any) -> Any:
    """Arguments of a view as they are now: an array among them may be written into later. Bounds are decisions."""
    if find_traced((structure,)) is None:
        return structure
    if isinstance(structure, Tracer):
        return make_tracer(structure._ledger, *structure._current())
    if isinstance(structure, slice):
        return slice(*map(decided, (structure.start, structure.stop, structure.step)))
    return mapped(_frozen, structure)


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays share an element."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, MAX_WORK)  # type: ignore[arg-type]  # numpy's stubs know two values only
    except np.exceptions.TooHardError:
        return True


def overlapping(written: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether an array that is written into shares an element with another one."""
    owners, rest = [_owner(x) for x in written], {_owner(x) for x in others}
    if None not in owners and None not in rest and len({*owners}) == len(owners) and rest.isdisjoint(owners):
        return False
    return any(overlap(a, b) for i, a in enumerate(written) for b in (*written[i + 1 :], *others))


def _owner(x: Any) -> int | None:
    """The identity of the array whose memory an array looks at; ``None`` if the memory is not an array's."""
    base = getattr(x, "base", None)
    if base is None:
        return id(x)
    return id(base) if type(base) is np.ndarray and base.base is None else None


def laid_out(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """An array with new memory as one whose axes lie there in this order: itself, or a copy."""
    if array.transpose(order).flags.c_contiguous:
        return array
    if tuple(order) == tuple(reversed(range(array.ndim))):
        return np.array(array, order="F")
    copy = np.array(array.transpose(order), order="C")
    return np.array(copy.transpose(np.argsort(order)), order="K")  # which owns its memory


def locked(array: np.ndarray) -> np.ndarray:
    """The same array, which cannot be written into any more."""
    array.flags.writeable = False
    return array
