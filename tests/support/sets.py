"""How much of a test runs: of its sets of parameters, of the cases that it goes through, and of programs at random.

``make stress`` sets ``YOTA_SEQUENCES``, and runs all. ``make test`` runs of each test every second one of few sets that
cover its parameters, and ``make test-newest`` the others, if it runs the test.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import pytest

SEQUENCES = int(os.environ.get("YOTA_SEQUENCES", "0"))
SETTINGS = "never", "always", "auto", "off", "sampled", "audited"  # of ``config``: ways to run a test
# The tests that find nothing else with other versions; of SciPy, one version is supported.
IN_ONE_PLACE = (
    "random_*", "foreign_random", "stateful", "nested_programs", "interrupts", "threads", "depth", "memory",
    "peak_memory", "audit*", "programs", "coverage", "policy", "growth", "rolling", "accuracy",
)  # fmt: skip
OF_SCIPY = "scipy_*", "stats*", "special_functions", "signal", "sparse*", "ndimage", "interpolate*", "spatial"
T = TypeVar("T")


@cache
def is_left_out(file: Path, versions: str) -> bool:
    """Whether a file of tests does not run with the ``lowest`` or the ``newest`` versions: also one that needs torch,
    which for other versions of Python brings gigabytes of CUDA."""
    if not file.name.startswith("test_"):
        return False
    names = IN_ONE_PLACE + OF_SCIPY if versions == "lowest" else IN_ONE_PLACE
    if any(file.match(f"test_{name}.py") for name in names):
        return True
    return re.search("^import torch", file.read_text(encoding="utf-8"), re.MULTILINE) is not None


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


def taken(name: str, its: list[pytest.Item], versions: str | None) -> Iterable[pytest.Item]:
    """The sets of a test that run: with the versions of each day (``None``) every second one of those that cover its
    parameters, with the ``newest`` the others, and all where these do not run. With the ``lowest``, one of every second
    test, and of those in tests/rules the same as each day, but for one draw of each."""
    cover = [*covering(name, its)]
    if versions == "lowest":
        if name.startswith("tests/rules"):
            return {_without_seed(item): item for item in cover[::2]}.values()
        return cover[: random.Random(name).randrange(2)]
    if len(cover) == 1 or is_left_out(its[0].path, "newest"):
        return cover
    return cover[versions == "newest" :: 2]


def covering(name: str, its: list[pytest.Item]) -> Iterator[pytest.Item]:
    """As few sets of a test as have each value of its parameters, and half of the pairs of values. What is marked
    ``singly`` is in no pairs, nor is a way to run the test: that of a fixture, or a setting."""
    drawn = random.Random(name).sample(its, len(its))
    pairs = list(dict.fromkeys(pair for item in its for pair in _pairs(item)))
    half = set(random.Random(f"{name} in pairs").sample(pairs, (len(pairs) + 1) // 2))
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


def _without_seed(item: pytest.Item) -> str:
    """The name of a test and its parameters, but for the number of a draw."""
    return item.nodeid.rpartition("-")[0] if "seed" in _parameters(item) else item.nodeid


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}
