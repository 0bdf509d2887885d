"""``while_loop``: one program, whatever the number of turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import checkpoint, config, explain, grad, gradient, gradtape, jit, pullback, scan, trace, vmap, while_loop
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads


def plain(cond: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    """What ``while_loop`` is."""
    state = init
    while cond(state):
        state = body(state)
    return state


def newton(a: Any, loop: Any = while_loop) -> Any:
    return loop(lambda x: abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


def counted(x: Any, loop: Any = while_loop) -> Any:
    """With an integer, a condition in two parts, and containers."""

    def body(s: Any) -> Any:
        return {"x": np.sin(s["x"]) * 1.01, "k": s["k"] + 1, "sum": s["sum"] + s["x"] ** 2}

    start = {"x": x, "k": 0, "sum": np.zeros(3)}
    end = loop(lambda s: (np.sum(s["sum"]) < 20.0) & (s["k"] < 300), body, start)
    return np.sum(end["sum"] * end["x"]) + end["k"]


def integrated(p: Any, y: Any, loop: Any = while_loop) -> Any:
    """Van der Pol's equation by Heun's method, with steps that are accepted or not."""

    def slope(y: Any) -> Any:
        return np.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - y[0]])

    def body(s: Any) -> Any:
        t, y, h = s
        h = np.minimum(h, 3.0 - t)
        first = slope(y)
        second = slope(y + h * first)
        error = np.sqrt(np.sum((0.5 * h * (second - first)) ** 2)) + 1e-14
        good = error < p[1]
        y = np.where(good, y + 0.5 * h * (first + second), y)
        return np.where(good, t + h, t), y, h * np.clip(0.9 * np.sqrt(p[1] / error), 0.3, 2.0)

    _, y, h = loop(lambda s: s[0] < 3.0 - 1e-9, body, (0.0, y, 0.1))
    return np.sum(y**2) + h


def same(f: Any, *args: Any, rtol: float = 1e-8) -> None:
    """``f`` and its gradient are those of the loop of Python."""
    value, grads = grad(lambda *args: f(*args), *args)
    expected, others = grad(lambda *args: f(*args, plain), *args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for dx, dy in zip(grads, others, strict=True):
        np.testing.assert_allclose(dx, dy, rtol=rtol, atol=1e-12)


PROGRAMS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "newton": (newton, [(a,) for a in (2.0, 7.0, 1e6, 1e-3, 1e9, 2.0, 1.0)]),
    "counted": (counted, [(s * np.array([1.0, 0.5, -2.0]),) for s in (1.0, 0.3, 0.01, 10.0, 1.5)]),
    "integrated": (
        integrated, [(np.array([m, tol]), np.array([2.0, 0.1 * m])) for m in (1.0, 1.5, 3.0) for tol in (1e-3, 1e-4)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["never", "always", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", mode)
    f, arguments = PROGRAMS[name]
    for args in arguments:
        same(f, *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, (args, *_) = PROGRAMS[name]
    args = (np.array([1.0, 1e-2]), *args[1:]) if f is integrated else args  # some twenty steps
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        have = gradient(lambda *args: np.sum(gradient(f)(*args) ** 2))(*args)
        want = gradient(lambda *args: np.sum(gradient(lambda *args: f(*args, plain))(*args) ** 2))(*args)
        np.testing.assert_allclose(have, want, rtol=1e-7, atol=1e-10)
    if name == "counted":
        check_grads(f, *args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_all_numbers_of_turns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "audit", "off")
    f, arguments = PROGRAMS[name]

    def h(*args: Any) -> Any:
        return f(*args)

    for args in arguments:
        if name != "newton" or args[0] != 1.0:  # which takes no turn at all
            grad(h, *args)
    ((entry,),) = [explanation.entries for explanation in explain(h)]
    assert len(entry.decisions) <= 2
    (explanation,) = explain(h)
    assert explanation.misses == 1


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 1023, 1024, 1025, 1026, 5000, 9217, 9218])
def test_very_many_turns(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, n: Any) -> Any:
        return while_loop(lambda s: s[1] < n, lambda s: (s[0] + 0.001 * np.sin(s[0]), s[1] + 1.0), (x, 0.0))[0]

    want = x = 1.3
    slope = 1.0
    for _ in range(turns):
        slope *= 1 + 0.001 * np.cos(x)
        x = x + 0.001 * np.sin(x)
    want = x
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        for _ in range(3):
            value, (dx, dn) = grad(f, 1.3, float(turns))
            assert value == pytest.approx(want, rel=1e-12)
            assert dx == pytest.approx(slope, rel=1e-10)
            assert dn == 0.0


def loops(f: Any, *args: Any) -> int:
    return sum(as_loop(op) is not None for op in trace(f, *args).ops)


def test_what_cannot_be_one_operation_runs_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def noting(x: Any) -> Any:
        seen.append(1)
        return x * 0.5

    def deciding(x: Any) -> Any:
        return x * 0.5 if x > 2 else x * 0.25

    cases: list[tuple[Any, Any, Any]] = [
        (lambda x: x > 0.01, noting, 5.0),
        (lambda x: x > 0.01, deciding, 5.0),
        (lambda x: x > 0.01 and x < 100.0, lambda x: 0.5 * x, 5.0),
        (lambda x: np.sum(x) > 0.01, lambda x: 0.5 * x, np.arange(20.0)),
        (lambda x: np.sum(x) > 0.01, lambda x: 0.1 * x + 0.0 * np.linalg.inv(np.eye(3) + x)[0], np.ones(3)),
    ]
    for cond, body, start in cases:

        def f(x: Any, loop: Any = while_loop, cond: Any = cond, body: Any = body) -> Any:
            return np.sum(loop(cond, body, x))

        for mode in ("never", "always"):
            monkeypatch.setattr(config, "compile", mode)
            for scale in (1.0, 0.5, 3.0, 1.0):
                before = len(seen)
                same(f, scale * start)
                assert body is not noting or len(seen) >= before + 8


def test_exceptions_come_in_their_turn() -> None:
    rows: list[Any] = []

    def bad(x: Any) -> Any:
        return rows[0]

    for start, raises in ((2.0, True), (0.05, False), (2.0, True)):
        if raises:
            with pytest.raises(IndexError):
                grad(lambda x: while_loop(lambda x: x > 0.1, bad, x), start)
        else:
            assert grad(lambda x: while_loop(lambda x: x > 0.1, bad, x), start) == (start, (1.0,))


def test_kinds_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, loop: Any = while_loop) -> Any:
        return np.sum(loop(lambda s: np.all(s[0] > 0.01) & s[1], lambda s: (0.7 * s[0], s[0][0] > 0.02), (x, True))[0])

    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        for x in (np.ones(3, np.float32), 9 * np.ones(3, np.float32), np.ones(4), np.full(4, 77.0)):
            value, (dx,) = grad(f, x)
            expected, (dy,) = grad(lambda x: f(x, plain), x)
            assert dx.dtype == x.dtype
            np.testing.assert_allclose(value, expected, rtol=1e-6)
            np.testing.assert_allclose(dx, dy, rtol=1e-5)


def test_in_other_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([2.0, 50.0, 1e-2])
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        for a in values:
            assert jit(newton)(a) == pytest.approx(np.sqrt(a))
            _, back = pullback(newton, a)
            assert back(2.0)[0] == pytest.approx(1 / np.sqrt(a))
        np.testing.assert_allclose(vmap(newton)(values), np.sqrt(values))
        np.testing.assert_allclose(gradient(lambda a: np.sum(vmap(newton)(a)))(values), 0.5 / np.sqrt(values))
        assert gradient(checkpoint(newton, every=3))(7.0) == pytest.approx(0.5 / np.sqrt(7.0))
        summed = gradient(lambda a: scan(lambda c, x: (c + newton(x), None), 0.0, a)[0])(values)
        np.testing.assert_allclose(summed, 0.5 / np.sqrt(values))
    tape = gradtape(newton, 7.0)
    for a in values:
        assert tape.play(a)[1][0] == pytest.approx(0.5 / np.sqrt(a))


def test_printed() -> None:
    printed = str(trace(newton, 7.0))
    assert "at most 1024 turns, as long as it decides so; carried: %1" in printed
    assert printed.count("divide") == 2


@given(
    a=st.floats(0.1, 0.95), b=st.floats(-1.0, 1.0), least=st.floats(1e-3, 3.0),
    start=st.lists(st.floats(0.1, 5.0), min_size=1, max_size=5),
)  # fmt: skip
@settings(max_examples=examples(5, share=4), deadline=None)
def test_random_recursions(a: float, b: float, least: float, start: list[float]) -> None:
    def f(p: Any, x: Any, loop: Any = while_loop) -> Any:
        def body(s: Any) -> Any:
            x, total = s
            return p[0] * np.abs(np.cos(p[1] + x)) * x, total + np.sum(np.tanh(x) * p[1])

        x, total = loop(lambda s: np.max(s[0]) > least, body, (x, 0.0))
        return total * np.sum(x) + p[0]

    same(f, np.array([a, b]), np.array(start))


def test_long_loops_that_are_interpreted_run_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that end soon, or have no kernel, do not."""

    def f(x: Any, n: Any, step: Any = 1e-4) -> Any:
        def body(s: Any) -> Any:
            x, v, k = s
            v = v - step * (np.sin(x) + 0.1 * v)
            return x + step * v, v, k + 1.0

        x, v, _ = while_loop(lambda s: s[2] < n, body, (x, 0.0 * x, 0.0))
        return x * v

    monkeypatch.setattr(config, "compile", "never")
    numpy = [grad(f, 1.0, n) for n in (5000.0, 1200.0, 1100.5, 300.0)]
    monkeypatch.setattr(config, "compile", "auto")
    monkeypatch.setattr(config, "background", False)
    for n, (want, wanted) in zip((5000.0, 1200.0, 1100.5, 300.0), numpy, strict=True):
        have, found = grad(lambda x, n: f(x, n), 1.0, n)
        assert have == pytest.approx(want, rel=1e-12)
        assert found == pytest.approx(wanted, rel=1e-10)
