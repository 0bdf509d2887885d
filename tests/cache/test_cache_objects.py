"""Objects and functions that a cached function reads, changed between two calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import Box, follows, function, write
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad
from yota_py.cache.functions import MAX_SIGNATURES

# ------------------------------------------------------------------------------------------- objects and functions


class Model:
    """Has everything that a class can have."""

    base = 2.0

    def __init__(self) -> None:
        self.weights, self.k = np.ones(3), 1.0

    @property
    def scaled(self) -> Any:
        """A property."""
        return self.weights * self.k

    @classmethod
    def based(cls, x: Any) -> Any:
        """A class method."""
        return x * cls.base

    @staticmethod
    def shifted(x: Any) -> Any:
        """A static method."""
        return x + 1

    def loss(self, x: Any) -> Any:
        """Reads all of them."""
        return np.sum(self.scaled * x) + self.based(np.sum(x)) + self.shifted(self.k)

    def __call__(self, x: Any) -> Any:
        return np.sum(self.weights * x)


@pytest.mark.parametrize("way", ["method", "lambda", "partial"])
def test_methods_properties_and_class_attributes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    ways = {"method": model.loss, "lambda": lambda x: model.loss(x), "partial": functools.partial(Model.loss, model)}
    set_class = functools.partial(monkeypatch.setattr, Model)
    follows(
        ways[way],
        lambda: setattr(model, "k", 3.0),
        write(model.weights, 7.0, 0),
        lambda: set_class("base", 5.0),
        lambda: setattr(model, "weights", np.full(3, 0.5)),
        lambda: setattr(model, "base", 9.0),
        lambda: set_class("shifted", staticmethod(lambda x: x + 100)),
        lambda: set_class("scaled", property(lambda self: self.weights * 100)),
        lambda: setattr(model, "weights", np.full((2, 3), 0.5)),
        x=np.ones(3),
    )


def test_callable_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    follows(model, write(model.weights, 7.0, 0), lambda: setattr(model, "weights", np.arange(3.0)))
    follows(lambda x: model(x), write(model.weights, 8.0, 0))
    follows(model, lambda: monkeypatch.setattr(Model, "__call__", lambda self, x: 5 * x))


def test_a_called_object_whose_class_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    follows(lambda x: model(x), lambda: monkeypatch.setattr(Model, "__call__", lambda self, x: 5 * x))


def test_operators_of_a_class_that_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scale:
        def __mul__(self, x: Any) -> Any:
            return 2.0 * x

    scale = Scale()
    follows(lambda x: scale * x, lambda: setattr(Scale, "__mul__", lambda self, x: 10 * x))


def test_an_object_that_changes_its_class() -> None:
    class A:
        def apply(self, x: Any) -> Any:
            return x

    class B:
        def apply(self, x: Any) -> Any:
            return 10 * x

    thing: Any = A()
    follows(lambda x: thing.apply(x), lambda: setattr(thing, "__class__", B))


def test_inherited_attributes() -> None:
    class A:
        k = 1.0

        def apply(self, x: Any) -> Any:
            return x * self.k

    class B(A):
        def apply(self, x: Any) -> Any:
            return super().apply(x) + 1

    b = B()
    follows(
        lambda x: b.apply(x),
        lambda: setattr(A, "k", 3.0),
        lambda: setattr(B, "k", 4.0),
        lambda: setattr(b, "k", 5.0),
        lambda: setattr(A, "apply", lambda self, x: 9 * x),
        lambda: setattr(b, "apply", lambda x: 77 * x),
    )


def test_many_instances_of_one_class() -> None:
    for _ in range(2):
        for k in range(MAX_SIGNATURES + 6):
            model = Model()
            model.k = float(k)
            value, (g,) = grad(model.loss, np.ones(3))
            assert value == model.loss(np.ones(3))
            assert_array_equal(g, np.full(3, k + 2.0))


@pytest.mark.parametrize(
    "read",
    [
        "cfg.lr",
        "cfg.__dict__['lr']",
        "vars(cfg)['lr']",
        "getattr(cfg, 'lr')",
        "operator.attrgetter('lr')(cfg)",
        "cfg.__getattribute__('lr')",
        "object.__getattribute__(cfg, 'lr')",
    ],
)
def test_ways_to_read_an_attribute(read: str) -> None:
    box = Box(lr=1.0)
    f = function(f"import operator\ndef f(x): return x * {read}", cfg=box)
    follows(f, lambda: setattr(box, "lr", 7.0), lambda: setattr(box, "lr", 8.0))


def test_attributes_read_by_match() -> None:
    box = Box(lr=1.0)

    def f(x: Any) -> Any:
        match box:
            case Box(lr=lr):  # type: ignore[misc]
                return x * lr

    follows(f, lambda: setattr(box, "lr", 7.0))


def test_attributes_of_a_function() -> None:
    def f(x: Any) -> Any:
        return x * f.lr + g.lr  # type: ignore[attr-defined]

    def g() -> None: ...

    f.lr, g.lr = 1.0, 2.0  # type: ignore[attr-defined]
    follows(f, lambda: setattr(f, "lr", 3.0), lambda: setattr(g, "lr", 4.0))


def test_objects_as_arguments() -> None:
    def f(x: Any, box: Any) -> Any:
        return x * box.lr * np.sum(box.w)

    box = Box(lr=1.0, w=np.ones(3))
    for change in (
        lambda: None,
        lambda: setattr(box, "lr", 5.0),
        write(box.w, 3.0),
        lambda: setattr(box, "w", np.ones(9)),
    ):
        for i in range(3):
            agree(f, 2.0 + i, box)
        change()
        for i in range(3):
            agree(f, 2.0 + i, box)


def test_functions_as_arguments() -> None:
    def f(x: Any, g: Callable[..., Any]) -> Any:
        return g(x) * 2

    box = Box(lr=1.0)
    model = Model()
    for g in (np.sin, lambda x: x * box.lr, model, model.loss, np.cos, functools.partial(lambda k, x: k.lr * x, box)):
        for i in range(3):
            agree(f, 2.0 + i, g)
        box.lr, model.k = box.lr + 1, model.k + 1
        write(model.weights, model.k)()
        agree(f, 2.0, g)


def test_partials() -> None:
    def scaled(w: Any, x: Any, lr: Any = 1.0) -> Any:
        return x * lr * np.sum(w)

    box = Box(lr=1.0)
    array, items = np.ones(3), [1.0, 2.0]
    p = functools.partial(scaled, array, lr=2.0)
    follows(p, write(array, 4.0), lambda: p.keywords.update(lr=3.0))
    follows(functools.partial(scaled, items), lambda: items.append(5.0))
    follows(functools.partial(lambda c, x: x * c.lr, box), lambda: setattr(box, "lr", 5.0))
    q = functools.partial(scaled, array)
    follows(lambda x: q(x), write(array, 5.0), lambda: q.keywords.update(lr=8.0))
    for lr in (1.0, 2.0, 3.0):
        agree(functools.partial(scaled, array, lr=lr), 2.0)


def test_cached_helpers() -> None:
    @functools.lru_cache
    def basis(n: int) -> Any:
        return np.arange(n) * 1.0

    class Data:
        def __init__(self) -> None:
            self.X = np.eye(2) * 3

        @functools.cached_property
        def gram(self) -> Any:
            return self.X.T @ self.X

    data, memo = Data(), {}

    def remembered() -> Any:
        if "grid" not in memo:
            memo["grid"] = np.linspace(0, 1, 3)
        return memo["grid"]

    for f in (lambda x: x * np.sum(basis(3)), lambda x: x * np.sum(data.gram), lambda x: x * np.sum(remembered())):
        for i in range(4):
            assert_allclose(grad(f, 2.0 + i)[0], f(2.0 + i))
    for kept in (basis(3), data.gram, memo["grid"]):
        assert type(kept) is np.ndarray


def test_edited_functions() -> None:
    def inner(x: Any) -> Any:
        return x * 2

    def other(x: Any) -> Any:
        return x * 3

    def f(x: Any) -> Any:
        return inner(x) * 1.0

    follows(f, lambda: setattr(inner, "__code__", other.__code__))
    follows(inner, lambda: setattr(inner, "__code__", (lambda x: x * 4).__code__))
    namespace: dict[str, Any] = {}
    for k in (1.0, 2.0, 3.0):  # a notebook cell run again
        exec(f"def f(x): return g(x)\ndef g(x): return x * {k}", namespace)
        follows(namespace["f"])


def test_recursion() -> None:
    def fib(x: Any, n: int) -> Any:
        return x if n < 2 else fib(x, n - 1) + fib(x, n - 2) * x

    def grow(x: Any) -> Any:
        return x if x > 100 else grow(x * x + 1)

    def deep(x: Any, depth: int) -> Any:
        return x * x if depth == 0 else grad(deep, x, depth - 1)[0] * x

    for n in (3, 5, 3, 5, 3, 5):
        agree(fib, 1.5, n)
    for x in (1.0, 2.0, 50.0, 3.0):
        agree(grow, x)
        value, (g, _) = grad(deep, x, 3)
        assert_allclose((value, g), (x**5, 5 * x**4))
