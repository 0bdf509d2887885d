"""Derivatives in what a function reads besides its arguments."""

from __future__ import annotations

import functools
import gc
import pickle
import threading
import weakref
from collections import UserList, deque
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest

from yota_py import MutationError, NotDifferentiableError, config, explain, grad, gradient, jit, optim, value_and_grad

W, B, X = np.array([[1.0, 0.5], [-0.3, 2.0], [0.1, 0.2]]), np.array([0.1, -0.2, 0.3]), np.array([0.7, -1.1])
INTEGERS = np.arange(2)


def loss(x: np.ndarray) -> Any:
    return np.sum(np.tanh(W @ x + B) ** 2)


def explicit(w: np.ndarray, b: np.ndarray, x: np.ndarray) -> Any:
    return np.sum(np.tanh(w @ x + b) ** 2)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12)


class Model:
    def __init__(self) -> None:
        self.w, self.b, self.scale, self.name = W.copy(), B.copy(), 2.0, "model"
        self.layers: list[Any] = [np.array([1.0, 2.0, 3.0]), (np.array([0.5, 1.0, 1.5]), 1)]

    def loss(self, x: np.ndarray) -> Any:
        h = np.tanh(self.w @ x + self.b)
        return self.scale * np.sum(h * self.layers[0] * self.layers[1][0])


def of_model(model: Model, x: np.ndarray) -> Any:
    return grad(
        lambda w, b, scale, one, two: scale * np.sum(np.tanh(w @ x + b) * one * two),
        model.w, model.b, model.scale, model.layers[0], model.layers[1][0],
    )  # fmt: skip


def agrees(found: Any, model: Model, x: np.ndarray = X) -> None:
    _, (dw, db, ds, d1, d2) = of_model(model, x)
    same(found.w, dw)
    same(found.b, db)
    same([found.scale], [ds])
    same(found.layers[0], d1)
    same(found.layers[1][0], d2)
    assert found.name is None and found.layers[1][1] is None


@pytest.mark.usefixtures("every_policy")
def test_global_arrays():
    value, expected = grad(explicit, W, B, X)
    f = value_and_grad(loss, wrt=(W, B))
    for x in (X, X, 2 * X, X):
        have, (dw, db) = f(x)
        want, (ew, eb, _) = grad(explicit, W, B, x)
        same(have, want)
        same(dw, ew)
        same(db, eb)
    same(gradient(loss, wrt={"w": W})(X)["w"], expected[0])
    same(gradient(loss, wrt=W)(X), expected[0])
    same(f(X)[0], value)


@pytest.mark.usefixtures("every_policy")
def test_an_object_gives_a_mirror():
    model = Model()
    f = value_and_grad(model.loss, wrt=model)
    for _ in range(4):
        value, found = f(X)
        assert type(found) is SimpleNamespace
        same(value, model.loss(X))
        agrees(found, model)
        model.w = model.w - 0.1 * found.w  # other arrays stand there now
        model.b -= 0.1 * found.b
        model.scale -= 0.1 * found.scale
    assert type(model.w) is np.ndarray and type(model.scale) is float
    agrees(gradient(lambda m, x: m.loss(x), wrt=model)(model, X), model)


@pytest.mark.usefixtures("every_policy")
def test_a_step_that_is_compiled():
    model, other = Model(), Model()
    f = value_and_grad(model.loss, wrt=model)

    @jit
    def step(x):
        value, found = f(x)
        model.w = model.w - 0.1 * found.w
        model.scale = model.scale - 0.1 * found.scale
        return value

    for i in range(5):
        x = X * (1 + i)
        value, (dw, _, ds, *_) = of_model(other, x)
        assert step(x) == pytest.approx(value, rel=1e-12)
        other.w, other.scale = other.w - 0.1 * dw, other.scale - 0.1 * ds
        same(model.w, other.w)
        assert model.scale == pytest.approx(other.scale, rel=1e-12)
    assert not step.__yota_cache__.problems


@pytest.mark.usefixtures("every_policy")
def test_made_anew_in_each_turn():
    w = np.ones(3)
    for i in range(4):
        _, dw = value_and_grad(lambda x: np.sum(w**2 * x), wrt=w)(1.0 + i)  # noqa: B023
        same(dw, 2 * w * (1.0 + i))
        w = w - 0.1 * dw


def test_functions_made_anew_share_programs():
    def make(w, x):
        return value_and_grad(lambda x: np.sum(w**2 * x), wrt=w)

    first = make(np.ones(3), 2.0)
    for i in range(3):
        w = np.ones(3) + i
        f = make(w, 2.0)
        same(f(2.0)[1], 4 * w)
    assert f.__yota_cache__ is first.__yota_cache__
    assert len(f.__yota_cache__.signatures) == 1 and not f.__yota_cache__.problems


def test_different_parameters_of_one_function():
    of_w, of_b = gradient(loss, wrt=W), gradient(loss, wrt=B)
    for _ in range(3):
        same(of_w(X), grad(explicit, W, B, X)[1][0])
        same(of_b(X), grad(explicit, W, B, X)[1][1])


CELL = np.array([1.0, 2.0])


def with_default(x, w=CELL):
    return np.sum(w * x)


def with_keyword(x, *, w=CELL):
    return np.sum(w * x)


class Holder:
    shared = np.array([3.0, 4.0])

    def __init__(self) -> None:
        self.w = np.array([1.0, 2.0])

    def __call__(self, x):
        return np.sum(self.w * self.shared * x)

    @property
    def doubled(self):
        return 2.0 * self.w


HOLDER = Holder()


def make_closure(w):
    def inner(y):
        return np.sum(w * y)

    return lambda x: inner(x)


CLOSED = np.array([5.0, 6.0])
WAYS = {
    "default": (with_default, CELL, X),
    "keyword default": (with_keyword, CELL, X),
    "partial": (functools.partial(lambda w, x: np.sum(w * x), CELL), CELL, X),
    "partial by name": (functools.partial(lambda x, w: np.sum(w * x), w=CELL), CELL, X),
    "closure of a closure": (make_closure(CLOSED), CLOSED, X),
    "class attribute": (HOLDER, Holder.shared, HOLDER.w * X),
    "instance attribute": (HOLDER, HOLDER.w, Holder.shared * X),
    "property": (lambda x: np.sum(HOLDER.doubled * x), HOLDER.w, 2 * X),
    "bound method": (HOLDER.__call__, HOLDER.w, Holder.shared * X),
    "compiled": (jit(lambda x: np.sum(CELL * x)), CELL, X),
    "tuple of a tuple": (lambda x, w=((CELL, 1), 2): np.sum(w[0][0] * x), CELL, X),
}


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("way", WAYS)
def test_ways_to_an_array(way):
    f, w, expected = WAYS[way]
    g = gradient(f, wrt=w)
    for _ in range(3):
        same(g(X), expected)
    assert type(f(X)) is np.float64  # nothing traced is left


@dataclass
class Pair:
    a: Any
    c: float


@dataclass(frozen=True)
class Frozen:
    a: Any
    c: float


class Named(NamedTuple):
    a: Any
    c: float


class Slotted:
    __slots__ = ("a", "c", "empty")

    def __init__(self, a, c) -> None:
        self.a, self.c = a, c


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("make", [Pair, Frozen, Slotted, lambda a, c: SimpleNamespace(a=a, c=c)])
def test_kinds_of_objects(make):
    p = make(np.array([1.0, 2.0]), 3.0)
    g = gradient(lambda x: np.sum(p.a * x) * p.c, wrt=p)
    for _ in range(3):
        found = g(X)
        same(found.a, 3.0 * X)
        assert found.c == np.sum(p.a * X)
    if make in (Pair, Frozen):
        assert type(found) is make
    assert type(p.a) is np.ndarray and type(p.c) is float


@pytest.mark.usefixtures("every_policy")
def test_containers_and_their_numbers():
    items = [1.0, (2.0, np.ones(2))]
    params: dict[str, Any] = {"w": np.ones(2), "b": 0.5, "l": items, "n": Named(np.ones(2), 2.0), "i": 3}

    def f(x):
        (one, (two, a)), n = params["l"], params["n"]
        first = np.sum(params["w"] * x) * params["b"] * one * two
        return first + np.sum(a**2) * n.c + np.sum(n.a * x) + params["i"]

    g = gradient(f, wrt=params)
    for _ in range(4):
        found = g(X)
        product = np.sum(params["w"] * X)
        same(found["w"], 0.5 * 2.0 * X * (params["b"] / 0.5))
        same(found["b"], product * 2.0)
        same(found["l"][0], product * params["b"] * 2.0)
        same(found["l"][1][0], product * params["b"])
        same(found["l"][1][1], 4.0)
        same(found["n"].a, X)
        assert type(found["n"]) is Named and found["i"] is None
        params["b"] = params["b"] - 0.01
    assert not g.__yota_cache__.problems


def test_an_array_in_two_places_is_one():
    shared = np.array([1.0, 2.0])
    tied = SimpleNamespace(a=shared, b=shared, c=np.ones(2))
    tied.itself = tied
    found = gradient(lambda x: np.sum(tied.a * tied.b * tied.c * x), wrt=tied)(X)
    same(found.a, 2 * shared * X)
    same(found.b, 2 * shared * X)
    assert found.itself is found


@pytest.mark.usefixtures("every_policy")
def test_derivatives_of_derivatives():
    w = np.array([1.0, 2.0])
    inner = gradient(lambda x: np.sum(w**3 * x), wrt=w)
    for _ in range(3):
        same(gradient(lambda x: np.sum(inner(x)), wrt=w)(X), 6 * w * X)
        same(gradient(lambda x: np.sum(inner(x)))(X), 3 * w**2)


def test_what_the_function_stores_stays():
    class Layer:
        def __init__(self) -> None:
            self.w, self.calls, self.last = np.ones(2), 0, None

        def __call__(self, x):
            self.calls += 1
            self.last = self.w * x
            return np.sum(self.last)

    layer = Layer()
    g = gradient(layer, wrt=layer)
    for i in range(4):
        same(g(X * i).w, X * i)
        assert layer.calls == i + 1
        same(layer.last, X * i)
        assert type(layer.last) is np.ndarray and type(layer.w) is np.ndarray


def test_exceptions_leave_everything_as_it_was():
    model = Model()

    def fails(x):
        model.loss(x)
        raise ZeroDivisionError

    before = dict(vars(model))
    with pytest.raises(ZeroDivisionError):
        gradient(fails, wrt=model)(X)
    assert all(vars(model)[name] is x for name, x in before.items())


def test_wrong_uses_say_what_to_write():
    with pytest.raises(ValueError, match=r"an array of shape \(3, 2\) that loss does not read.*not a copy"):
        gradient(loss, wrt=W.copy())(X)
    with pytest.raises(ValueError, match="an object of Model that loss does not read"):
        gradient(loss, wrt=Model())(X)
    with pytest.raises(ValueError, match=r"wrt has 0\.5; it wants arrays, objects.*what holds it"):
        gradient(loss, wrt=(W, 0.5))(X)
    with pytest.raises(ValueError, match="takes argnums or wrt"):
        value_and_grad(loss, 1, wrt=W)
    with pytest.raises(NotDifferentiableError, match="no floating-point number"):
        gradient(lambda x: np.sum(INTEGERS * x), wrt=INTEGERS)(X)
    with pytest.raises(NotDifferentiableError, match="no floating-point number"):
        gradient(loss, wrt=())(X)
    other = Holder()
    with pytest.raises(ValueError, match="an object of Holder that <lambda> does not read"):
        gradient(lambda h, x: h(x), wrt=HOLDER)(other, X)
    flat = np.arange(6.0)
    part = flat[:2]
    with pytest.raises(ValueError, match="shares memory with"):
        gradient(lambda x: np.sum(part * x) + flat[0], wrt=part)(X)


@pytest.mark.parametrize("given", [lambda w: w, lambda w: w[:2], lambda w: w[::-1][:2], lambda w: {"a": [w[1:]]}])
def test_arguments_that_are_parameters_are_refused(given):
    """They would be constants, and half of the derivative would be missed."""
    w = np.ones(3)
    f = value_and_grad(lambda x, y=1.0: np.sum(w) * np.sum(x["a"][0] if isinstance(x, dict) else x) * np.sum(y), wrt=w)
    for _ in range(3):
        same(f(w.copy())[1], [3.0, 3.0, 3.0])
        with pytest.raises(ValueError, match=r"args\[0\] of <lambda> shares memory with w, in which"):
            f(given(w))
        with pytest.raises(ValueError, match="y of <lambda> shares memory with w"):
            f(2.0, y=given(w))
    outer = np.full(2, 3.0)
    inner = gradient(lambda x: np.sum(outer * x), wrt=outer)
    with pytest.raises(ValueError, match="shares memory with outer"):
        grad(lambda s: s * np.sum(inner(outer)), 1.0)
    same(value_and_grad(lambda z: np.sum(inner(z) * z))(outer.copy())[1], [6.0, 6.0])


def test_a_name_that_stands_for_something_else_now():
    w = v = np.ones(2)
    g = gradient(lambda x: np.sum(w * x) + np.sum(v), wrt=w)
    same(g(X), X + 1)
    w = 2 * w
    with pytest.raises(ValueError, match="no longer in all places"):
        g(X)
    assert v is not w


def test_no_array_is_kept_and_others_have_their_own():
    w = np.ones(2)
    f = value_and_grad(lambda x: np.sum(w * x), wrt=w)
    for _ in range(3):
        f(X)
    copy = cloudpickle.loads(cloudpickle.dumps(f))
    same(copy(X)[1], X)
    again = pickle.loads(pickle.dumps(value_and_grad(with_default, wrt=CELL)))
    with pytest.raises(ValueError, match="does not read"):  # the default stays in its module, CELL has been copied
        again(X)
    assert repr(f).startswith("<yota_py.value_and_grad of ") and "by value_and_grad" in str(explain(f))
    gc.collect()


def test_compile_and_auxiliary_results():
    f = value_and_grad(lambda x: (np.sum(W @ x), W.sum()), has_aux=True, wrt=W)
    f.compile(X)
    (value, aux), dw = f(X)
    assert value == np.sum(W @ X) and aux == pytest.approx(W.sum())
    same(dw, np.ones((3, 1)) * X)
    g = gradient(loss, wrt=W)
    g.compile(X)
    same(g(X), gradient(explicit)(W, B, X))


def test_threads_do_not_see_one_anothers():
    model, wrong = Model(), list[Any]()
    f = value_and_grad(model.loss, wrt=model)
    expected = f(X)[1].w

    def work():
        for i in range(20):
            with_trace = value_and_grad(lambda x: model.loss(x) * 1.0, wrt=model)
            for g in (f, with_trace):
                if not np.allclose(g(X)[1].w, expected):
                    wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    config.compile = "auto"
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and type(model.w) is np.ndarray


# -- objects and functions among the arguments


def call(f, x):
    return f(x)


class Linear:
    def __init__(self, w, c=3.0) -> None:
        self.w, self.c, self.name = np.array(w), c, "linear"

    def __call__(self, x):
        return self.c * np.sum(self.w * x)


@pytest.mark.usefixtures("every_policy")
def test_objects_among_the_arguments():
    model = Linear([1.0, 2.0])
    for i in range(4):
        x = X * (1.0 + i)
        value, (of_model, dx) = grad(call, model, x)
        same(value, model(x))
        same(of_model.w, 3.0 * x)
        same([of_model.c], [np.sum(model.w * x)])
        same(dx, 3.0 * model.w)
        assert of_model.name is None
        model.w = model.w + 1.0
    _, (alone,) = grad(lambda m: m(X), model)
    same(alone.w, 3.0 * X)
    same(gradient(call, 1)(model, X), 3.0 * model.w)
    both = value_and_grad(call, (1, 0))(model, X)[1]
    same(both[0], 3.0 * model.w)
    same(both[1].w, 3.0 * X)
    one, two, number = gradient(lambda all, x: all[0](x) + all[1](x) * all[2])([model, Linear([0.0, 1.0]), 4.0], X)
    same(one.w, 3.0 * X)
    same(two.w, 12.0 * X)
    same(number, 3.0 * X[1])


@pytest.mark.usefixtures("every_policy")
def test_functions_among_the_arguments():
    w, k = np.array([1.0, 2.0]), 2.0
    for f in (lambda x: k * np.sum(w * x), jit(lambda x: k * np.sum(w * x))):
        for _ in range(3):
            _, (of_f, dx) = grad(call, f, X)
            same(of_f.w, k * X)
            same([of_f.k], [np.sum(w * X)])
            same(dx, k * w)
    model = Linear([1.0, 2.0])
    for _ in range(3):
        same(grad(call, model.__call__, X)[1][0].w, 3.0 * X)
        found = grad(call, functools.partial(lambda w, x, c: c * np.sum(w * x), w, c=k), X)[1][0]
        same(found.args[0], k * X)
        same([found.keywords["c"]], [np.sum(w * X)])
        assert grad(call, np.sum, X)[1][0] is None
        assert grad(call, lambda x: np.sum(x), X)[1][0] is None


@pytest.mark.usefixtures("every_policy")
def test_objects_in_steps_and_in_derivatives():
    model, plain = Linear([1.0, 2.0]), Linear([1.0, 2.0])

    @jit
    def step(m, x):
        value, d = value_and_grad(call)(m, x)
        m.w = m.w - 0.1 * d.w
        return value

    for _ in range(4):
        same(step(model, X), plain(X))
        plain.w = plain.w - 0.1 * 3.0 * X
        same(model.w, plain.w)
    second = gradient(lambda x: np.sum(gradient(call)(plain, x**2).w ** 2))
    for _ in range(3):
        same(second(X), 36.0 * X**3)


@pytest.mark.usefixtures("every_policy")
def test_arguments_of_other_kinds_at_other_calls():
    f = value_and_grad(lambda m, x: np.sum(m.w * x) if hasattr(m, "w") else np.sum(m * x))
    for _ in range(2):
        same(f(np.ones(2), X)[1], X)
        same(f(Linear([1.0, 1.0]), X)[1].w, X)
        same(f(SimpleNamespace(w=np.ones(2), v=1.0), X)[1].v, 0.0)


def products(a, b):
    return np.sum(getattr(a, "w", a) * getattr(b, "w", b))


@pytest.mark.usefixtures("every_policy")
def test_objects_where_no_derivative_is_wanted():
    one, two = Linear([1.0, 2.0]), Linear([3.0, 4.0])
    g = value_and_grad(products, 1)
    for _ in range(2):
        same(g(X, one)[1].w, X)
        same(g(one, X)[1], one.w)
        same(g(one, two)[1].w, one.w)
        same(g(X, X)[1], X)
        both = grad(products, one, two)[1]
        same(both[0].w, two.w)
        same(both[1].w, one.w)


# -- what functions do with their parameters, and other ways to them


def plain(obj: Any) -> None:
    """Nothing traced is left in an object."""
    inside = [y for x in vars(obj).values() if isinstance(x, list) for y in x]
    assert {type(x) for x in [*vars(obj).values(), *inside]} <= {np.ndarray, float, list, dict, tuple, type(None), int}


def popped(m, x):
    return np.sum(m.items.pop() * x) + np.sum(m.items[0] ** 2)


def popped_first(m, x):
    return np.sum(m.items.pop(0) * x) + np.sum(m.items[0] ** 2)


def cleared(m, x):
    w = m.items[0] * x
    m.items.clear()
    return np.sum(w)


def removed(m, x):
    w = m.w * x
    del m.w
    return np.sum(w)


def taken_out(m, x):
    return np.sum(m.table.pop("a") * x)


def added(m, x):
    m.table["n"] = m.w * 1.0
    return sum(np.sum(q * x) for q in m.table.values())


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("f", [popped, popped_first, cleared, removed, taken_out, added])
def test_what_is_taken_out_or_put_in(f) -> None:
    def make() -> Any:
        return SimpleNamespace(items=[np.ones(2), 2 * np.ones(2)], w=np.full(2, 3.0), table={"a": np.ones(2)})

    other = make()
    value = f(other, X)
    for call in (lambda m: value_and_grad(lambda x: f(m, x), wrt=m)(X), lambda m: value_and_grad(f)(m, X)):
        m = make()
        have, _ = call(m)
        same(have, value)
        assert vars(m).keys() == vars(other).keys() and len(m.items) == len(other.items)
        plain(m)
        same(value_and_grad(lambda z: np.sum(z * X))(np.ones(2))[1], X)


TIED = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.mark.usefixtures("every_policy")
def test_weights_that_are_tied_elsewhere():
    encoder, decoder = SimpleNamespace(w=TIED.copy()), SimpleNamespace(w=None)
    decoder.w = encoder.w
    table = [encoder.w]
    x = np.array([0.1, 0.2, 0.3])

    def loss(x):
        return np.sum((decoder.w @ (encoder.w.T @ x) - x) ** 2) + sum(np.sum(p) for p in table)

    def explicit(w, x):
        return np.sum((w @ (w.T @ x) - x) ** 2) + np.sum(w)

    ways: list[tuple[Any, Any]] = [
        (encoder, lambda d: d.w), (table, lambda d: d[0]), (encoder.w, lambda d: d), ([encoder], lambda d: d[0].w),
    ]  # fmt: skip
    for wrt, get in ways:
        g = gradient(loss, wrt=wrt)
        for k in range(3):
            same(get(g(x * k)), gradient(explicit)(encoder.w, x * k))
    g = gradient(loss, wrt=encoder)
    g(x)
    decoder.w = 2 * TIED  # tied no longer
    table[0] = np.zeros((3, 2))
    same(g(x).w, gradient(lambda w: np.sum((2 * TIED @ (w.T @ x) - x) ** 2))(encoder.w))


@pytest.mark.usefixtures("every_policy")
def test_the_dict_of_an_object():
    model = Linear([1.0, 2.0])
    del model.c, model.name
    model.__class__.c = 3.0  # type: ignore[attr-defined]
    try:
        for wrt in (vars(model), dict(vars(model)), {"w": model.w}):
            g = gradient(model, wrt=wrt)
            for _ in range(3):
                same(g(X)["w"], 3.0 * X)
    finally:
        del model.__class__.c  # type: ignore[attr-defined]


@pytest.mark.usefixtures("every_policy")
def test_deques_and_tied_gradients():
    model = SimpleNamespace(b=np.zeros(2), h=deque([np.full(2, 7.0)], maxlen=3), v=None)
    model.v = model.b
    g = gradient(lambda x: np.sum(model.h[0] * x + model.b + model.v), wrt=model)
    for _ in range(3):
        found = g(X)
        same(found.h[0], X)
        assert type(found.h) is deque and found.h.maxlen == 3
        assert found.b is not found.v
        same(found.b, 2.0)


def test_items_and_attributes_at_once():
    class Table(dict):  # type: ignore[type-arg]
        pass

    table = Table(a=np.ones(2))
    same(gradient(lambda x: np.sum(table["a"] * x), wrt=table)(X)["a"], X)
    table.w = np.ones(2)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="derivatives are wanted in a Table, which has items, and arrays or numbers"):
        gradient(lambda x: np.sum(table["a"] * x), wrt=table)(X)


@pytest.mark.usefixtures("every_policy")
def test_many_numbers_in_a_list_are_data():
    model = SimpleNamespace(w=np.ones(2), losses=[0.1] * 500)
    for _ in range(3):
        found = grad(lambda m, x: np.sum(m.w * x), model, X)[1][0]
        same(found.w, X)
        assert found.losses is None
        model.losses.append(0.5)
    same(gradient(lambda x: np.sum(model.w * x), wrt=model)(X).w, X)


UNSEEN = np.array([1.0, 2.0])
FAR = UserList([UNSEEN])
VIEW = memoryview(UNSEEN)


class Hashable:
    def __init__(self, w) -> None:
        self.w = w


SET = {Hashable(UNSEEN)}
HELD = Hashable(UNSEEN)


@functools.lru_cache
def remembered():
    return UNSEEN


def test_other_ways_are_followed_or_refused():
    shown = MappingProxyType({"w": UNSEEN})
    for read in (lambda: FAR[0], lambda: shown["w"], lambda: weakref.ref(HELD)().w, lambda: SET.copy().pop().w):
        g = value_and_grad(lambda x: np.sum(UNSEEN * x) + np.sum(read() * x), wrt=UNSEEN)  # noqa: B023
        same(g(X)[1], 2 * X)
    with pytest.raises(ValueError, match=r"in a memoryview \(VIEW\), which cannot be followed"):
        value_and_grad(lambda x: np.sum(UNSEEN * np.frombuffer(VIEW)), wrt=UNSEEN)(X)
    remembered()
    with pytest.raises(ValueError, match="in another way as well, which cannot be followed"):
        value_and_grad(lambda x: np.sum(UNSEEN * remembered() * x), wrt=UNSEEN)(X)
    g = value_and_grad(lambda x: np.sum(remembered() * x), wrt=UNSEEN)
    for _ in range(2):
        try:
            same(g(X)[1], X)
        except ValueError as error:
            assert "in another way as well" in str(error)
        assert type(remembered()) is np.ndarray


@pytest.mark.usefixtures("every_policy")
def test_writes_into_parameters_are_refused():
    model = SimpleNamespace(w=np.array([1.0, 2.0, 3.0]), h=None)
    clips = [False]

    def f(x):
        model.h = model.w * x
        if clips[0]:
            np.clip(model.w, 0.5, 2.5, out=model.w)
        return np.sum(model.w**2 * x)

    g = value_and_grad(f, wrt=model)
    for clip in (False, False, True, True):
        clips[0] = clip
        if clip:
            with pytest.raises(MutationError, match=r"model\.w"):
                g(np.ones(3))
        else:
            g(np.ones(3))
        same(model.w, [1.0, 2.0, 3.0])


@pytest.mark.usefixtures("every_policy")
def test_defaults_of_closures():
    w, s = np.array([1.0, 2.0]), np.array([0.5, 0.25])
    layer = lambda x, s=s: np.sum(w * x * s)  # noqa: E731
    for _ in range(3):
        found = grad(call, layer, X)[1][0]
        same(found.w, X * s)
        same(found.s, w * X)


def test_compile_with_objects():
    model = Linear([1.0, 2.0])
    f = value_and_grad(call)
    f.compile(model, X)
    same(f(model, X)[1].w, 3.0 * X)
    grad.compile(call, model, X)
    same(grad(call, model, X)[1][0].w, 3.0 * X)


def test_places_that_are_read_by_their_names():
    holder = SimpleNamespace(w=UNSEEN)
    g = gradient(lambda x: np.sum(UNSEEN * x) + np.sum(getattr(holder, "w") * x), wrt=UNSEEN)  # noqa: B009
    for _ in range(3):
        same(g(X), 2 * X)


def test_objects_that_have_every_attribute():
    class Anything:
        def __init__(self) -> None:
            self.w = np.array([1.0, 2.0])

        def __getattr__(self, name: str) -> int:
            return 0

    obj = Anything()
    for wrt, get in ((obj.w, lambda d: d), (obj, lambda d: d.w)):
        g = gradient(lambda x: np.sum(obj.w * x), wrt=wrt)
        for _ in range(2):
            same(get(g(X)), X)


def test_optimisers_want_containers():
    found = SimpleNamespace(w=X)
    for wrong in (lambda: optim.global_norm(found), lambda: optim.tree_map(np.negative, found)):
        with pytest.raises(TypeError, match=r"look into a SimpleNamespace; give its attributes, as vars\(x\)"):
            wrong()
    assert optim.global_norm(vars(found)) == pytest.approx(np.linalg.norm(X))
