"""Functions that leave something behind while they are differentiated: it is compiled with their gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import UncachedWarning, config, explain, grad, gradient, jit, value_and_grad

X = np.random.default_rng(0).normal(size=(6, 3))
last: Any = None


@pytest.fixture(params=["always", "auto", "audited", "never"])
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(config, "compile", "always" if request.param == "audited" else request.param)
    if request.param == "audited":
        monkeypatch.setattr(config, "check", True)
    yield request.param


class Model:
    """What people write: outputs are kept for whoever asks."""

    def __init__(self) -> None:
        self.hidden: Any = None
        self.calls = 0
        self.history: list[Any] = []
        self.cache: dict[str, Any] = {"h": None}

    def attributes(self, w: Any) -> Any:
        self.hidden = np.tanh(X @ w)
        self.calls += 1
        return np.sum(self.hidden**2)

    def containers(self, w: Any) -> Any:
        h = np.tanh(X @ w)
        self.cache["h"] = h, 2 * h
        self.hidden = [h[0], {"rest": h[1:]}]
        return np.sum(h**2)

    def lists(self, w: Any) -> Any:
        loss = np.sum(np.tanh(X @ w) ** 2)
        self.history.append(loss)
        return loss

    def what_was_there(self, w: Any) -> Any:
        """A running mean: what is read is what the call before has stored."""
        h = X @ w
        self.hidden = h if self.hidden is None else 0.9 * self.hidden + 0.1 * h
        return np.sum(h * self.hidden)

    def a_global_name(self, w: Any) -> Any:
        global last
        last = np.tanh(X @ w)
        return np.sum(last**2)

    def state(self) -> Any:
        return self.hidden, self.history, self.cache, self.calls, last


def _equal(a: Any, b: Any) -> None:
    if isinstance(a, list | tuple):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _equal(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        _equal([*a.values()], [*b.values()])
    else:
        assert type(a) is type(b), (a, b)
        if a is not None:
            assert_allclose(a, b, rtol=1e-12)


METHODS = ["attributes", "containers", "lists", "what_was_there", "a_global_name"]
Way = Callable[[Any, Any], Any]
WAYS: dict[str, Way] = {
    "grad": lambda f, w: grad(f, w)[1][0],
    "value_and_grad": lambda f, w: value_and_grad(f)(w)[1],
    "gradient": lambda f, w: gradient(f, (0,))(w)[0],
    "jit": lambda f, w: jit(value_and_grad(f))(w)[1],
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("way", WAYS)
def test_objects_hold_what_plain_calls_leave(name: str, way: str, _mode: str) -> None:
    ours, plain = Model(), Model()
    for n in range(5):
        w = np.array([0.3, -0.2, 0.5]) + 0.1 * n
        e = np.array([0.2, 0.7, -0.4])
        high, low = (getattr(copy.deepcopy(plain), name)(w + step * e) for step in (1e-6, -1e-6))
        getattr(plain, name)(w)
        want = plain.state()
        have = WAYS[way](getattr(ours, name), w)
        assert_allclose(have @ e, (high - low) / 2e-6, rtol=1e-6)
        _equal(ours.state(), want)


def test_they_are_compiled() -> None:
    model, mean = Model(), Model()
    loss, running = value_and_grad(model.attributes), value_and_grad(mean.what_was_there)
    for n in range(6):
        loss(np.ones(3) * n)
        running(np.ones(3) * n)
    assert explain(loss)[0].calls >= 3 and not explain(loss)[0].problems, explain(loss)
    assert explain(running)[0].calls >= 3, explain(running)
    assert "w float64[3]" in str(explain(loss))
    assert "what it stores" in explain(model.attributes)[0].purpose or len(explain(model.attributes)) == 2


def test_compile_at_once() -> None:
    model = Model()
    loss = value_and_grad(model.attributes)
    loss.compile(np.ones(3))
    loss(np.zeros(3))
    assert explain(loss)[0].calls == 1, explain(loss)
    other = Model()
    grad.compile(other.attributes, np.ones(3))
    assert_allclose(other.hidden, np.tanh(X @ np.ones(3)))


def test_seeds_and_keywords(_mode: str) -> None:
    model = Model()

    def outputs(w: Any, *, scale: float) -> Any:
        model.hidden = scale * w
        return model.hidden * w

    for n in range(4):
        w, dy = np.arange(3.0) + n, np.array([1.0, -1.0, 0.5])
        assert_allclose(grad(outputs, w, seed=dy, scale=2.0)[1][0], 4 * w * dy)
        assert_allclose(grad(lambda w: np.sum(outputs(w, scale=3.0)), w)[1][0], 6 * w)
        assert_allclose(model.hidden, 3 * w)
        assert type(model.hidden) is np.ndarray


def test_auxiliary_values_and_second_derivatives(_mode: str) -> None:
    model = Model()

    def f(w: Any) -> Any:
        model.hidden = w * w
        return np.sum(model.hidden * w), model.hidden

    for n in range(4):
        w = np.arange(3.0) + n
        (value, aux), dw = value_and_grad(f, has_aux=True)(w)
        assert_allclose((value, *aux, *dw), (np.sum(w**3), *w**2, *(3 * w**2)))
        assert_allclose(grad(lambda w: np.sum(value_and_grad(f, has_aux=True)(w)[1]), w)[1][0], 6 * w)
        assert_allclose(model.hidden, w * w)


def test_exceptions_come_after_what_was_stored(_mode: str) -> None:
    model = Model()

    def f(w: Any) -> Any:
        model.hidden = 2 * w
        if np.sum(w) > 10:
            raise OverflowError("too much")
        return np.sum(model.hidden**2)

    for n in (0, 1, 2, 5, 1, 6):
        w = np.arange(3.0) + n
        if np.sum(w) > 10:
            with pytest.raises(OverflowError, match="too much"):
                grad(f, w)
        else:
            assert_allclose(grad(f, w)[1][0], 8 * w)
        assert_allclose(model.hidden, 2 * w)


def test_what_cannot_be_compiled_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    model = Model()

    def f(w: Any) -> Any:
        model.hidden = w * np.random.default_rng().normal()
        return np.sum(w**2)

    with pytest.warns(UncachedWarning):
        for n in range(4):
            assert_allclose(grad(f, np.ones(2) * n)[1][0], 2.0 * n)


class Views:
    """What is stored looks at arrays that are written into afterwards."""

    def __init__(self) -> None:
        self.first: Any = None
        self.second: Any = None

    def of_a_product(self, x: Any) -> Any:
        h = x * 2
        self.first, self.second = h[1:], h
        h[0] = x[1]
        return np.sum(h**2)

    def of_a_base_that_goes(self, x: Any) -> Any:
        h = x * 2
        self.first, self.second = h[:2], h[1:]
        h *= x[0]
        h[1] = x[2]
        return np.sum(h**2)

    def of_elements(self, x: Any) -> Any:
        h = np.zeros(3)
        self.first, self.second = [h], {"turned": h[::-1]}
        for k in range(3):
            h[k] = x[k] * x[0]
        return np.sum(h**2)

    def of_a_selection(self, x: Any) -> Any:
        h = x * 2
        self.first = h[h > 2.5]
        h[0] = x[1]
        self.second = h
        return np.sum(h**2)


@pytest.mark.parametrize("name", ["of_a_product", "of_a_base_that_goes", "of_elements", "of_a_selection"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("audit", ["off", "sampled", "always"])
def test_stored_views_see_what_is_written_later(name: str, way: str, audit: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "audit", audit)
    ours, plain = Views(), Views()
    for n in range(5):
        x, e = np.array([1.0, 1.5, 0.5]) + n, np.array([0.3, -0.2, 0.9])
        have = WAYS[way](getattr(ours, name), x)
        f = getattr(Views(), name)
        assert_allclose(have @ e, (f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6, rtol=1e-6)
        getattr(plain, name)(x)
        _equal([ours.first, ours.second], [plain.first, plain.second])
