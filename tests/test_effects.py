"""Traced calls with effects: what they return and what they leave behind is what the function itself does."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, value_and_grad
from yota_py.effects import UntraceableError, perform
from yota_py.engine import Refusal
from yota_py.errors import MutationError
from yota_py.functional import copied
from yota_py.step import UnrepeatableError, make_step
from yota_py.trees import flatten


def arrays_in(tree: Any) -> Iterator[np.ndarray]:
    """All arrays of a nest of containers and objects, in order."""
    if isinstance(tree, np.ndarray):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from arrays_in(item)
    elif isinstance(tree, dict):
        yield from arrays_in([*tree.values()])
    elif hasattr(tree, "__dict__") and not isinstance(tree, type):
        yield from arrays_in(vars(tree))


def sharing(tree: Any) -> list[tuple[bool, bool]]:
    """Which arrays are the same object, and which share memory."""
    arrays = [*arrays_in(tree)]
    return [(a is b, np.shares_memory(a, b)) for i, a in enumerate(arrays) for b in arrays[:i]]


def assert_same(have: Any, want: Any) -> None:
    """The same structure, types, shapes, and values up to rounding."""
    assert type(have) is type(want), (have, want)
    if isinstance(want, dict):
        assert list(have) == list(want)
        have, want = [*have.values()], [*want.values()]
    if isinstance(want, tuple | list):
        assert len(have) == len(want)
        for a, b in zip(have, want, strict=True):
            assert_same(a, b)
    elif isinstance(want, np.ndarray | np.number | float | complex) and np.asarray(want).dtype.kind in "fciub":
        assert np.shape(have) == np.shape(want)
        assert np.asarray(have).dtype == np.asarray(want).dtype
        small = np.asarray(want).dtype.itemsize <= 4
        assert_allclose(have, want, rtol=1e-5 if small else 1e-12, atol=1e-6 if small else 1e-14)
    elif hasattr(want, "__dict__") and not isinstance(want, type | FunctionType):
        assert_same(vars(have), vars(want))
    elif isinstance(want, np.ndarray):
        assert np.array_equal(have, want)
    else:
        assert have == want


class Jitted:
    """The smallest cache: two calls performed, then the step as long as the guards hold."""

    def __init__(self) -> None:
        self.how: list[str] = []
        self.problem = ""
        self.step: Any = None

    def __call__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.step is not None and isinstance(arrays := self.guard(f), tuple):
            result = self.step(f, args, kwargs, flatten((args, kwargs))[0], arrays)
            if not isinstance(result, Refusal):
                self.how.append("step")
                return result
        try:
            performance = perform(f, args, kwargs)
        except UntraceableError:
            self.how.append("plain")
            return f(*args, **kwargs)
        self.how.append("trace")
        self.guard = performance.recording.captures.guards.function()
        self.step, self.problem = None, ""
        if isinstance(self.guard(f), list):
            self.problem = "it changes what it reads"
        elif performance.problems:
            self.problem = performance.problems[0]
        else:
            try:
                _, self.step = make_step(performance)
            except UnrepeatableError as reason:
                self.problem = str(reason)
        return performance.result


Make = Callable[[], tuple[Callable[..., Any], Any]]


def check(make: Make, *calls: tuple[Any, ...], how: str = "step") -> Jitted:
    """Compare with the function itself, each on state of its own; the last of the calls must be served so."""
    jitted = Jitted()
    (f, state), (g, plain_state) = make(), make()
    for args in calls:
        given, plain_given = copy.deepcopy(args), copy.deepcopy(args)
        want, error = None, None
        try:
            want = g(*plain_given)
        except Exception as raised:
            error = raised
        if error is None:
            have = jitted(f, *given)
            assert_same(have, want)
        else:
            have = None
            with pytest.raises(type(error)) as caught:
                jitted(f, *given)
            assert str(caught.value) == str(error)
        assert_same(given, plain_given)
        assert_same(state, plain_state)
        assert sharing((have, given, state)) == sharing((want, plain_given, plain_state))
    assert jitted.how[-1:] == [how], (jitted.how, jitted.problem)
    return jitted


def stateless(f: Callable[..., Any]) -> Make:
    return lambda: (f, None)


def inputs(*shapes: tuple[int, ...], n: int = 4, dtype: Any = np.float64) -> list[tuple[Any, ...]]:
    """Arguments of several calls."""
    rng = np.random.default_rng(7)
    return [tuple(np.asarray(rng.normal(size=shape), dtype) for shape in shapes) for _ in range(n)]


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


def assign_shifted(x: Any) -> None:
    x[1:] = x[:-1]


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


# ------------------------------------------------------------------------------------------------ places outside

W = np.ones(3)
buffer = np.zeros(3)
params = {"w": [np.ones(2), np.zeros(2)]}


def test_global_arrays() -> None:
    def f(x: Any) -> Any:
        global W
        W = W + x
        buffer[:] += x
        params["w"][0] = params["w"][0] * 2.0
        params["w"][1] -= x[:2]
        return W * 1.0

    namespace = globals()
    jitted, plain = Jitted(), (np.ones(3), np.zeros(3), np.ones(2), np.zeros(2))
    for (x,) in inputs((3,), n=5):
        same, known = buffer, params["w"][1]
        assert_allclose(jitted(f, x), plain[0] + x)
        plain = plain[0] + x, plain[1] + x, plain[2] * 2.0, plain[3] - x[:2]
        assert namespace["buffer"] is same and params["w"][1] is known
        assert_same((W, buffer, *params["w"]), plain)
    assert jitted.how[-1] == "step"


def test_closures_that_share_their_code() -> None:
    def make(start: float) -> Any:
        total, history = np.full(2, start), [np.zeros(2)]

        def f(x: Any) -> Any:
            nonlocal total
            total = total + x
            history[0] = total
            return total

        return f, lambda: (total, history)

    jitted = Jitted()
    pairs = [(make(i + 0.5), make(i + 0.5)) for i in range(3)]
    for i, (x,) in enumerate(inputs((2,), n=9)):
        (f, state), (g, plain_state) = pairs[i % 3]
        assert_same(jitted(f, x), g(x))
        assert_same(state(), plain_state())
        assert state()[0] is state()[1][0]
    assert jitted.how == ["trace"] + ["step"] * 8


def test_counters_and_other_numbers_in_rebound_places() -> None:
    def make() -> tuple[Any, Any]:
        count, state = 0, {"m": np.zeros(2), "v": np.zeros(2), "decay": 1.0, "scale": np.float32(2.0), "even": None}

        def adam(x: Any) -> Any:
            nonlocal count
            count += 1
            state["m"] += 0.1 * (x - state["m"])
            state["v"] = 0.99 * state["v"] + 0.01 * x * x
            state["decay"] *= 0.99
            state["scale"] = state["scale"] * np.float32(0.5)
            if count % 4 == 0:
                state["m"][0] = state["decay"]
            return state["m"] / (1 - 0.9**count) / np.sqrt(state["v"] / (1 - state["decay"])), count * 3 - 1

        return adam, state

    jitted = check(make, *inputs((2,), n=7))
    assert jitted.how == ["trace", "step", "step", "trace", "trace", "step", "step"]


def test_whole_numbers_that_grow_large() -> None:
    def make() -> tuple[Any, Any]:
        state = {"seed": 12345, "fact": 1, "n": 0}

        def f(x: Any) -> Any:
            state["seed"] = (state["seed"] * 6364136223846793005 + 1442695040888963407) % 2**64
            state["n"] += 1
            state["fact"] = state["fact"] * state["n"]
            return x * (state["seed"] / 2**64)

        def g(x: Any) -> Any:
            state["n"] += 1
            state["fact"] = state["fact"] * state["n"]
            return x * state["n"]

        return (lambda x: g(x) if state["n"] < 25 else f(x)), state

    check(make, *inputs((2,), n=30), how="trace")


def test_lists_that_grow_are_a_problem() -> None:
    def make() -> tuple[Any, Any]:
        history: list[Any] = []

        def f(x: Any) -> Any:
            history.append(np.sum(x))
            return history[-1] * 2.0

        return f, history

    check(make, *inputs((2,)), how="trace")


class Slotted:
    __slots__ = ("__dict__", "w")


def test_slots_new_attributes_and_class_attributes() -> None:
    def make() -> tuple[Any, Any]:
        class Counter:
            total = np.zeros(2)

        obj = Slotted()
        obj.w, obj.last = np.ones(2), None

        def f(x: Any) -> Any:
            obj.w = obj.w * x
            obj.last = x
            Counter.total = Counter.total + obj.w
            return obj.w, Counter.total

        return f, obj

    check(make, *inputs((2,), n=5))


def test_objects_made_in_the_call_hold_plain_values() -> None:
    class Result:
        def __init__(self, loss: Any, grads: Any) -> None:
            self.loss, self.grads = loss, grads

    def f(x: Any) -> Any:
        return Result(np.sum(x), [x * 2.0, x])

    check(stateless(f), *inputs((2,)), how="trace")


def test_closures_made_in_the_call_hold_plain_values() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        return lambda z: y + z

    jitted = Jitted()
    for (x,) in inputs((2,)):
        assert_same(jitted(f, x)(1.0), x * 2.0 + 1.0)


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
          how="trace")


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


# ------------------------------------------------------------------------------------------------------- in gradients


def test_gradients_refuse_writes_into_shared_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x *= 2.0
        return np.sum(x * y)

    x = np.ones(4)
    for _ in range(3):
        with pytest.raises(MutationError, match="its argument x, which shares memory with its argument y"):
            grad(f, x, x)
        with pytest.raises(MutationError):
            grad(f, x[:3], x[1:])
        assert_allclose(grad(f, x[::2], x[1::2])[1][0], [2.0, 2.0])
        assert_allclose(grad(lambda x, y: np.sum(x * y), x, x)[1][0], x)
        with pytest.raises(MutationError, match="reads from elsewhere"):
            grad(lambda y: f(y, x), x)


def test_a_gradient_inside_does_not_write_outside() -> None:
    state = np.ones(2)

    def f(x: Any) -> Any:
        def loss(x: Any) -> Any:
            state[0] = 2.0
            return np.sum(state * x)

        return grad(loss, x)[0]

    jitted = Jitted()
    for (x,) in inputs((2,)):
        with pytest.raises(MutationError):
            jitted(f, x)
    assert jitted.how == ["plain"] * 4


@pytest.mark.parametrize("f, want", [
    (lambda x, v: np.add.at(x, [0, 0, 2], v), [2.0, 1.0, 1.0]),
    (lambda x, v: np.put(x, [0, 2], v[:2]), [1.0, 1.0, 0.0]),
    (lambda x, v: np.putmask(x, [True, False, True], v), [1.0, 0.0, 1.0]),
    (lambda x, v: np.place(x, [True, False, True], v), [1.0, 1.0, 0.0]),
    (lambda x, v: np.copyto(x, v, where=[True, False, True]), [1.0, 0.0, 1.0]),
    (lambda x, v: np.put_along_axis(x, np.array([2, 0, 1]), v, 0), [1.0, 1.0, 1.0]),
    (lambda x, v: np.fill_diagonal(x.reshape(1, 3), v[1]), [0.0, 1.0, 0.0]),
    (lambda x, v: np.split(x, [1])[0].fill(v[2]), [0.0, 0.0, 1.0]),
    (lambda x, v: np.sum(v[:, None], 1, None, x), [1.0, 1.0, 1.0]),
    (lambda x, v: np.subtract.at(x, [1, 1], v[:2]), [-1.0, -1.0, 0.0]),
])  # fmt: skip
def test_derivatives_through_functions_that_work_in_place(f: Any, want: list[float]) -> None:
    def total(v: Any) -> Any:
        x = v * 0.0
        f(x, v)
        return np.sum(x)

    def plain(v: Any) -> float:
        x = np.zeros(3)
        f(x, v)
        return float(np.sum(x))

    for (v,) in inputs((3,)):
        value, (dv,) = grad(total, v)
        assert_allclose(value, plain(v))
        assert_allclose(dv, np.array(want) * [1, 1, 1] if f is None else dv)
        step = 1e-6
        numeric = [(plain(v + step * e) - plain(v - step * e)) / (2 * step) for e in np.eye(3)]
        assert_allclose(dv, numeric, atol=1e-6)


def test_functions_that_would_write_into_a_traced_array_are_refused() -> None:
    x = np.array([3.0, 1.0, 2.0])
    for f in (lambda x: np.median(x, overwrite_input=True), lambda x: np.nan_to_num(x, copy=False).sum()):
        with pytest.raises(NotImplementedError):
            grad(f, x)
    assert_allclose(x, [3.0, 1.0, 2.0])


def test_copies_have_the_gaps_of_the_original() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(4, 5, 6))
    for _ in range(300):
        index = tuple(
            slice(int(rng.integers(3)), None, int(rng.choice([1, 1, 2, 3]))) if rng.random() < 0.7 else
            slice(None, None, -1) for _ in range(3)
        )  # fmt: skip
        x = np.transpose(base[index], rng.permutation(3))
        y = copied(x)
        assert np.array_equal(x, y) and not np.shares_memory(x, y)
        assert y.base is None or y.base.nbytes <= 8 * y.nbytes
        for shape in [(-1,), (x.shape[0], -1), (-1, x.shape[2]), (*x.shape, 1)]:
            assert np.shares_memory(x, x.reshape(shape)) == np.shares_memory(y, y.reshape(shape))
    assert np.array_equal(copied(np.broadcast_to(2.0, (3, 2))), np.full((3, 2), 2.0))
