"""Which sets of parameters run: with the versions of each day and with the newest together all that cover these."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sets

ROOT = Path(__file__).resolve().parents[2]


def items(name: str, **values: list[Any]) -> list[Any]:
    """Like what pytest collects of a test with these parameters."""
    return [
        SimpleNamespace(
            nodeid=f"{name}[{'-'.join(map(str, some))}]", path=ROOT / name.partition("::")[0],
            callspec=SimpleNamespace(params=dict(zip(values, some, strict=True))),
            _fixtureinfo=SimpleNamespace(name2fixturedefs={}), iter_markers=lambda mark: [],
        )
        for some in product(*values.values())
    ]  # fmt: skip


GRID = {"a": [*range(5)], "b": [*range(10, 17)], "way": ["never", "always"]}


@pytest.mark.parametrize("i", range(9))
def test_both_halves_cover_all(i: int) -> None:
    its = items(name := f"tests/engine/test_engine.py::test_{i}", **GRID)
    daily, newest = ([*sets.taken(name, its, versions)] for versions in (None, "newest"))
    assert not {x.nodeid for x in daily} & {x.nodeid for x in newest} and 0 <= len(daily) - len(newest) <= 1
    run = [x.callspec.params for x in (*daily, *newest)]
    for key, values in GRID.items():
        assert {params[key] for params in run} == {*values}
    assert len({(params["a"], params["b"]) for params in run}) >= 5 * 7 // 2
    assert len(run) < len(its) // 2


def test_files_that_run_in_one_place_run_whole() -> None:
    its = items(name := "tests/engine/test_random_programs.py::test_x", a=[*range(9)])
    assert {x.nodeid for x in sets.taken(name, its, None)} == {x.nodeid for x in its}
    assert sets.is_left_out(its[0].path, "newest") and sets.is_left_out(its[0].path, "lowest")
    its = items(name := "tests/rules/test_stats_moments.py::test_x", a=[*range(9)])
    assert len([*sets.taken(name, its, None)]) == 5 and len([*sets.taken(name, its, "newest")]) == 4
    assert not sets.is_left_out(its[0].path, "newest") and sets.is_left_out(its[0].path, "lowest")


def test_what_is_not_halved_runs_with_all() -> None:
    its = items(name := "tests/tape/test_tape.py::test_y")
    assert [*sets.taken(name, its, None)] == [*sets.taken(name, its, "newest")] == its
    for count in (2, 3):
        its = items(name, a=[*range(count)])
        daily, newest = ({x.nodeid for x in sets.taken(name, its, versions)} for versions in (None, "newest"))
        assert len(newest) == 1 and not daily & newest and len(daily | newest) == count


def test_rules_are_tested_with_the_lowest_versions_too() -> None:
    its = items(name := "tests/rules/test_rules.py::test_y", case=[*range(8)], seed=[0, 1])
    daily = {x.callspec.params["case"] for x in sets.taken(name, its, None)}
    lowest = [x.callspec.params["case"] for x in sets.taken(name, its, "lowest")]
    assert sorted(lowest) == sorted({*lowest}) and {*lowest} <= daily
    names = [f"tests/tape/test_tape.py::test_{i}" for i in range(40)]
    counts = [len([*sets.taken(name, items(name, a=[*range(9)]), "lowest")]) for name in names]
    assert {*counts} == {0, 1} and 10 < sum(counts) < 30
