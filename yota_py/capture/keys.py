"""Traced values that a function has left as keys of dicts, and in sets, where none can stand for another."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from ..base.containers import base_of, refill
from ..base.dispatch import find_traced, shadow
from ..tracing.tracer import Tracer

MAX_DEPTH = 4  # of tuples in one another, as keys


def take_out(tracers: Iterable[Tracer]) -> bool:
    """Put plain values in the places of traced ones, in all that holds them as keys; whether that could be done.

    What a traced value is looked up by has been decided, so a key is the same at each call of the trace.
    """
    done = True
    found = {id(container): container for container in _holders([*tracers], MAX_DEPTH)}
    for container in found.values():
        if isinstance(container, dict):
            base: Any = base_of(type(container))
            items = [(shadow(key), dict.__getitem__(container, key)) for key in base.__iter__(container)]
            refill(container, items)
        elif isinstance(container, set):
            refill(container, [shadow(member) for member in set.__iter__(container)])
        else:
            done = False
    return done


def _holders(keys: list[Any], depth: int) -> Iterator[Any]:
    """Dicts and sets that hold these values, themselves or in tuples."""
    if not keys or not depth:
        return
    ids, tuples = {*map(id, keys)}, []
    for holder in gc.get_referrers(*keys):
        if isinstance(holder, dict):
            if any(id(key) in ids for key in dict.__iter__(holder)):
                yield holder
        elif isinstance(holder, set | frozenset):
            yield holder
        elif isinstance(holder, tuple) and find_traced((holder,)) is not None:
            tuples.append(holder)
    yield from _holders(tuples, depth - 1)
