"""Programs that do not know what they read, by whatever way: audits notice it, and users get what is right."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audits import Patch, decisions_are_not_checked, nothing_is_guarded, served

import yota_py.cache.step
from yota_py import jit

pytestmark = pytest.mark.audited

Made = tuple[Callable[[Any], Any], Callable[[], Any]]  # a function, and a change of what it reads


class Box:
    rate = 2.0


def a_missing_attribute() -> Made:
    box = Box()
    return lambda x: np.sum(x) * (3.0 if hasattr(box, "other") else 2.0), lambda: setattr(box, "other", 1)


def a_remembered_result() -> Made:
    @functools.lru_cache
    def rate() -> float:
        return box.rate

    box = Box()

    def change() -> None:
        box.rate = 3.0
        rate.cache_clear()

    return lambda x: np.sum(x) * rate(), change


def an_attribute_of_a_list() -> Made:
    sizes = type("Sizes", (list,), {})([1.0])
    sizes.rate = 2.0
    return lambda x: np.sum(x) * sizes.rate, lambda: setattr(sizes, "rate", 3.0)


def a_metaclass() -> Made:
    meta = type("Meta", (type,), {"rate": 2.0})
    cls = meta("Cls", (), {})
    return lambda x: np.sum(x) * cls.rate, lambda: setattr(meta, "rate", 3.0)


def a_static_variable() -> Made:
    def f(x: Any) -> Any:
        return np.sum(x) * f.rate  # type: ignore[attr-defined]

    f.rate = 2.0  # type: ignore[attr-defined]
    return f, lambda: setattr(f, "rate", 3.0)


@pytest.mark.parametrize(
    "made",
    [a_missing_attribute, a_remembered_result, an_attribute_of_a_list, a_metaclass, a_static_variable],
)
def test_what_is_read_is_not_guarded(made: Callable[[], Made], monkeypatch: Patch) -> None:
    f, change = made()
    text = served(nothing_is_guarded, jit(f), f, np.arange(3.0), lambda x: change())
    assert "the result is np.float64(6.0), and should be np.float64(9.0)" in text


def test_the_kind_of_a_power_is_not_checked() -> None:
    def f(base: Any, exponent: Any) -> Any:
        base[0] += 1.0
        return float(base[0]) ** exponent

    def change(base: Any) -> None:
        base[0] = -9.0

    text = served(decisions_are_not_checked, jit(f), f, np.array([7.0]), change, 0.5)
    assert "the result is nan (float), and should be" in text and "(complex)" in text


def test_two_arrays_that_become_one_are_not_noticed() -> None:
    a, b = [np.ones(2)], [np.ones(2)]

    def f(x: Any) -> Any:
        return "one" if a[0] is b[0] else "two"

    def unnoticed(patch: Patch) -> None:
        nothing_is_guarded(patch)
        patch.setattr(yota_py.cache.step._Writer, "_conditions", lambda self: [])

    text = served(unnoticed, jit(f), f, np.ones(2), lambda x: a.__setitem__(0, b[0]))
    assert "the result is 'two', and should be 'one'" in text
