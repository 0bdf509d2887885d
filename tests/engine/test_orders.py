"""Operands in other orders than C's: loops run as they lie in memory, and results lie as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, gradient, jit
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded
from yota_py.engine.plan.layout import Place, Reference, c_strides, collapse, order_of, ordered_strides
from yota_py.engine.run.program import Program

A, B, C = (np.random.default_rng(i).normal(size=(17, 23)) for i in range(3))
T = np.random.default_rng(3).normal(size=(3, 9, 11))

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum of transposes": lambda a, b: a.T + b.T,
    "of both": lambda a, b: a.T[:17, :17] + b[:, :17],
    "several results": lambda a, b: (np.exp(a.T), a.T * 2 - b.T, (a.T + 1) @ b),
    "a view of one": lambda a, b: (a.T * b.T)[::2, 1:].reshape(-1) + 1,
    "raveled": lambda a, b: np.ravel(a.T * 2) * np.arange(a.size),
    "reduced": lambda a, b: (np.sum(a.T, axis=1), np.max(a.T * b.T, axis=0), np.prod(a.T + 2, axis=1), np.sum(a.T)),
    "kept in Python": lambda a, b: np.sort(a.T * 2, 0, "heapsort") + np.median(a.T + b.T, axis=1, keepdims=True),
    "joined": lambda a, b: np.concatenate([a.T * 2, b.T + 1], axis=1),
    "padded": lambda a, b: np.pad(a.T * b.T, 1) + 1,
    "gathered": lambda a, b: (a.T * 2)[np.array([3, 3, 0])] + b.T[:3],
    "an own transpose": lambda a, b: (a.T * b.T).T + a,
    "masks": lambda a, b: (a.T > 0, np.where(a.T > 0, b.T, 0), np.any(a.T > 2, axis=0), np.all(a.T > -9, axis=1)),
    "with rows and columns": lambda a, b: a.T * b[:, 0] + b[0][:, None],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")


def same(have: Any, want: Any) -> None:
    """Values, and the layout of arrays."""
    if isinstance(want, tuple):
        for x, y in zip(have, want, strict=True):
            same(x, y)
        return
    assert_allclose(have, want, rtol=1e-12, atol=1e-13)
    assert have.dtype == want.dtype
    if want.ndim:
        assert have.flags.c_contiguous == want.flags.c_contiguous and have.flags.f_contiguous == want.flags.f_contiguous
        assert have.flags.owndata == want.flags.owndata


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_layouts(name: str) -> None:
    f, g = FUNCTIONS[name], jit(FUNCTIONS[name])
    for a, b in ((A, B), (B, C), (C, A)):
        same(g(a, b), f(a, b))
    for a, b in ((np.asfortranarray(A), B), (np.asfortranarray(A), np.asfortranarray(C)), (A[::-1], B)):
        same(g(a, b), f(a, b))


@pytest.mark.parametrize("axes", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_three_dimensions(axes: tuple[int, ...]) -> None:
    """Order that no new array of NumPy's has by itself, and sums over all of its axes."""
    def f(x: Any) -> Any:
        y = np.transpose(x, axes) * 2 + 1
        return y, np.sum(y, axis=0), np.max(y, axis=(0, 2)), np.sum(y * y, axis=-1, keepdims=True), np.cumsum(y, axis=1)

    g = jit(f)
    for x in (T, T + 1, T * 2):
        same(g(x), f(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    def f(a: Any, b: Any) -> Any:
        y = FUNCTIONS[name](a, b)
        return sum(np.sum(np.sin(x) * x) for x in y) if isinstance(y, tuple) else np.sum(np.sin(y) * y)

    compiled = gradient(f, (0, 1))
    for a, b in ((A, B), (B, C), (np.asfortranarray(C), A)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "compile", "never")
            want = gradient(f, (0, 1))(a, b)
        for have, expected in zip(compiled(a, b), want, strict=True):
            assert_allclose(have, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("orders", ["FFCF", "CFFC", "FCSF", "SFCF"])
def test_orders_take_turns(name: str, orders: str) -> None:
    """The first call decides what the program is made for; "S" is an array with gaps."""
    f, g = FUNCTIONS[name], jit(FUNCTIONS[name])
    for i, order in enumerate(orders):
        a, b = np.random.default_rng(i).normal(size=(2, 17, 23))
        x = np.repeat(a, 2, axis=1)[:, ::2] if order == "S" else np.array(a, order=order)  # type: ignore[call-overload]
        same(g(x, b), f(x, b))


def test_arrays_in_the_order_that_was_traced_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * c, axis=0)

    c = np.asfortranarray(B)
    program = compile_recorded(record_call(f, (np.asfortranarray(A),), {}))
    copied = []
    monkeypatch.setattr(Program, "_converted", lambda self, values: copied.append(values))
    for x in (A, C):
        (have,) = program(np.asfortranarray(x), c)
        assert_allclose(have, np.sum(x * B, axis=0), rtol=1e-12)
    assert not copied
    program(A, c)
    assert len(copied) == 1


def test_a_result_fed_back_in() -> None:
    """Arrays in another order are copied, not misread."""
    step = jit(lambda w, a: w - 0.1 * a.T)
    w, v = np.zeros((23, 17)), np.zeros((23, 17))
    for a in (A, B, C, A):
        w, v = step(w, a), v - 0.1 * a.T
        same(w, v)


# ------------------------------------------------------------------------------------------------- the parts


def place(array: np.ndarray) -> Place:
    return Place(7, 0, array.shape, array.strides, array.dtype.name)


@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_order_of_results(axes: tuple[int, ...]) -> None:
    x = np.transpose(T, axes)
    order = order_of([place(x), place(x[0]), place(x[:, :1])], x.shape)
    assert ordered_strides(x.shape, 8, order) == (x + 1).strides
    if axes != (0, 1, 2):
        assert order_of([place(x), place(x.copy())], x.shape) == (0, 1, 2)


def test_strides_of_dimensions_of_one() -> None:
    x = np.zeros((5, 1, 4)).T
    assert ordered_strides(x.shape, 8, order_of([place(x)], x.shape)) in ((8, 32, 32), (8, 8, 32), (8, 160, 32))
    assert order_of([], (3, 4)) == order_of([place(np.zeros(4))], (3, 4)) == (0, 1)


def references(*strides: tuple[int, ...], reduced: tuple[bool, ...] = ()) -> list[Reference]:
    return [Reference(Place(7, 0, (), (), "float64"), list(s), list(reduced) or [False] * len(s)) for s in strides]


def test_loops_run_as_memory_lies() -> None:
    """The majority decides; rows that are too short stay outside; what merges is one loop."""
    shape = (40, 30)
    turned, straight = (8, 320), c_strides(shape, 8)
    assert collapse(shape, references(turned, turned)) == [1200]
    assert collapse(shape, references(turned, turned, straight)) == [30, 40]
    assert collapse(shape, references(turned, straight)) == [40, 30]
    assert collapse((3, 500), references((8, 48), (8, 24))) == [3, 500]
    assert collapse((3, 500), references((8, 24), (8, 24))) == [1500]
    assert collapse(shape, references(turned, (8, 0), reduced=(False, True))) == [30, 40]
    assert collapse(shape, references(straight, (0, 8), reduced=(True, False))) == [40, 30]
