"""``jit`` under the cache: results, effects, policy and explanations as those of the function itself."""

from __future__ import annotations

import copy
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from yota_py import config, errors, explain, grad, jit, trace, value_and_grad
from yota_py.cache import functions as cache
from yota_py.cache import policy

RATE = 0.1
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RATE", 0.1)


class Network:
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.W, self.b = rng.normal(size=(3, 2)), np.zeros(2)
        self.momentum, self.t, self.last = np.zeros((3, 2)), 0, 0.0

    def loss(self, W: Any, b: Any, X: Any, y: Any) -> Any:
        return np.mean((np.tanh(X @ W + b) - y) ** 2)

    def step(self, X: Any, y: Any) -> Any:
        self.t += 1
        loss, (dW, db) = value_and_grad(self.loss, (0, 1))(self.W, self.b, X, y)
        self.momentum = 0.9 * self.momentum + 0.1 * dW
        self.W -= RATE / (1 - 0.9**self.t) * self.momentum
        self.b -= RATE * db
        if loss > 0.5:
            self.W *= 0.99
        self.last = loss
        return loss


def data(n: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


def test_a_training_step_of_an_object() -> None:
    compiled, plain = Network(), Network()
    step = jit(Network.step)
    for i in range(12):
        globals()["RATE"] = 0.3 / (1 + i)
        X, y = data(8 if i < 9 else 5)
        W = compiled.W
        assert type(step(compiled, X, y)) is np.float64
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "compile", "never")
            plain.step(X, y)
        assert compiled.W is W, "written in place"
        for name, want in vars(plain).items():
            have = getattr(compiled, name)
            assert type(have) is type(want)
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-15)
    (told,) = explain(step)
    assert told.calls >= 8 and told.purpose == "jit", str(told)
    assert any("RATE" in read for entry in told.entries for read in entry.captured), "a number that changes is an input"


def test_another_object_of_the_class() -> None:
    step = jit(Network.step)
    for _ in range(3):
        network, plain = Network(), Network()
        for _ in range(4):
            step(network, *data())
            plain.step(*data())
            np.testing.assert_allclose(network.W, plain.W, rtol=1e-12)


@pytest.mark.default_policy
def test_compiled_when_calls_have_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def f(x: Any) -> Any:
        x *= 2.0
        return np.sum(x)

    monkeypatch.setattr(policy.price, "of", lambda operations: 4.0)
    seconds = iter(range(1000))
    monkeypatch.setattr(cache, "perf_counter", lambda: next(seconds))
    for i in range(10):
        x = np.ones(3) + i
        assert f(x) == 6 * (1 + i)
        np.testing.assert_array_equal(x, np.full(3, 2.0 * (1 + i)))
    assert 3 <= explain(f)[0].misses <= 6 and explain(f)[0].calls == 10 - explain(f)[0].misses


@pytest.mark.default_policy
def test_compile_on_request_and_never(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def f(x: Any) -> Any:
        return x * 3.0

    f.compile(2.0)
    assert [f(float(i)) for i in range(4)] == [0.0, 3.0, 6.0, 9.0] and explain(f)[0].calls == 4
    monkeypatch.setattr(config, "compile", "never")
    assert f(5.0) == 15.0 and explain(f)[0].calls == 4


@pytest.mark.filterwarnings("default")
def test_what_cannot_be_compiled_is_called() -> None:
    @jit
    def timed(x: Any) -> Any:
        x += time.time_ns()
        return x

    @jit
    def growing(x: Any, seen: list[float]) -> int:
        seen.append(float(np.sum(x)))
        return len(seen)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x, seen = np.zeros(2), []
        values = {tuple(timed(x)) for _ in range(4)}
        assert [growing(np.ones(2) * i, seen) for i in range(4)] == [1, 2, 3, 4]
    assert len(values) == 4 and seen == [0.0, 2.0, 4.0, 6.0]
    assert [str(w.message).partition(",")[0] for w in caught] == [
        f"{name} is called as it is at each call" for name in ("timed", "growing")
    ]
    assert "it calls time_ns" in explain(timed)[0].problems[0]
    with pytest.raises(errors.CompileError, match="items of a list"):
        growing.compile(np.ones(2), [])


def test_exceptions_of_the_function() -> None:
    @jit
    def f(x: Any, limit: float) -> Any:
        x[0] += 1.0
        if x[0] > limit:
            raise ValueError("too much")
        x[1] += 1.0
        return x

    x = np.zeros(2)
    for i in range(4):
        assert f(x, 10.0) is x
        with pytest.raises(ValueError, match="too much"):
            f(x, 0.0)
        np.testing.assert_array_equal(x, [2.0 * i + 2, i + 1.0])
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        f(x)
    with pytest.raises(TypeError, match="jit wants a function; got float"):
        jit(3.0)  # type: ignore[arg-type]


def test_overlapping_and_read_only_arguments() -> None:
    @jit
    def add(x: Any, y: Any) -> None:
        x += y

    base, plain = np.arange(6.0), np.arange(6.0)
    first, second, last = slice(0, 3), slice(1, 4), slice(3, 6)
    for i, (a, b) in enumerate([(first, last), (first, second), (second, first)] * 3):
        add(base[a], base[b])
        plain[a] += plain[b]
        np.testing.assert_array_equal(base, plain, err_msg=str(i))
        add(base[:3], base[:3])
        plain[:3] += plain[:3]
        np.testing.assert_array_equal(base, plain)
    assert "arrays that are written overlap" in explain(add)[0].last_miss
    base.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            add(base[:3], np.ones(3))


def test_of_a_differentiated_function_and_inside_of_one() -> None:
    both = jit(value_and_grad(lambda x: np.sum(x**2)))

    @jit
    def square(x: Any) -> Any:
        return x * x

    for i in range(4):
        value, g = both(np.ones(2) + i)
        assert value == 2 * (1 + i) ** 2
        np.testing.assert_array_equal(g, np.full(2, 2.0 + 2 * i))
        assert grad(lambda x: square(x) * x, 1.0 + i) == ((1.0 + i) ** 3, (3 * (1.0 + i) ** 2,))
        assert len(trace(square, 2.0)) == 2
    assert explain(both)[0].calls == 3


def test_methods_static_arguments_and_keywords() -> None:
    class Scaler:
        factor = 2.0

        @jit
        def scale(self, x: Any, power: int = 1, *, shift: Any = 0.0) -> Any:
            return self.factor * x**power + shift

    scaler = Scaler()
    for i in range(3):
        assert scaler.scale(1.0 + i) == 2.0 * (1.0 + i)
        assert scaler.scale(1.0 + i, 2) == 2.0 * (1.0 + i) ** 2
        assert scaler.scale(1.0 + i, power=3, shift=0.5) == 2.0 * (1.0 + i) ** 3 + 0.5
    Scaler.factor = 3.0
    assert scaler.scale(2.0) == 6.0
    scaler.factor = 5.0
    assert [scaler.scale(2.0) for _ in range(3)] == [10.0] * 3


def test_checked_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    step, network, plain = jit(Network.step), Network(), Network()
    for _ in range(3):
        step(network, *data())
        plain.step(*data())
    monkeypatch.setattr(config, "check", True)
    for _ in range(4):
        step(network, *data())
        plain.step(*data())
        np.testing.assert_allclose(network.W, plain.W, rtol=1e-12)
        assert network.t == plain.t
    assert explain(step)[0].calls >= 6


def test_threads() -> None:
    @jit
    def f(x: Any, out: Any) -> Any:
        out[...] = np.cumsum(np.tanh(x) * 2.0)
        return np.sum(out)

    failures: list[Any] = []

    def work(k: int) -> None:
        for i in range(30):
            x, out = np.linspace(0, k + 1, 20) + i, np.zeros(20)
            value = f(x, out)
            want = np.cumsum(np.tanh(x) * 2.0)
            if not (np.allclose(out, want) and np.isclose(value, np.sum(want))):
                failures.append((k, i))

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(work, range(4))]
    assert not failures and explain(f)[0].calls > 60


def test_arguments_are_not_kept_or_copied_over() -> None:
    @jit
    def f(params: dict[str, Any], x: Any) -> Any:
        params["n"] = params["n"] + 1
        params["w"] = params["w"] - 0.5 * x
        return params

    params, plain = {"w": np.ones(2), "n": 0.0}, {"w": np.ones(2), "n": 0.0}
    before = copy.deepcopy(params["w"])
    kept = params["w"]
    for i in range(4):
        assert f(params, np.ones(2) * i) is params
        plain = {"w": plain["w"] - 0.5 * np.ones(2) * i, "n": plain["n"] + 1}
        np.testing.assert_array_equal(params["w"], plain["w"])
        assert params["n"] == plain["n"]
    np.testing.assert_array_equal(kept, before)


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


SETTINGS = [Settings(1.0), Settings(2.0)]
CURRENT = SETTINGS[0]


def test_a_global_name_that_is_rebound_before_it_is_read() -> None:
    @jit
    def f(x: Any) -> Any:
        global CURRENT
        CURRENT = SETTINGS[1]
        y = x * CURRENT.rate
        CURRENT = SETTINGS[0]
        return y

    for i in range(4):
        assert f(1.0 + i) == 2.0 * (1 + i)
    SETTINGS[1].rate = 5.0
    for i in range(4):
        assert f(1.0 + i) == 5.0 * (1 + i)
