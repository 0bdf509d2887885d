"""Whether an array may be written into decides where a function goes that catches NumPy's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from yota_py import config, grad, jit


def f(x: Any) -> Any:
    try:
        x[0] = 3.0
    except ValueError:
        return np.sum(x) * 7
    return np.sum(x**2)


def by_parts(x: Any) -> Any:
    part = x[::2]
    try:
        part += 1.0
    except ValueError:
        return np.sum(x) * 7
    return np.sum(x**2)


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


def given(writeable: bool) -> np.ndarray:
    return np.array([1.0, 2.0, 4.0]) if writeable else read_only(np.array([1.0, 2.0, 4.0]))


ORDERS = [[True] * 3 + [False] * 3 + [True], [False] * 3 + [True] * 3 + [False], [True, False] * 4]
DERIVATIVES = {
    f: {True: (29.0, [0.0, 4.0, 8.0]), False: (49.0, [7.0, 7.0, 7.0])},
    by_parts: {True: (33.0, [4.0, 4.0, 10.0]), False: (49.0, [7.0, 7.0, 7.0])},
}


@pytest.mark.filterwarnings("ignore::yota_py.UncachedWarning")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loss", DERIVATIVES)
class TestOrders:
    def test_steps(self, loss: Callable[[Any], Any], order: list[bool]) -> None:
        step = jit(loss)
        for writeable in order:
            x, y = given(writeable), given(writeable)
            assert step(x) == loss(y)
            assert_array_equal(x, y)

    def test_gradients(self, loss: Callable[[Any], Any], order: list[bool]) -> None:
        for writeable in order:
            x = given(writeable)
            y, (dx,) = grad(loss, x)
            want = DERIVATIVES[loss][writeable]
            assert y == want[0]
            assert_array_equal(dx, want[1])

    def test_gradients_in_steps(self, loss: Callable[[Any], Any], order: list[bool]) -> None:
        step = jit(lambda x: grad(loss, x))
        for writeable in order:
            y, (dx,) = step(given(writeable))
            want = DERIVATIVES[loss][writeable]
            assert y == want[0]
            assert_array_equal(dx, want[1])

    def test_gradients_in_gradients_in_steps(self, loss: Callable[[Any], Any], order: list[bool]) -> None:
        step = jit(lambda x: grad(lambda z: grad(loss, z)[0] * 2, x))
        for writeable in order:
            y, (dx,) = step(given(writeable))
            want = DERIVATIVES[loss][writeable]
            assert y == 2 * want[0]
            assert_array_equal(dx, 2 * np.array(want[1]))


def test_what_is_not_caught_is_raised() -> None:
    def g(x: Any) -> Any:
        x[0] = 3.0
        return np.sum(x**2)

    config.compile = "always"
    for call in (jit(g), lambda x: grad(g, x), jit(lambda x: grad(g, x))):
        for writeable in (True, True, False, True, False):
            if writeable:
                call(given(True))
            else:
                with pytest.raises(ValueError, match="read-only"):
                    call(given(False))
