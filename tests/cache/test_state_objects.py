"""States that are objects, and are replaced by new ones at each step: given and returned, or kept in attributes."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from collections import OrderedDict, defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from performing import assert_same
from steps import agrees, outcome, picture

from yota_py import config, explain, jit, value_and_grad

pytestmark = pytest.mark.usefixtures("every_policy")


class State:
    """An ordinary class."""

    def __init__(self, w: Any, n: Any = 0) -> None:
        self.w, self.n = w, n


class Other(State):
    """Another one."""


class Slotted:
    """Without a dict."""

    __slots__ = ("n", "w")

    def __init__(self, w: Any, n: Any = 0) -> None:
        self.w, self.n = w, n


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A dataclass."""

    w: Any
    n: Any = 0


def space(w: Any, n: Any = 0) -> Any:
    return SimpleNamespace(w=w, n=n)


def unchanged(i: int, state: Any) -> Any:
    return state


def loops(step: Any, start: Any, calls: int = 12, *, compiled: int, change: Any = unchanged) -> None:
    """A step whose first result is its first argument at the next call; ``change`` may replace it before."""
    fast = jit(step)
    mine, theirs = start(), start()
    for i in range(calls):
        mine, theirs = change(i, mine), change(i, theirs)
        have, want = fast(mine, 0.5 + i), step(theirs, 0.5 + i)
        assert_same(picture((mine, have)), picture((theirs, want)))
        mine, theirs = have[0], want[0]
    told = explain(fast)
    assert config.compile == "auto" or sum(entry.calls for entry in told) >= compiled, str(told)


@pytest.mark.parametrize("cls", [State, Slotted, Frozen, space])
def test_given_and_returned(cls: Any) -> None:
    def step(s: Any, x: Any) -> Any:
        value, dw = value_and_grad(lambda w: np.sum((w - x) ** 2))(s.w)
        return cls(s.w - 0.1 * dw, s.n + 1), value

    loops(step, lambda: cls(np.ones(2)), compiled=8)


def test_other_classes_and_attributes_come() -> None:
    def step(s: Any, x: Any) -> Any:
        new = type(s)(s.w * x, s.n + 1)
        new.extra = s.extra * 2 if hasattr(s, "extra") else 0.5
        return new, x

    def change(i: int, s: Any) -> Any:
        if i == 4:
            return Other(s.w, s.n)
        if i == 6:
            del s.extra
        if i == 9:
            s.w = np.ones(3)
        return s

    loops(step, lambda: State(np.ones(2)), 16, compiled=5, change=change)


def test_the_given_one_is_changed_or_returned_itself() -> None:
    def step(s: Any, x: Any) -> Any:
        s.n += 1
        s.w *= 0.5
        if x > 6.0:
            return s, [s, s.w]
        return State(s.w + x, s.n), {"old": s}

    loops(step, lambda: State(np.ones(2)), 14, compiled=6)


def test_in_containers_and_by_keyword() -> None:
    def step(given: Any, x: Any) -> Any:
        first, (second,) = given["first"], given["rest"]
        given["first"] = State(second.w + x, first.n + 1)
        return {"first": given["first"], "rest": (State(first.w * 2, second.n + first.n),)}, first

    loops(step, lambda: {"first": State(np.ones(2)), "rest": (State(np.zeros(2)),)}, compiled=7)

    def by_keyword(*, s: Any, x: Any) -> Any:
        return State(s.w * x, s.n + 1)

    fast, mine, theirs = jit(by_keyword), State(np.ones(2)), State(np.ones(2))
    for i in range(9):
        mine, theirs = fast(s=mine, x=0.5 + i), by_keyword(s=theirs, x=0.5 + i)
        assert_same(picture(mine), picture(theirs))
    assert config.compile == "auto" or explain(fast)[0].calls >= 5


def test_objects_of_a_class_that_become_one_or_two() -> None:
    def make() -> Any:
        made = [State(np.ones(2) * i, i) for i in range(4)]
        box = SimpleNamespace(s=made[0])

        def step(a: Any, b: Any) -> Any:
            a.n += 1
            return a is b, a == b, a in (b, 1), b.n, a is box.s, [a, b]

        def arguments(i: int) -> tuple[Any, ...]:
            box.s = made[(i // 5) % 4]
            return made[i % 4], made[(i * i) % 4]

        return step, arguments, lambda: (box, made)

    agrees(make, 40, compiled=12)


class Trainer:
    """With a state that is replaced at each step."""

    def __init__(self, cls: Any) -> None:
        self.cls, self.state, self.best, self.previous = cls, cls(np.ones(2)), None, None

    def step(self, x: Any) -> Any:
        """One step."""
        value = np.sum((self.state.w - x) ** 2)
        self.previous = self.state
        self.state = self.cls(self.state.w * 0.9 + x, self.state.n + 1)
        if self.best is None or value < 30.0:
            self.best = self.state
        return value


@pytest.mark.parametrize("cls", [State, Slotted, Frozen])
def test_in_attributes(cls: Any) -> None:
    def make() -> Any:
        trainer = Trainer(cls)

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 12:
                trainer.state = cls(np.zeros(2), 100)
            return (0.5 + i % 7,)

        return trainer.step, arguments, lambda: trainer

    agrees(make, 30, compiled=12)


def test_containers_of_other_kinds_come() -> None:
    def step(given: Any, x: Any) -> Any:
        return State(given["s"].w * x, given["s"].n + 1)

    fast, kinds = jit(step), (dict, dict, dict, OrderedDict, functools.partial(defaultdict, list))
    for i in range(25):
        mine, theirs = ({"t" if i > 18 and i % 2 else "s": State(np.ones(2) * i, i)} for _ in range(2))
        given, expected = kinds[i % 5](mine), kinds[i % 5](theirs)
        assert_same(picture((outcome(fast, (given, 0.5)), given)), picture((outcome(step, (expected, 0.5)), expected)))
    assert config.compile == "auto" or explain(fast)[0].calls >= 3


def test_replaced_by_others() -> None:
    def make() -> Any:
        box = SimpleNamespace(s=State(np.ones(2)))

        def step(x: Any) -> Any:
            return State(box.s.w * 0.5 + x, box.s.n + 1)

        def arguments(i: int) -> tuple[Any, ...]:
            box.s = State(box.s.w + 1.0, i)
            return (0.5 + i,)

        return step, arguments, lambda: box

    agrees(make, 12, compiled=6)


def test_methods_of_many_objects() -> None:
    def make() -> Any:
        trainers = [Trainer(State) for _ in range(3)]
        box = {"at": trainers[0]}

        def step(x: Any) -> Any:
            return box["at"].step(x)

        def arguments(i: int) -> tuple[Any, ...]:
            box["at"] = trainers[i % 3]
            return (0.5 + i % 7,)

        return step, arguments, lambda: trainers

    agrees(make, 40, compiled=10)


def test_objects_in_one_another() -> None:
    def step(s: Any, x: Any) -> Any:
        new = State(State(s.w.w * 0.5 + x, s.w.n + 1), s.n)
        new.list = [new.w, *s.list[:1]]  # type: ignore[attr-defined]
        return new, s.w

    def start() -> Any:
        s = State(State(np.ones(2)), None)
        s.list = [s.w, State(np.zeros(2))]  # type: ignore[attr-defined]
        return s

    loops(step, start, 14, compiled=5)


def test_arrays_that_objects_share() -> None:
    def step(s: Any, x: Any) -> Any:
        s.w += x
        return State(s.w, s.other), s.other * 2

    def start() -> Any:
        s = State(np.ones(2), 0)
        s.other = np.zeros(2)  # type: ignore[attr-defined]
        return s

    def change(i: int, s: Any) -> Any:
        s.other = s.w if i in (5, 6) else np.ones(2)
        return s

    loops(step, start, 14, compiled=4, change=change)


def test_what_remembers_objects() -> None:
    def make() -> Any:
        @functools.cache
        def size(s: Any) -> int:
            return len(s.w)

        states = [State(np.ones(2 + i)) for i in range(5)]

        def step(s: Any, x: Any) -> Any:
            return State(s.w * x, size(s))

        return step, lambda i: (states[i % 5], 0.5 + i), lambda: None

    agrees(make, 20, compiled=0)


def test_addresses() -> None:
    def step(s: Any, x: Any) -> Any:
        return State(s.w * x, s.n + 1), id(s)

    def named(s: Any, x: Any) -> Any:
        return State(s.w * x, s.n + 1), f"{s!r}"

    for f in (step, named):
        fast, s = jit(f), State(np.ones(2))
        for i in range(9):
            given = s
            s, told = fast(given, 0.5 + i)
            assert told == f(given, 0.5)[1]


def test_two_objects_of_which_texts_are_made() -> None:
    def make() -> Any:
        states, name = [State(np.ones(2) * i, i) for i in range(2)], "w"

        def step(s: Any, x: Any) -> Any:
            return {f"{name} by x": s.w * x, "n": s.n}

        return step, lambda i: (states[i % 2], 0.5 + i), lambda: states

    agrees(make, 16, compiled=8)


def test_old_states_go() -> None:
    fast, s = jit(lambda s, x: State(s.w * x, s.n + 1)), State(np.ones(2))
    old = []
    for i in range(9):
        old.append(weakref.ref(s))
        s = fast(s, 0.5 + i)
    gc.collect()
    assert sum(reference() is not None for reference in old) == 0


def test_a_state_that_is_made_at_first() -> None:
    def make() -> Any:
        box = SimpleNamespace(state=None)

        def step(x: Any) -> Any:
            if box.state is None:
                box.state = State(x * np.ones(2))
            else:
                box.state = State(box.state.w * 0.5 + x, box.state.n + 1)
            return box.state

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 8:
                box.state = None
            return (0.5 + i,)

        return step, arguments, lambda: box

    agrees(make, 14, compiled=8)
