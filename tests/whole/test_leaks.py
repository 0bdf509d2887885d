"""What a function was called with may go: programs, caches and what they keep do not hold the user's objects."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import explain, grad, jit, value_and_grad
from yota_py.cache.functions import caches


class Model:
    """Arrays as attributes, also in containers, and a method."""

    def __init__(self) -> None:
        self.w, self.parts = np.ones((50, 100)), {"b": [np.ones(3)]}

    def __call__(self, x: Any) -> Any:
        return np.sum(self.w) * x + self.parts["b"][0].sum()

    def loss(self, x: Any) -> Any:
        """As a method."""
        return self(x)


@dataclasses.dataclass
class Holder:
    """A container with an object in it."""

    w: np.ndarray
    model: Model


def step(model: Any, x: Any) -> Any:
    """Writes in place, and rebinds."""
    model.w *= 0.9
    model.w = model.w + x
    model.parts["b"][0] += x
    return model, model.w


def held(holder: Any, x: Any) -> Any:
    """With a container around the model."""
    holder.w *= x
    return holder.model.w.sum()


def stops(model: Any, x: Any) -> Any:
    """Raises in the end."""
    model.w *= 0.5
    if model.w[0, 0] < 0.2:
        raise ValueError("small")
    return model.w.sum() * x


shared, stopping, holding = jit(step), jit(stops), jit(held)
USES: dict[str, Callable[[Model], Callable[[], Any]]] = {
    "jit": lambda m: lambda: shared(m, 1.0),
    "an exception": lambda m: lambda: stopping(m, 1.0),
    "in a container": lambda m, of=Holder: (lambda h: lambda: holding(h, 1.0))(of(np.ones(4), m)),  # type: ignore[misc]
    "grad": lambda m: lambda: grad(lambda m, x: m.loss(x), m, 1.0),
    "a method": lambda m: lambda: grad(m.loss, 1.0),
    "itself": lambda m: lambda: value_and_grad(m)(1.0),
    "a jitted method": lambda m: (lambda f: lambda: f(1.0))(jit(m.loss)),
    "partial": lambda m: (lambda f: lambda: f(1.0))(jit(functools.partial(step, m))),
    "a closure": lambda m: (lambda f: lambda: f(1.0))(value_and_grad(lambda x: m.loss(x))),
}


@pytest.mark.parametrize("name", USES)
def test_models_may_go(name: str) -> None:
    gone, arrays = [], []
    for _ in range(8):
        model = Model()
        gone.append(weakref.ref(model))
        arrays.append(weakref.ref(model.w))
        use = USES[name](model)
        for _ in range(4):
            try:
                use()
            except ValueError:
                assert name == "an exception"
        del model, use
    gc.collect()
    assert not [ref for ref in (*gone, *arrays) if ref() is not None]


def test_the_cache_of_an_object_goes_with_it() -> None:
    before = len(caches)
    model = Model()
    for _ in range(4):
        grad(model, 1.0)
    assert len(caches) == before + 1 and explain(model)[0].calls == 3
    del model
    gc.collect()
    assert len(caches) == before
