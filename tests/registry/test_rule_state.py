"""What rules read besides their arguments: it may be another one at the next call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import explain, gradient, primitive, rrule, scalar_rule
from yota_py.registry.registry import vjps

RATE, TABLE, ITEMS, PAIR = 1.0, np.ones(3), {"rate": 1.0}, (1.0, 2.0)


class Settings:
    rate = 1.0


class Derived(Settings):
    pass


class Reversal(Settings):
    def rule(self, x: Any) -> Any:
        return x * 1.0, lambda dy: (-self.rate * dy,)

    def __call__(self, x: Any) -> Any:
        return self.rule(x)


REVERSAL, BOX = Reversal(), [1.0]


def _helped(dy: Any) -> Any:
    return -RATE * dy


def _cell() -> Any:
    def rule(x: Any) -> Any:
        return x * 1.0, lambda dy: (-rate * dy,)

    def change(value: float) -> None:
        nonlocal rate
        rate = value

    rate = 1.0
    return rule, change


CELL, CHANGE_CELL = _cell()


def by(slope: Callable[[Any], Any]) -> Any:
    return lambda x: (x * 1.0, lambda dy: (slope(dy),))


FOLLOWED: dict[str, Any] = {
    "a global number": lambda x: (x * 1.0, lambda dy: (-RATE * dy,)),
    "in a helper": by(_helped),
    "of a class": by(lambda dy: -Settings.rate * dy),
    "of a derived class": by(lambda dy: -Derived.rate * dy),
    "an array": by(lambda dy: -TABLE * dy),
    "in a tuple": by(lambda dy: -PAIR[0] * dy),
    "in a closure": CELL,
    "a partial": partial(by(_helped)),
}
INTERPRETED: dict[str, Any] = {
    "a dict": by(lambda dy: -ITEMS["rate"] * dy),
    "a list": by(lambda dy: -BOX[0] * dy),
    "an object": by(lambda dy: -REVERSAL.rate * dy),
    "a method": REVERSAL.rule,
    "a callable object": REVERSAL,
    "a partial of a method": partial(REVERSAL.rule),
    "by a text": by(lambda dy: -globals()["RATE"] * dy),
}


def change(rate: float) -> None:
    globals().update(RATE=rate, PAIR=(rate, 2.0))
    TABLE[:] = ITEMS["rate"] = Settings.rate = BOX[0] = rate
    CHANGE_CELL(rate)


def follows(register: Callable[[Any], None]) -> int:
    """How many of nine calls were compiled, whose derivative changes at each third."""

    @primitive
    def same(x: Any) -> Any:
        return x * 1.0

    register(same)
    try:
        df = gradient(lambda x: np.sum(same(x) * x))
        for rate in (1.0, 3.0, 2.0):
            change(rate)
            for i in range(3):
                x = np.arange(1.0, 4.0) + i
                assert_allclose(df(x), x - rate * x)
    finally:
        change(1.0)
    return explain(df)[0].calls


@pytest.mark.parametrize("rule", FOLLOWED)
def test_what_is_followed(rule: str) -> None:
    assert follows(lambda fn: rrule(fn)(FOLLOWED[rule])) == 6


@pytest.mark.parametrize("rule", INTERPRETED)
def test_what_is_not(rule: str) -> None:
    assert follows(lambda fn: rrule(fn)(INTERPRETED[rule])) == 0


@pytest.mark.parametrize("register", [
    lambda fn: vjps(fn, lambda dy, y, x: -RATE * dy), lambda fn: scalar_rule(fn, lambda y, x: -RATE),
    lambda fn: rrule(fn, lowering=lambda x: x * RATE / RATE)(by(_helped)),
])  # fmt: skip
def test_all_kinds_of_rules(register: Callable[[Any], None], every_policy: None) -> None:
    assert follows(register) >= 0
