"""Tables of thousands of numbers and texts are compared as a whole: one of another value, type, order or length is
another table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from performing import assert_same

from yota_py import explain, grad, jit

N = 4000
X = np.array([1.0, 2.0, 3.0])


def words() -> dict[str, int]:
    return {f"word{i}": i % 3 for i in range(N)}


MAKE: dict[str, Callable[[], Any]] = {
    "list": lambda: [0.5 * i for i in range(N)], "dict": words, "by numbers": lambda: {i: str(i) for i in range(N)},
    "lists in a dict": lambda: {i: [i, i + 1, 0.5] for i in range(N // 2)}, "tuple": lambda: tuple(range(N)),
    "pairs": lambda: [(i, {"a": i}) for i in range(N // 2)], "by pairs": lambda: {(i, "a"): i for i in range(N)},
}  # fmt: skip


def number(found: Any) -> float:
    """What may be read of an item."""
    while isinstance(found, list | tuple | dict):
        found = next(iter(found.values())) if isinstance(found, dict) else found[0]
    return float(found)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", MAKE)
def test_one_item_is_read(kind: str) -> None:
    table = MAKE[kind]()
    key = [*table][7] if isinstance(table, dict) else 7

    def f(x: Any) -> Any:
        return np.sum(x) * (number(table[key]) + len(table))

    for _ in range(4):
        value, (dx,) = grad(f, X)
        assert value == f(X)
        assert_array_equal(dx, np.full(3, number(table[key]) + len(table)))
    table = MAKE[kind]()  # an equal one
    assert grad(f, X)[0] == f(X)
    (info,) = explain(f)
    assert info.calls == 4 and info.misses == 1


CHANGES: dict[str, Callable[[Any], Any]] = {
    "value": lambda t: t.__setitem__("word5", 2), "back": lambda t: t.__setitem__("word5", 2),
    "type": lambda t: t.__setitem__("word4", True), "again": lambda t: t.__setitem__("word4", 1.0),
    "sign": lambda t: t.__setitem__("word0", 0.0), "of zero": lambda t: t.__setitem__("word0", -0.0),
    "gone": lambda t: t.pop("word3"), "new": lambda t: t.__setitem__("word3", 0),
    "nan": lambda t: t.update(word5=np.nan),
    "of NumPy's": lambda t: t.__setitem__("word4", np.float64(1.0)), "a list": lambda t: t.__setitem__("word4", [1]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_all_that_may_change() -> None:
    table = words()

    def f(x: Any) -> Any:
        first = next(iter(table))
        seen = str(table.get("word4")) + str(table["word5"]) + str(table["word0"]) + first + str(len(table))
        return x * len(seen) + sum(map(ord, seen))

    g = jit(f)
    for change in ("", *CHANGES, "order"):
        if change == "order":
            first = next(iter(table))
            table[first] = table.pop(first)
        elif change:
            CHANGES[change](table)
        for _ in range(2):
            assert_same(g(X), f(X))
    items = [0.0] * N
    h = jit(lambda x: x * items[3] + np.copysign(1.0, items[4]))
    for k, value in ((3, 1.0), (4, -0.0), (3, 2), (4, 0.0), (3, True)):
        items[k] = value
        for _ in range(2):
            assert_same(h(X), X * items[3] + np.copysign(1.0, items[4]))


def test_bytes_are_no_plain_texts() -> None:
    """What has the same bytes may be another thing."""
    table: list[Any] = [b"b"] * N
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = jit(lambda x: x * (2.0 if isinstance(table[4], bytes) else 3.0))
        for k in range(6):
            if k == 3:
                table[4] = bytearray(b"b")
            assert f(1.0) == (2.0 if k < 3 else 3.0)


@pytest.mark.filterwarnings("ignore")
def test_what_steps_write_into_tables() -> None:
    def program(wrap: Any) -> tuple[Any, Any]:
        counts, rows = dict.fromkeys(range(N), 0), [[i, 0.5] for i in range(N)]

        def step(x: Any, k: int) -> Any:
            counts[k] += 1
            rows[k][1] = float(counts[k])
            rows[2].append(k)
            return x * counts[k] + rows[k][1]

        return wrap(step), (counts, rows)

    (compiled, have), (plain, want) = program(jit), program(lambda f: f)
    for k in (1, 1, 2, 1, 5, 2, 2):
        assert_same(compiled(X, k), plain(X, k))
        assert have == want


def test_others_are_read_item_by_item() -> None:
    """Lists of floats of which not too many are read: they are inputs of a program, which serves all of them."""
    weights = [0.5] * 300
    itself: list[Any] = [1.0] * N
    itself.append(itself)

    def f(x: Any) -> Any:
        return np.sum(x) * weights[3]

    for k in range(5):
        weights[3] = float(k)
        assert grad(f, X)[0] == 6.0 * k
    assert explain(f)[0].misses <= 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert grad(lambda x: np.sum(x) * itself[0], X)[0] == 6.0
