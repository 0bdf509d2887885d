"""Compiled gradients of functions that write into their arguments know no arrays that share memory."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from yota_py import explain, grad
from yota_py.errors import MutationError

WEIGHTS = np.array([1.0, 2.0, 3.0])


def scaled(x: Any, y: Any) -> Any:
    x *= 2.0
    return np.sum(x * y**2) + np.sum(x * WEIGHTS)


def partly(x: Any, y: Any) -> Any:
    x[0] = y[1] * 2
    return x * y


@pytest.mark.parametrize("f", [scaled, partly])
def test_apart_then_together_then_apart(f: Any) -> None:
    seed = None if f is scaled else np.array([1.0, 0.5, 0.25])
    base = np.arange(1.0, 8.0)
    for i in range(4):
        x, y = base[:3] + i, base[3:6]
        _, (dx, dy) = grad(f, x, y, seed=seed)
        before = base.copy()
        for a, b in ((base[:3], base[:3]), (base[:3], base[1:4]), (base[2::-1], base[:3]), (WEIGHTS, WEIGHTS)):
            with pytest.raises(MutationError, match="shares memory with"):
                grad(f, a, b, seed=seed)
        np.testing.assert_array_equal(base, before)
        _, (again, dy_again) = grad(f, x, y, seed=seed)
        np.testing.assert_array_equal(again, dx)
        np.testing.assert_array_equal(dy_again, dy)
        if f is scaled:
            np.testing.assert_allclose(dx, 2 * (y**2 + WEIGHTS))
            np.testing.assert_allclose(dy, 4 * x * y)
    assert explain(f)[-1].calls >= 7


def test_a_captured_array_as_an_argument() -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        return np.sum(x * WEIGHTS)

    for i in range(4):
        np.testing.assert_allclose(grad(f, WEIGHTS + i)[1][0], 2 * WEIGHTS)
        with pytest.raises(MutationError, match="an array that it reads from elsewhere"):
            grad(f, WEIGHTS)
        with pytest.raises(MutationError):
            grad(f, WEIGHTS[::-1])


NAME = "array"


class Holder:
    array = WEIGHTS


@pytest.mark.parametrize(
    "read",
    [lambda: getattr(Holder, NAME), lambda: vars(Holder)["array"], lambda: globals()["WEIGHTS"],
     lambda: Holder.__dict__["array"], lambda: operator.attrgetter("array")(Holder)[::-1]],
)  # fmt: skip
def test_an_array_that_is_read_by_a_text(read: Any) -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        return np.sum(x * read())

    for _ in range(3):
        with pytest.raises(MutationError, match="an array that it reads from elsewhere"):
            grad(f, WEIGHTS)
        with pytest.raises(MutationError):
            grad(f, WEIGHTS[::-1])
        np.testing.assert_allclose(grad(f, np.ones(3))[1][0], 2 * read())


def test_another_memory_order_is_traced_anew() -> None:
    def f(x: Any) -> Any:
        flat = x.reshape(-1)  # a view or a copy, as the order of the memory allows
        flat[0] = 5.0
        return np.sum(x * x)

    for i in range(4):
        x = np.arange(6.0).reshape(2, 3) + i
        assert grad(f, x)[1][0][0, 0] == 0.0
        assert grad(f, np.asfortranarray(x))[1][0][0, 0] == 2 * x[0, 0]


def test_a_gradient_of_a_function_that_writes_into_what_is_read_only_raises_as_numpy_does() -> None:
    def f(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x * x)

    locked = np.ones(3)
    grad(f, locked)
    locked.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            grad(f, locked)
        assert grad(f, np.ones(3))[0] == 27.0
