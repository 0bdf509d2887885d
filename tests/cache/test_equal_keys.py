"""Keys of dicts and members of sets that are equal, and are not the same: a program belongs to one of them."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest

from yota_py import explain, grad, jit


class Number(enum.IntEnum):
    ONE = 1


class Text(enum.StrEnum):
    A = "a"


EQUAL: dict[str, list[Any]] = {
    "ones": [1, True, 1.0, np.int64(1), Number.ONE],
    "zeros": [0, 0.0, -0.0, False],
    "texts": ["a", Text.A],
    "tuples": [(1, 2), (True, 2), (1.0, 2)],
}


def worth(key: Any) -> float:
    if isinstance(key, tuple):
        return 1.5 * worth(key[0])
    if isinstance(key, float):
        return math.copysign(4.0, key)
    return {bool: 2.0, int: 3.0, np.int64: 5.0, Number: 6.0, str: 7.0, Text: 8.0}[type(key)]


def of_items(p: dict[Any, Any]) -> Any:
    return sum(worth(key) * value for key, value in p.items())


@pytest.mark.parametrize("like", EQUAL)
def test_arguments(like: str) -> None:
    step = jit(of_items)
    for i in range(3):
        for key in EQUAL[like]:
            p = {key: 2.0 + i}
            value, (dp,) = grad(of_items, p)
            assert value == step(p) == of_items(p)
            assert dp == {key: worth(key)} and [*map(type, dp)] == [type(key)]
    assert any(told.calls for told in explain(of_items))


@pytest.mark.parametrize("like", EQUAL)
def test_keys_of_what_holds_nothing(like: str) -> None:
    def f(x: Any, p: Any) -> Any:
        return x * sum(map(worth, p))

    for _ in range(3):
        for key in EQUAL[like]:
            assert grad(f, 2.0, {key: []})[1][0] == worth(key)


@pytest.mark.parametrize("like", EQUAL)
@pytest.mark.parametrize("kind", [dict, set])
def test_what_is_read(like: str, kind: type) -> None:
    held: Any = kind()

    def f(x: Any) -> Any:
        return sum(worth(key) * x for key in held)

    for _ in range(3):
        for key in EQUAL[like]:
            held.clear()
            held |= {key: 1} if kind is dict else {key}
            value, (dx,) = grad(f, 2.0)
            assert (value, dx) == (f(2.0), worth(key))
