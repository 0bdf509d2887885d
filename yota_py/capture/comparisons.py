"""Whether a function compares by identity (``x is y``) what stands for something else while it is traced.

A traced number or array is another object than that for which it stands, and a container of them is another one than
the caller's; so nobody knows in a trace of two of them whether they are one.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..base.containers import is_container, items_of
from ..base.dispatch import is_traced
from ..tracing.tracer import Tracer
from ..tracing.traces import Trace
from .bytecode import ANYTHING, UNKNOWN, Origin, Pair, names_of, nested
from .guards import Guards
from .slots import Slot

COMPARING = (operator.is_, operator.is_not)  # functions that do


class Comparisons:
    """What the function of a trace may compare by identity: ``numbers``, ``arrays`` or ``containers`` with their like;
    ``objects`` of any kind, or what is in a container, even if it is one of a call that does not come to pass; traced
    values of several ``levels``.

    All its Python functions are made known, and each comparison that happens, if the trace ``is_heard``.
    """

    def __init__(self, trace: Trace, guards: Guards) -> None:
        self._trace, self._guards = trace, guards
        # By codes and name spaces: the name space, and what is compared, by offsets.
        self._pairs: dict[tuple[int, int], tuple[Mapping[str, Any], dict[int, Pair]]] = {}
        self.is_heard, self.levels = True, False
        self.numbers = self.arrays = self.containers = self.objects = False

    def heed(self, namespace: Mapping[str, Any], code: CodeType) -> None:
        """A function may be called, and those that are written in it."""
        for part in nested(code):
            names = names_of(part)
            self.objects |= names.identities
            if names.truths:
                self._trace.heed_truths()
            if names.compared:
                self._pairs[id(part), id(namespace)] = namespace, names.compared
            if -1 in names.compared:
                self.anything()

    def among(self, frame: FrameType) -> bool:
        """Whether a function that is called compares something."""
        return (id(frame.f_code), id(frame.f_globals)) in self._pairs

    def meet(self, frame: FrameType) -> None:
        """A function is about to do what its next instruction says."""
        namespace, pairs = self._pairs.get((id(frame.f_code), id(frame.f_globals)), ({}, {}))
        if (pair := pairs.get(frame.f_lasti)) is not None:
            self._compare(pair, namespace, frame.f_locals)

    def meet_function(self, value: Any) -> None:
        """The function reads something by a name, or calls it: perhaps what compares."""
        if any(value is function for function in COMPARING):
            self.anything()

    def settle(self) -> None:
        """After the trace: if nobody has heard of what it compares, that may have been anything."""
        for namespace, pairs in self._pairs.values() if not self.is_heard else ():
            for pair in pairs.values():
                self._compare(pair, namespace, {})

    def anything(self) -> None:
        """Something is compared of which nothing is known."""
        self.objects = True
        self._trace.heed_truths()
        self._compare(ANYTHING, {}, {})

    def require(self, read: Sequence[Slot]) -> None:
        """The trace holds only if no array and no container is given twice, or is one of these."""
        if self.arrays or self.containers:
            single = self._guards.constant(partial(_are_different, self.arrays, self._knows()))
            values = f"(*args, *(kwargs or {{}}).values()), ({''.join(f'{x}, ' for x in read)})"
            self._guards.require(f"{single}({values})", Slot("args", "args"), "each array and container once")

    def are_different(self, given: Iterable[Any], read: Iterable[Any]) -> bool:
        """Whether those that may be compared are different objects: what is given, with all that is in it, and what is
        read."""
        return _are_different(self.arrays, self._knows(), given, read)

    def _knows(self) -> Callable[[Any], bool] | None:
        return self._guards.knows if self.containers else None

    def known(self) -> Iterable[Any]:
        """Numbers that have been read, or compared, and do not vary."""
        return self._guards.numbers.values()

    def _compare(self, pair: Pair, namespace: Mapping[str, Any], local: Mapping[str, Any]) -> None:
        values = [side.found(namespace, local) for side in pair]
        self.arrays |= all(x is UNKNOWN or isinstance(x, np.ndarray) for x in values)
        self.containers |= all(
            x is UNKNOWN or isinstance(x, tuple | list | dict) or is_container(type(x)) for x in values
        )
        self.levels |= len({x._ledger.level for x in values if isinstance(x, Tracer)}) > 1
        if all(x is UNKNOWN or _is_number(x) for x in values):
            self.numbers = True
            for constant in (side.value for side in pair if side.kind is Origin.CONSTANT):
                self._guards.numbers[self._guards.constant(constant)] = constant


def _are_different(
    arrays: bool, knows: Callable[[Any], bool] | None, given: Iterable[Any], read: Iterable[Any]
) -> bool:  # fmt: skip
    """``knows`` tells which containers are read; without it, the same container twice is not the question, but the
    arrays in it are."""
    found, opened, ahead = {id(x) for x in read}, Counter[int](), [*given]
    while ahead:
        items = items_of(one := ahead.pop())
        if items is None:
            is_compared, is_read = arrays and isinstance(one, np.ndarray), False
        else:
            is_compared = knows is not None and not (type(one) is tuple and not one)  # of which there is only one
            is_read = knows is not None and knows(one)
        if is_compared and (is_read or id(one) in found):
            return False
        if is_compared:
            found.add(id(one))
        if items is not None and opened[id(one)] < 2:  # it may hold itself
            opened[id(one)] += 1
            ahead += items
    return True


def _is_number(value: Any) -> bool:
    if is_traced(value):
        return not isinstance(value, np.ndarray)
    return type(value) in (int, float, complex) or isinstance(value, np.generic)
