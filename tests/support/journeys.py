"""A module whose functions go to other processes: made of them under other names, decorated, in classes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from yota_py import gradient, jit, value_and_grad

X, P = np.arange(3.0), np.ones(3)


def loss(p: Any, x: Any) -> Any:
    """A loss."""
    return np.sum((p * x) ** 2)


def with_aux(p: Any, x: Any) -> Any:
    return np.sum((p * x) ** 2), x * 2.0


def cube(x: Any) -> Any:
    return x**3


class Model:
    """A callable object with methods, and what is made of functions among its attributes and those of its class."""

    fast = value_and_grad(loss)  # binds: the first argument is the object, if it is called as a method

    def __init__(self) -> None:
        self.x = X * 2.0

    def __call__(self, p: Any) -> Any:
        return np.sum((p * self.x) ** 2)

    def step(self, p: Any) -> Any:
        return p * self.x

    @jit
    def decorated(self, p: Any) -> Any:
        return p + self.x

    @staticmethod
    @jit
    def alone(p: Any) -> Any:
        return p * 3.0


class Trained:
    """Holds what is made of its own method, and of itself."""

    def __init__(self) -> None:
        self.w = np.ones(3)
        self.step, self.itself = jit(self.plain), value_and_grad(self)

    def plain(self, x: Any) -> Any:
        return self.w * x

    def __call__(self, x: Any) -> Any:
        return np.sum(self.w * x)


@jit
def step(x: Any) -> Any:
    """A step."""
    step.count += 1  # type: ignore[attr-defined]
    return x * 2.0


step.count = 0  # type: ignore[attr-defined]


@value_and_grad
def decorated(p: Any) -> Any:
    return np.sum(p * p)


@jit
@gradient
def twice(p: Any) -> Any:
    return np.sum(p * p * p)


@jit
def factorial(n: Any) -> Any:
    return 1 if n <= 1 else n * factorial(n - 1)


scaled = functools.partial(loss, x=X)
