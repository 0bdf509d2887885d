"""Functions that read clocks: each call has the times of its own, in order, and they have no derivative."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import yota_py
from yota_py import config, explain, grad, jit, trace, value_and_grad
from yota_py.cache import modes

CLOCKS = ["time", "perf_counter", "monotonic", "process_time", "thread_time", "perf_counter_ns", "process_time_ns"]


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_each_clock(name: str, transform: Any, every_policy: None) -> None:
    read = getattr(time, name)

    def f(x: Any) -> Any:
        return x * getattr(time, name)()

    made, before = transform(f), read()
    for n in range(6):
        result = made(1.0 + n)
        value = result[0] if isinstance(result, tuple) else result
        after = read()
        assert before <= value / (1.0 + n) * (1 + 1e-15) and value / (1.0 + n) <= after * (1 + 1e-15)
        if isinstance(result, tuple):
            assert_allclose(result[1], value / (1.0 + n))
        before = after


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_times_too_large_to_compute_with(every_policy: None) -> None:
    f = jit(lambda x: x + time.time_ns() * 1e-9)
    for _ in range(4):
        before = time.time()
        assert before - 1.0 <= f(0.0) <= time.time() + 1.0


def measured(x: Any) -> Any:
    start = time.perf_counter()
    y = x
    for _ in range(20):
        y = np.sin(y) @ np.full((len(x), len(x)), 0.01)
    middle = time.perf_counter()
    z = np.sum(np.cos(y))
    return z, (start, middle, time.perf_counter())


def test_times_within_a_function(every_policy: None) -> None:
    """What is measured is computed between the clocks."""
    step, df = jit(measured), value_and_grad(measured, has_aux=True)
    for _ in range(5):
        before = time.perf_counter()
        _, (start, middle, end) = step(np.ones(200))
        after = time.perf_counter()
        assert before < start < middle < end < after
        before = time.perf_counter()
        (_, (start, middle, end)), _ = df(np.ones(200))
        assert before < start < middle < end < time.perf_counter()


def test_most_of_the_time_is_measured() -> None:
    step = jit(measured)
    shares = []
    for _ in range(6):
        before = time.perf_counter()
        _, (start, middle, _) = step(np.ones(400))
        shares.append((middle - start) / (time.perf_counter() - before))
    assert sum(each.calls for each in explain(step)) == 5
    assert max(shares[1:]) > 0.5


def test_times_are_printed(capsys: pytest.CaptureFixture[str], every_policy: None) -> None:
    def f(x: Any) -> Any:
        start = time.perf_counter()
        y = np.sum(np.sin(x))
        print("took", time.perf_counter() - start, start)
        return y

    df, before = value_and_grad(f), time.perf_counter()
    for _ in range(5):
        df(np.ones(1000))
        word, took, start = capsys.readouterr().out.split()
        assert word == "took" and 0.0 < float(took) < 1.0 and before < float(start)
        before = float(start)


def test_no_derivative(every_policy: None) -> None:
    def f(x: Any) -> Any:
        t = time.perf_counter()
        return x * x + np.sin(t) * 0.0 + (t - t) * x

    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(f, x)[1] == (2 * x,)


def test_an_array_of_times(every_policy: None) -> None:
    step = jit(lambda x: x * np.array([time.perf_counter(), time.perf_counter()]))
    for _ in range(5):
        first, second = step(1.0)
        assert 0 < first <= second <= time.perf_counter()


def test_loops_with_clocks(every_policy: None) -> None:
    def f(x: Any) -> Any:
        times = []
        for _ in range(60):
            x = np.sin(x) * 1.1
            times.append(time.perf_counter())
        return x, times

    step = jit(f)
    for _ in range(5):
        _, times = step(1.0)
        assert len(times) == 60 and times == sorted(times) and times[-1] < time.perf_counter()


def test_decisions(every_policy: None) -> None:
    """A branch on a time is a decision."""

    def f(x: Any, limit: float) -> Any:
        return x * 2.0 if time.monotonic() < limit else x * 3.0

    now = time.monotonic()
    for k in range(8):
        late = k % 2
        assert grad(f, 5.0, now - 1.0 if late else now + 1e6)[1][0] == (3.0 if late else 2.0)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_a_loop_until_a_time() -> None:
    """There are no end of paths: few of them are compiled."""
    config.roll = False

    def f(x: Any) -> Any:
        end = time.perf_counter() + 2e-4 * x
        while time.perf_counter() < end:
            x = x + 1e-9
        return x

    try:
        df = value_and_grad(f)
        for n in range(40):
            value, slope = df(1.0 + n % 3)
            assert 1.0 <= value < 3.1 and slope == 1.0
    finally:
        config.roll = True
    assert all(entry.paths <= 17 for entry in explain(df)[0].entries)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_texts_and_numbers_of_times(every_policy: None) -> None:
    def f(x: Any) -> Any:
        return x * len(f"{time.perf_counter():.3f}") + 0.0 * int(time.time())

    for _ in range(4):
        assert grad(f, 2.0)[1][0] == len(f"{time.perf_counter():.3f}")


def test_assigned_times(every_policy: None) -> None:
    class Timer:
        last = 0.0
        steps = 0

    timer = Timer()

    @jit
    def step(x: Any) -> Any:
        now = time.perf_counter()
        since, timer.last = now - timer.last, now
        timer.steps += 1
        return x * since

    for n in range(1, 8):
        before = time.perf_counter()
        step(1.0)
        assert before < timer.last < time.perf_counter() and timer.steps == n


@pytest.mark.parametrize("transform", [value_and_grad, jit])
def test_audits_let_times_be(transform: Any) -> None:
    config.check = True

    def f(x: Any) -> Any:
        start = time.perf_counter()
        y = np.sin(x * start)
        return y * (time.perf_counter() - start) + x

    made = transform(f)
    for n in range(8):
        made(1.0 + n)
    assert explain(made)[0].calls >= 7


def test_audits_look_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not depend on times is compared as ever."""
    config.audit = "always"

    def f(x: Any) -> Any:
        return x * time.perf_counter(), (x * 3.0, x * 2.0)

    monkeypatch.setattr(modes, "contained", lambda spec, count: "((y0, (y2, y1)), y3)")
    df = value_and_grad(f, has_aux=True)
    df(1.0)
    with pytest.warns(yota_py.AuditWarning, match=r"4\.0\), and should be np\.float64\(6\.0\)"):
        for _ in range(2):  # where there are other threads, a difference has to come twice
            (_, aux), _ = df(2.0)
    assert aux == (6.0, 4.0)


def test_on_tapes() -> None:
    def f(x: Any) -> Any:
        start = time.perf_counter()
        y = np.sin(x)
        return y, time.perf_counter() - start

    tape = trace(f, 1.0)
    assert "%2 = perf_counter()" in str(tape) and "%4 = perf_counter(after=[%3])" in str(tape)
    y, took = tape.play(2.0)
    assert y == np.sin(2.0) and 0 < took < 1.0
    assert explain(f) == ()


def test_explained() -> None:
    def f(x: Any) -> Any:
        return x * time.time()

    grad.compile(f, 1.0)
    entry = explain(f)[0].entries[0]
    assert entry.impure[0].startswith("time (test_clocks.py:") and not entry.python_steps
    with pytest.raises(yota_py.CompileError, match="it calls time_ns, whose answer may differ next time"):
        grad.compile(lambda x: x * time.time_ns(), 1.0)
