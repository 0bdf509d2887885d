"""Clocks that are read by ways on which no line of the function's says so: each call has a time of its own."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pytest

from yota_py import gradient, jit

pytestmark = pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")

now = functools.partial(perf_counter)
later = perf_counter
table: dict[str, Any] = {"now": perf_counter, "inner": [perf_counter]}
memo = functools.lru_cache(None)(lambda key: perf_counter())


class Clock:
    __call__ = staticmethod(perf_counter)
    __float__ = __call__
    read = perf_counter
    asked = staticmethod(perf_counter)
    of_class = classmethod(lambda cls: perf_counter())
    known = property(lambda self: perf_counter())
    c_property = property(operator.methodcaller("read"))

    def __init__(self) -> None:
        self.own = perf_counter

    def __len__(self) -> int:
        return int(perf_counter() * 1e6) % 1000

    @functools.cached_property
    def at(self) -> float:
        return perf_counter()


@dataclass
class Stamp:
    at: float = field(default_factory=perf_counter)


clock = Clock()


def default(x: Any, clock: Any = perf_counter, *, other: Any = time.perf_counter) -> Any:
    return x * clock() + 0.0 * other()


def comprehended(x: Any) -> Any:
    return x * max([perf_counter() for _ in range(3)])


def generated(x: Any) -> Any:
    return x * sum(perf_counter() * y for y in [0.5, 0.5])


def closure() -> Callable[[Any], Any]:
    read = time.perf_counter
    return lambda x: x * read()


WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x * perf_counter(), "of its module": lambda x: x * time.perf_counter(),
    "an alias": lambda x: x * later(), "a closure": closure(), "defaults": default, "a partial": lambda x: x * now(),
    "a new partial": lambda x: x * functools.partial(time.perf_counter)(),
    "operator.call": lambda x: x * operator.call(time.perf_counter),
    "an iterator": lambda x: x * next(iter(time.perf_counter, None)),
    "a default of a dict": lambda x: x * collections.defaultdict(time.perf_counter)["a"],
    "starmap": lambda x: x * next(itertools.starmap(time.perf_counter, [()])),
    "map": lambda x: x * sum(map(operator.call, [time.perf_counter])),
    "a method": lambda x: x * types.MethodType(operator.call, time.perf_counter)(),
    "its __call__": lambda x: x * time.perf_counter.__call__(), "a class": lambda x: x * clock(),
    "an attribute of a class": lambda x: x * Clock.read(), "a static method": lambda x: x * clock.asked(),
    "a class method": lambda x: x * clock.of_class(), "a property": lambda x: x * clock.known,
    "an own attribute": lambda x: x * clock.own(), "a new memo": lambda x: x * functools.lru_cache(None)(later)(),
    "a table": lambda x: x * operator.call(table["now"]), "called of a table": lambda x: x * table["inner"][0](),
    "a dataclass": lambda x: x * Stamp().at, "getattr": lambda x: x * getattr(time, "perf_" + "counter")(),
    "a new object": lambda x: x * Clock().at, "a comprehension": comprehended, "a generator": generated,
    "imported inside": lambda x: x * __import__("time").perf_counter(),
}  # fmt: skip


@pytest.mark.parametrize("transform", [gradient, jit])
@pytest.mark.parametrize("way", WAYS)
def test_each_call_has_its_own_time(way: str, transform: Any, every_policy: None) -> None:
    f, before = transform(WAYS[way]), perf_counter()
    for _ in range(6):
        at = f(1.0)
        after = perf_counter()
        assert type(at) is float and before < at < after
        before = after


def test_what_is_remembered_stays(every_policy: None) -> None:
    f = jit(lambda x: x * memo("key"))
    assert len({f(1.0) for _ in range(5)}) == 1


def test_a_length_of_time(every_policy: None) -> None:
    f = jit(lambda x: x * len(clock))
    assert len({f(1.0) for _ in range(30)}) > 5
