"""Long tapes and deep expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad
from yota_py.tape.recorder import Recorder
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify


def test_a_tape_of_200_000_operations_is_interpreted() -> None:
    """Written with a recorder; tracing takes about 30 µs an operation."""
    tape, n = Tape("long"), 200_000
    recorder = Recorder(tape)
    x = y = recorder.input(2.0, "x")
    for i in range(n):
        y = recorder.call(np.add if i % 2 else np.multiply, (y, 0.5 if i % 2 == 0 else x))
    tape.results = [y]
    assert len(verify(tape)) > n
    for at in (2.0, 3.0, 4.0):  # y -> y/2 + x has its fixed point at 2x
        assert_allclose(tape.play_flat([at])[0], 2 * at, rtol=1e-12)
    assert tape.show().count("\n") > n


def test_an_expression_50_000_deep() -> None:
    """Its gradient tape has 250,000 operations."""
    def f(x: Any) -> Any:
        for _ in range(50_000):
            x = x * 0.9999
        return x

    value, (g,) = grad(f, 2.0)
    assert_allclose((value, g), (f(2.0), 0.9999**50_000), rtol=1e-10)


def test_an_expression_1000_deep_is_compiled() -> None:
    def f(x: Any) -> Any:
        for i in range(1000):
            x = x * 0.99 + 0.01 * i / 1000
        return x

    for x in (2.0, 3.0, 4.0, 5.0):
        agree(f, x)


def _chain_of_views(x: Any, n: int) -> tuple[Any, Any]:
    """An array, and what is seen of it through so many views."""
    y = v = x.copy()
    for _ in range(n):
        v = v[::-1]
    return y, v


def _read_below(x: Any, n: int) -> Any:
    y, v = _chain_of_views(x, n)
    y[0] = 2.0
    return np.sum(v * x)


def _write_below(x: Any, n: int) -> Any:
    y, v = _chain_of_views(x, n)
    v[0] = 2.0
    return np.sum(y * x)


@pytest.mark.parametrize("f", [_read_below, _write_below])
def test_a_view_of_a_view_2000_deep(f: Callable[..., Any]) -> None:
    value, (g, _) = grad(f, np.arange(1.0, 4.0), 2000)
    assert value == f(np.arange(1.0, 4.0), 2000)
    assert_array_equal(g, [2.0, 4.0, 6.0])
