"""What a traced call leaves to the function itself."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from performing import Jitted, assert_same, assign_shifted, check, inputs, stateless

from yota_py import grad

# ------------------------------------------------------------------------------------- what the function itself must do


def test_overlapping_arguments_run_the_function_itself() -> None:
    def f(x: Any, y: Any) -> Any:
        x[1:] += y[:-1]
        return y * 2.0

    jitted = Jitted()
    for i in range(8):
        base, plain = np.arange(6.0) + i, np.arange(6.0) + i
        pairs = [(a[:5], a[1:]) if i % 2 else (a[:3], a[3:]) for a in (base, plain)]
        assert_same(jitted(f, *pairs[0]) if i else f(*pairs[0]), f(*pairs[1]))
        assert_same(base, plain)
    both = np.arange(4.0)
    assert_same(jitted(f, both, both), np.array([0.0, 2.0, 6.0, 10.0]))
    assert jitted.how[-1] == "plain"


def test_an_argument_that_is_a_captured_array() -> None:
    def make() -> tuple[Any, Any]:
        w = np.arange(3.0)

        def f(x: Any) -> Any:
            w[:] = x[::-1] * 2.0
            return x + 1.0

        return f, w

    (f, w), (g, v) = make(), make()
    jitted = Jitted()
    for (x,) in inputs((3,)):
        assert_same(jitted(f, x.copy()), g(x.copy()))
        assert_same(jitted(f, w), g(v))
        assert_same(jitted(f, w[::-1]), g(v[::-1]))
        assert_same(w, v)
    assert jitted.how[:3] == ["trace", "plain", "plain"] and jitted.how[3] == "step"


def test_arrays_that_overlap_may_be_read() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        z += x
        return x * y

    jitted = Jitted()
    for (x,) in inputs((3,)):
        z, plain = np.zeros(3), np.zeros(3)
        assert_same(jitted(f, x, x, z), f(x, x, plain))
        assert_same(z, plain)
    assert jitted.how[-1] == "step"


def test_read_only_arrays_raise_what_numpy_raises() -> None:
    jitted = Jitted()
    for i, (x,) in enumerate(inputs((4,), n=6)):
        x.flags.writeable = i not in (0, 4)
        if x.flags.writeable:
            jitted(assign_shifted, x)
        else:
            with pytest.raises(ValueError, match="read-only"):
                jitted(assign_shifted, x)
    assert jitted.how == ["plain", "trace", "step", "step", "plain", "step"]


def test_exceptions_midway() -> None:
    def make() -> tuple[Any, Any]:
        state = {"w": np.zeros(2)}

        def f(x: Any) -> Any:
            x += 1.0
            state["w"] = x * 2.0
            if x[0] > 1.0:
                raise RuntimeError("too large")
            x[0] = x[5] if x[1] > 1.0 else 3.0
            return x

        return f, state

    check(make, *[(np.array(pair),) for pair in [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.0, 0.0), (2.0, 0.0)]],
          how="step")


def test_a_decision_inside_of_a_step_leaves_nothing_behind() -> None:
    def make() -> tuple[Any, Any]:
        state = {"w": np.zeros(2)}

        def f(x: Any) -> Any:
            state["w"] += x
            if np.sum(x) > 0.0:
                x *= 2.0
            return x

        return f, state

    jitted = check(make, *[(np.array([a, 1.0]),) for a in (1.0, 2.0, -3.0, -4.0, 5.0)], how="trace")
    assert jitted.how == ["trace", "step", "trace", "step", "trace"]


def test_what_cannot_be_traced_is_undone() -> None:
    def make() -> tuple[Any, Any]:
        state: dict[str, Any] = {"w": np.zeros(2), "n": [1]}

        def f(x: Any) -> Any:
            state["w"] += 1.0
            state["n"].append(2)
            state["v"] = x
            x.resize((4,), refcheck=False)
            return x

        return f, state

    check(make, *inputs((2,)), how="plain")


class Layer:
    def __init__(self, scale: float) -> None:
        self.W, self.seen, self.calls = np.full((3, 3), scale), None, deque([0])

    def __call__(self, x: Any) -> Any:
        self.seen = x @ self.W
        return np.tanh(self.seen)


def test_modules_in_a_list_that_keep_what_they_have_seen() -> None:
    def make() -> tuple[Any, Any]:
        layers = [Layer(0.1), Layer(0.2)]

        def f(x: Any) -> Any:
            for layer in layers:
                x = layer(x)
            for layer in layers:
                layer.W -= 0.1 * np.outer(layer.seen, layer.seen)
            return x

        return f, layers

    assert check(make, *inputs((3,), n=5)).how[:3] == ["trace", "trace", "step"]  # the first call changes types


def test_containers_that_cannot_be_watched() -> None:
    def make() -> tuple[Any, Any]:
        queue, rng = deque([np.zeros(2)]), np.random.default_rng(5)

        def f(x: Any) -> Any:
            queue.append(x * rng.normal())
            x += 1.0
            return queue[0]

        return f, [queue[0]]

    check(make, *inputs((2,)), how="plain")


class Model:
    def __init__(self) -> None:
        self._w, self.rate, self.steps = np.ones((3, 3)), 0.1, 0

    @property
    def weights(self) -> Any:
        return self._w

    @weights.setter
    def weights(self, value: Any) -> None:
        self._w = value


def test_properties_and_gradients_of_gradients() -> None:
    def make() -> tuple[Any, Any]:
        model = Model()

        def penalty(W: Any, x: Any) -> Any:
            return np.sum(grad(lambda x: np.sum(np.tanh(W @ x)), x)[1][0] ** 2)

        def f(x: Any) -> Any:
            value, (dW, dx) = grad(penalty, model.weights, x)
            model.weights = model.weights - model.rate * dW
            model.rate *= 0.9
            model.steps += 1
            return value, dx, model.weights[0]

        return f, model

    check(make, *inputs((3,), n=5))


def test_an_index_out_of_bounds_and_a_matrix_that_cannot_be_inverted() -> None:
    def make() -> tuple[Any, Any]:
        state = {"A": np.zeros((2, 2))}

        def f(x: Any, i: Any) -> Any:
            state["A"][0, 0] += x[0]
            state["A"][i] += x
            inverse = np.linalg.inv(state["A"] + np.diag(x))
            state["A"] += 1.0
            return inverse

        return f, state

    pairs = [((1.0, 2.0), 0), ((1.0, 2.0), 1), ((1.0, 2.0), 0), ((1.0, 2.0), 3), ((2.0, 2.0), 1), ((0.0, 0.0), 1)]
    check(make, *[(np.array(x), np.array([i])) for x, i in pairs])


def swap_attributes(state: Any, x: Any) -> Any:
    state.a, state.b = state.b, state.a
    state.a += x
    return state.b


def keep_the_last(state: Any, x: Any) -> Any:
    state.b = state.a
    state.a = state.a * 0.5 + x
    return state.b


def list_of_new_ones(state: Any, x: Any) -> Any:
    value, (da, db, _) = grad(lambda a, b, x: np.sum((a * x + b) ** 2), state.a, state.b, x)
    state.pair = [p - 0.1 * dp for p, dp in zip(state.pair, (da, db), strict=True)]
    state.both = (state.pair[0], state.both[0] + x)
    return value, state.both


def swap_items(state: Any, x: Any) -> Any:
    d = state.nested
    d["a"], d["b"] = d["b"], d["a"]
    d["a"]["w"] = d["a"]["w"] * x
    return d["b"]


def shared_by_two(state: Any, x: Any) -> Any:
    for name in state.model:
        state.model[name] = state.model[name] - 0.1 * state.params[name] * x
    return np.sum(state.params["w"])


def whole_numbers(state: Any, x: Any) -> Any:
    state.n += 1
    state.n[0] += state.n[1]
    state.m |= x > 0
    state.z += x * 1j
    return state.n * 2, ~state.m, state.z.imag


def at_traced_positions(state: Any, x: Any) -> Any:
    state.table[np.argmin(x)] += 1.0
    return state.table[np.argmax(x)], state.table[np.argmax(x), 1:]


class Bag:
    def __init__(self) -> None:
        self.a, self.b = np.ones(3), np.zeros(3)
        self.pair, self.both = [np.ones(3), np.zeros(3)], (np.ones(3), np.zeros(3))
        self.nested = {"a": {"w": np.ones(3)}, "b": {"w": np.full(3, 2.0)}}
        self.model = self.params = {"w": np.ones(3), "v": np.zeros(3)}
        self.n, self.m, self.z = np.zeros(3, int), np.zeros(3, bool), np.zeros(3, complex)
        self.table = np.ones((3, 3))


@pytest.mark.parametrize("f", [
    swap_attributes, keep_the_last, list_of_new_ones, swap_items, shared_by_two, whole_numbers, at_traced_positions,
])  # fmt: skip
def test_rebound_places(f: Any) -> None:
    def make() -> tuple[Any, Any]:
        state = Bag()
        return (lambda x: f(state, x)), state

    check(make, *inputs((3,), n=6))


def test_strings_sets_generators_and_subclasses() -> None:
    def generated(x: Any) -> Any:
        x += 1.0
        yield x

    jitted = Jitted()
    x = np.zeros(2)
    assert next(jitted(generated, x)) is x and x[0] == 1.0
    names = np.array(["a", "b"])
    check(stateless(lambda names, x: names[0] + str(x.shape)), *[(names, np.zeros(2))] * 3, how="plain")
    matrix = np.ma.masked_array(np.ones(2), [True, False])
    assert jitted(lambda m: m.sum(), matrix) == 1.0
