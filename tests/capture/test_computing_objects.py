"""Methods, attributes of objects and modules of the user's in functions that do nothing but compute."""

from __future__ import annotations

import gc
import math
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from agreement import agree

from yota_py import check_grads, config, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.computing import _known, computing

P = np.array([0.4, -1.3, 2.1, 0.7])
A, BUF = np.arange(16.0).reshape(4, 4) / 7, np.zeros(4)
LOG: list[Any] = []


def at_once(f: Callable[..., Any], *args: Any) -> Any:
    return Gradient(0).at_once(Request(f, args, {}))


@pytest.fixture(autouse=True)
def nothing_is_done() -> Iterator[None]:
    BUF[:] = 0.0
    LOG.clear()
    yield
    assert not BUF.any() and not LOG


class Kernel:
    """A part of a model."""

    power = 2

    def __init__(self, width: float) -> None:
        self.width = width

    def value(self, x: Any) -> Any:
        return np.exp(-(x**self.power) / self.width)


class Model:
    """What scientists write."""

    scale = 0.5

    def __init__(self) -> None:
        self.X, self.y, self.decay = A.copy(), np.ones(4), 0.1
        self.kernel = Kernel(3.0)
        self.sizes, self.names = [1.0, 2.0], {"bias": 0.25}
        self.act = np.tanh
        self.link = lambda z: z / (1 + z**2)
        self.np = np

    @staticmethod
    def squared(x: Any) -> Any:
        return np.sum(x**2)

    def predict(self, w: Any) -> Any:
        return self.act(self.X @ w) + self.names["bias"]

    def loss(self, w: Any) -> Any:
        return self.squared(self.predict(w) - self.y) + self.decay * self.squared(w)

    def by_parts(self, w: Any) -> Any:
        return sum(self.kernel.value(x) * self.scale for x in w) + self.np.sum(self.link(w))

    def in_math(self, w: Any) -> Any:
        return math.sin(self.decay) * np.sum(np.array([w[0], w[1] * self.scale]))

    def many(self, w: Any, n: int = 3) -> Any:
        return np.sum(w) if n == 0 else self.many(self.act(w), n - 1) * self.sizes[1]

    def inside(self, w: Any) -> Any:
        def each(x: Any) -> Any:
            return self.kernel.value(x) * self.decay

        return sum([each(x) for x in w]) + sum(map(each, [1.0, 2.0]))


@dataclass
class Settings:
    """A dataclass with a method."""

    sigma: float = 2.0
    data: Any = field(default_factory=lambda: np.arange(4.0))

    def loss(self, w: Any) -> Any:
        return np.sum((w - self.data) ** 2) / self.sigma


MODEL, SETTINGS = Model(), Settings()
HELPERS = types.ModuleType("helpers")
exec("import numpy as np\nrate = 0.5\ndef link(x):\n    return np.tanh(x) * rate\n", vars(HELPERS))


def in_a_closure() -> Callable[..., Any]:
    model = Model()
    return lambda w: model.loss(w) * model.decay


def of_a_method_in_a_closure() -> Callable[..., Any]:
    loss = Model().loss
    return lambda w: loss(w) + 1.0


COMPUTE: dict[str, Callable[..., Any]] = {
    "a method": MODEL.loss,
    "objects in objects": MODEL.by_parts,
    "functions of math and arrays of numbers": MODEL.in_math,
    "a method that calls itself": MODEL.many,
    "a function in a method": MODEL.inside,
    "a global object": lambda w: MODEL.loss(w) + MODEL.kernel.width,
    "an object in a closure": in_a_closure(),
    "a method in a closure": of_a_method_in_a_closure(),
    "a dataclass": SETTINGS.loss,
    "a global dataclass": lambda w: SETTINGS.loss(w) * SETTINGS.sigma,
    "a module": lambda w: np.sum(HELPERS.link(w)) * HELPERS.rate,
}


@pytest.mark.parametrize("name", COMPUTE)
def test_they_compute(name: str) -> None:
    f = COMPUTE[name]
    assert computing(f) is not None
    for shift in (0.0, 0.25, -0.5):
        value, slope = at_once(f, P + shift)[0]
        want, expected = Gradient(0).reference(Request(f, (P + shift,), {}))[0]
        np.testing.assert_allclose(value, want, rtol=1e-14)
        np.testing.assert_allclose(slope, expected, rtol=1e-12)
    check_grads(f, P, second_order=True)
    agree(f, P)


class Hooks:
    """What runs code when it is used."""

    def __init__(self) -> None:
        self.X, self.buffer, self.log = A, BUF, LOG
        self.multiply, self.fns, self.count = np.multiply, [np.multiply], 0
        self.counter = Counter()
        self.rng = np.random.default_rng(0)

    def __call__(self, x: Any) -> Any:
        LOG.append(x)

    def __len__(self) -> int:
        return len(LOG)

    @property
    def noted(self) -> float:
        LOG.append(1.0)
        return 1.0

    @classmethod
    def made(cls, w: Any) -> Any:
        return np.sum(w)

    def stores(self, w: Any) -> Any:
        self.count = 1
        return np.sum(w)

    def hands_on(self, w: Any) -> Any:
        return np.sum(w) + helped(self)

    def is_called(self, w: Any) -> Any:
        self(w)
        return np.sum(w)

    def into(self, w: Any) -> Any:
        self.multiply(w, w, self.buffer)
        return np.sum(w)

    def into_by_name(self, w: Any) -> Any:
        self.multiply(w, w, out=self.buffer)
        return np.sum(w)

    def under_a_name(self, w: Any) -> Any:
        g = self.multiply
        g(self.X[0], self.X[1], self.buffer)
        return np.sum(w)

    def of_a_list(self, w: Any) -> Any:
        for g in self.fns:
            g(self.X[0], self.X[1], self.buffer)
        return np.sum(w)

    def writes(self, w: Any) -> Any:
        self.buffer[0] = 1.0
        return np.sum(w)

    def adds(self, w: Any) -> Any:
        b = self.buffer
        b += 1.0
        return np.sum(w)

    def appends(self, w: Any) -> Any:
        self.log.append(1.0)
        return np.sum(w)

    def rebinds(self, w: Any) -> Any:
        self = self.counter
        return np.sum(w) * self.count

    def shadows(self, w: Any) -> Any:
        return np.sum(w) + (lambda self: len(self))(self.counter)

    def asks(self, w: Any) -> Any:
        return np.sum(w) * getattr(self, "count")  # noqa: B009

    def draws(self, w: Any) -> Any:
        return np.sum(w) * self.rng.normal()

    def bare(self, w: Any) -> Any:
        return np.sum(w) if self else np.sum(-w)

    def noting(self, w: Any) -> Any:
        return np.sum(w) * self.noted

    def of_class(self, w: Any) -> Any:
        return self.made(w)

    def of_conj(self, w: Any) -> Any:
        return np.sum(w) + np.sum(self.X[0].conj(self.buffer))

    def of_counter(self, w: Any) -> Any:
        return np.sum(w) + self.counter.next()


class Counter:
    """An object that counts."""

    count = 0

    def next(self) -> int:
        self.count += 1
        LOG.append(self.count)
        return self.count


class Asking:
    """An object that computes its attributes."""

    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        return 1.0


class Watching:
    """An object that sees its attributes read."""

    rate = 1.0

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)


def helped(hooks: Any) -> Any:
    return len(hooks)


HOOKS, ASKING, WATCHING = Hooks(), Asking(), Watching()
LAZY = types.ModuleType("lazy")
vars(LAZY)["__getattr__"] = lambda name: LOG.append(name) or 1.0
MORE: dict[str, Callable[..., Any]] = {
    **{name: getattr(HOOKS, name) for name in vars(Hooks) if not name.startswith("__") and name != "noted"},
    "asked": lambda w: np.sum(w) * ASKING.rate,
    "watched": lambda w: np.sum(w) * WATCHING.rate,
    "lazy": lambda w: np.sum(w) * LAZY.rate,
    "called": lambda w: np.sum(w) + (HOOKS(1.0) or 0.0),
    "compared": lambda w: np.sum(w) * (HOOKS == 1.0),
    "in a container": lambda w: np.sum(w) * len([HOOKS]),
    "of a class": Hooks.made,
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more_than_to_compute(name: str) -> None:
    assert computing(MORE[name]) is None
    assert at_once(MORE[name], P) is None


def test_what_changes_between_calls() -> None:
    config.compile = "never"
    model = Model()

    def f(w: Any) -> Any:
        return model.loss(w) + model.by_parts(w)

    def holds() -> None:
        for _ in range(2):
            for g in (f, model.loss):
                assert at_once(g, P) is not None
                np.testing.assert_allclose(value_and_grad(g)(P)[0], g(P), rtol=1e-13)

    holds()
    model.decay = 0.7
    holds()
    model.X = A.T
    holds()
    model.X[:] = 1.0
    holds()
    model.names["bias"] = 3.0
    holds()
    model.sizes = [2.0]
    holds()
    model.kernel = Kernel(1.0)
    holds()
    model.kernel.width = 9.0
    holds()
    model.act = np.sin
    holds()
    model.predict = lambda w: w * 2.0  # type: ignore[method-assign]
    holds()
    del model.predict
    holds()


def test_classes_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    other = Model()
    other.decay = 5.0
    assert at_once(model.loss, P) is not None
    monkeypatch.setattr(Model, "predict", lambda self, w: self.X @ w)
    for each in (model, other, model):
        np.testing.assert_allclose(at_once(each.loss, P)[0][0], each.loss(P), rtol=1e-14)
    monkeypatch.setattr(Kernel, "power", 3)
    np.testing.assert_allclose(at_once(model.by_parts, P)[0][0], model.by_parts(P), rtol=1e-14)
    model.__class__ = type("Other", (Model,), {"squared": staticmethod(lambda x: np.sum(x) * 3.0)})
    np.testing.assert_allclose(at_once(model.loss, P)[0][0], model.loss(P), rtol=1e-14)
    monkeypatch.setattr(Model, "predict", property(lambda self: LOG.append(1.0)))
    assert at_once(model.loss, P) is None


def test_modules_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(w: Any) -> Any:
        return np.sum(HELPERS.link(w)) * HELPERS.rate

    for rate in (0.5, 2.0, 3.0):
        monkeypatch.setattr(HELPERS, "rate", rate)
        np.testing.assert_allclose(at_once(f, P)[0][0], f(P), rtol=1e-14)
    monkeypatch.setattr(HELPERS, "link", np.sin)
    np.testing.assert_allclose(at_once(f, P)[0][0], f(P), rtol=1e-14)
    monkeypatch.delattr(HELPERS, "rate")
    assert at_once(f, P) is None
    with pytest.raises(AttributeError):
        value_and_grad(f)(P)


def test_objects_are_not_kept_alive() -> None:
    def gone(make: Callable[[], tuple[Any, Any]]) -> None:
        model, f = make()
        assert at_once(f, P) is not None
        alive = weakref.ref(model)
        del model, f
        gc.collect()
        assert alive() is None

    def method() -> tuple[Any, Any]:
        model = Model()
        return model, model.loss

    def closure() -> tuple[Any, Any]:
        model = Model()
        model.f = lambda w: model.loss(w)  # type: ignore[attr-defined]
        return model, model.f  # type: ignore[attr-defined]

    def with_stand_ins() -> tuple[Any, Any]:
        model = Model()
        model.kept = model.in_math  # type: ignore[attr-defined]
        return model, lambda w: model.kept(w)  # type: ignore[attr-defined]

    gc.collect()
    before = len(_known)
    for make in (method, closure, with_stand_ins):
        for _ in range(3):
            gone(make)
    assert len(_known) <= before + 2  # functions of the class, which stays
    for _ in range(40):
        at_once(Model().loss, P)
    assert len(_known[Model.loss]) <= 16


def test_many_objects_one_after_the_other() -> None:
    """An object may have the identity of one that is gone."""
    for k in range(60):
        model = Model()
        model.decay = float(k)
        np.testing.assert_allclose(at_once(model.loss, P)[0][0], model.loss(P), rtol=1e-14)
        del model


def test_a_module_from_a_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_users.py").write_text("import numpy as np\n\ndef rbf(x, s=2.0):\n    return np.exp(-x**2 / s)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import of_users  # type: ignore[import-not-found]

    assert at_once(lambda w: np.sum(of_users.rbf(w)), P) is not None
    agree(lambda w: np.sum(of_users.rbf(w)), P)
    del sys.modules["of_users"]
