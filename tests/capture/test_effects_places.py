"""Effects in places outside of the function, and in gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from performing import Jitted, assert_same, check, inputs, stateless
from steps import runs_as_plain

from yota_py import grad
from yota_py.errors import MutationError
from yota_py.registry.writes import copied

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

    check(stateless(f), *inputs((2,)))


def test_closures_made_in_the_call_hold_plain_values() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        return lambda z: y + z

    jitted = Jitted()
    for (x,) in inputs((2,)):
        assert_same(jitted(f, x)(1.0), x * 2.0 + 1.0)


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
    with pytest.raises(NotImplementedError):
        grad(lambda x: np.median(x, overwrite_input=True), x)
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


class Private:
    __slots__ = ("__count", "gone", "made")

    def __init__(self) -> None:
        self.__count, self.gone = 0, 2.0

    def step(self, x: Any) -> Any:
        """Count, fill an empty slot, and read one that is empty at times."""
        self.__count += 1
        self.made = x * self.__count
        self.made = self.made + 1.0
        return self.made, (self.gone * x if hasattr(self, "gone") else x)


def test_slots_that_are_private_or_empty() -> None:
    def make() -> tuple[Any, Any, Any]:
        obj = Private()

        def args(i: int) -> tuple[Any, ...]:
            if i == 3:
                del obj.gone
            if i == 5:
                obj.gone = 7.0
            return (np.ones(2) * i,)

        return obj.step, args, lambda: (obj.made, hasattr(obj, "gone"))

    runs_as_plain(make, compiled=3)


def test_an_attribute_of_a_class_that_only_its_base_has() -> None:
    def make() -> tuple[Any, Any, Any]:
        class Base:
            n, w = 0, np.ones(2)

        class Derived(Base):
            pass

        def step(x: Any) -> Any:
            Derived.n += 1
            Derived.w = Derived.w * x
            return Derived.n * Derived.w

        def args(i: int) -> tuple[Any, ...]:
            if i == 3:
                del Derived.n
            if i == 5:
                Base.n = 50
                del Derived.n, Derived.w
            return (1.0 + i,)

        return step, args, lambda: (Base.n, Base.w, Derived.n, Derived.w)

    runs_as_plain(make)


def test_a_class_keeps_no_tracers_of_a_gradient() -> None:
    class Base:
        w = np.ones(2)

    class Derived(Base):
        pass

    def f(x: Any) -> Any:
        Derived.w = Derived.w + x
        return np.sum(Derived.w)

    for i in range(3):
        assert grad(f, np.ones(2))[0] == 2.0 * (i + 2)
        assert type(Derived.w) is np.ndarray
