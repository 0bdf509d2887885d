"""Steps that append to lists and deques outside, which are longer at each call: compiled, without reading them."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import Any

import numpy as np
import pytest
from steps import runs_as_plain

from yota_py import config, explain, grad, jit, value_and_grad
from yota_py.base.unwinding import state
from yota_py.capture import recording
from yota_py.errors import LostDerivativeError

LOG: list[Any] = []


def loss(w: Any, x: Any) -> Any:
    return np.sum((w * x - 1.0) ** 2)


def points(i: int) -> tuple[Any, ...]:
    return (np.arange(3.0) + 0.25 * i,)


class Trainer:
    def __init__(self) -> None:
        self.w = np.ones(3)
        self.losses: list[Any] = []
        self.log: dict[str, list[Any]] = {"loss": [], "norm": []}

    def step(self, x: Any) -> Any:
        value, dw = value_and_grad(loss)(self.w, x)
        self.w -= 0.05 * dw
        self.losses.append(value)
        self.log["loss"].append(float(value))
        self.log["norm"].append(np.sqrt(np.sum(dw * dw)))
        return value


def test_attributes_and_items() -> None:
    def make() -> Any:
        trainer = Trainer()
        return trainer.step, points, lambda: vars(trainer)

    runs_as_plain(make, 10, compiled=9)


def test_closures() -> None:
    def make() -> Any:
        history: list[Any] = [None, "start"]
        w = np.ones(3)

        def step(x: Any) -> None:
            value, dw = value_and_grad(loss)(w, x)
            w[:] = w - 0.1 * dw
            history.append(float(value))
            history.extend([value, dw])

        return step, points, lambda: (history, w)

    runs_as_plain(make, 10, compiled=9)


def test_global_names() -> None:
    def make() -> Any:
        log: list[Any] = []

        def step(x: Any) -> Any:
            LOG.append(np.sum(x))
            return np.sum(x * x)

        def args(i: int) -> Any:
            log[:] = LOG
            LOG.clear()
            return points(i)

        return step, args, lambda: [*LOG]

    runs_as_plain(make, 10, compiled=9)


def test_methods_of_what_is_appended_to() -> None:
    def make() -> Any:
        state = {"seen": [1], "left": deque([0.0, 1.0], maxlen=4), "right": deque()}

        def step(x: Any) -> Any:
            state["left"].append(float(np.sum(x)))
            state["left"].appendleft(np.max(x))
            state["right"].extend((x * 2.0, x[0]))
            state["right"].extendleft([x[1], "two"])
            state["seen"].extend(np.cumsum(x))
            return x * 2.0

        return step, points, lambda: {name: [*held] for name, held in state.items()}

    runs_as_plain(make, 10, compiled=9)


def test_names_of_their_own_and_sums_in_place() -> None:
    def make() -> Any:
        model = Trainer()

        def step(x: Any) -> Any:
            losses = model.losses
            for name, values in model.log.items():
                values.append((name, np.sum(x)))
            losses += [np.sum(x)]
            model.losses += [2.0]
            return x + 1.0

        return step, points, lambda: vars(model)

    runs_as_plain(make, 10, compiled=9)


def test_what_is_appended() -> None:
    """Captured arrays themselves, views of them, containers, and the same new array in two places."""

    def make() -> Any:
        kept: list[Any] = []
        w, config = np.ones((2, 3)), {"rate": 0.1}

        def step(x: Any) -> Any:
            y = x * 2.0
            w[0] += x
            kept.append(w)
            kept.append(w[1:])
            kept.append({"y": y, "part": y[1:], "n": len(x)})
            kept.append(y)
            kept.append(config)
            y[0] = 7.0
            return y

        return step, points, lambda: [kept, w, config]

    runs_as_plain(make, 10, compiled=9)


def test_lists_that_grow_by_decisions() -> None:
    def make() -> Any:
        good: list[Any] = []
        bad: list[Any] = []

        def step(x: Any) -> Any:
            value = np.sum(x)
            if value > 6.0:
                good.append(value)
            else:
                bad.append(value)
                bad.append(-value)
            return value

        return step, lambda i: (np.array([i % 4, 2.0, 2.5]),), lambda: [good, bad]

    runs_as_plain(make, 16, compiled=14)


def test_one_list_by_two_names_and_two_that_become_one() -> None:
    def make() -> Any:
        model = Trainer()
        model.best = model.losses  # type: ignore[attr-defined]
        other: list[Any] = []

        def step(x: Any) -> Any:
            model.losses.append(np.sum(x))
            model.best.append(x[0])  # type: ignore[attr-defined]
            model.losses.append(x[1])
            return x * 1.5

        def args(i: int) -> Any:
            if i == 4:
                model.best = other  # type: ignore[attr-defined]
            if i == 9:
                model.best = model.losses  # type: ignore[attr-defined]
            return points(i)

        return step, args, lambda: [model.losses, model.best, other]  # type: ignore[attr-defined]

    runs_as_plain(make, 14, compiled=11)


def test_lists_that_are_cleared_or_replaced() -> None:
    class Loud(list[Any]):
        def append(self, value: Any) -> None:
            super().append(("loud", value))

    def make() -> Any:
        model = Trainer()

        def step(x: Any) -> Any:
            model.losses.append(np.sum(x))
            return x * 1.5

        def args(i: int) -> Any:
            if i == 3:
                model.losses.clear()
            if i == 5:
                model.losses = [*range(5000)]
            if i == 8:
                model.losses = Loud()
            if i == 10:
                model.losses = deque(maxlen=2)  # type: ignore[assignment]
            return points(i)

        return step, args, lambda: [type(model.losses).__name__, *model.losses]

    runs_as_plain(make, 16, compiled=11)


def test_lists_that_stand_for_others_later() -> None:
    """A list that is read becomes the one that is appended to, and an argument does."""

    def make() -> Any:
        model = Trainer()
        model.losses = [1.0, 2.0]
        weights = [1.0, 2.0]

        def step(x: Any, extra: Any) -> Any:
            model.losses.append(np.sum(x))
            return x * weights[-1] + len(weights) + len(extra)

        extra = [0.5]

        def args(i: int) -> Any:
            if i == 4:
                model.losses = weights
            if i == 7:
                model.losses = extra
            return (*points(i), extra)

        return step, args, lambda: [model.losses, weights, extra]

    runs_as_plain(make, 12, compiled=3)


def test_one_list_is_read_and_another_is_not() -> None:
    def make() -> Any:
        model = Trainer()
        layers = [np.ones(3), np.ones(3)]

        def step(x: Any) -> Any:
            for layer in layers:
                x = np.tanh(x * layer)
            outputs = [[], []]  # type: ignore[var-annotated]
            outputs[0].append(x)
            model.losses.append(np.sum(x))
            model.log["loss"].append(x[0])
            return outputs[0][0]

        return step, points, lambda: vars(model)

    runs_as_plain(make, 9, compiled=8)


def test_functions_that_are_differentiated_append() -> None:
    def make() -> Any:
        model = Trainer()

        def inner(w: Any, x: Any) -> Any:
            y = loss(w, x)
            model.losses.append(1.0)
            model.losses.extend([y, x[0], np.sum(w)])
            model.log["loss"].append((y, {"w": w[0]}))
            return y

        def step(x: Any) -> Any:
            value, dw = value_and_grad(inner)(model.w, x)
            model.w -= 0.05 * dw
            model.losses.append(value)
            return value

        return step, points, lambda: vars(model)

    runs_as_plain(make, 9, compiled=8)


def test_gradients_of_functions_that_append() -> None:
    history: list[Any] = []
    inner: list[Any] = []

    def f(w: Any) -> Any:
        y = np.sum(w**2)
        history.append(y)
        history.extend([2.0, (w[0], [y * 2])])
        _, (g,) = grad(lambda w: inner.append(np.sum(w)) or np.sum(w**3), w)
        return y + np.sum(g)

    x = np.array([1.0, 2.0])
    for i in range(5):
        value, (slope,) = grad(f, x + i)
        y = np.sum((x + i) ** 2)
        assert value == pytest.approx(y + np.sum(3.0 * (x + i) ** 2))
        np.testing.assert_allclose(slope, 2.0 * (x + i) + 6.0 * (x + i))
        assert history[-3] == pytest.approx(y) and type(history[-3]) is np.float64
        assert history[-1] == (pytest.approx(1.0 + i), [pytest.approx(2.0 * y)])
        assert inner[-1] == pytest.approx(np.sum(x + i)) and len(inner) == i + 1 and len(history) == 3 * i + 3
    assert sum(known.calls for known in explain(f)) == 3


ONCE = """
def failing(self):
    result = run(self)
    if len(state.traces) > 1 and not failed:
        failed.append(self)
        raise LostDerivativeError("of a library that has just been imported")
    return result
"""


def test_what_is_traced_again_appends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function inside of which a library was imported is traced a second time."""
    history: list[Any] = []
    names: dict[str, Any] = {"run": recording.Recording._call, "state": state, "failed": [], "__name__": "yota_py.once",
                             "LostDerivativeError": LostDerivativeError}  # fmt: skip
    exec(ONCE, names)  # as the library's own: traces do not follow it
    monkeypatch.setattr(recording.Recording, "_call", names["failing"])
    monkeypatch.setattr(recording, "load_pending", partial(len, names["failed"]))

    def inner(w: Any) -> Any:
        history.append(np.sum(w))
        return np.sum(w**2)

    step = jit(lambda w: value_and_grad(inner)(w)[0])
    for i in range(4):
        assert step(np.full(2, i + 1.0)) == 2.0 * (i + 1) ** 2
        assert history == [2.0 * (k + 1) for k in range(i + 1)]
    assert len(names["failed"]) == 1 and explain(step)[0].calls == 3


def test_results_and_places_that_are_the_list() -> None:
    def make() -> Any:
        model = Trainer()
        model.last = None  # type: ignore[attr-defined]

        def step(x: Any) -> Any:
            model.losses.append(np.sum(x))
            model.last = model.losses  # type: ignore[attr-defined]
            return model.losses, x[0]

        return step, points, lambda: (model.losses, model.last is model.losses)  # type: ignore[attr-defined]

    runs_as_plain(make, 9, compiled=7)
    model = Trainer()

    @jit
    def whole(x: Any) -> Any:
        model.losses.append(np.sum(x))
        return model.losses

    for i in range(9):
        assert whole(*points(i)) is model.losses
    assert explain(whole)[0].calls >= 8


def test_lists_that_are_exchanged_and_grow() -> None:
    def make() -> Any:
        model = Trainer()

        def step(x: Any) -> Any:
            model.losses.append(x[0])
            if x[0] > 1.0:
                model.losses = []
                model.losses.append("new")
            return x * 2.0

        return step, lambda i: (np.array([0.5 + (i % 3 == 2), 1.0]),), lambda: model.losses

    runs_as_plain(make, 12, compiled=9)


def test_new_keys() -> None:
    def make() -> Any:
        log: Any = defaultdict(list)

        def step(x: Any) -> Any:
            log["loss"].append(np.sum(x))
            return x * 2.0

        return step, points, lambda: dict(log)

    runs_as_plain(make, 10, compiled=6)


def test_when_it_pays() -> None:
    """With the policy that compiles when it pays: long lists, and lists that have become long."""
    config.compile = "auto"
    try:
        trainer, plain = Trainer(), Trainer()
        trainer.losses, plain.losses = [[*range(4000)] for _ in range(2)]
        step = jit(trainer.step)
        for i in range(5):
            assert np.allclose(step(*points(i)), plain.step(*points(i)))
        step.compile(*points(5))
        plain.step(*points(5))
        for i in range(6, 16):
            assert np.allclose(step(*points(i)), plain.step(*points(i)))
        assert np.allclose(trainer.losses, plain.losses) and np.allclose(trainer.log["norm"], plain.log["norm"])
        assert explain(step)[0].calls >= 10
    finally:
        config.compile = "always"


def _logged(value: Any) -> None:
    LOG.append(value)


def _of_keys(w: dict[str, Any], x: Any) -> None:
    for key in w:
        w[key] = w[key] - 0.1 * (w[key] - x)
    LOG.append(np.sum(w["a"]))


def _before_and_after(w: dict[str, Any], x: Any) -> None:
    LOG.append(float(np.sum(x)))
    for i, (key, value) in enumerate(w.items()):
        w[key] = value - 0.1 * i * x
    _logged(np.sum(w["b"]))


def _in_each_turn(w: dict[str, Any], x: Any) -> None:
    for _ in range(40):
        w["a"] = w["a"] - 0.1 * (w["a"] - x)
        LOG.append(np.sum(w["a"]))


@pytest.mark.parametrize("update", [_of_keys, _before_and_after, _in_each_turn])
def test_global_lists_beside_loops(update: Any) -> None:
    w, plain = ({"a": np.ones(3), "b": np.zeros(3)} for _ in range(2))

    def step(x: Any) -> None:
        update(w, x)

    compiled = jit(step)
    for i in range(6):
        seen = []
        for f, args in ((compiled, points(i)), (update, (plain, *points(i)))):
            LOG.clear()
            LOG.append("before")
            f(*args)
            seen.append([*LOG])
        assert len(seen[0]) > 1 and seen[0] == pytest.approx(seen[1])
        np.testing.assert_allclose([w["a"], w["b"]], [plain["a"], plain["b"]])
    assert sum(known.calls for known in explain(compiled)) == 5, explain(compiled)
