"""Loops over numbers and short vectors as one kernel: they give what the interpreter gives, whatever comes in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import loops
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import config, grad
from yota_py.engine.kernels.registers import RegistersSpec
from yota_py.engine.plan import registers, repeat
from yota_py.errors import GuardError
from yota_py.passes import repeats, roll

R = np.random.default_rng(0)
N = 60


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[RegistersSpec | None]:
    """The kernels of loops that are planned; ``None`` for those in memory. Short loops are rolled up as well."""
    found: list[RegistersSpec | None] = []

    def noted(*given: Any) -> Any:
        kernel = registers.in_registers(*given)
        found.append(None if kernel is None else kernel[0])
        return kernel

    monkeypatch.setattr(repeat, "in_registers", noted)
    monkeypatch.setattr(repeats, "LEAST_TURNS", 3)
    for module in (repeats, roll):
        monkeypatch.setattr(module, "LEAST_SAVED", 12)
    return found


def every(turn: Callable[..., Any], start: Any) -> Callable[..., Any]:
    """A function that carries ``turn(state, x[t], p)`` on through all turns."""

    def f(x: Any, p: Any) -> Any:
        state, total = start(p), 0.0
        for t in range(len(x)):
            state = turn(state, x[t], p)
            total = total + np.sum(state * state)
        return total + np.sum(state)

    return f


def written(v: Any, x: Any, p: Any) -> Any:
    v = v.copy()
    v[1] = x * v[0]
    v[2:] += p[0]
    return v * 0.5


V = lambda n: lambda p: p[0] * np.linspace(0.5, 1.0, n)  # noqa: E731
NARROW = lambda x: x.astype(np.float32)  # noqa: E731
BODIES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "numbers": (lambda a, x, p: p[0] * a + p[1] * x**2, lambda p: p[0] * 1.0),
    "two vectors": (lambda v, x, p: np.tanh(v * p[0] + np.array([x, p[1], 0.5])), V(3)),
    "sums": (lambda v, x, p: v * 0.9 + 0.1 * np.sum(v) + 0.1 * np.max(v) - 0.1 * np.min(v) * x, V(5)),
    "products": (lambda v, x, p: v * 0.5 + 0.1 * np.prod(v * 0.9) + 0.1 * x, V(4)),
    "matrix": (lambda v, x, p: np.array([[0.5, 0.2], [-0.1, p[0]]]) @ v + x * p[1:3], V(2)),
    "matrices": (lambda m, x, p: 0.3 * m @ m.T + x * np.eye(3) * p[0], lambda p: p[0] * np.eye(3)),
    "inner product": (lambda v, x, p: v * 0.5 + (v @ p[:3]) * x, V(3)),
    "rows and columns": (lambda m, x, p: 0.5 * m + 0.1 * m[0] + 0.1 * m[:, 1:2] * x, lambda p: p[0] * np.ones((2, 3))),
    "turned": (lambda v, x, p: v[::-1] * 0.9 + np.roll(v, 1) * 0.1 * x, V(4)),
    "concatenated": (lambda v, x, p: 0.9 * np.concatenate([v[1:], v[:1] * x]), V(3)),
    "stacked": (lambda v, x, p: np.stack([v[1] * x, v[0] * 0.5, np.sin(v[2])]), V(3)),
    "assigned": (written, V(4)),
    "selected": (lambda v, x, p: np.where(v > x, v * 0.5, np.sqrt(np.abs(v) + 0.1)), V(3)),
    "of all kinds": (lambda v, x, p: 0.5 * np.exp(-v**2) + np.cos(v) / (1 + v**4) + np.abs(v) ** 1.5 * 0.1 * x, V(16)),
    "many written out": (lambda v, x, p: sum(np.sin(v * k) for k in range(1, 14)) * 0.005 + x, V(2)),
    "number beside a vector": (lambda v, x, p: v * x + p[0] * np.mean(v), V(7)),
    "float32": (lambda v, x, p: v * np.float32(0.5) + np.float32(0.1) * np.sum(v), lambda p: NARROW(V(3)(p))),
    "diagonal": (lambda m, x, p: 0.9 * m + 0.1 * np.diag(m)[:, None] * x, lambda p: p[0] * np.ones((3, 3))),
}  # fmt: skip


# Sums of narrow numbers are steps of their own, products use running ones, and what is a loop in a turn has one.
PARTLY = {"float32", "products", "many written out"}


def check(f: Callable[..., Any], *calls: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for mode in ("always", "never"):
        monkeypatch.setattr(config, "compile", mode)
        results.append([grad(f, *call) for call in calls])
    for (v, gs), (want, wants) in zip(*results, strict=True):
        wide = all(g.dtype == np.float64 for g in wants) and np.result_type(v) == np.float64
        np.testing.assert_allclose(v, want, rtol=1e-12 if wide else 1e-4)
        for g, w in zip(gs, wants, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, 1e-9 if wide else 1e-3, (1e-10 if wide else 1e-4) * np.max(np.abs(w)))


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    f = every(*BODIES[name])
    check(f, *((R.normal(size=N) * 0.5, 0.3 + R.random(4) * 0.4) for _ in range(3)), monkeypatch=monkeypatch)
    assert made
    assert None not in made or name in PARTLY


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 15, 16, 17, 40])
def test_sizes(size: int, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    f = every(lambda v, x, p: v * p[0] + np.sin(v) * x, V(size))
    check(f, *((R.normal(size=N), R.random(4)) for _ in range(3)), monkeypatch=monkeypatch)
    assert (None in made) == (size > registers.LONGEST)


def test_what_is_too_long_stays_in_memory(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(v: Any, x: Any, p: Any) -> Any:
        for k in range(150):
            v = np.sin(v + p[0] * k) * x if k % 7 else v * p[1]
        return v

    check(every(turn, V(2)), (R.normal(size=12), R.random(4)), monkeypatch=monkeypatch)
    assert made
    assert None in made


def test_whole_numbers_and_truth_values_are_carried(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, p: Any) -> Any:
        count, above, a = np.zeros(2, int), np.array([False, True]), p[:2] * 1.0
        for t in range(len(x)):
            above = a > x[t]
            count = count + above
            a = np.where(above, a * 0.9, a + 0.05 * count)
        return np.sum(a) + np.sum(count * p[2])

    check(f, *((R.normal(size=N), R.random(4)) for _ in range(3)), monkeypatch=monkeypatch)
    assert made


@pytest.mark.parametrize("place", [0, 3, 31, N - 1])
def test_a_decision_that_fails_says_in_which_turn(place: int, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, p: Any) -> Any:
        a = p[0] * 1.0
        for t in range(len(x)):
            a = a * 0.9 + x[t]
            if x[t] > 5:
                a = a * p[1]
        return a

    x, p = R.random(N), R.random(4)
    x[place] += 10.0
    monkeypatch.setattr(config, "compile", "always")
    for values in (x * 0.1 - 0.2, x, x * 0.1, x):
        v, (dx, dp) = grad(f, values, p)
        assert v == pytest.approx(f(values, p), rel=1e-12)
        h = 1e-6
        for i in (0, 1):
            e = np.eye(4)[i] * h
            assert dp[i] == pytest.approx((f(values, p + e) - f(values, p - e)) / (2 * h), rel=1e-6, abs=1e-8)
        e = np.eye(N)[place] * h
        assert dx[place] == pytest.approx((f(values + e, p) - f(values - e, p)) / (2 * h), rel=1e-5, abs=1e-8)
    assert any(spec is not None and spec.checks for spec in made)


def test_a_view_that_is_given_backwards(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks of any strides."""
    f = every(lambda v, x, p: v * 0.5 + x[:3] * p[0] + x[3], V(3))
    rows = [R.normal(size=(2 * N, 8))[::-2, ::2], R.normal(size=(4, N)).T, R.normal(size=(N, 4))]
    check(f, *((x, R.random(4)) for x in rows), monkeypatch=monkeypatch)
    assert made


@settings(max_examples=examples(8, share=10), deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_random_loops_in_memory(seed: int) -> None:
    """Those that would be in registers, which is what other tests draw."""
    before, registers.LONGEST = registers.LONGEST, 0
    mode, config.compile = config.compile, "always"
    try:
        n = random.Random(seed).choice(loops.LENGTHS)
        f, args = loops.function(loops.text(seed)), loops.arguments(seed, n)
        with np.errstate(all="ignore"):
            try:
                have = grad(f, *args)
            except (GuardError, FloatingPointError, np.linalg.LinAlgError):
                return
            config.compile = "never"
            want = grad(f, *args)
        np.testing.assert_allclose(have[0], want[0], rtol=1e-9)
        for g, w in zip(have[1], want[1], strict=True):
            np.testing.assert_allclose(g, w, 1e-7, 1e-9 * max(1.0, np.max(np.abs(w), initial=0.0)))
    finally:
        registers.LONGEST, config.compile = before, mode
