"""What NumPy asks of its arguments besides their numbers: flags, orders, ranges of whole numbers, places in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from performing import assert_same
from steps import outcome

from yota_py import explain, grad, jit

A = np.arange(4.0).reshape(2, 2)


def agrees(f: Callable[..., Any], make: Callable[[Any], tuple[Any, ...]], values: list[Any]) -> Any:
    """Results, exceptions and arguments are those of the plain function."""
    fast = jit(f)
    for value in values * 2:
        mine, its = make(value), make(value)
        assert_same((outcome(fast, mine), mine), (outcome(f, its), its))
    return explain(fast)


FLAGS: dict[str, Callable[..., Any]] = {
    "sum": lambda n: np.sum(A, axis=0, keepdims=n > 1),
    "max": lambda n: np.max(A, axis=0, keepdims=n > 1),
    "var": lambda n: np.var(A, axis=0, keepdims=n > 1),
    "any": lambda n: np.any(A, axis=0, keepdims=n % 2 == 0),
    "average": lambda n: np.average(A, axis=0, keepdims=n > 1),
    "norm": lambda n: np.linalg.norm(A, axis=0, keepdims=n > 1),
    "method sum": lambda n: A.sum(axis=0, keepdims=n > 1),
    "method std": lambda n: A.std(axis=0, keepdims=not n > 1),
    "position": lambda n: A.sum(0, None, None, n > 1),
    "mean": lambda n: np.mean(A, axis=0, keepdims=n > 1),
    "differences": lambda n: np.diff(A[0] ** 2, n),
    "norm of an order": lambda n: np.linalg.norm(A[0] + 1, n / 2.0),
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_flags_and_orders(name: str) -> None:
    agrees(FLAGS[name], lambda n: (n,), [3, 2, 1, 0, 4, 5])


def test_a_flag_that_is_counted() -> None:
    def made() -> Any:
        state = SimpleNamespace(t=0)

        def f(x: Any) -> Any:
            state.t += 1
            return np.sum(x, keepdims=state.t % 2 == 0)

        return f

    fast, plain = jit(made()), made()
    for _ in range(9):
        assert_same(fast(np.ones(2)), plain(np.ones(2)))
    assert explain(fast)[0].calls >= 4


def test_a_flag_of_a_float() -> None:
    told = agrees(lambda x, flag: np.sum(x, keepdims=flag > 0.5), lambda v: (np.ones(2), v), [1.0, 0.0, 0.25, 2.0])
    assert told[0].calls >= 4


STORES: dict[str, Callable[..., Any]] = {
    "item": lambda y, k: y.__setitem__(0, k), "slice": lambda y, k: y.__setitem__(slice(1), k),
    "all": lambda y, k: y.__setitem__(slice(None), [k, 1]), "positions": lambda y, k: y.__setitem__([0, 1], k),
    "fill": lambda y, k: y.fill(k), "copyto": np.copyto, "put": lambda y, k: np.put(y, [0], k),
    "fill_diagonal": lambda y, k: np.fill_diagonal(y.reshape(1, 2), k), "array": lambda y, k: np.array([k, 1], np.int8),
}  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_numbers_that_do_not_fit(name: str) -> None:
    agrees(STORES[name], lambda k: (np.zeros(2, np.int8), k), [1, 2, 3, 4, 100, 300, -1000, 5])
    if name != "copyto":  # which does not cast
        agrees(STORES[name], lambda k: (np.zeros(2, int), k), [1.5, 2.0, float("nan"), -3.0, float("inf")])


def test_numbers_that_are_computed() -> None:
    def f(y: Any, x: Any) -> None:
        y[0] = x.sum()
        y[1] = float(x[0])

    agrees(f, lambda v: (np.zeros(2, int), np.array([v, 1.0])), [1.5, 2.0, float("nan"), 4.0])


def test_whole_numbers_of_floats() -> None:
    for f in (lambda k: k.is_integer(), lambda k: (k * 2).is_integer(), lambda k: np.array([k])[0].is_integer()):
        agrees(f, lambda k: (k,), [1.5, 2.0, float("inf"), float("nan"), -0.0])


LAYOUTS: list[Callable[[], Any]] = [
    lambda: A.copy(), lambda: A.copy().T, lambda: np.zeros((4, 4))[::2, ::2], lambda: np.asfortranarray(A),
]  # fmt: skip
FLAT = [
    "x.flat[1] = k", "x.flat[::3] = k", "x.flat[[0, 3]] = k", "x.flat[1:] += k", "x.T.flat[1] = k",
    "x[:, 1].flat[0] = k", "x[::2].flat[:] = k", "y = x.flat[1:3]\ny[0] = k", "y = x.flat[:]\nx += k\nx[0] = y[:2]",
    "for i, q in enumerate(x.flat):\n    x.flat[i] = q * k", "x[0, 0] = len(x.flat) + np.sum(x.flat) + x.flat[-1]",
    "x[0] = np.array(x.flat)[:2] * np.asarray(x.flat)[2:] * k", "x[0, 0] = np.sum(x.flat > 1.7) + np.sum(1.9 > x.flat)",
    "x[0] = x.flat.copy()[:2] * k", "x[0, 1] = sum(v * v for v in x.flat) + np.dot(x.flat, x.flat)",
]  # fmt: skip


@pytest.mark.parametrize("text", FLAT)
def test_flat(text: str) -> None:
    names: dict[str, Any] = {"np": np}
    body = "".join(f"    {line}\n" for line in text.splitlines())
    exec(compile(f"def write(x, k):\n{body}\ndef f(w, k):\n    x = (w * 1.0).T\n{body}    return x", "<flat>", "exec"),
         names)  # fmt: skip
    f = names["f"]

    def loss(w: Any, k: Any) -> Any:
        return np.sum(f(w, k) * np.arange(4.0).reshape(2, 2))

    for layout in LAYOUTS:
        agrees(names["write"], lambda k, layout=layout: (layout(), k), [1.5, 2.5, 3.5])
        for k in (1.5, 2.5, 3.5):
            w = layout() + 0.5
            value, (dw, dk) = grad(loss, w, k)
            assert_allclose(value, loss(w, k), rtol=1e-12)
            for d, have in ((np.eye(4)[i].reshape(2, 2), dw.reshape(-1)[i]) for i in range(4)):
                slope = (loss(w + 1e-6 * d, k) - loss(w - 1e-6 * d, k)) / 2e-6
                assert_allclose(have, slope, rtol=1e-5, atol=1e-6)
            assert_allclose(dk, (loss(w, k + 1e-6) - loss(w, k - 1e-6)) / 2e-6, rtol=1e-5, atol=1e-6)


PLACES: list[Callable[[Any], Any]] = [
    lambda x: np.require(x, requirements="C").__setitem__(0, 5.0),
    lambda x: np.require(x, requirements="F").__setitem__(0, 5.0),
    lambda x: np.require(x, float, ["C", "W"]).__iadd__(1.0) is x,
    lambda x: np.require(x) is x,
    lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)).__setitem__(0, 5.0),
]


@pytest.mark.parametrize("f", PLACES)
def test_places_in_memory(f: Callable[[Any], Any]) -> None:
    for layout in LAYOUTS:
        agrees(f, lambda _, layout=layout: (layout(),), [1, 2, 3])
