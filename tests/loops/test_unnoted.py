"""Merged turns, and what their decisions do not tell: what variables were before, aliases, the code of functions in a
loop, and where a loop ends."""

# ruff: noqa: SIM108 - branches are what this is about

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from paths import compare

from yota_py import config, value_and_grad

Function = Callable[..., Any]
N = 40
P = np.array([0.7, 1.2])


def by_signs(*signs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Calls whose turns go one way or the other."""
    return [(P, np.where(sign, 1.0, -1.0)) for sign in signs]


I = np.arange(N)  # noqa: E741 - numbers of turns


# -------------------------------------------------------------------------------- what was there before the first turn


def taking_one_from_before(p: Any, x: Any) -> Any:
    a, b, s = p[0] * 1.0, p[1] * 1.0, p[0] * 0.5
    for i in range(len(x)):
        if x[i] > 0:
            s = s + x[i]
            b = a
        else:
            s = 0.9 * s * b
    return s


def none_at_first(p: Any, x: Any) -> Any:
    s, last, first = p[0] * 1.0, None, p[1] * 1.0
    for i in range(N):
        if x[i] > 0:
            last = first
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * (0.5 if last is None else last)


def a_number_at_first(p: Any, x: Any) -> Any:
    s, g, first = p[0] * 1.0, 1.0, p[1] * 1.0
    for i in range(N):
        if x[i] > 0:
            g = first
            s = s * 0.5
        else:
            s = s * 0.9 + g * x[i]
    return s


def the_first_otherwise(p: Any, x: Any) -> Any:
    s, first = p[0] * 1.0, True
    for i in range(N):
        if x[i] > 0:
            s = s + (10.0 if first else x[i])
        else:
            s = s * 0.9 - (10.0 if first else x[i] * p[1])
        first = False
    return s


STARTS = [I % 2 > 0, I < 20, I < 0, I >= 20, I >= 0, I % 3 > 0, (I < 4) == (I == 3)]


@pytest.mark.parametrize("f", [taking_one_from_before, none_at_first, a_number_at_first, the_first_otherwise])
@pytest.mark.parametrize("first", range(len(STARTS)))
def test_what_was_there_before_the_first_turn(f: Function, first: int) -> None:
    compare(f, by_signs(*STARTS[first:], *STARTS[:first]))


def unbound_at_first(p: Any, x: Any) -> Any:
    s, first = p[0] * 1.0, p[1] * 2.0
    for i in range(N):
        if x[i] > 0:
            last = first
            s = s + x[i]
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * last


def test_what_was_unbound_before_the_first_turn() -> None:
    gradients = value_and_grad(unbound_at_first)
    for args in by_signs(I % 2 > 0, I < 20):
        gradients(*args)
    with pytest.raises(UnboundLocalError):
        gradients(P, -np.ones(N))


def taking_until(p: Any) -> Any:
    a, b, s, t = p[0] * 1.0, p[1] * 1.0, p[0] * 0.5, p[1] * 0
    while t < 30:
        t = t + 1.0
        if np.sin(t * p[0] * 3) > 0:
            s = s * 0.9 + 0.1
            b = a
        else:
            s = 0.9 * s + b
    return s


def giving_until(p: Any, threshold: Any) -> Any:
    last, s, t = p[1] * 1.0, p[0] * 1.0, p[0] * 0 + 3.0
    while t > 0.1:
        t = t * 0.93
        if np.sin(17 * t) * p[0] > threshold:
            last = s * 2.0
        else:
            s = s * 0.9 + np.sin(t)
    return s + last


def test_what_was_there_before_a_loop_with_an_end_of_its_own() -> None:
    rng = np.random.default_rng(1)
    assert len(compare(taking_until, [(rng.normal(size=2),) for _ in range(9)])) < 9
    calls = [([0.7, 1.2], 0.2), ([0.7, 1.2], 5.0), ([-0.7, 1.2], 0.1), ([0.7, 1.2], 0.65), ([0.1, 2.2], 0.65)]
    compare(giving_until, [(np.array(p), np.float64(threshold)) for p, threshold in calls])


# -------------------------------------------------------------------------------------------- where the loop has ended


def inner(s: Any, b: Any, plus: bool, n: int) -> Any:
    for _ in range(n):
        if np.sin(17 * s) > 0:
            s = s * 0.7 + 0.31
        else:
            s = s + 0.3 * b if plus else s - b * 0.37
    return s


def called_twice(p: Any) -> Any:
    return inner(inner(p[0] * 1.0, p[1] * 1.0, True, 30), p[1] * 1.0, False, 3)


def called_twice_the_other_way(p: Any) -> Any:
    return inner(inner(p[0] * 1.0, p[1] * 1.0, False, 3), p[1] * 1.0, True, 30)


def in_a_loop(p: Any) -> Any:
    s, b, first = p[0] * 1.0, p[1] * 1.0, p[0] * 0.25
    for n in (30, 3, 5):
        for _ in range(n):
            if np.sin(17 * s) > 0:
                s = s * 0.7 + 0.31
            else:
                s = s + b * 0.3
        b = first
    return s


def in_a_loop_with_an_end_of_its_own(p: Any) -> Any:
    s, b, t = p[0] * 1.0, p[1] * 1.0, p[0] * 0 + 3.0
    while t > 0.2:
        u = t * 1.0
        while u > 0.1:
            s = s * 0.7 + 0.31 if np.sin(17 * s) > 0 else s + b * 0.3
            u = u * 0.8
        t = t * 0.6
        b = b * 0.5
    return s


def endless_but_for_a_break(p: Any) -> Any:
    s, t = p[0] * 1.0, p[1] * 0 + 3.0
    while True:
        if np.sin(9 * t) > -2.0:
            s = s * 0.9 + t
        if np.sin(17 * t) > 0.5:
            s = s + p[1]
        t = t * 0.93
        if t < 0.2 + 0.01 * s:
            break
    return s


@pytest.mark.parametrize("f", [called_twice, called_twice_the_other_way, in_a_loop, in_a_loop_with_an_end_of_its_own,
                               endless_but_for_a_break])  # fmt: skip
def test_turns_of_one_run_of_a_loop_are_not_those_of_the_next(f: Function) -> None:
    compare(f, [(np.array([a, 0.3 + 0.1 * b]),) for a, b in np.random.default_rng(0).random((12, 2))])


# ---------------------------------------------------------------------------------------------------------- aliases


def alias(p: Any, x: Any) -> Any:
    v, w, s = p * 1.0, p * 2.0, p[0] * 1.0
    for i in range(len(x)):
        s = s * 0.5 + w[0]
        if x[i] > 0.5:
            v += x[i]
        elif x[i] < -0.5:
            w = v
        else:
            v = v * 0.9
    return np.sum(v * w) + s


def view(p: Any, x: Any) -> Any:
    v, w, s = p * 1.0, (p * 2.0)[::-1], p[0] * 1.0
    for i in range(len(x)):
        s = s * 0.5 + w[0]
        if x[i] > 0.5:
            v += x[i]
        elif x[i] < -0.5:
            w = v[::-1]
        else:
            v = v * 0.9
    return np.sum(v * w) + s


def written_and_left(p: Any, x: Any) -> Any:
    """The branch that writes in place has another array when it ends."""
    v, w = p * 1.0, p * 2.0
    for i in range(len(x)):
        if x[i] > 0.5:
            v += x[i]
            v = v * 0.9
        elif x[i] < -0.5:
            w = v
        else:
            v = v * 0.9
    return np.sum(v * w)


def through_a_function(p: Any, x: Any) -> Any:
    v = p * 1.0
    box = (v, p * 2.0)

    def bump(a: Any) -> None:
        a += 0.1

    for i in range(len(x)):
        if x[i] > 0:
            v = v * 0.5
        else:
            bump(box[0])
    return np.sum(v * box[0])


def in_memory(p: Any, x: Any) -> Any:
    """A copy, or a view, by how an array lies in memory."""
    m = np.outer(p, p)
    for i in range(len(x)):
        flat = m.reshape(-1)
        flat += 0.1
        if x[i] > 0:
            m = m.T
        else:
            m = m * 0.9
    return np.sum(m * m[0])


ONE, OTHER = ([0, 0, *steps * 11, 0, 0] for steps in ([1, 0, -1, 0], [-1, 1, 0, 1]))


@pytest.mark.parametrize("f", [alias, view, written_and_left])
def test_what_is_written_into_has_another_name(f: Function) -> None:
    compare(f, [(P, np.array(steps) + 0.1) for steps in (ONE, OTHER, ONE[::-1], OTHER[::-1])])


@pytest.mark.parametrize("f", [through_a_function, in_memory])
def test_what_is_written_into_is_held(f: Function) -> None:
    compare(f, by_signs(I % 2 == 0, (I >= 8) & (I % 2 > 0), I % 3 == 0, I > 30))


def in_place(p: Any, x: Any) -> Any:
    v = p * 1.0
    for i in range(len(x)):
        if x[i] > 0:
            v += x[i] * p
        else:
            v *= 0.7
    return v @ v


def test_what_is_written_into_by_one_name() -> None:
    assert len(compare(in_place, by_signs(I % 2 == 0, I % 3 == 0, I > 30, I < 7))) == 1


# --------------------------------------------------------------------------------- code that assigns to another frame


def by_a_comprehension(p: Any, x: Any) -> Any:
    seen, s = 0, p[0] * 1.0
    for i in range(N):
        if x[i] > 0:
            [(seen := 1) for _ in (0,)]
            s = s + x[i]
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * 2 if seen else -s


def by_a_function_of_a_branch(p: Any, x: Any) -> Any:
    seen, s = 0, p[0] * 1.0
    for i in range(N):
        if x[i] > 0:

            def mark() -> None:
                nonlocal seen
                seen = 1

            mark()
            s = s + x[i]
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * 2 if seen else -s


def by_a_function_from_before(p: Any, x: Any) -> Any:
    seen, s = 0, p[0] * 1.0

    def mark() -> None:
        nonlocal seen
        seen = 1

    for i in range(N):
        if x[i] > 0:
            mark()
            s = s + x[i]
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * 2 if seen else -s


def by_a_generator(p: Any, x: Any) -> Any:
    seen, s = 0, p[0] * 1.0
    for i in range(N):
        if x[i] > 0:
            s = s + sum((seen := 1) * x[i] for _ in (0, 1))
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * 2 if seen else -s


@pytest.mark.parametrize("f", [by_a_comprehension, by_a_function_of_a_branch, by_a_function_from_before,
                               by_a_generator])  # fmt: skip
def test_code_in_a_loop_that_assigns_to_variables_of_its_frame(f: Function) -> None:
    few = np.isin(I, [5, 20, 25, 30])
    compare(f, by_signs(few, I < 0, I % 2 > 0, I == 39, I >= 0))


# --------------------------------------------------------------------------------------------------------- objects


class Counter:
    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self) -> None:
        self.items.append(1)


def counted_by_an_object(p: Any, x: Any) -> Any:
    s, counter = p[0] * 1.0, Counter()
    for i in range(N):
        if x[i] > 0:
            counter.add()
            s = s + x[i]
        else:
            s = s * 0.9 + p[1] * x[i]
    return s * len(counter.items)


def taken_from_an_iterator(p: Any, x: Any) -> Any:
    s, pairs = p[0] * 1.0, zip(range(N), range(N), strict=True)
    for i in range(N):
        if x[i] > 0:
            for k, _ in pairs:
                s = s + k
                break
        else:
            s = s * 0.9 + p[1] * x[i]
    return s


def taken_from_a_generator(p: Any, x: Any) -> Any:
    s, numbers = p[0] * 1.0, (0.1 * k for k in range(N))
    for i in range(N):
        if x[i] > 0:
            s = s + next(numbers)
        else:
            s = s * 0.9 + p[1] * x[i]
    return s


@pytest.mark.parametrize("f", [counted_by_an_object, taken_from_an_iterator, taken_from_a_generator])
def test_objects_that_turns_change(f: Function) -> None:
    compare(f, by_signs(I % 2 > 0, I % 3 > 0, I < 5, I > 20))


def test_merging_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "merge", False)
    assert len(compare(in_place, by_signs(I % 2 == 0, I % 3 == 0))) == 2
