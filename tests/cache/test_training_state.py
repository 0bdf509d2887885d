"""Optimisers and what else has state, as their authors write them: 200 steps, equal in every attribute.

Each program is a class with a method that is a whole step; two objects of it run side by side, one of them by ``jit``.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, jit, value_and_grad

STEPS = 200
RNG = np.random.default_rng(4)
X = RNG.standard_normal((64, 5))
Y = X @ np.arange(1.0, 6.0) + 0.1 * RNG.standard_normal(64)


def loss(w: Any, b: Any, x: Any, y: Any) -> Any:
    """Least squares."""
    return np.mean((x @ w + b - y) ** 2)


class Adam:
    """With its state in a dict, and a step counter (Kingma and Ba 2015, "Adam", algorithm 1)."""

    def __init__(self) -> None:
        self.params = {"w": np.zeros(5), "b": np.zeros(1)}
        self.state = {"t": 0, "m": {k: np.zeros_like(p) for k, p in self.params.items()},
                      "v": {k: np.zeros_like(p) for k, p in self.params.items()}}  # fmt: skip
        self.lr, self.history = 0.05, 0.0

    def step(self, i: int) -> Any:
        """One step."""
        value, grads = value_and_grad(lambda p: loss(p["w"], p["b"], X, Y))(self.params)
        self.state["t"] += 1
        t = self.state["t"]
        for name, g in grads.items():
            m, v = self.state["m"], self.state["v"]
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            self.params[name] -= self.lr * (m[name] / (1 - 0.9**t)) / (np.sqrt(v[name] / (1 - 0.999**t)) + 1e-8)
        self.history = float(value)
        return float(value)


class Momentum:
    """With a list of parameters, and Nesterov's step."""

    def __init__(self) -> None:
        self.params, self.velocity = [np.zeros(5), np.zeros(1)], [np.zeros(5), np.zeros(1)]
        self.nesterov, self.steps = True, 0

    def step(self, i: int) -> Any:
        """One step."""
        value, grads = value_and_grad(lambda p: loss(*p, X, Y))(self.params)
        for p, v, g in zip(self.params, self.velocity, grads, strict=True):
            v *= 0.9
            v -= 0.02 * g
            p += 0.9 * v - 0.02 * g if self.nesterov else v
        self.steps += 1
        return value


class RMSprop:
    """On parts of the data; the rate decays with the number of the step, which it is given."""

    def __init__(self) -> None:
        self.w, self.b, self.square = np.zeros(5), np.zeros(1), np.zeros(5)

    def step(self, i: int) -> Any:
        """One step."""
        part = slice((i % 4) * 16, (i % 4) * 16 + 16)
        value, (dw, db) = value_and_grad(loss, (0, 1))(self.w, self.b, X[part], Y[part])
        lr = 0.05 / (1 + 0.01 * i)
        self.square = 0.9 * self.square + 0.1 * dw**2
        self.w = self.w - lr * dw / (np.sqrt(self.square) + 1e-8)
        self.b -= lr * db
        return {"loss": float(value), "lr": lr, "step": i}


class EarlyStopping:
    """Keeps the best parameters, counts the steps without progress, and says when to stop."""

    def __init__(self) -> None:
        self.w, self.b, self.best, self.wait, self.stopped = np.zeros(5), np.zeros(1), np.inf, 0, False
        self.best_w: Any = None
        self.rate = 0.3

    def step(self, i: int) -> Any:
        """One step."""
        value, (dw, db) = value_and_grad(loss, (0, 1))(self.w, self.b, X, Y)
        if float(value) < self.best - 1e-4:
            self.best, self.wait, self.best_w = float(value), 0, self.w.copy()
        else:
            self.wait += 1
            if self.wait >= 5:
                self.stopped, self.rate, self.wait = True, self.rate * 0.5, 0
        self.w -= self.rate * dw
        self.b -= self.rate * db
        return self.stopped


class BatchNorm:
    """Running statistics in training, which count in evaluation (every fourth step)."""

    def __init__(self) -> None:
        self.gamma, self.beta = np.ones(5), np.zeros(5)
        self.running_mean, self.running_var, self.batches, self.training = np.zeros(5), np.ones(5), 0, True

    def __call__(self, x: Any, gamma: Any, beta: Any) -> Any:
        """The normalised batch."""
        if self.training:
            mean, var = x.mean(axis=0), x.var(axis=0)
        else:
            mean, var = self.running_mean, self.running_var
        return gamma * (x - mean) / np.sqrt(var + 1e-5) + beta

    def step(self, i: int) -> Any:
        """One step."""
        self.training = i % 4 != 3
        x = X[(i % 4) * 16 : (i % 4) * 16 + 16]
        value, (dg, db) = value_and_grad(lambda g, b: np.mean((self(x, g, b).sum(axis=1) - 1) ** 2), (0, 1))(
            self.gamma, self.beta
        )
        if self.training:
            self.running_mean = 0.9 * self.running_mean + 0.1 * x.mean(axis=0)
            self.running_var = 0.9 * self.running_var + 0.1 * x.var(axis=0)
            self.batches += 1
            self.gamma -= 0.05 * dg
            self.beta -= 0.05 * db
        return value


class Replay:
    """A ring buffer that is written at a position that goes round; learns from all of it."""

    def __init__(self) -> None:
        self.x, self.y, self.at, self.size = np.zeros((8, 5)), np.zeros(8), 0, 0
        self.w = np.zeros(5)

    def add(self, x: Any, y: Any) -> None:
        """Over the oldest entry."""
        self.x[self.at] = x
        self.y[self.at] = y
        self.at = (self.at + 1) % 8
        self.size = min(self.size + 1, 8)

    def step(self, i: int) -> Any:
        """One step."""
        self.add(X[i % 64], Y[i % 64])
        used = np.arange(8) < self.size
        value, dw = value_and_grad(lambda w: np.sum(used * (self.x @ w - self.y) ** 2) / self.size)(self.w)
        self.w -= 0.01 * dw
        return value


class QLearning:
    """Epsilon-greedy; the numbers drawn are the caller's."""

    def __init__(self) -> None:
        self.q, self.state, self.visits, self.total = np.zeros((6, 2)), 0, np.zeros((6, 2), int), 0.0

    def step(self, i: int) -> Any:
        """One step along a corridor."""
        greedy = DRAWS[i, 0] > 0.2
        action = int(np.argmax(self.q[self.state])) if greedy else int(DRAWS[i, 1] * 2)
        following = min(max(self.state + 2 * action - 1, 0), 5)
        reward = 1.0 if following == 5 else -0.01
        self.visits[self.state, action] += 1
        target = reward + 0.9 * np.max(self.q[following])
        self.q[self.state, action] += 0.5 * (target - self.q[self.state, action])
        self.state = 0 if following == 5 else following
        self.total += reward
        return action


DRAWS = np.random.default_rng(5).uniform(size=(STEPS, 2))


class Schedule:
    """Warm-up and decay by an object of its own."""

    def __init__(self) -> None:
        self.step_number, self.lr, self.phase = 0, 0.0, "warm-up"

    def advance(self) -> float:
        """The rate of this step."""
        self.step_number += 1
        if self.step_number <= 10:
            self.lr = 0.1 * self.step_number / 10
        else:
            self.phase = "decay"
            self.lr = 0.1 * 0.99 ** (self.step_number - 10)
        return self.lr


class Scheduled:
    """A descent by a schedule."""

    def __init__(self) -> None:
        self.w, self.b, self.schedule = np.zeros(5), np.zeros(1), Schedule()

    def step(self, i: int) -> Any:
        """One step."""
        value, (dw, db) = value_and_grad(loss, (0, 1))(self.w, self.b, X, Y)
        lr = self.schedule.advance()
        self.w -= lr * dw
        self.b = self.b - lr * db
        return value, self.schedule.phase, round(float(value), 2)


def attributes(obj: Any) -> Any:
    """All that an object holds, in containers."""
    if isinstance(obj, dict):
        return {key: attributes(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [attributes(item) for item in obj]
    return attributes(copy.copy(vars(obj))) if hasattr(obj, "__dict__") else obj


def assert_close(have: Any, want: Any) -> None:
    """Equal types and structures, numbers up to 1e-9."""
    assert type(have) is type(want)
    if isinstance(want, dict):
        assert have.keys() == want.keys()
        for key in want:
            assert_close(have[key], want[key])
    elif isinstance(want, list | tuple):
        assert len(have) == len(want)
        for a, b in zip(have, want, strict=True):
            assert_close(a, b)
    elif isinstance(want, np.ndarray | np.generic | float | int):
        assert np.asarray(have).dtype == np.asarray(want).dtype
        assert_allclose(have, want, rtol=1e-9, atol=1e-9)
    else:
        assert have == want


PROGRAMS = [Adam, Momentum, RMSprop, EarlyStopping, BatchNorm, Replay, QLearning, Scheduled]


@pytest.mark.parametrize("audit", ["off", "always"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_two_hundred_steps(program: type, audit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "audit", audit)
    plain, compiled = program(), program()
    step = jit(compiled.step)  # type: ignore[attr-defined]
    for i in range(STEPS):
        assert_close(step(i), plain.step(i))  # type: ignore[attr-defined]
        assert_close(attributes(compiled), attributes(plain))
    told = explain(step)
    assert sum(entry.calls for entry in told) >= 0.8 * STEPS, str(told)
