"""C functions of the outside world that only C code calls: nobody hears of those calls, so handing such a function on
is a reason not to rely on what it gave."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import os
import time
import types
from collections.abc import Callable
from time import perf_counter, time_ns
from typing import Any

import pytest

from yota_py import gradient, jit

now = functools.partial(time.time_ns)  # too large a number to compute with
table: dict[str, Any] = {"now": time.time_ns}
HERE = __file__
DEBUG = False


class Clock:
    __call__ = staticmethod(time.time_ns)


clock = Clock()

WAYS: dict[str, Callable[[Any], Any]] = {
    "partial": lambda x: x * now(), "a new partial": lambda x: x * functools.partial(time.time_ns)(),
    "map": lambda x: x * sum(s.st_atime_ns for s in map(os.stat, [HERE])),
    "operator.call": lambda x: x * operator.call(time.time_ns),
    "an iterator": lambda x: x * next(iter(time.time_ns, None)),
    "a default": lambda x: x * collections.defaultdict(time.time_ns)["a"],
    "starmap": lambda x: x * next(itertools.starmap(time.time_ns, [()])),
    "a method": lambda x: x * types.MethodType(operator.call, time.time_ns)(),
    "its __call__": lambda x: x * time.time_ns.__call__(), "a class": lambda x: x * clock(),
    "a memo": lambda x: x * functools.lru_cache(None)(time.time_ns)(),
    "entropy": lambda x: x * max(map(max, map(os.urandom, [6]))), "a table": lambda x: x * operator.call(table["now"]),
    "imported by name": lambda x: x * functools.partial(time_ns)(),
    "sorted": lambda x: x * len(sorted([b"a"], key=os.path.lexists and os.fsencode)) * operator.call(time_ns),
}  # fmt: skip


def served(f: Any) -> int:
    return sum(s.calls for several in f.__yota_cache__.signatures.values() for s in several)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_kept(way: str) -> None:
    for f in (gradient(WAYS[way]), jit(WAYS[way])):
        for _ in range(4):
            f(2.0)
        assert not served(f)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_the_environment_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    step = jit(lambda x: x * float(os.environb[b"YOTA_TEST"]))
    for text in ("1", "1", "1", "5"):
        monkeypatch.setenv("YOTA_TEST", text)
        assert step(2.0) == 2.0 * float(text)


def test_a_clock_that_is_not_asked() -> None:
    def by_name(x: Any) -> Any:
        return x * perf_counter() if DEBUG else x * 2.0

    def by_module(x: Any) -> Any:
        return x * time.time() if DEBUG else x * 2.0

    for f in (by_name, by_module):
        step = jit(f)
        assert [step(2.0) for _ in range(4)] == [4.0] * 4
        assert served(step)
