"""What is made of functions, within what is made of functions: wherever it stands, and after a journey."""

from __future__ import annotations

import functools
import pickle
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import journeys
import numpy as np
import pytest

from yota_py import config, explain, grad, gradient, gradtape, jit, pullback, trace, value_and_grad

X, P = np.arange(3.0), np.ones(3)
Make = Callable[[Any], Any]

TRAVELS: dict[str, Make] = {
    "fresh": lambda f: f,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
    "cloudpickle": lambda f: cloudpickle.loads(cloudpickle.dumps(f)),
}


def by_name(fast: Any) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"fast": fast}
    exec("def use(p, x):\n    return fast(p, x)", namespace)
    return namespace["use"]  # type: ignore[no-any-return]


def by_attribute(fast: Any) -> Callable[..., Any]:
    holder = types.SimpleNamespace(fast=fast)
    return lambda p, x: holder.fast(p, x)


def by_object(fast: Any) -> Callable[..., Any]:
    class Model:
        def __init__(self) -> None:
            self.fast = fast

        def use(self, p: Any, x: Any) -> Any:
            return self.fast(p, x)

    return Model().use


def by_class(fast: Any) -> Callable[..., Any]:
    class Model:
        run = staticmethod(fast)

    return lambda p, x: Model.run(p, x)


def by_method(fast: Any) -> Callable[..., Any]:
    class Vector:
        def __init__(self, p: Any) -> None:
            self.p = p

        def __mul__(self, x: Any) -> Any:
            return self.p * x

        run = fast  # binds

    return lambda p, x: Vector(p).run(x)


def by_container(fast: Any) -> Callable[..., Any]:
    table = {"fast": [fast]}
    return lambda p, x: table["fast"][0](p, x)


def by_partial(fast: Any) -> Callable[..., Any]:
    bound = functools.partial(fast, x=X)
    return lambda p, x: bound(p)


def by_default(fast: Any) -> Callable[..., Any]:
    return lambda p, x, fast=fast: fast(p, x)


def by_wrapper(fast: Any) -> Callable[..., Any]:
    @functools.wraps(fast)
    def wrapper(*args: Any) -> Any:
        return fast(*args)

    return wrapper


def by_argument(fast: Any) -> Callable[..., Any]:
    def use(call: Any, p: Any, x: Any) -> Any:
        return call(p, x)

    return lambda p, x: use(fast, p, x)


def itself(fast: Any) -> Callable[..., Any]:
    return fast  # type: ignore[no-any-return]


WAYS = [
    itself, by_name, by_attribute, by_object, by_class, by_container, by_partial, by_default, by_wrapper, by_argument,
]  # fmt: skip


@pytest.mark.parametrize("travel", TRAVELS)
@pytest.mark.parametrize("way", WAYS)
def test_they_serve_within_compiled_functions(way: Any, travel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "check", True)
    made = {
        "value_and_grad": (value_and_grad(journeys.loss), (5.0, 2 * P * X * X)),
        "gradient": (gradient(journeys.loss), 2 * P * X * X),
        "jit": (jit(journeys.loss), 5.0),
    }
    for name, (fast, want) in made.items():
        use = way(TRAVELS[travel](fast))
        outer = jit(use)
        outer.compile(P, X)
        for _ in range(2):
            np.testing.assert_equal(outer(P, X), want)
        assert explain(outer)[0].entries, (name, explain(outer)[0].problems)
        np.testing.assert_equal(trace(use, P, X).play(P, X), want)


@pytest.mark.parametrize("travel", TRAVELS)
@pytest.mark.parametrize("way", WAYS)
def test_they_serve_within_gradients(way: Any, travel: str) -> None:
    use = way(TRAVELS[travel](jit(journeys.loss)))
    slope = way(TRAVELS[travel](gradient(journeys.loss)))
    for _ in range(3):
        np.testing.assert_equal(grad(use, P, X)[1][0], 2 * P * X * X)
        np.testing.assert_equal(gradient(lambda p, x: np.sum(slope(p, x)))(P, X), 2 * X * X)
    grad.compile(use, P, X)
    np.testing.assert_equal(grad(use, P * 2, X)[1][0], 4 * P * X * X)
    np.testing.assert_equal(pullback(use, P, X)[1](1.0)[0], 2 * P * X * X)
    assert "multiply" in str(gradtape(use, P, X))


def test_a_method_of_a_class_that_it_was_given() -> None:
    use = by_method(jit(lambda self, x: np.sum((self * x) ** 2)))
    np.testing.assert_equal(use(P, X), 5.0)
    np.testing.assert_equal(jit(use)(P, X), 5.0)
    np.testing.assert_equal(gradient(use)(P, X), 2 * P * X * X)


fast: Any = None


def uses_global(p: Any) -> Any:
    return fast(p)


@pytest.mark.parametrize("outer", [jit, lambda f: value_and_grad(lambda p: f(p) * 1.0)])
def test_another_one_under_the_same_name(outer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    square, cube = lambda p: np.sum(p * p), lambda p: np.sum(p * p * p)
    use = outer(uses_global)
    results = []
    for made in (jit(square), jit(cube), square, gradient(np.sum) if outer is jit else jit(square), jit(square)):
        monkeypatch.setitem(globals(), "fast", made)
        got = use(P * 2.0)
        results.append(got if outer is jit else got[0])
        np.testing.assert_equal(results[-1], made(P * 2.0))
    for made in (value_and_grad(square), value_and_grad(cube)):
        monkeypatch.setitem(globals(), "fast", lambda p, made=made: np.sum(made(p)[1]))
        got = use(P * 2.0)
        np.testing.assert_equal(got if outer is jit else got[0], np.sum(made(P * 2.0)[1]))


def test_another_transform_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    use = jit(lambda p, x: fast(p, x))
    for transform in (lambda f: value_and_grad(f, 1), value_and_grad, gradient, lambda f: gradient(f, (0, 1)), jit) * 2:
        monkeypatch.setitem(globals(), "fast", transform(journeys.loss))
        for _ in range(2):
            np.testing.assert_equal(use(P * 2.0, X), fast(P * 2.0, X))


@pytest.mark.parametrize("travel", TRAVELS)
def test_static_variables(travel: str) -> None:
    step = TRAVELS[travel](value_and_grad(journeys.loss))
    step.count, step.total = 0, np.zeros(3)

    @jit
    def outer(p: Any) -> Any:
        step.count += 1
        step.total = step.total + p
        return step(p, X)[1] * step.count

    outer.compile(P)
    for i in range(2, 5):
        np.testing.assert_equal(outer(P), 2 * P * X * X * i)
        assert step.count == i
        np.testing.assert_equal(step.total, P * i)
    step.count = 10
    np.testing.assert_equal(outer(P), 2 * P * X * X * 11)


def test_they_are_made_and_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")

    @jit
    def make(p: Any) -> Any:
        return value_and_grad(lambda x: np.sum(p * x))

    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_equal(make(P * scale)(X), (3.0 * scale, P * scale))
    known = value_and_grad(journeys.loss)
    known.n = 0

    @jit
    def another(p: Any) -> Any:  # with a cache that is there already
        known.n += 1
        return value_and_grad(journeys.loss)

    for i in range(3):
        np.testing.assert_equal(another(P)(P, X), known(P, X))
        assert known.n == i + 1
    assert explain(another)[0].problems == ("it hands out loss, which it has not made",)
    assert "known: function loss" in str(explain(another))
    holder = types.SimpleNamespace(fast=None)

    @jit
    def store(p: Any) -> Any:
        holder.fast = jit(lambda x: p * x)
        return p * 2.0

    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_equal(store(P * scale), P * scale * 2.0)
        np.testing.assert_equal(holder.fast(X), P * scale * X)


def test_they_hold_no_traced_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")

    @jit
    def make(p: Any) -> Any:
        return value_and_grad(functools.partial(journeys.loss, x=p * 2.0))

    for scale in (1.0, 2.0):
        made = make(P * scale)
        np.testing.assert_equal(made(P), (12.0 * scale**2, 8.0 * P * scale**2))
        np.testing.assert_equal(pickle.loads(pickle.dumps(made))(P), made(P))
    kept = []

    def loss(p: Any) -> Any:
        kept.append(value_and_grad(journeys.loss))
        kept[-1].held = [p * 2.0]
        return np.sum(p * p)

    grad(loss, P)
    np.testing.assert_equal(pickle.loads(pickle.dumps(kept[-1])).held, [P * 2.0])


@pytest.mark.parametrize("name", ["func", "args", "keywords", "count", "__name__", "__doc__", "_fn_"])
def test_attributes_may_have_any_names(name: str) -> None:
    step: Any = jit(lambda x: x * vars(step).get(name, 1.0))
    setattr(step, name, 3.0)
    assert getattr(step, name) == 3.0
    assert getattr(pickle.loads(pickle.dumps(with_attribute(name))), name) == 3.0
    assert step(2.0) == 6.0
    delattr(step, name)
    assert name.startswith("__") or step(2.0) == 2.0


def with_attribute(name: str) -> Any:
    made = jit(journeys.loss)
    setattr(made, name, 3.0)
    return made


def test_they_stand_where_functions_do() -> None:
    class Model:
        rate = 3.0

        @classmethod
        @jit
        def of_class(cls, x: Any) -> Any:
            return x * cls.rate

        @property
        @jit
        def of_object(self) -> Any:
            return self.rate * 2.0

    assert (Model.of_class(2.0), Model().of_class(2.0), Model().of_object) == (6.0, 6.0, 6.0)
    assert jit(lambda x: Model.of_class(x) + Model().of_object)(2.0) == 12.0
    np.testing.assert_equal(np.vectorize(gradient(journeys.cube))([1.0, 2.0]), [3.0, 12.0])
    assert jit(journeys.Trained)().w.tolist() == [1.0, 1.0, 1.0]
