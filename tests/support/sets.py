"""How much of a test runs: of its sets of parameters, of the cases that it goes through, and of programs at random.

``make stress`` sets ``YOTA_SEQUENCES``, and runs all.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import TypeVar

import pytest

SEQUENCES = int(os.environ.get("YOTA_SEQUENCES", "0"))
SETTINGS = "never", "always", "auto", "off", "sampled", "audited"  # of ``config``: ways to run a test
T = TypeVar("T")


def examples(some: int, *, share: int = 1) -> int:
    """How many programs are made at random: some, or as many as ``make stress`` says, or a part of them."""
    return max(some, SEQUENCES // share)


def each(cases: Sequence[T], step: int, *, first: int = 0) -> Sequence[T]:
    """Every n-th of these, and one at least of what there is; or all."""
    return cases if SEQUENCES or not cases else cases[first % min(step, len(cases)) :: step]


def by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The sets of each test."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return tests


def covering(name: str, its: list[pytest.Item]) -> Iterator[pytest.Item]:
    """As few sets of a test as have each value of its parameters, and half of the pairs of values, other ones with
    other versions of Python. What is marked ``singly`` is in no pairs, nor is a way to run the test: that of a fixture,
    or a setting."""
    drawn = _drawn(name, its)
    pairs = list(dict.fromkeys(pair for item in its for pair in _pairs(item)))
    half = set(_at_random(f"{name} in pairs").sample(pairs, (len(pairs) + 1) // 2))
    covered = [half.intersection(_pairs(item)).union(_values(item)) for item in drawn]
    left = set[object]().union(*covered)
    most = [(-len(its), i) for i, its in enumerate(covered)]  # that each can have of what is left, the most first
    heapify(most)
    while left:
        had, i = heappop(most)
        if (count := len(covered[i] & left)) == -had:
            left -= covered[i]
            yield drawn[i]
        elif count:
            heappush(most, (-count, i))


def _values(item: pytest.Item) -> list[object]:
    """The values of the parameters of a set; if there are none, the test."""
    return [(name, id(value)) for name, value in sorted(_parameters(item).items())] or [item.nodeid]


def _pairs(item: pytest.Item) -> list[object]:
    """Pairs of values of parameters that a set has together."""
    parameters = _parameters(item)
    fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    single = {name for mark in item.iter_markers("singly") for name in mark.args}
    single |= {name for name, value in parameters.items() if isinstance(value, str) and value in SETTINGS}
    single |= {name for name in parameters if any(f.params for f in fixtures.get(name, ()))}
    return [*combinations([(name, id(x)) for name, x in sorted(parameters.items()) if name not in single], 2)]


def few(name: str, its: list[pytest.Item], count: int) -> Iterable[pytest.Item]:
    """So many sets of a test, with Python 3.11 of every second test: all have run with it and newer libraries. Of those
    in tests/rules half of the sets, one draw of each: one half with Python 3.11, the other with newer ones."""
    drawn, newer, second = _drawn(name, its), sys.version_info.minor > 11, random.Random(name).randrange(2)
    if not name.startswith("tests/rules"):
        return drawn[:count] if newer or second else []
    by_name = {_without_seed(item): item for item in drawn}
    return [by_name[one] for one in sorted(by_name)[newer ^ second :: 2]]


def _drawn(name: str, its: list[pytest.Item]) -> list[pytest.Item]:
    return _at_random(name).sample(its, len(its))


def _at_random(name: str) -> random.Random:
    return random.Random(f"{name} {sys.version_info[:2]}")


def _without_seed(item: pytest.Item) -> str:
    """The name of a test and its parameters, but for the number of a draw."""
    return item.nodeid.rpartition("-")[0] if "seed" in _parameters(item) else item.nodeid


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}
