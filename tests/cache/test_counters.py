"""Numbers, flags and strings that a step changes in what it reads or is given: each call does what Python does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from steps import Make, runs_as_plain

from yota_py import explain, grad, jit, value_and_grad

MAKERS: dict[str, tuple[Make, int]] = {}


def compiled(calls: int) -> Callable[[Make], Make]:
    """Registers a step, of which so many calls of eight run compiled code at least."""

    def register(make: Make) -> Make:
        MAKERS[make.__name__] = make, calls
        return make

    return register


@compiled(5)
def adam_in_a_dict() -> Any:
    state, w = {"t": 0, "m": np.zeros(2)}, np.ones(2)

    def step(w: Any, state: Any) -> Any:
        state["t"] += 1
        state["m"] = 0.9 * state["m"] + w
        w -= 0.1 * state["m"] / (1 - 0.9 ** state["t"])
        return state["t"]

    return step, lambda i: (w, state), lambda: (w, state)


@compiled(5)
def counter_in_a_list() -> Any:
    state, w = [0, 1.5], np.ones(2)

    def step(w: Any, state: Any) -> Any:
        state[0] += 1
        w -= 0.1 * state[0]
        return state[0]

    return step, lambda i: (w, state), lambda: (w, state)


@dataclasses.dataclass
class State:
    t: int = 0
    name: str = "a"
    flag: bool = False
    other: Any = None


@compiled(3)
def fields_of_all_kinds() -> Any:
    state, w = State(), np.ones(2)

    def step(w: Any, s: Any) -> Any:
        s.t += 1
        s.flag = not s.flag
        s.name = "b" if s.flag else "a"
        s.other = None if s.flag else 1
        w *= 1 + s.t
        return s.name

    return step, lambda i: (w, state), lambda: (w, state)


@compiled(5)
def number_of_the_step() -> Any:
    w, m = np.ones(2), np.zeros(2)

    def step(w: Any, m: Any, t: int) -> Any:
        m *= 0.9
        m += w
        w -= m / (1 - 0.9**t)
        return t + 1

    return step, lambda i: (w, m, i + 1), lambda: (w, m)


class Model:
    """Counts by a method, and has flags."""

    def __init__(self) -> None:
        self.w, self.t, self.training, self.phase, self.pair = np.ones(2), 0, True, "train", (1.0, 2.0)

    def tick(self) -> None:
        self.t += 1


@compiled(5)
def counter_by_a_method() -> Any:
    model = Model()

    def step() -> Any:
        model.tick()
        model.w += 1.0 / model.t
        return model.t

    return step, lambda i: (), lambda: vars(model)


@compiled(4)
def flags_that_flip() -> Any:
    model = Model()

    def step() -> Any:
        model.training = not model.training
        model.phase = "eval" if model.phase == "train" else "train"
        model.w = model.w + 1 if model.training else model.w * 2
        return model.phase

    return step, lambda i: (), lambda: vars(model)


@compiled(4)
def pairs_that_are_rebound() -> Any:
    model = Model()

    def step() -> Any:
        a, b = model.pair
        model.pair = b, a + b
        model.w += a
        return a

    return step, lambda i: (), lambda: vars(model)


@compiled(4)
def counter_from_outside() -> Any:
    box, w = Model(), np.ones(2)

    def step() -> Any:
        w[:] *= 1 + box.t
        return box.t

    def arguments(i: int) -> Any:
        box.t = i
        return ()

    return step, arguments, lambda: w


@compiled(4)
def index_that_wraps_around() -> Any:
    buffer, x, model = np.zeros(3), np.arange(5.0), Model()

    def step(value: Any) -> Any:
        buffer[model.t] = value + x[model.t]
        model.t = (model.t + 1) % 3
        return buffer.mean()

    return step, lambda i: (float(i),), lambda: (buffer, vars(model))


@compiled(0)
def counter_that_becomes_a_float() -> Any:
    model = Model()

    def step() -> Any:
        model.w += model.t
        model.t += 1
        return model.t

    def arguments(i: int) -> Any:
        model.t = {4: 2.5, 6: True}.get(i, model.t)
        return ()

    return step, arguments, lambda: vars(model)


@compiled(0)
def counter_beyond_all_bounds() -> Any:
    model = Model()

    def step() -> Any:
        model.t = model.t * 2**20 + 1
        return model.t % 7

    return step, lambda i: (), lambda: vars(model)


@compiled(4)
def numbers_that_are_set_to_what_they_were() -> Any:
    model, default = Model(), 0.5
    model.rate = default  # type: ignore[attr-defined]

    def step(reset: Any) -> Any:
        model.rate = default if reset > 0 else model.rate * 0.5  # type: ignore[attr-defined]
        model.t = 0 if reset > 0 else model.t + 1
        return model.rate * model.t  # type: ignore[attr-defined]

    return step, lambda i: ((1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0)[i],), lambda: vars(model)


@compiled(1)
def count_of_turns() -> Any:
    w = np.ones(3)

    def step(turns: int) -> Any:
        for _ in range(turns):
            w[:] = np.sin(w) + 1
        return turns

    return step, lambda i: (i % 3,), lambda: w


@pytest.mark.parametrize("name", MAKERS)
def test_steps(name: str) -> None:
    make, calls = MAKERS[name]
    runs_as_plain(make, compiled=calls)


def test_decisions_on_arrays_that_the_step_writes() -> None:
    """The step decides on what it has read, not on what it has written since."""

    def of_argument() -> Any:
        w = np.array([-2.5, 1.0])

        def step(w: Any) -> Any:
            s = w[0]
            w[:] += 1
            return "big" if s > 0 else "small"

        return step, lambda i: (w,), lambda: w

    def of_loss() -> Any:
        w = np.array([-2.0, 1.0])

        def step() -> Any:
            loss, g = value_and_grad(lambda w: np.sum(w * w))(w)
            w[:] -= 0.1 * g
            return float(loss)

        return step, lambda i: (), lambda: w

    def that_raises() -> Any:
        w = np.array([-2.0, 1.0])

        def step() -> Any:
            w[:] += 1
            if w.sum() > 10:
                raise ValueError("too big")
            return w.sum()

        return step, lambda i: (), lambda: w

    def of_choice() -> Any:
        q = np.array([0.1, 0.2, 0.3])

        def step() -> Any:
            a = int(np.argmax(q))
            q[a] -= 0.15
            return a

        return step, lambda i: (), lambda: q

    for make in (of_argument, of_loss, that_raises, of_choice):
        runs_as_plain(make, 12, compiled=4)


def test_whole_numbers_of_gradients() -> None:
    """An exponent that changes becomes an input; what it was before and afterwards is right."""

    def f(x: Any, n: int) -> Any:
        return np.sum(x**n)

    x = np.array([1.5, 2.0])
    for n in (2, 3, 2, 4, 5, 2, 7, 0, -1, 1, 4):
        value, (g, none) = grad(f, x, n)
        np.testing.assert_allclose(value, f(x, n), rtol=1e-14)
        np.testing.assert_allclose(g, n * x ** (n - 1.0), rtol=1e-13)
        assert none is None
    (told,) = explain(f)
    assert told.calls >= 5 and len(told.entries) <= 4


def test_what_cannot_be_an_input_stays_a_constant() -> None:
    """Numbers without bounds are constants of their programs."""

    def f(x: Any, n: int) -> Any:
        return x * (n**n % 11)

    for n in [1, 2, 3, 4, 5, 6, 20, 30, 2, 2, 2]:
        assert grad(f, 2.0, n) == (2.0 * (n**n % 11), (float(n**n % 11), None))


def test_other_types_than_whole_numbers() -> None:
    def step(w: Any, n: Any) -> Any:
        w *= n
        return n

    fast, w, plain = jit(step), np.ones(2), np.ones(2)
    for n in (1, 2, 3, 4, 2.5, True, 5, np.int64(3), np.float32(2), 2**70, 6, -0.0, 7):
        have, want = fast(w, n), step(plain, n)
        assert type(have) is type(want) and have == want and np.array_equal(w, plain)


def test_a_namespace_counts() -> None:
    def make() -> Any:
        s = SimpleNamespace(n=0, w=np.ones(2))

        def step() -> Any:
            s.n += 1
            s.w = s.w * 2 + s.n
            return s.n

        return step, lambda i: (), lambda: vars(s)

    runs_as_plain(make)


def test_a_count_after_a_call_that_cannot_be_compiled() -> None:
    """That the first call was none of a count's fault."""
    pending = [1]

    def f(n: int, x: Any) -> Any:
        if pending:
            print("started at", time.time() - pending.pop())
        return n * x

    compiled = jit(f)
    for i in range(20):
        assert compiled(i, 1.5) == i * 1.5
    assert explain(compiled)[0].calls >= 8


def test_conversions_by_classes_that_are_also_asked_for_instances() -> None:
    def f(x: Any, n: Any) -> Any:
        k = int(n)
        return np.sum(x) * k if isinstance(k, int) and not isinstance(k, (float, str)) else np.sum(x)

    for n in range(2, 12):
        assert grad(f, np.ones(2), n)[0] == 2 * n
    assert sum(entry.calls for entry in explain(f)) >= 6


def also_asked(k: Any) -> bool:
    return isinstance(k, (bool, int))


def itself_asked(k: Any) -> bool:
    return isinstance(int, type) and k is not int


@pytest.mark.parametrize(("asked", "served"), [(also_asked, True), (itself_asked, False)])
def test_conversions_beside_functions_that_ask(asked: Any, served: bool) -> None:
    """Asked for instances, a class may be a stand-in; asked what it is itself, it is itself."""

    def f(x: Any, n: Any) -> Any:
        k = int(n)
        return np.sum(x) * k if asked(k) else np.sum(x)

    for n in range(2, 12):
        assert grad(f, np.ones(2), n)[0] == 2 * n
    assert (sum(entry.calls for entry in explain(f)) >= 6) == served
