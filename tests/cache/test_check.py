"""Values of a program and of the interpreter beside one another: what is a difference, and what rounding explains."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from yota_py.cache.check import Comparison, differences
from yota_py.cache.world import World

A, B = np.arange(4.0), np.arange(4.0)
LIST: list[float] = []


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (1.0, 2.0), (np.ones(3), np.ones(4)), (np.ones(3), np.ones(3, np.float32)), ((1.0,), [1.0]), (1.0, None),
        (np.array([np.nan]), np.array([1.0])), (np.array([np.inf]), np.array([-np.inf])), (1, 2), ("a", "b"),
        (np.float32(1), np.float32(1.01)), (np.array([1, 1 + 1e-4]), np.ones(2)), (1.0, np.float64(1.0)), (1, True),
        (1, 1.0), (np.float64(1), np.ones(())), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1.0], [1.0, 2.0]),
        ([np.array([True])], [np.array([False])]), (2**70, 2**70 + 1), ((A, B), (A, A)), ((A, A), (A, B)),
        ((LIST, []), (LIST, LIST)), ({1, 2}, {1, 3}), (lambda x: x, lambda x: x),
    ],
    ids=lambda pair: re.sub(" at 0x.*?>", ">", repr(pair)),
)  # fmt: skip
def test_differences(have: Any, want: Any) -> None:
    assert differences(have, want)
    assert not differences(want, want) and not differences(have, have)


def test_rounding_is_no_difference() -> None:
    assert not differences(np.array([1.0, 1e-17]), np.array([1.0 + 1e-15, 0.0]))
    assert not differences(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert not differences({"a": np.float32(1)}, {"a": np.float32(1 + 1e-6)})
    assert not differences([2**70, True, "a", None, (1, np.int8(2))], [2**70, True, "a", None, (1, np.int8(2))])


def test_new_objects_in_the_same_places() -> None:
    x, y = [1.0], [1.0]
    assert not differences([x, x], [y, y])
    assert differences([x, [1.0]], [y, y]) and differences([x, x], [y, [1.0]])


def compared(have: Any, want: Any, known: Any) -> list[str]:
    comparison = Comparison(World(None, (known,), {}), 8)
    comparison.compare(have, want, "it")
    comparison.sharing()
    return [str(difference) for difference in comparison.differences]


def test_what_was_there_before() -> None:
    base, held = np.arange(6.0), [1.0]
    known = [base, held]
    assert not compared([base, base[1:], held, base.copy()], [base, base[1:], held, base.copy()], known)
    assert compared(base.copy(), base, known) == ["it is another object than it was before, and should be the same"]
    assert compared(base, base.copy(), known) == ["it is what another place holds, and should not be the same"]
    assert compared([1.0], held, known) and compared(held, [1.0], known)
    memory = "memory with an array that was there before, and should"
    assert compared(base[1:], base[1:].copy(), known) == [f"it shares {memory} not"]
    assert compared(base[1:].copy(), base[1:], known) == [f"it does not share {memory}"]
    same = np.zeros(6)
    assert compared(same[1:4], same[2:5], [same]) == [f"it shares {memory}"]


def test_new_arrays_that_share_memory() -> None:
    base = np.zeros(4)
    views, copies = [base, base[1:]], [np.zeros(4), np.zeros(3)]
    assert compared(views, copies, None) and compared(copies, views, None)
    other = np.zeros(4)
    assert not compared(views, [other, other[1:]], None)


class Kept:
    table = {"a": 1}  # noqa: RUF012

    def __init__(self) -> None:
        self.array, self.number, self.inner = np.zeros(3), 1, {"b": [1, 2]}


def test_what_a_call_reaches() -> None:
    kept = Kept()

    def f(x: Any) -> Any:
        return kept.number + len(SEEN), x

    world = World(f, ({"x": kept.array},), {})
    assert not list(world.changes()) and not list(world.rewritten())
    kept.array[1] = 1.0
    kept.number, kept.inner["b"][0] = 2, 3
    kept.inner["new"] = kept.late = None  # type: ignore[attr-defined]
    Kept.table["a"] = 5
    SEEN.append(1)
    try:
        said = {(holder.place(key), repr(old), repr(new)) for holder, key, old, new in world.changes()}
    finally:
        Kept.table["a"] = 1
        SEEN.clear()
    assert said == {
        ("kept.number", "1", "2"), ("kept.inner['b'][0]", "1", "3"), ("kept.inner['new']", "nothing", "None"),
        ("kept.late", "nothing", "None"), ("Kept.table['a']", "1", "5"), ("SEEN[0]", "nothing", "1"),
    }  # fmt: skip
    assert [path for _, path in world.rewritten()] == ["x['x']"]


SEEN: list[int] = []
