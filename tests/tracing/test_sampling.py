"""Functions of ``np.random`` that arrange a traced array anew draw the same as they would of a real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from yota_py import grad, jit
from yota_py.errors import LostDerivativeError

A = np.arange(12.0).reshape(4, 3)
W = np.arange(1.0, 13.0).reshape(4, 3)
CHANCES = [0.1, 0.2, 0.3, 0.4]


def shuffled(x: Any) -> Any:
    y = 1.0 * x
    np.random.shuffle(y)
    return y


def shuffled_in_a_view(x: Any) -> Any:
    y = 1.0 * x
    np.random.shuffle(y[:, 1])
    return y


def shuffled_by_a_generator(x: Any, axis: int = 0) -> Any:
    y = 1.0 * x
    rng().shuffle(y, axis=axis)
    return y


def rng() -> np.random.Generator:
    """One that ``np.random.seed`` seeds, too."""
    return np.random.default_rng(int(np.random.get_state()[1][0]))


_ARRANGED: dict[str, Callable[[Any], Any]] = {
    "shuffle": shuffled,
    "a view": shuffled_in_a_view,
    "permutation": lambda x: np.random.permutation(1.0 * x),
    "of a vector": lambda x: np.random.permutation(x[:, 0]),
    "choice": lambda x: np.random.choice(x[:, 0]),
    "choices": lambda x: np.random.choice(x[0], (2, 2)),
    "by a generator": shuffled_by_a_generator,
    "columns": lambda x: shuffled_by_a_generator(x, 1),
    "permutation of columns": lambda x: rng().permutation(1.0 * x, axis=1),
    "chosen rows": lambda x: rng().choice(x, 3),
    "chosen columns": lambda x: rng().choice(x, (2, 1), axis=1, shuffle=False, replace=False),
    "chosen numbers": lambda x: rng().choice(x[:, 2], p=CHANCES),
    "with chances": lambda x: np.random.choice(x[:, 1], 3, replace=False, p=CHANCES),
}


@pytest.mark.parametrize("name", _ARRANGED)
def test_draws_of_traced_values(name: str) -> None:
    f = _ARRANGED[name]
    for seed in range(4):
        np.random.seed(seed)
        want = f(A.copy())  # the elements of A are their own positions
        dy = 1.0 + np.arange(np.size(want)).reshape(np.shape(want))
        np.random.seed(seed)
        value, (g,) = grad(f, A, seed=dy if dy.ndim else 1.0)
        assert_array_equal(value, want)
        wanted = np.bincount(np.ravel(want).astype(int), np.ravel(dy), A.size)
        assert_array_equal(g, wanted.reshape(A.shape))


def test_every_call_draws() -> None:
    rng_of = np.random.permutation  # the name alone does not tell

    def f(x: Any) -> Any:
        return np.sum(rng_of(x) * np.arange(6.0))

    x = np.arange(6.0) ** 2
    for seed in range(6):
        np.random.seed(seed)
        want = f(x)
        np.random.seed(seed)
        assert grad(f, x)[0] == want


def test_plain_draws_are_not_kept() -> None:
    choice = np.random.choice

    def f(x: Any) -> Any:
        return x * choice(5, 3).sum()

    for seed in range(6):
        np.random.seed(seed)
        want = f(2.0)
        np.random.seed(seed)
        assert grad(f, 2.0)[0] == want


def test_values_that_would_lose_a_derivative() -> None:
    rng = np.random.default_rng(0)
    for f in (rng.poisson, np.random.gamma, rng.chisquare):
        with pytest.raises(LostDerivativeError, match="test_sampling"):
            grad(lambda x, f=f: np.sum(f(x)), np.arange(3.0))


def test_shuffles_of_the_callers_array() -> None:
    @jit
    def step(x: Any) -> None:
        np.random.shuffle(x)

    for seed in range(4):
        mine, its = A.copy(), A.copy()
        np.random.seed(seed)
        np.random.shuffle(mine)
        np.random.seed(seed)
        step(its)
        assert_array_equal(its, mine)
