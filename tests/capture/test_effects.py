"""Traced calls with effects: what they return and what they leave behind is what the function itself does."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from performing import Jitted, assert_same, assign_shifted, check, inputs, sharing, stateless

from yota_py import grad, value_and_grad

# ------------------------------------------------------------------------------------------------ training steps


class Linear:
    def __init__(self) -> None:
        self.W = np.random.default_rng(0).normal(size=(3, 2))
        self.b = np.zeros(2)
        self.momentum = {"W": np.zeros((3, 2)), "b": np.zeros(2)}
        self.last_loss = 0.0

    def loss(self, W: Any, b: Any, x: Any, y: Any) -> Any:
        return np.mean((np.tanh(x @ W + b) - y) ** 2)

    def train(self, x: Any, y: Any) -> Any:
        value, (dW, db, *_) = grad(self.loss, self.W, self.b, x, y)
        for name, g, p in (("W", dW, self.W), ("b", db, self.b)):
            self.momentum[name] *= 0.9
            self.momentum[name] += g
            p -= 0.1 * self.momentum[name]
        self.last_loss = value
        return value

    def rebind(self, x: Any, y: Any) -> Any:
        value, (dW, db, *_) = grad(self.loss, self.W, self.b, x, y)
        self.W = self.W - 0.1 * dW
        self.b, old = self.b - 0.1 * db, self.b
        return value, old


def test_a_training_step_with_buffers_updated_in_place() -> None:
    def make() -> tuple[Any, Any]:
        model = Linear()
        return model.train, model

    check(make, *inputs((4, 3), (4, 2), n=5))


def test_a_training_step_that_rebinds_attributes() -> None:
    def make() -> tuple[Any, Any]:
        model = Linear()
        return model.rebind, model

    check(make, *inputs((4, 3), (4, 2), n=5))


def test_value_and_grad_made_outside() -> None:
    both = value_and_grad(lambda w, x: np.sum((w * x) ** 2))

    def make() -> tuple[Any, Any]:
        state = {"w": np.ones(3)}

        def f(x: Any) -> Any:
            value, g = both(state["w"], x)
            state["w"] = state["w"] - 0.01 * g
            return value

        return f, state

    check(make, *inputs((3,)))


def test_the_gradient_is_an_array_of_its_own() -> None:
    def f(w: Any, v: Any) -> Any:
        _, (dw, dv) = grad(lambda w, v: np.sum(w * v), w, v)
        w *= 2.0
        return dw, dv

    check(stateless(f), *inputs((3,), (3,)))


def test_python_numbers_stay_python_numbers() -> None:
    def f(a: float, x: Any) -> Any:
        value, (da,) = grad(lambda a: a * a * 3.0, a)
        return value, da, a * 2.0, x * np.float32(1.0) * da

    check(stateless(f), *[(i + 0.5, np.ones(2, np.float32)) for i in range(4)])


# ------------------------------------------------------------------------------------------- writes into arguments


def swap(a: Any, b: Any) -> None:
    a[:], b[:] = b.copy(), a.copy()


def add_transposed(x: Any) -> Any:
    x += x.T
    return x


def views_of_views(x: Any) -> Any:
    y = x[1:].T
    z = y[:, ::2]
    z *= 2.0
    y[0] = 7.0
    x[0, 0] = -1.0
    return y, z


def fill(x: Any) -> Any:
    x[0].fill(2.0)
    x[:, 1] = 3.0
    return x[::-1]


def write_out(x: Any, y: Any) -> Any:
    return np.add(x, y, out=x), np.multiply(x, 2.0, out=y[...])


def split(x: Any, y: Any) -> Any:
    a, b = np.split(x, 2)
    a[...] = b + 1.0
    first, *_ = np.broadcast_arrays(y[:1], 0.0)
    y *= 2.0
    return a, first


def raveled(x: Any) -> Any:
    x[0] = 1.0
    flat = x.ravel()
    flat[1] = 5.0
    return flat.reshape(-1, 2)


def diagonal(x: Any) -> Any:
    np.fill_diagonal(x, 4.0)
    return np.einsum("ii->i", x) * 2.0


def scattered(x: Any) -> Any:
    np.add.at(x, [0, 0, 1], x[:3] * 2.0)
    np.subtract.at(x, [1, 1], 0.5)
    np.put(x, [2, -1], [7.0])
    np.putmask(x, np.array([True, False] * (x.shape[0] // 2)), x * 10.0)
    np.copyto(x, 9.0, where=np.arange(x.shape[0]) == 4)
    x.put([3], 2.5)
    x.sort()
    return x


def multiplied_at(x: Any) -> Any:
    np.multiply.at(x, [0, 0], 3.0)
    np.maximum.at(x, [1, 2], 0.25)
    return x


def along_axis(x: Any) -> Any:
    np.put_along_axis(x, np.argmax(x, axis=1)[:, None], 0.0, 1)
    return x


def loop(x: Any) -> Any:
    for row in x:
        row -= row.mean()
    for i in range(1, len(x)):
        x[i] += x[i - 1]
    return x[-1]


@pytest.mark.parametrize("f, shapes", [
    (assign_shifted, [(6,)]), (swap, [(3,), (3,)]), (add_transposed, [(3, 3)]), (views_of_views, [(4, 4)]),
    (fill, [(3, 4)]), (write_out, [(2, 3), (2, 3)]), (split, [(6,), (2,)]), (raveled, [(2, 4)]), (diagonal, [(3, 3)]),
    (multiplied_at, [(4,)]), (along_axis, [(3, 4)]), (loop, [(4, 3)]), (raveled, [(3, 4)]),
    (assign_shifted, [(0,)]), (fill, [(2, 2)]),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_writes_into_arguments(f: Any, shapes: list[Any], dtype: Any) -> None:
    check(stateless(f), *inputs(*shapes, dtype=dtype))


def test_scattered_writes() -> None:
    check(stateless(scattered), *inputs((6,)))

    def f(x: Any, mask: Any) -> Any:
        np.add.at(x, [0, 0, 1], x[:3] * 2.0)
        np.put(x, [2, -1], [7.0])
        np.putmask(x, mask > 0, x * 10.0)
        np.copyto(x, 9.0, where=mask < -1.0)
        x.sort()

    check(stateless(f), *inputs((6,), (6,)))


def test_a_zero_dimensional_array() -> None:
    def f(x: Any, y: Any) -> Any:
        x += y
        y[...] = 2.0 * x
        return x, y[()]

    check(stateless(f), *inputs((), ()))


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2], lambda x: x[::-1].T])
@pytest.mark.parametrize("f", [views_of_views, fill, raveled, add_transposed, loop])
def test_targets_in_any_memory_order(f: Any, layout: Any) -> None:
    jitted = Jitted()
    for (x,) in inputs((4, 4), n=4):
        given, plain = layout(x.copy()), layout(x.copy())
        want = f(plain)
        have = jitted(f, given)
        assert_same(have, want)
        assert_same(given, plain)
        assert sharing((have, given)) == sharing((want, plain))
    assert jitted.how[-1] == "step"


def test_another_memory_order_is_another_program() -> None:
    jitted = Jitted()
    for i, (x,) in enumerate(inputs((4, 4), n=8)):
        given, plain = (x.T, x.copy().T) if i % 4 == 3 else (x, x.copy())
        want = raveled(plain)
        assert_same(jitted(raveled, given), want)
        assert_same(given, plain)
    assert jitted.how == ["trace", "step", "step", "trace", "trace", "step", "step", "trace"]


# --------------------------------------------------------------------------------------------------- what is returned


def test_results_alias_what_the_function_says() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * 2.0
        both = [z, z]
        return x, x[1:], y, z, z[:2], both, {"a": both, "t": x.reshape(2, 2).T}, z.T, np.asarray(x)

    check(stateless(f), *inputs((4,), (2,)))


def test_a_view_of_a_written_argument() -> None:
    def f(x: Any) -> Any:
        v = x[::2]
        x *= 3.0
        return v, v[1:]

    check(stateless(f), *inputs((5,)))


def test_containers_are_the_callers_own() -> None:
    def f(params: Any, x: Any) -> Any:
        params["W"] = params["W"] * x
        params["layers"][1] = x
        params["b"] += 1.0
        return params

    jitted = Jitted()
    for (x,) in inputs((3,), n=5):
        args = {"W": np.ones(3), "b": np.zeros(3), "layers": [np.ones(1), None]}
        plain = copy.deepcopy(args)
        b, layers = args["b"], args["layers"]
        assert jitted(f, args, x) is args
        f(plain, x)
        assert args["b"] is b and args["layers"] is layers and layers[1] is x
        assert_same(args, plain)
    assert jitted.how[-1] == "step"


def test_the_same_container_twice_is_not_compiled_over() -> None:
    def f(p: Any, q: Any, x: Any) -> Any:
        p["w"] = x * 2.0
        return q["w"] * 1.0

    jitted = Jitted()
    for i, (x,) in enumerate(inputs((3,), n=6)):
        p, q = {"w": np.zeros(3)}, {"w": np.ones(3)}
        want = x * 2.0 if i >= 4 else np.ones(3)
        assert_same(jitted(f, p, p if i >= 4 else q, x), want)
        assert_same(p["w"], x * 2.0)
    assert jitted.how == ["trace", "step", "step", "step", "plain", "plain"]


@dataclass
class State:
    w: Any
    count: Any


def test_fields_of_a_dataclass() -> None:
    def f(state: State, x: Any) -> Any:
        state.w = state.w - x
        state.count += 1.0
        return state.w

    jitted = Jitted()
    state, plain = State(np.zeros(3), np.zeros(1)), State(np.zeros(3), np.zeros(1))
    for (x,) in inputs((3,), n=4):
        assert jitted(f, state, x) is state.w
        f(plain, x)
        assert_same(state, plain)
    assert jitted.how[-1] == "step"
