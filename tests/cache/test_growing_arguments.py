"""Steps that append to a list or deque among their arguments, which is longer at each call."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest
from steps import runs_as_plain

from yota_py import config, explain, jit, value_and_grad


def loss(w: Any, x: Any) -> Any:
    return np.sum((w * x - 1.0) ** 2)


def point(i: int) -> Any:
    return np.arange(3.0) + 0.25 * i


def train(w: Any, history: Any, x: Any, *, rate: Any = 0.05, log: Any = None) -> Any:
    value, dw = value_and_grad(loss)(w, x)
    w -= rate * dw
    history.append(float(value))
    history.extend([value, dw])
    return value


class Trainer:
    def __init__(self) -> None:
        self.w, self.losses = np.ones(3), [0.0]

    def step(self, x: Any, losses: Any) -> Any:
        value, dw = value_and_grad(loss)(self.w, x)
        self.w -= 0.05 * dw
        losses.append(value)
        return value


@pytest.mark.parametrize("kind", [list, lambda: deque([1.0], maxlen=4)])
def test_functions(kind: Any) -> None:
    def make() -> Any:
        w, history = np.ones(3), kind()
        return train, lambda i: (w, history, point(i)), lambda: [w, history]

    runs_as_plain(make, 10, compiled=9)


def test_methods() -> None:
    def make() -> Any:
        trainer, losses = Trainer(), [1.0]
        return trainer.step, lambda i: (point(i), losses), lambda: [vars(trainer), losses]

    runs_as_plain(make, 10, compiled=9)


def test_functions_of_a_class() -> None:
    """The object is an argument like others."""

    class Compiled(Trainer):
        step = jit(Trainer.step)  # type: ignore[assignment]

    def make(cls: Any = Trainer) -> Any:
        trainer, losses = cls(), [1.0]
        return trainer, [trainer.step(point(i), losses) for i in range(10)], losses

    (have, *others), (want, *its) = make(Compiled), make()
    assert np.allclose(have.w, want.w) and all(map(np.allclose, others, its))
    assert explain(Trainer.step)[0].calls == 9


def test_keywords_and_other_lists() -> None:
    (w, v), (history, other) = np.ones((2, 3)), ([], [1.0])  # type: ignore[var-annotated]
    step = jit(train)
    for i in range(12):
        step(w, x=point(i), history=history if i % 3 else other, rate=0.1)
    plain, its = [], [1.0]  # type: ignore[var-annotated]
    for i in range(12):
        train(v, plain if i % 3 else its, point(i), rate=0.1)
    assert np.allclose(w, v) and len(history) == len(plain) == 24 and len(other) == len(its) == 13
    assert all(np.allclose(a, b) for a, b in zip(history + other, plain + its, strict=True))
    assert explain(step)[0].calls == 11
    for wrong in (lambda f: f(w, [], point(0), 1.0), lambda f: f(w, [], w=w), lambda f: f(w, [])):
        with pytest.raises(TypeError) as error:
            wrong(train)
        with pytest.raises(TypeError, match=str(error.value).replace("(", r"\(").replace(")", r"\)")):
            wrong(step)


def test_lists_that_are_captured_too() -> None:
    """One list by two ways, and two lists that become one."""

    def make() -> Any:
        trainer = Trainer()
        other: list[Any] = []

        def step(x: Any, losses: Any) -> Any:
            losses.append(np.sum(x))
            trainer.losses.append(x[0])
            losses.append(x[1])
            return x * 2.0

        return step, lambda i: (point(i), trainer.losses if i % 5 == 4 else other), lambda: [trainer.losses, other]

    runs_as_plain(make, 14, compiled=11)


def test_lists_that_are_read_by_another_name() -> None:
    def make() -> Any:
        trainer = Trainer()
        other: list[Any] = [2.0]

        def step(x: Any, losses: Any) -> Any:
            losses.append(np.sum(x))
            return x * len(trainer.losses) + trainer.losses[-1]

        return step, lambda i: (point(i), trainer.losses if i % 5 == 4 else other), lambda: [trainer.losses, other]

    runs_as_plain(make, 14)


def test_other_things_than_lists() -> None:
    class Log(list[Any]):
        def append(self, value: Any) -> None:
            super().append(("logged", value))

    def make() -> Any:
        trainer = Trainer()
        logs: list[Any] = [[], Log(), deque(), [], Log()]
        return trainer.step, lambda i: (point(i), logs[i % 5]), lambda: [vars(trainer), [[*log] for log in logs]]

    runs_as_plain(make, 15, compiled=6)


@pytest.mark.parametrize("kind", [dict, lambda log: defaultdict(list, log)])
def test_dicts_of_lists(kind: Any) -> None:
    def make() -> Any:
        w = np.ones(3)
        logs = [kind({"loss": [], "norm": deque([1.0], maxlen=3), "w": w, "rate": 0.5}), kind({"loss": [], "norm": []})]

        def step(x: Any, log: Any) -> Any:
            value, dw = value_and_grad(loss)(w, x)
            w[:] = w - 0.05 * dw
            log["loss"].append(value)
            log["norm"].extend([np.sum(dw * dw), float(value)])
            return value

        return step, lambda i: (point(i), logs[i % 5 == 4]), lambda: [w, logs]

    runs_as_plain(make, 14, compiled=12)


def test_lists_of_lists_and_new_keys() -> None:
    def make() -> Any:
        logs: list[Any] = [[[], 1.0], [[2.0], 1.0]]
        made: Any = defaultdict(list)

        def step(x: Any, several: Any, log: Any) -> Any:
            several[0].append(np.sum(x))
            log["loss"].append(x[0])
            return x * 2.0

        return step, lambda i: (point(i), logs[i % 5 == 4], made), lambda: [logs, dict(made)]

    runs_as_plain(make, 14, compiled=8)


def test_exceptions_on_the_way() -> None:
    def make() -> Any:
        losses: list[Any] = []

        def step(x: Any, losses: Any) -> Any:
            losses.append(np.sum(x))
            if x[0] > 0.5:
                raise ValueError("too large")
            losses.append("fine")
            return x * 2.0

        return step, lambda i: (point(4 * (i % 4 == 3)), losses), lambda: losses

    runs_as_plain(make, 12, compiled=7)


def test_parameters_that_are_also_read_or_bound() -> None:
    def make() -> Any:
        logs: list[list[Any]] = [[1.0], [2.0], [3.0]]

        def step(x: Any, a: Any, b: Any, c: Any) -> Any:
            def note(value: Any) -> None:
                c.append(value)

            a.append(x[0])
            b.append(x[1])
            b = [len(a)]
            b.append(x[2])
            note(x[0])
            return b

        return step, lambda i: (point(i), *logs), lambda: logs

    runs_as_plain(make, 9)


def test_audits() -> None:
    config.audit = "always"
    w, history = np.ones(3), []  # type: ignore[var-annotated]
    step = jit(train)
    for i in range(9):
        step(w, history, point(i))
    (told,) = explain(step)
    assert told.calls == 8 and told.entries[0].audits == 8
    assert told.entries[0].arguments == ("w float64[3]", "x float64[3]")


def test_compile() -> None:
    config.compile = "auto"
    w, history = np.ones(3), []  # type: ignore[var-annotated]
    step = jit(train)
    step.compile(w, history, point(0))
    for i in range(1, 10):
        step(w, history, point(i))
    assert explain(step)[0].calls == 9 and len(history) == 30
