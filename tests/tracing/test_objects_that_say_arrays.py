"""Objects of the user's own classes that say which array they are, where NumPy is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, jit


class Made:
    """It makes its array when it is asked."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.0, 2.0])


class Filled:
    def __init__(self) -> None:
        self.n = 3.0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.full(2, self.n)


class Kept:
    def __init__(self) -> None:
        self.values = np.array([3.0, 4.0])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


class Wrong:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return [1.0, 2.0]


WAYS: dict[str, Callable[..., Any]] = {
    "asarray": lambda x, c: x * np.asarray(c), "array": lambda x, c: np.array(c) * x,
    "of a dtype": lambda x, c: x * np.asarray(c, dtype=np.float32), "in a list": lambda x, c: x * np.array([c, c]),
    "a ufunc": lambda x, c: x * np.sin(c), "a function": lambda x, c: x * np.sum(c),
    "several": lambda x, c: x * np.concatenate([c, c]), "an operand": lambda x, c: np.multiply(x, c),
    "a reduction": lambda x, c: x * np.add.reduce(c),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", [Made, Filled, Kept])
def test_values_and_gradients(cls: type, way: str) -> None:
    c, f = cls(), WAYS[way]

    def total(x: Any) -> Any:
        return np.sum(f(x, c))

    step = jit(total)
    for x in (2.0, 3.0, -1.0):
        want = np.sum(f(1.0, c))
        value, (dx,) = grad(total, x)
        assert_allclose((value, dx), (x * want, want), rtol=1e-6)
        assert_allclose(step(x), x * want, rtol=1e-6)


def test_what_says_no_array() -> None:
    for f in (lambda x: x * np.asarray(Wrong()), lambda x: np.sum(np.sin(Wrong())) * x):
        with pytest.raises((ValueError, TypeError)) as plain:
            f(2.0)
        with pytest.raises(plain.type, match=str(plain.value)):
            grad(f, 2.0)
