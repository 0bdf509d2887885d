"""Loops of training in plain NumPy: compiled code arrives where the interpreter arrives, and it is what runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import config, explain, grad, jit, value_and_grad

STEPS = 1000
COMPILED = 0.9  # of the calls, at least
LIMIT = 0.9  # of the loss, where the functions branch

RNG = np.random.default_rng(0)
TRUE = 3.0 * RNG.standard_normal(6)
BATCHES = [(x, x @ TRUE + RNG.standard_normal(16)) for x in (RNG.standard_normal((16, 6)) for _ in range(37))]

rate = ridge = 0.0  # set by the schedule


def schedule(step: int) -> None:
    """Another rate at every step, and another penalty at every 20th."""
    global rate, ridge
    rate, ridge = 0.05 / (1.0 + 0.01 * step), 0.02 * 0.99 ** (step // 20)


def misfit(w: Any, b: Any, x: Any, y: Any) -> Any:
    """Least squares; above the limit with another penalty than below."""
    value = np.mean((x @ w + b - y) ** 2)
    if value > LIMIT:
        return value + ridge * np.sum(np.abs(w))
    return value + ridge * np.sum(w * w)


both = value_and_grad(misfit, (0, 1))


class Descent:
    """A model and its steps; gradients of large losses are clipped."""

    def __init__(self) -> None:
        self.w, self.b = np.zeros(6), np.zeros(1)

    def in_place(self, x: Any, y: Any) -> Any:
        """The arrays are written into."""
        value, (dw, db) = both(self.w, self.b, x, y)
        if value > LIMIT:
            dw = np.clip(dw, -1.0, 1.0)
        self.w -= rate * dw
        self.b -= rate * db
        return value

    def by_grad(self, x: Any, y: Any) -> Any:
        """So they are; the data have gradients as well."""
        value, (dw, db, *_) = grad(misfit, self.w, self.b, x, y)
        if value > LIMIT:
            dw = np.clip(dw, -1.0, 1.0)
        self.w -= rate * dw
        self.b -= rate * db
        return value

    def rebinding(self, x: Any, y: Any) -> Any:
        """The arrays are replaced."""
        value, (dw, db) = both(self.w, self.b, x, y)
        if value > LIMIT:
            dw = np.clip(dw, -1.0, 1.0)
        self.w = self.w - rate * dw
        self.b = self.b - rate * db
        return value


class Momentum(Descent):
    """With an optimiser that remembers where it was going."""

    def __init__(self) -> None:
        super().__init__()
        self.optimiser = Optimiser()

    def step(self, x: Any, y: Any) -> Any:
        """The arrays are replaced."""
        value, (dw, db) = both(self.w, self.b, x, y)
        if value > LIMIT:
            dw = 0.5 * dw
        self.w = self.w - self.optimiser.move("w", dw)
        self.b = self.b - self.optimiser.move("b", db)
        return value


class Optimiser:
    """Keeps a velocity for each parameter."""

    def __init__(self) -> None:
        self.decay, self.velocity = 0.8, {"w": np.zeros(6), "b": np.zeros(1)}

    def move(self, name: str, gradient: Any) -> Any:
        """How far to go."""
        self.velocity[name] = self.decay * self.velocity[name] + rate * gradient
        return self.velocity[name]


def train(step: Callable[..., Any]) -> list[float]:
    """The losses of all steps."""
    losses = []
    for i in range(STEPS):
        schedule(i)
        losses.append(float(step(*BATCHES[i % len(BATCHES)])))
    return losses


@functools.cache
def interpreted(step: Callable[..., Any]) -> tuple[Descent, list[float]]:
    """A model trained without any program, and its losses."""
    model = Momentum()
    config.compile = "never"
    losses = train(step.__get__(model))
    config.compile = "always"
    assert 0.1 < np.mean(np.array(losses) > LIMIT) < 0.9, "one of the branches is hardly taken"
    assert np.mean(losses[-100:]) < 0.5 * np.mean(losses[:10]), "nothing is learned"
    return model, losses


def ends_like_interpreted(model: Descent, losses: list[float], step: Callable[..., Any]) -> None:
    """Losses on the way, and where it ends, are those of interpreted steps."""
    wanted, wanted_losses = interpreted(step)
    assert_allclose(losses, wanted_losses, rtol=1e-9)
    assert_allclose(model.w, wanted.w, rtol=1e-9)
    assert_allclose(model.b, wanted.b, rtol=1e-9)


def ran_compiled(f: Callable[..., Any]) -> None:
    """Most calls of a function."""
    (found,) = explain(f)
    assert found.calls >= COMPILED * STEPS, str(found)


def test_value_and_grad_then_numpy_in_place() -> None:
    model = Descent()
    losses = train(model.in_place)
    ran_compiled(both)
    ends_like_interpreted(model, losses, Descent.in_place)


def test_grad_then_numpy_in_place() -> None:
    model = Descent()
    losses = train(model.by_grad)
    ran_compiled(misfit)
    ends_like_interpreted(model, losses, Descent.in_place)


def test_value_and_grad_then_numpy_with_momentum() -> None:
    model = Momentum()
    losses = train(model.step)
    ran_compiled(both)
    ends_like_interpreted(model, losses, Momentum.step)


@pytest.mark.parametrize("step", [Descent.in_place, Descent.by_grad, Descent.rebinding])
def test_jit_of_a_step(step: Callable[..., Any]) -> None:
    model = Descent()
    losses = train(jit(step.__get__(model)))
    ran_compiled(step)
    ends_like_interpreted(model, losses, Descent.in_place)


def test_jit_of_a_step_with_momentum() -> None:
    model = Momentum()
    losses = train(jit(model.step))
    ran_compiled(Momentum.step)
    ends_like_interpreted(model, losses, Momentum.step)


def test_the_optimiser_keeps_its_own_arrays() -> None:
    model = Momentum()
    step = jit(model.step)
    for i in range(6):
        schedule(i)
        old, velocity = model.w, model.optimiser.velocity["w"]
        was, before = old.copy(), velocity.copy()
        step(*BATCHES[i])
        assert model.w is not old and model.optimiser.velocity["w"] is not velocity
        assert_array_equal(old, was)
        assert_array_equal(velocity, before)
        assert_allclose(model.w, was - model.optimiser.velocity["w"], rtol=1e-12)
