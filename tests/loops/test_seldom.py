"""Loops of which nothing can be told are looked at ever more seldom, and the others as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py.cache.modes import Gradient, Request
from yota_py.capture.recording import record_call
from yota_py.loops import watching
from yota_py.loops.frames import State
from yota_py.tape.loop import as_loop


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """The states of frames that are made to be compared."""
    made: list[State] = []

    class Counted(State):
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(self)
            super().__init__(*args, **options)

    monkeypatch.setattr(watching, "State", Counted)
    return made


DATA = np.random.default_rng(0).normal(size=1000)


def growing(p: Any, n: int) -> Any:
    """Each turn appends to a list, which has another length in the next."""
    v = [p[0]]
    for t in range(n):
        v.append(p[1] + 0.5 * v[-1] * DATA[t])
    return np.sum(np.array(v) ** 2)


def inner_grows(p: Any, n: int) -> Any:
    """Only the inner one of two loops cannot be told."""
    total = p[0] * 0
    for _ in range(3):
        v = [p[0]]
        for t in range(n // 3):
            v.append(p[1] + 0.5 * v[-1] * DATA[t])
        total = total + v[-1]
    return total


def late(p: Any, n: int) -> Any:
    """The first turns differ from one another."""
    x = p[0]
    for t in range(n):
        for _ in range(max(20 - t, 0)):
            x = x + 0.001 * np.sin(x)
        x = x * 0.99 + p[1] * 0.01
    return x


@pytest.mark.parametrize("f", [growing, inner_grows, late])
def test_states_are_few(f: Callable[..., Any], states: list[State]) -> None:
    counts = []
    for n in (300, 900):
        states.clear()
        p = np.array([0.3, 0.7])
        value, dp = Gradient(0).reference(Request(f, (p, n), {}))[0]
        np.testing.assert_allclose(value, f(p, n), rtol=1e-12)
        steps = np.eye(2) * 1e-6
        wanted = [(f(p + step, n) - f(p - step, n)) / 2e-6 for step in steps]
        np.testing.assert_allclose(dp, wanted, rtol=1e-5, atol=1e-7)
        counts.append(len(states))
    assert max(counts) < 120, counts


def test_what_is_alike_late_is_a_loop_all_the_same() -> None:
    def f(p: Any) -> Any:
        x, sums = p[0], []
        for t in range(40):  # nothing can be told of these
            sums.append(x)
            x = x * 0.9 + p[1] * DATA[t]
        for _ in range(2000):
            x = x * 0.99 + p[1] * 0.01
        return x + sum(sums)

    tape = record_call(f, (np.array([0.3, 0.7]),), {}).tape
    assert any(as_loop(op) is not None for _, op in tape)
    assert len(tape) < 1500
