"""Functions of ours go to other processes with an empty cache, by cloudpickle, as in joblib."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest
from joblib import Parallel, delayed

from yota_py import config, explain, gradient, jit, value_and_grad

X, P = np.arange(3.0), np.ones(3)


def loss(p: Any, x: Any) -> Any:
    return np.sum((p * x) ** 2)


class Model:
    """A callable object, which owns its cache."""

    def __init__(self) -> None:
        self.x = X

    def __call__(self, p: Any) -> Any:
        return np.sum((p * self.x) ** 2)


FUNCTIONS: list[tuple[Callable[[], Callable[..., Any]], tuple[Any, ...]]] = [
    (lambda: value_and_grad(loss), (P, X)),
    (lambda: value_and_grad(loss, (0, -1)), (P, X)),
    (lambda: gradient(loss), (P, X)),
    (lambda: jit(loss), (P, X)),
    (lambda: value_and_grad(lambda p: np.sum(p * X * p)), (P,)),
    (lambda: gradient(gradient(lambda x: x**3)), (2.0,)),
    (lambda: jit(gradient(lambda x: np.sum(np.sin(x)))), (X,)),
    (lambda: value_and_grad(Model()), (P,)),
]


@pytest.mark.parametrize("policy", ["auto", "always"])
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_they_are_the_same_after_a_journey(k: int, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", policy)
    make, args = FUNCTIONS[k]
    f = make()
    want = f(*args)
    for _ in range(2):
        f(*args)
    other = cloudpickle.loads(cloudpickle.dumps(f))
    for g in (other, cloudpickle.loads(cloudpickle.dumps(other)), copy.copy(f), copy.deepcopy(f)):
        for _ in range(3):
            np.testing.assert_equal(g(*args), want)
        g.compile(*args)
        np.testing.assert_equal(g(*args), want)
        assert explain(g)[0].entries
    assert not explain(cloudpickle.loads(cloudpickle.dumps(f)))
    np.testing.assert_equal(f(*args), want)


def test_fits_in_processes() -> None:
    fast = value_and_grad(loss)
    wanted = [fast(P * i, X) for i in range(4)]
    for f in (fast, jit(loss), gradient(loss)):
        here = [f(P * i, X) for i in range(4)]
        np.testing.assert_equal(Parallel(n_jobs=2)(delayed(f)(P * i, X) for i in range(4)), here)
    np.testing.assert_equal([fast(P * i, X) for i in range(4)], wanted)
