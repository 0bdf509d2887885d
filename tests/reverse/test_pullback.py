"""``pullback`` shows a function its arguments as they are, and keeps what ``back`` needs from what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import LostDerivativeError, check_grads, grad, pullback

BIG = np.arange(48.0).reshape(6, 8)
LAYOUTS = {
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "reversed rows": np.arange(6.0).reshape(3, 2)[::-1],
    "reversed columns": np.arange(6.0).reshape(2, 3).T[:, ::-1],
    "with gaps": BIG[::2, 1:6:2],
    "of a transposed one": BIG.T[::3],
    "Fortran": np.asfortranarray(BIG[:3]),
    "broadcast": np.broadcast_to(np.arange(3.0), (2, 3)),
}


def writes_into_a_view(a: Any) -> Any:
    b = a.T.reshape(-1)
    b[1] = 100.0
    return a.sum(1)


def writes_in_memory_order(a: Any) -> Any:
    b = a.ravel("A")
    b[1] = 100.0
    return a.sum(1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ravel K": lambda a: np.ravel(a, "K"),
    "method K": lambda a: a.ravel("K"),
    "method A": lambda a: a.ravel(order="A"),
    "reshape A": lambda a: a.reshape(-1, order="A"),
    "of a result": lambda a: np.ravel(np.sin(a), "K"),
    "flags": lambda a: a * (2.0 if a.flags.c_contiguous else 3.0),
    "strides": lambda a: a * float(a.strides[0] > a.strides[-1]),
    "a view": writes_into_a_view,
    "a copy or a view": writes_in_memory_order,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_lie_in_memory_as_they_do(name: str, layout: str) -> None:
    f, x = FUNCTIONS[name], LAYOUTS[layout]
    before = x.copy()
    y, back = pullback(f, x)
    w = np.arange(1.0, 1.0 + np.size(y)).reshape(np.shape(y)) ** 2
    value, (g,) = grad(lambda a: np.sum(w * f(a)), x)
    assert_allclose(np.sum(w * y), value, rtol=1e-12)
    assert_array_equal(back(w)[0], g)
    assert_array_equal(x, before)
    if not name.startswith("a "):
        assert_array_equal(y, f(x))


def test_one_array_given_twice_is_not_two() -> None:
    x = np.ones(2)
    with pytest.raises(LostDerivativeError, match="the same object"):
        pullback(lambda a, b: 10 * a if a is b else 3 * b, x, x)


def test_what_the_caller_does_to_arguments_afterwards() -> None:
    x, i, p = np.array([1.0, 2.0]), np.array([1, 0]), {"w": np.array([3.0, 4.0])}

    def f(x: Any, i: Any, p: Any) -> Any:
        return x[i.T] * i * p["w"][::-1], x.T * x

    y, back = pullback(f, x, i, p)
    want = back((np.ones(2), np.ones(2)))
    x[:], i[:], p["w"][:] = 100.0, 0, 7.0
    for _ in range(2):
        have = back((np.ones(2), np.ones(2)))
        assert_array_equal(have[0], want[0])
        assert have[1] is None
        assert_array_equal(have[2]["w"], want[2]["w"])
    assert_array_equal(y[0], [8.0, 0.0])
    assert_array_equal(want[0], [2.0, 8.0])


def test_traced_arguments_that_are_written_into_afterwards() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        _, back = pullback(lambda z: z**2, y)
        y[0] = 100.0
        return np.sum(back(np.ones(2))[0] * y)

    check_grads(f, np.array([1.0, 2.0]))
