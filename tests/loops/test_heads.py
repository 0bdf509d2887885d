"""Loops over ``range`` whose turns are not traced to the last: the rest is one operation where nobody can tell the
difference."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import config, grad, gradient, jit, trace, value_and_grad
from yota_py.base import iterators
from yota_py.capture.recording import record_call
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads

N = 160
NOTES: list[Any] = []
HELD = {"count": 0}
WEIGHTS = np.array([[0.1, 0.2], [-0.3, 0.1]])


@pytest.fixture(autouse=True, params=["never", "always"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    config.compile, config.audit, before = request.param, "off", (config.compile, config.audit)
    NOTES.clear()
    yield request.param
    config.compile, config.audit = before


def said(f: Callable[..., Any], *args: Any) -> int:
    """How many turns loops have said that were not recorded."""
    loops = map(as_loop, record_call(f, args, {}).tape.ops)
    return sum(loop.turns for loop in loops if loop is not None and loop.continues)


def agrees(f: Callable[..., Any], *args: Any, times: int = 3) -> None:
    """Values and gradients are those of unrolled tapes, also of cached programs."""
    gradients, rng, tracer = value_and_grad(f), np.random.default_rng(0), sys.gettrace()
    for _ in range(times):
        have, compiles = gradients(*args), config.compile
        config.roll, config.compile = False, "never"  # unrolled tapes take long to compile
        try:
            want = value_and_grad(f)(*args)
        finally:
            config.roll, config.compile = True, compiles
        assert np.allclose(have[0], f(*args), rtol=1e-10, atol=1e-12)
        assert np.allclose(have[1], want[1], rtol=1e-9, atol=1e-12)
        args = tuple(x + 0.01 * rng.normal(size=np.shape(x)) if isinstance(x, float | np.ndarray) else x for x in args)
    assert sys.gettrace() is tracer


# -- loops that are


def euler(x: Any) -> Any:
    for _ in range(N):
        x = x + 0.01 * np.sin(2.0 * x)
    return np.sum(x)


def pair(x: Any) -> Any:
    v, t = 0.1 * x, 0.0
    for _ in range(N):
        v = v - 0.01 * np.sin(x)
        x = x + 0.01 * v
        t = t + x[0]
    return np.sum(x * v) + t


def lagged(x: Any) -> Any:
    before, oldest = 0.5 * x, x
    for _ in range(N):
        before, x, oldest = x, 0.6 * x + 0.3 * before + 0.01 * np.cos(oldest), before
    return np.sum(x) + np.sum(before) + np.sum(oldest)


def helped(x: Any) -> Any:
    rate = 0.01

    def slope(s: Any) -> Any:
        return np.stack([s[1], -np.sin(s[0])]) @ WEIGHTS

    for _ in range(N):
        x = x + rate * slope(x + 0.5 * rate * slope(x))
    return np.sum(x**2)


def one_line(x: Any) -> Any:
    # fmt: off
    for _ in range(N): x = 0.99 * x + 0.01 * np.cos(x)  # noqa: E701
    # fmt: on
    return np.sum(x)


def downwards(x: Any) -> Any:
    k = -1
    for k in range(3 * N, 0, -3):  # noqa: B007
        x = x - 0.01 * x**3
    return np.sum(x) * k


def deciding(x: Any) -> Any:
    for _ in range(N):
        x = 0.9 * x if x[0] > 1e-30 else x + 1.0
    return np.sum(x)


def deciding_late(x: Any) -> Any:
    for _ in range(N):
        x = 1.01 * x if x[0] < 3.0 else 0.5 * x
    return np.sum(x)


def left_early(x: Any) -> Any:
    for k in range(N):  # noqa: B007
        x = 1.01 * x
        if np.sum(x) > 50.0:
            break
    else:
        return np.sum(x)
    return np.sum(x**2)


def nested(x: Any) -> Any:
    for _ in range(30):
        y = x
        for _ in range(100):
            y = y + 0.01 * np.sin(y)
        x = 0.5 * (x + 0.1 * y)
    return np.sum(x)


def between(x: Any) -> Any:
    for _ in range(N):
        x = x + 0.01 * np.tanh(x)
    y = np.cumsum(x)
    for _ in range(N):
        y = y - 0.01 * y * x
    return np.sum(y)


def in_tuples(x: Any) -> Any:
    state = (x, (np.sum(x), 2.0))
    for _ in range(N):
        y, (s, c) = state
        state = (0.99 * y + 0.001 * s, (0.9 * s + 0.01 * np.sum(y) * c, c))
    return np.sum(state[0]) + state[1][0]


def systems(x: Any) -> Any:
    for _ in range(N):
        x = 0.9 * np.linalg.solve(np.eye(2) + 0.1 * np.outer(x, x), x) + 0.1
    return np.sum(x)


def method(x: Any) -> Any:
    class Model:
        rate = 0.01

        def run(self, x: Any) -> Any:
            for _ in range(N):
                x = x - 0.01 * x**2
            return x

    return np.sum(Model().run(x))


def after_a_choice(x: Any) -> Any:
    first = True
    for _ in range(N):
        if first:
            x, first = x * 2.0, False
        x = 0.99 * x + 0.01
    return np.sum(x)


def overwriting(x: Any) -> Any:
    kept = {"x": x}
    for _ in range(N):
        x = 0.99 * x + 0.01 * np.sin(x)
        kept["x"] = x
    return np.sum(kept["x"])


def captured(x: Any) -> Any:
    def twice() -> Any:
        return 2.0 * x

    for _ in range(N):
        x = 0.99 * x + 0.01 * np.cos(twice())
    return np.sum(twice() * x)


def in_a_closure(x: Any) -> Any:
    def run() -> Any:
        y = x
        for _ in range(N):
            y = 0.99 * y + 0.01 * x
        return y

    return np.sum(run())


def of_one_name(x: Any) -> Any:
    for i in range(N):
        x = 0.99 * x
        for i in range(2):
            x = x + 0.01 * i
    return np.sum(x) + i


SAID = {
    f.__name__: f
    for f in (euler, pair, lagged, helped, one_line, downwards, deciding, left_early, between, in_tuples, systems,
              after_a_choice, overwriting, captured, in_a_closure)
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_turns_that_are_known_are_one_operation(name: str) -> None:
    f, x = SAID[name], np.array([0.3, 0.4])
    agrees(f, x)
    assert said(f, x) >= N // 2


@pytest.mark.parametrize("f", [euler, lagged, in_tuples])
def test_second_derivatives(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "N", 80)
    x = np.array([0.3, 0.4])
    check_grads(f, x)
    check_grads(lambda x: np.sum(gradient(f)(x) ** 2), x)


def test_loops_in_loops() -> None:
    x = np.array([0.3, 0.4])
    agrees(nested, x)
    assert len(record_call(nested, (x,), {}).tape) < 1000  # of 12,000
    assert len(trace(nested, x)) < 40


def test_the_tape_shows_one_loop(mode: str) -> None:
    tape = trace(euler, np.ones(2))
    (loop,) = [loop for loop in map(as_loop, tape.ops) if loop is not None]
    assert loop.turns == N
    assert len(tape) < 10
    assert np.allclose(tape.play(np.array([0.2, 0.1])), euler(np.array([0.2, 0.1])))


def test_what_goes_another_way_later(mode: str) -> None:
    agrees(deciding_late, np.array([1.0, 0.4]))
    agrees(left_early, np.array([0.01, 0.02]))  # to its end
    agrees(left_early, np.array([20.0, 20.0]))
    agrees(method, np.array([0.3, 0.4]))
    agrees(of_one_name, np.array([0.3, 0.4]))


def test_programs_of_several_lengths() -> None:
    def f(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x + 0.01 * np.sin(2.0 * x)
        return np.sum(x)

    gradients = value_and_grad(f)
    for n in (300, 0, 1, 2, 299, 301, 64, 17, 1000, 300):
        x = np.array([0.1, 0.2]) * (1 + n % 7)
        have = gradients(x, n)
        config.roll = False
        want = value_and_grad(f)(x, n)
        config.roll = True
        assert np.allclose(have[0], f(x, n))
        assert np.allclose(have[1], want[1])


# -- loops over positions

SERIES = np.random.default_rng(3).normal(size=(N + 2, 2))


def reading(x: Any, y: Any) -> Any:
    for i in range(1, N):
        x = 0.9 * x + 0.1 * y[i] * y[i - 1] + 0.01 * y[i + 1]
    return np.sum(x)


def backwards(x: Any, y: Any) -> Any:
    for i in range(N, 1, -2):
        x = 0.9 * x + 0.1 * y[i]
    return np.sum(x) + i


def assigning(x: Any, y: Any) -> Any:
    err = np.zeros(N)
    for i in range(N):
        err[i] = y[i, 0] - x[0] * np.exp(-x[1] * y[i, 1])
    return np.sum(err**2)


def assigning_rows(x: Any, y: Any) -> Any:
    out = np.zeros((N + 5, 2))
    out[2] = x
    for i in range(N):
        x = 0.9 * x + 0.1 * y[i]
        out[i + 3] = x * y[i + 1]
    return np.sum(out**2) + np.sum(out[7])


def assigning_downwards(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    for i in range(N - 1, -1, -1):
        out[i] = x[0] * y[i][0]
    return np.sum(out * np.arange(N))


def keeping_rows(x: Any, y: Any) -> Any:
    row = x
    for i in range(N):
        row = y[i]
        x = 0.99 * x + 0.01 * row
    row = row * 2.0
    return np.sum(x) * np.sum(row)


def in_lists(x: Any, y: Any) -> Any:
    h, s = [x, 2.0 * x], {"sum": x[0]}

    def turn(h: Any, s: Any, a: Any) -> Any:
        for k in range(2):
            h[k] = 0.9 * h[k] + 0.1 * a
            a = h[k]
        s["sum"] = 0.9 * s["sum"] + np.sum(a)
        return np.tanh(a)

    total = 0.0
    for i in range(N):
        total = total + np.sum(turn(h, s, y[i]))
    return total + np.sum(h[0] * h[1]) + s["sum"] + len(h)


def writing_into_a_row(x: Any, y: Any) -> Any:
    z = y * 1.0
    row, kept = x, [x]
    for i in range(N):
        row = z[i]
        kept[0] = z[i + 1]
        x = 0.99 * x + 0.01 * np.sin(row)
    row[0] = 100.0
    kept[0][1] = x[0]
    return np.sum(z) + np.sum(x)


def writing_under_a_row(x: Any, y: Any) -> Any:
    z = y * 1.0
    for i in range(N):
        row = z[i]
        x = 0.99 * x + 0.01 * np.sin(row)
    z[N - 1] = 3.0 * x
    return np.sum(row) + np.sum(x)


def assigning_in_branches(x: Any, y: Any) -> Any:
    err = np.zeros(N)
    for i in range(N):
        if x[0] < 1e9:
            err[i] = np.sum(x * y[i])
        else:
            err[i] = np.sum(x)
    return np.sum(err**2)


OVER_POSITIONS = [
    writing_into_a_row, writing_under_a_row, reading, backwards, assigning_rows, assigning_downwards, keeping_rows,
    in_lists,
]  # fmt: skip


@pytest.mark.parametrize("f", OVER_POSITIONS)
def test_positions(f: Callable[..., Any]) -> None:
    agrees(f, np.array([0.3, 0.4]), SERIES)
    agrees(lambda y, x: f(x, y), SERIES, np.array([0.3, 0.4]))
    assert said(f, np.array([0.3, 0.4]), SERIES) >= N // 3


def test_observations_are_an_axis(mode: str) -> None:
    def residuals(p: Any, x: Any, y: Any) -> Any:
        err = np.zeros(len(x))
        for i in range(len(x)):
            err[i] = y[i] - p[0] * np.exp(-p[1] * x[i])
        return np.sum(err**2)

    args = np.array([1.0, 0.3]), SERIES[:, 0].copy(), SERIES[:, 1].copy()
    agrees(residuals, *args)
    assert len(record_call(residuals, args, {}).tape) < 200
    tape = trace(residuals, *args)
    assert all(as_loop(op) is None for op in tape.ops)
    assert len(tape) < 16


def test_second_derivatives_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "N", 80)
    x = np.array([0.3, 0.4])
    for f in (reading, assigning_rows):
        check_grads(lambda x, f=f: f(x, SERIES), x)
        check_grads(lambda x, f=f: np.sum(gradient(f)(x, SERIES) ** 2), x)


def past_the_end(x: Any, y: Any) -> Any:
    for i in range(N):
        x = 0.9 * x + 0.1 * y[i + 3]
    return np.sum(x)


def before_the_beginning(x: Any, y: Any) -> Any:
    for i in range(N):
        x = 0.9 * x + 0.1 * y[i - N // 3]
    return np.sum(x)


def by_a_plain_list(x: Any, y: Any) -> Any:
    order = [*range(N // 2), *range(N, 0, -1)]
    for i in range(N):
        x = 0.9 * x + 0.1 * y[order[i]]
    return np.sum(x)


def by_a_plain_array(x: Any, y: Any) -> Any:
    order = np.array([*range(N // 2), *range(N, 0, -1)])
    for i in range(N):
        x = 0.9 * x + 0.1 * y[order[i]]
    return np.sum(x)


def by_both(x: Any, y: Any) -> Any:
    order = np.array([*range(N // 2), *range(N, 0, -1)])
    for i in range(N):
        x = 0.9 * x + 0.1 * y[order[i]] + 0.01 * y[i]
    return np.sum(x)


ORDER = np.array([*range(N // 2), *range(N, 0, -1)])


def by_a_global_array(x: Any, y: Any) -> Any:
    for i in range(N):
        x = 0.9 * x + 0.1 * y[ORDER[i]] + 0.01 * y[i]
    return np.sum(x)


def by_traced_numbers(x: Any, y: Any) -> Any:
    order = np.floor(np.abs(y[:, 0]) * 50.0).astype(int)
    for i in range(N):
        x = 0.9 * x + 0.1 * y[order[i]] + 0.01 * y[i]
    return np.sum(x)


def of_two_arrays(x: Any, y: Any) -> Any:
    a, b = y, y[::-1]
    for i in range(N):
        x = 0.9 * x + 0.1 * a[i]
        a, b = b, a
    return np.sum(x)


def reading_what_is_assigned(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    out[0] = x[0]
    for i in range(1, N):
        out[i] = 0.5 * out[i - 1] + np.sum(y[i])
    return np.sum(out * out)


def assigning_twice(x: Any, y: Any) -> Any:
    out = np.zeros(N + 1)
    for i in range(N):
        out[i] = x[0] * np.sum(y[i])
        out[i + 1] = 2.0 * out[i]
    return np.sum(out * out)


def reading_late(x: Any, y: Any) -> Any:
    before = y[0]
    for i in range(N):
        x = 0.9 * x + 0.1 * before
        before = y[i]
    return np.sum(x) + np.sum(before)


def numbered(x: Any, y: Any) -> Any:
    for i in range(N):
        x = 0.9 * x + (0.1 * y[i] if i != 300 else y[i])
    return np.sum(x)


def seen_by_another_name(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    other = out
    for i in range(N):
        out[i] = x[0] * np.sum(y[i])
        x = x + 1e-4 * other[5]
    return np.sum(out)


def written_at_once(x: Any, y: Any) -> Any:
    z = y * 1.0
    for i in range(N):
        x = 0.9 * x + 0.1 * z[i]
        z[5] = x
    return np.sum(x) + np.sum(z)


def assigned_constants(x: Any, y: Any) -> Any:
    out = np.zeros(N)
    for i in range(N):
        x = 0.9 * x + 0.1 * y[i]
        out[i] = 2.0
    return np.sum(x) + np.sum(out)


@pytest.mark.parametrize("f", [
    before_the_beginning, by_a_plain_list, by_a_plain_array, by_both, by_a_global_array,
    by_traced_numbers, of_two_arrays, reading_what_is_assigned, assigning_twice,
    reading_late, assigning_in_branches, numbered, seen_by_another_name, written_at_once, assigned_constants, assigning,
])  # fmt: skip
def test_other_positions(f: Callable[..., Any]) -> None:
    agrees(f, np.array([0.3, 0.4]), SERIES)
    agrees(lambda y, x: f(x, y), SERIES, np.array([0.3, 0.4]))


def test_positions_that_are_not_there(mode: str) -> None:
    with pytest.raises(IndexError):
        past_the_end(np.ones(2), SERIES)
    for _ in range(2):
        with pytest.raises(IndexError):
            grad(past_the_end, np.ones(2), SERIES)


# -- loops that are not


def counting(x: Any) -> Any:
    for i in range(N):
        x = x + 0.001 * i
    return np.sum(x)


def counted_in_a_cell(x: Any) -> Any:
    for i in range(N):
        x = (lambda: x + 0.001 * i)()
    return np.sum(x)


def collecting(x: Any) -> Any:
    out = []
    for _ in range(N):
        x = 0.99 * x
        out.append(x[0])
    return np.sum(np.stack(out))


def filling(x: Any) -> Any:
    buffer = np.zeros(2)

    def step(x: Any) -> Any:
        buffer[:] = 0.5 * x
        return 0.99 * x

    for _ in range(N):
        x = step(x)
    return np.sum(x) + np.sum(buffer)


def filling_elsewhere(x: Any) -> Any:
    def made() -> Any:
        buffer = np.zeros(2)

        def step(x: Any) -> Any:
            buffer[0] = x[0]
            return 0.99 * x

        return step, lambda: buffer

    step, found = made()
    for _ in range(N):
        x = step(x)
    return np.sum(x) + np.sum(found())


def in_place(x: Any) -> Any:
    y = x + 0.0
    z = y
    for _ in range(N):
        y += 0.01 * np.sin(y)
    return np.sum(z)


def attributes(x: Any) -> Any:
    class Held:
        value: Any = 0.0

    held = Held()
    for _ in range(N):
        x = 0.99 * x
        held.value = x[1]
    return np.sum(x) + held.value


def outside(x: Any) -> Any:
    for _ in range(N):
        x = 0.99 * x
        HELD["count"] += 1
    return np.sum(x) * HELD["count"] / HELD["count"]


def noting(x: Any) -> Any:
    for _ in range(N):
        x = 0.99 * x
        NOTES.append(1)
    return np.sum(x)


def nonlocally(x: Any) -> Any:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return 0.99 * x + 0.0001 * count

    for _ in range(N):
        x = step(x)
    return np.sum(x)


def growing(x: Any) -> Any:
    n = 0
    for _ in range(N):
        x = 0.99 * x + 0.0001 * n
        n += 1
    return np.sum(x) + n


def of_a_list(x: Any) -> Any:
    for a in [0.001 * k for k in range(N)]:
        x = 0.99 * x + a
    return np.sum(x)


def looking_up(x: Any) -> Any:
    for i in range(N):  # noqa: B007
        x = 0.99 * x + 0.0001 * locals()["i"]
    return np.sum(x)


def with_generators(x: Any) -> Any:
    numbers = iter(range(N))
    for _ in range(N):
        x = 0.99 * x + 0.0001 * next(numbers)
    return np.sum(x)


def by_another_iterator(x: Any) -> Any:
    turns = iter(range(N))
    for _ in turns:
        x = 0.99 * x + 0.001
        if next(turns, None) is None:
            break
    return np.sum(x)


def of_a_comprehension(x: Any) -> Any:
    made = [(x := 0.99 * x + 0.01) for _ in range(N)]
    return np.sum(np.stack(made)) + np.sum(x)


def of_a_comprehension_of_a_dict(x: Any) -> Any:
    made = {0: (x := 0.99 * x + 0.01) for _ in range(N)}  # noqa: B035
    return np.sum(made[0]) + np.sum(x)


def by_special_attributes(x: Any) -> Any:
    def step(x: Any) -> Any:
        return 0.99 * x

    step.__dict__["count"] = 0
    for _ in range(N):
        x = step(x)
        step.__dict__.update(count=step.__dict__["count"] + 1)
    return np.sum(x) * step.__dict__["count"]


def with_inner_comprehensions(x: Any) -> Any:
    for _ in range(N):
        x = 0.99 * x + 0.001 * sum([x[k] for k in range(2)])
    return np.sum(x)


RECORDED = [
    of_a_comprehension, of_a_comprehension_of_a_dict, by_special_attributes,
    counting, counted_in_a_cell, collecting, filling, filling_elsewhere, in_place, attributes, outside,
    noting, nonlocally, growing, of_a_list, looking_up, with_generators, by_another_iterator,
]  # fmt: skip


@pytest.mark.parametrize("f", RECORDED)
def test_turns_that_may_differ_are_recorded(f: Callable[..., Any]) -> None:
    agrees(f, np.array([0.3, 0.4]))
    assert said(f, np.array([0.3, 0.4])) == 0


def test_what_a_turn_does_outside_happens_in_each(mode: str) -> None:
    HELD["count"] = 0
    grad(outside, np.ones(2))
    assert HELD["count"] == N
    grad(noting, np.ones(2))
    assert len(NOTES) == N


def test_comprehensions_in_turns(mode: str) -> None:
    agrees(with_inner_comprehensions, np.array([0.3, 0.4]))


def test_floating_point_errors_are_raised(mode: str) -> None:
    def f(x: Any) -> Any:
        for _ in range(1200):
            x = x * 2.0
        return np.sum(x)

    with np.errstate(all="raise"):
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                grad(f, np.ones(2))


def test_warnings_come_from_their_lines() -> None:
    y = np.abs(np.random.default_rng(0).normal(size=300))
    y[200:] *= -1.0

    def f(p: Any, y: Any) -> Any:
        s = p * 1.0
        for i in range(len(y)):
            s = 0.99 * s + np.log(p * y[i])
        return s

    def g(a: Any) -> Any:
        x = a
        while x > -3.0:
            x = x - 0.1 + 0.0 * np.log(x)
        return x

    for call in (lambda: grad(f, 0.5, y), lambda: grad(g, 2.0)):
        config.compile = "never"
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        config.roll = False
        try:
            with warnings.catch_warnings(record=True) as want:
                warnings.simplefilter("always")
                call()
        finally:
            config.roll = True
        assert len(told) == len(want) > 0
        assert {w.filename for w in told} == {__file__}


def test_draws_happen_in_each_turn() -> None:
    def f(x: Any) -> Any:
        for _ in range(N):
            x = 0.99 * x + 0.01 * np.random.normal()
        return np.sum(x)

    gradients = value_and_grad(f)
    for seed in range(3):
        np.random.seed(seed)
        have = gradients(np.ones(2))
        np.random.seed(seed)
        assert np.allclose(have[0], f(np.ones(2)))
    assert said(f, np.ones(2)) == 0


def test_exceptions_of_later_turns(mode: str) -> None:
    def indefinite(x: Any) -> Any:
        m = np.diag(x)
        for _ in range(N):
            m = m - np.array([[1.0, 0.0], [0.0, 0.0]])
            x = x + 0.001 * np.linalg.cholesky(m)[0]
        return np.sum(x)

    def raising(x: Any) -> Any:
        for _ in range(N):
            x = 1.02 * x
            if x[0] > 20.0:
                raise ValueError("too large")
        return np.sum(x)

    def catching(x: Any) -> Any:
        try:
            return raising(x)
        except ValueError:
            return np.sum(x)

    late = np.array([N - 99.5, 1.0])
    for f, x, error in ((indefinite, late, np.linalg.LinAlgError), (raising, np.ones(2), ValueError)):
        with pytest.raises(error):
            f(x)
        for _ in range(2):
            with pytest.raises(error):
                grad(f, x)
            assert sys.gettrace() is None
    assert np.all(grad(catching, np.ones(2))[0] > 1.0)
    assert sys.gettrace() is None


def test_a_debugger_hears_of_all_turns(mode: str) -> None:
    lines = []

    def local(frame: Any, event: str, arg: Any) -> Any:
        lines.append(frame.f_lineno)
        return local

    def outer(frame: Any, event: str, arg: Any) -> Any:
        return local if frame.f_code is euler.__code__ else None

    sys.settrace(outer)
    try:
        have = gradient(euler)(np.ones(2))
        assert sys.gettrace() is outer
    finally:
        sys.settrace(None)
    assert len(lines) > 2 * N
    assert np.allclose(have, gradient(euler)(np.ones(2)))


def test_frames_around_the_trace_are_left_alone(mode: str) -> None:
    x = np.ones(2)
    for _ in range(10):
        x = x - 0.001 * gradient(lambda x: euler(x))(x)
    assert sys._getframe().f_trace is None
    assert sys.gettrace() is None
    assert np.all(x < 1.0)


def test_interrupts_leave_no_trace_function() -> None:
    def interrupted(x: Any) -> Any:
        for k in range(N):
            x = 0.99 * x
            if k == 100:
                raise KeyboardInterrupt
        return np.sum(x)

    with pytest.raises(KeyboardInterrupt):
        grad(interrupted, np.ones(2))
    assert sys.gettrace() is None
    agrees(euler, np.ones(2))


def test_threads() -> None:
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        results[k] = gradient(lambda x: euler(x * k))(np.full(2, 0.1))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, result in results.items():
        assert np.allclose(result, gradient(lambda x, k=k: euler(x * k))(np.full(2, 0.1)))
    assert len(results) == 4


def test_steps_with_loops(mode: str) -> None:
    @jit
    def step(x: Any, rate: Any) -> Any:
        return x - rate * gradient(euler)(x)

    for rate in (0.1, 0.2, 0.3):
        assert np.allclose(step(np.ones(2), rate), np.ones(2) - rate * gradient(euler)(np.ones(2)))


def test_pythons_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    iterators._is_known.cache_clear()
    monkeypatch.setattr(iterators, "_VERSIONS", range(0))
    try:
        assert said(euler, np.ones(2)) == 0
        agrees(euler, np.ones(2), times=1)
    finally:
        iterators._is_known.cache_clear()


# -- random ones

STATEMENTS = """
    x = x + 0.01 * np.sin(a * x)
    v = 0.9 * v + 0.1 * x
    x = 0.99 * x + 0.01 * step(x, a)
    p, x = x, 0.5 * x + 0.3 * p
    t = t + 0.01
    x = np.where(x > 0.5, 0.9 * x, x + 0.1)
    x = 0.5 * x if x[0] > 5.0 else x
    kept.append(x[0])
    table['k'] = x
    buffer[0] = x[0]
    v = v * (1.0 - 0.001 * i)
    x = x + 0.001 * y[i % 5]
    x = x.copy(); x[1] = 0.5 * x[0]
    u = (x, v); x = 0.9 * u[0] + 0.01 * a * u[1]
    q, (r, s) = x, (v, t); v = 0.99 * r
    x += 0.001 * a
    v = x[::-1] + 0.0 * v
    x = 0.99 * x + 0.01 * helper(x)
    x = 0.99 * x + 0.001 * max(t, 0.5)
    x = x / np.sqrt(1.0 + 0.01 * x @ x)
    x = fold(lambda q: 0.999 * q + 0.001 * a, x)
    out[i % 3] = x
    x = 0.5 * x if i == 37 else x
    hist = (x, hist[0])
    x = x + 0.0001 * hist[1]
    for j in range(3): x = 0.99 * x + 0.01 * a
    for j in range(60): v = 0.99 * v + 0.001 * np.sin(v)
""".strip().splitlines()
HEADS = ["for i in range({})", "for i in range({}, 0, -1)", "for i in range(5, 5 + {})", "for i in reversed(range({}))"]
ENDS = ["", "        if np.sum(x) > 1e3: break\n", "    else:\n        x = 1.1 * x\n"]


def program(seed: int) -> Callable[..., Any]:
    rng = random.Random(seed)
    body = "".join(f"        {line.strip()}\n" for line in rng.sample(STATEMENTS, rng.randint(1, 4)))
    turns = 70 if "range(60)" in body else rng.choice([70, 130, 300])
    text = f"""def f(x, a):
    x, v, t, kept, table, buffer = x.copy(), 0.5 * x, 0.1, [], dict(), np.zeros(2) + 0.0 * x[0]
    p, q, r, s, out, hist, y, i = 0.1 * x, x, x, x, [x, x, x], (x, x), np.arange(5.0) + a, 0
    def helper(z):
        return np.cos(z) * t
    {rng.choice(HEADS).format(turns)}:
{body}{rng.choice(ENDS)}    some = (kept[-1] + len(kept) if kept else 0.0) + (np.sum(table["k"]) if table else 0.0)
    return np.sum(x + v + p + out[1] + hist[1]) + t + np.sum(buffer) + some + 0.01 * i
"""
    names: dict[str, Any] = {"np": np, "step": lambda x, a: 0.5 * x + 0.1 * a, "fold": lambda f, x: f(f(x))}
    exec(text, names)
    names["f"].text = text  # for who reads a failure
    return names["f"]  # type: ignore[no-any-return]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(4, share=4), deadline=None)
def test_random_loops(seed: int) -> None:
    f = program(seed)
    agrees(f, np.array([0.3, -0.4, 0.5]), 0.7)


AT_POSITIONS = """
    x = x + 0.01 * np.sin(a * y[i])
    t = t + y[i] * y[i + 1]
    err[i] = y[i] - a * np.exp(-0.1 * y[i - 1])
    err[i + 1] = x[0] * y[i]
    row = m[i]; x = 0.9 * x + 0.1 * row
    out[i] = 0.5 * x
    h[0] = 0.9 * h[0] + 0.1 * y[i]; h[1] = h[0] * x[0]
    t = 0.9 * t + np.sum(m[i] * m[i - 1])
    d["s"] = 0.9 * d["s"] + y[i - 1]
    t = t + (y[i] if y[i] > 0.0 else 0.5 * y[i])
    err[i] = t
    t = t + before; before = y[i]
    t = t + 0.01 * y[5] + 0.01 * y[-1]
    err[i] = 0.5 * err[i - 1] + y[i]
    z = y[i - 2]; t = 0.9 * t + z * x[1]
    t = 0.99 * t + numbers[i]
    t = 0.99 * t + 0.01 * constants[i]
    k = i + 1; t = t + y[k]
    kept.append(y[i])
    t = t + y[len(y) - 1 - i]
    for j in range(2): t = t + 0.01 * y[i] * h[j]
""".strip().splitlines()
RANGES = ["range(2, {} - 1)", "range({} - 2, 1, -1)", "range(2, {} - 2, 2)"]
AFTER = ["", "    err[3] = 7.0 * a\n", "    h.append(a)\n", "    err += 1.0\n", "    out[4] = x\n",
         "    row = 2.0 * row\n"]


def program_of_positions(seed: int, n: int) -> Callable[..., Any]:
    rng = random.Random(seed)
    body = "".join(f"        {line.strip()}\n" for line in rng.sample(AT_POSITIONS, rng.randint(1, 3)))
    text = f"""def f(x, a, y, m):
    t, err, out, h, d, before = 0.1 * a, np.zeros({n}), np.zeros(({n}, 3)), [a, 0.5 * a], dict(s=a), a
    row, kept, numbers, i = x, [], [0.001 * k for k in range({n})], 0
    for i in {rng.choice(RANGES).format(n)}:
{body}{rng.choice(AFTER)}    some = np.sum(np.stack(kept)) if kept else 0.0
    return np.sum(x) + t + np.sum(err**2) + np.sum(out * out) + h[0] * h[1] + d["s"] + before + np.sum(row) + i + some
"""
    names: dict[str, Any] = {"np": np, "constants": np.linspace(0.0, 1.0, n)}
    exec(text, names)
    names["f"].text = text
    return names["f"]  # type: ignore[no-any-return]


@given(seed=st.integers(0, 2**32), n=st.sampled_from([90, 150, 300]))
@settings(max_examples=examples(4, share=4), deadline=None)
def test_random_loops_over_positions(seed: int, n: int) -> None:
    f, rng = program_of_positions(seed, n), np.random.default_rng(seed)
    y, m = rng.normal(size=n), 0.1 * rng.normal(size=(n, 3))
    agrees(f, np.array([0.3, -0.4, 0.5]), 0.7, y, m)
    agrees(lambda y, m, x: f(x, 0.7, y, m), y, m, np.array([0.3, -0.4, 0.5]), times=2)
