"""Loops over rows of arrays, and over positions of arrays that they read where they have written, whose turns are not
traced to the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples
from test_heads import agrees, said

from yota_py import config, grad, trace, value_and_grad
from yota_py.testing import check_grads

N = 160
RNG = np.random.default_rng(0)
ROWS, SERIES = RNG.normal(size=(N, 2)), RNG.normal(size=N)
POINT = np.array([0.3, 0.4])


@pytest.fixture(autouse=True, params=["never", "always"])
def mode(request: pytest.FixtureRequest) -> Any:
    config.compile, config.audit, before = request.param, "off", (config.compile, config.audit)
    yield request.param
    config.compile, config.audit = before


# -- rows


def of_rows(w: Any, xs: Any) -> Any:
    h = w
    for x in xs:
        h = np.tanh(h * x) + x
    return np.sum(h) + np.sum(x)


def of_numbers(w: Any, xs: Any) -> Any:
    h, last = w, 0.0
    for x in xs[:, 0]:
        h, last = np.tanh(h * x) + x, x * x
    return np.sum(h) * last


def beside_each_other(w: Any, xs: Any) -> Any:
    total = 0.0
    for x, y in zip(xs, SERIES, strict=True):
        total = total + np.tanh(x @ w - y) ** 2
    return total * y


def shifted(w: Any, xs: Any) -> Any:
    h = w
    for x, (a, b) in zip(xs[:-1], xs[1:], strict=True):  # noqa: RUF007
        h = np.sin(h * x) + a - b
    return np.sum(h)


def unequal(w: Any, xs: Any) -> Any:
    h = w
    for x, y in zip(xs, SERIES[: N - 40], strict=False):
        h = np.sin(h * x) + y
    for x, y in zip(xs[: N - 50], SERIES, strict=False):
        h = np.sin(h * x) + y
    return np.sum(h)


def not_read(w: Any, xs: Any) -> Any:
    h = w
    for _ in xs:
        h = h + 0.1 * np.sin(h)
    return np.sum(h)


def taken_apart(w: Any, xs: Any) -> Any:
    h = w
    for a, b in xs:
        h = h * np.sin(a) + b
    return np.sum(h) + a


def in_each_other(w: Any, xs: Any) -> Any:
    h = w[0]
    for x in xs[:100]:
        for y in x:
            h = np.sin(h) + y * w[1]
    return h


def with_views(w: Any, xs: Any) -> Any:
    m = np.outer(w, w)
    for x in xs:
        turned = np.sin(m @ m + x[0]).T
        m = m * 0.5 + turned * x
    return np.sum(turned[0]) + np.sum(m)


def with_a_branch(w: Any, xs: Any) -> Any:
    h = w
    for x in xs:
        if x[0] > 10.0:
            h = h + 1.0
        h = np.tanh(h * x)
    return np.sum(h)


def left_early(w: Any, xs: Any) -> Any:
    h, n = w, 0.0
    for x in xs:
        h = np.tanh(h * x)
        n = n + x[1]
        if n > 100.0:
            break
    else:
        h = h * 2.0
    return np.sum(h) * n


OF_ROWS = [
    of_rows, of_numbers, beside_each_other, shifted, not_read, taken_apart, in_each_other, with_views, with_a_branch,
    left_early,
]  # fmt: skip


@pytest.mark.parametrize("f", OF_ROWS)
def test_rows(f: Callable[..., Any]) -> None:
    agrees(f, POINT, ROWS)
    agrees(lambda xs, w: f(w, xs), ROWS, POINT)
    assert said(f, POINT, ROWS) >= (N // 2 if f is not in_each_other else 10)


# -- positions that were written


def recursion(p: Any, xs: Any) -> Any:
    s, ys = np.empty(N), xs[:, 0]
    s[0] = 1.0 + p[0]
    for t in range(1, N):
        s[t] = p[0] + p[1] * np.tanh(ys[t - 1] * s[t - 1])
    return np.sum(np.log(1 + s**2))


def of_second_order(p: Any, xs: Any) -> Any:
    s = np.zeros(N)
    s[0], s[1] = p
    for t in range(2, N):
        s[t] = p[0] * np.sin(s[t - 1]) - p[1] * s[t - 2] + SERIES[t]
    return np.sum(s**2) + s[5] * s[-1]


def downwards(p: Any, xs: Any) -> Any:
    s = np.zeros(N)
    s[N - 1] = p[0]
    for t in range(N - 2, -1, -1):
        s[t] = p[1] * np.tanh(s[t + 1]) + SERIES[t]
    return np.sum(s**2) + s[3]


def ahead(p: Any, xs: Any) -> Any:
    s = np.zeros(N)
    s[0] = p[0]
    for t in range(N - 1):
        s[t + 1] = p[1] * np.tanh(s[t]) + SERIES[t]
    return np.sum(s**2)


def of_rows_written(p: Any, xs: Any) -> Any:
    s = np.zeros((N, 2))
    s[0] = p
    for t in range(1, N):
        s[t] = s[t - 1] * 0.9 + np.sin(s[t - 1][::-1]) * p
    return np.sum(s**2)


def of_two(p: Any, xs: Any) -> Any:
    s, u = np.zeros(N), np.zeros(N)
    s[0], u[0] = p
    for t in range(1, N):
        s[t] = p[1] * np.tanh(u[t - 1]) + SERIES[t]
        u[t] = s[t - 1] * p[0] + 0.1 * u[t - 1]
    return np.sum(s**2) + u[-1]


def under_a_name(p: Any, xs: Any) -> Any:
    s = np.zeros(N)
    s[0] = x = p[0]
    for t in range(1, N):
        x = s[t - 1] * 0.9 + p[1] * np.sin(x)
        s[t] = x
    return np.sum(s**2) + x


WRITTEN = [recursion, of_second_order, downwards, ahead, of_rows_written, of_two, under_a_name]


@pytest.mark.parametrize("f", WRITTEN)
def test_positions_that_turns_have_written(f: Callable[..., Any]) -> None:
    agrees(f, POINT, ROWS)
    assert said(f, POINT, ROWS) >= N // 2


# -- what is traced to the end, and right


def written_twice(p: Any, xs: Any) -> Any:
    s = np.zeros(N)
    s[0] = p[0]
    for t in range(1, N):
        s[t] = p[1] * np.tanh(s[t - 1])
        s[t] = s[t] + 1.0
    return np.sum(s**2)


def not_yet_written(p: Any, xs: Any) -> Any:
    s = np.ones(N + 1) * p[0]
    for t in range(1, N):
        s[t] = p[1] * np.tanh(s[t + 1]) + s[t - 1]
    return np.sum(s**2)


def of_an_iterator(w: Any, xs: Any) -> Any:
    rows = iter(xs)
    h = next(rows) * w
    for x in rows:
        h = np.tanh(h * x)
        if x[0] > 1.0:
            h = h + next(rows)
    return np.sum(h)


def counted(w: Any, xs: Any) -> Any:
    h = w
    for i, x in enumerate(xs):
        h = np.tanh(h * x) + i
    return np.sum(h) + i


def upside_down(w: Any, xs: Any) -> Any:
    h = w
    for x in reversed(xs):
        h = np.tanh(h * x)
    return np.sum(h)


def written_under_the_loop(w: Any, xs: Any) -> Any:
    xs, h = xs * 1.0, w
    for i, x in zip(range(N), xs, strict=True):
        h = np.tanh(h * x)
        if i < N - 1:
            xs[i + 1] = h
    return np.sum(h)


def view_that_grows(w: Any, xs: Any) -> Any:
    m, k = np.outer(w, w), 0
    for x in xs:
        part = np.sin(m)[:, k:]
        m, k = m * 0.5 + 0.05 * part.sum() * x, 1 - k
    return np.sum(m) + np.sum(part)


def view_into_what_stays(w: Any, xs: Any) -> Any:
    m, k = np.outer(w, w) * 1.0, np.zeros(2)
    for x in xs[:60]:
        k = m[0]
        k += x * 0.01
    return np.sum(m) + np.sum(k)


def of_what_is_left(w: Any, xs: Any) -> Any:
    def inner(held: list[Any], h: Any) -> Any:
        for x, y in held.pop():
            h = np.tanh(h * x) + y
        return h

    rows = iter(xs)
    h = inner([zip(rows, xs[: N // 2], strict=False)], w)
    return np.sum(h) + sum(np.sum(x) for x in rows)


OTHERS = [
    unequal, of_what_is_left, written_twice, not_yet_written, of_an_iterator, counted, upside_down,
    written_under_the_loop, view_that_grows, view_into_what_stays,
]  # fmt: skip


@pytest.mark.parametrize("f", OTHERS)
def test_others(f: Callable[..., Any]) -> None:
    agrees(f, POINT, ROWS)


def test_lengths_are_compared_as_python_does(mode: str) -> None:
    def f(w: Any, xs: Any, ys: Any) -> Any:
        for x, y in zip(xs, ys, strict=True):
            w = np.tanh(w * x) + y
        return np.sum(w)

    agrees(f, POINT, ROWS, SERIES)
    for n, m in ((N, N - 1), (N - 1, N), (N, N // 3)):
        for _ in range(3):
            with pytest.raises(ValueError, match=r"argument 2 is (shorter|longer) than argument 1"):
                value_and_grad(f)(POINT, ROWS[:n], SERIES[:m])


def test_views_stay_views(mode: str) -> None:
    def f(w: Any, xs: Any) -> Any:
        m = np.outer(w, w)
        for x in xs:
            part = np.sin(m + x)[0]
            m = m * 0.5 + part
        part += 1.0
        return np.sum(part) + np.sum(m)

    agrees(f, POINT, ROWS)

    def rows(w: Any, xs: Any) -> Any:
        ys = xs * 1.0
        for y in ys:
            w = np.sin(w * y)
        y += 1.0  # the last row
        return np.sum(w) + np.sum(ys**2)

    agrees(rows, POINT, ROWS)


@pytest.mark.parametrize("f", [of_rows, recursion, with_views])
def test_second_derivatives(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_over.N", 70)
    check_grads(lambda w: f(w, ROWS[:70]), POINT)


def test_the_tape_shows_one_loop() -> None:
    assert len(str(trace(recursion, POINT, ROWS)).splitlines()) < 40
    assert len(str(trace(of_rows, POINT, ROWS)).splitlines()) < 40


def test_other_lengths(mode: str) -> None:
    for n in (0, 1, 2, 30, 70, N // 2, 31, N):
        rows = ROWS[:n]
        want = np.sum(rows, 0) if n else np.zeros(2)

        def f(w: Any, xs: Any) -> Any:
            total = 0.0
            for x in xs:
                total = total + x @ w
            return total * w[0] if len(xs) else np.sum(w) * 0.0

        slopes = grad(f, POINT, rows)[1][0]
        assert np.allclose(slopes, want * POINT[0] + np.array([want @ POINT, 0.0]))


# -- at random


@settings(max_examples=examples(3, share=4), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, step = int(rng.integers(2, 150)), int(rng.choice([1, 1, -1, 2]))
    back = int(rng.integers(1, 3))
    parts = rng.permutation(6)[: rng.integers(1, 5)]
    xs = rng.normal(size=(n, 2))

    def f(w: Any, xs: Any) -> Any:
        h, s, u = w * 1.0, np.zeros(n), np.zeros((n, 2))
        s[0], u[-1] = w[0], w
        for x, y in zip(xs, xs[::step], strict=False):
            for part in parts:
                if part == 0:
                    h = np.sin(h) + x
                elif part == 1:
                    h = h * y[0]
                elif part == 2:
                    h = np.outer(h, x).T[0]
                elif part == 3:
                    h = h - w * (x @ y)
        first, last = (back, n) if step > 0 else (n - 1 - back, -1)
        for t in range(first, last, step):
            s[t] = np.tanh(s[t - back * (1 if step > 0 else -1)]) * w[1] + xs[t, 0]
            u[t] = u[t - step if 0 <= t - step < n else t] * 0.5 + s[t]
        return np.sum(h) + np.sum(s * s) + np.sum(u)

    agrees(f, POINT, xs)
