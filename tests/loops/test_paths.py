"""Everyday loops whose turns decide otherwise: whatever their paths, what is compiled is right."""

# ruff: noqa: SIM108 - branches are what this is about

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from paths import compare
from sets import examples

N = 40
I = np.arange(N)  # noqa: E741 - numbers of turns
P = np.array([0.7, 1.2])


def local_constants(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    for i in range(N):
        if x[i] > 0:
            k = 1
        else:
            k = 2
        if x[i] * s > 0.3:
            s = s * 0.5 * k
        else:
            s = s + x[i] * 0.1 * k
    return s


def tuple_state(p: Any, x: Any) -> Any:
    st = (p[0] * 1.0, p[1] * 1.0)
    for i in range(N):
        a, b = st
        st = (b, a * 0.9 + x[i]) if x[i] > 0 else (a, b * 0.5)
    return st[0] + st[1] ** 2


def remembering_in_a_dict(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    seen = {}

    def g(key: str, v: Any) -> Any:
        if key not in seen:
            seen[key] = v * 2
        return seen[key]

    for i in range(N):
        if x[i] > 0:
            s = s * 0.9 + g("a", p[1])
        else:
            s = s * 0.9 - g("b", s)
    return s


def accumulating_in_a_default(p: Any, x: Any) -> Any:
    s = p[0] * 1.0

    def g(v: Any, acc: list[Any] = [0.0]) -> Any:  # noqa: B006
        acc[0] = acc[0] + v
        return acc[0]

    for i in range(N):
        if x[i] > 0:
            s = s * 0.9 + 0.1 * g(p[1])
        else:
            s = s * 0.5
    return s


def using_its_variable(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    for i in range(N):
        if x[i] > 1.5:
            break
        s = s * 0.9 + x[i] if x[i] > 0 else s * 0.8
    return s * (i + 1)


def with_else(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    for i in range(N):
        if x[i] > 2.0:
            break
        s = s * 0.9 + x[i] if x[i] > 0 else s * 0.8
    else:
        s = s * 100
    return s


def returning(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    for i in range(N):
        if x[i] > 2.0:
            return s * 7
        s = s * 0.9 + x[i] if x[i] > 0 else s * 0.8
    return s


def counting_with_arrays(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    n = np.sum(x > 10)
    for i in range(N):
        if x[i] > 0:
            n = n + 1
            s = s + x[i]
        else:
            s = s * 0.9
    return s * n


def deciding_by_what_was(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    up = x[0] > 0
    for i in range(N):
        if up:
            s = s * 0.9 + x[i]
            up = x[i] > -0.5
        else:
            s = s * 0.5
            up = x[i] > 0.5
    return s if up else -s


def rotating(p: Any, x: Any) -> Any:
    a, b, c = (p[0] * 1.0, p[1] * 1.0, p[0] * p[1])
    for i in range(N):
        if x[i] > 0.5:
            a, b, c = (b, c, a)
        elif x[i] > 0:
            a, b = (b, a)
        else:
            c = c * 0.9 + x[i]
    return a + 2 * b + 3 * c


def shifting(p: Any, x: Any) -> Any:
    a = b = c = p[0] * 1.0
    for i in range(N):
        if x[i] > 0:
            a, b, c = (x[i] * p[1], a, b)
        else:
            c = a
    return a + 2 * b + 3 * c


def of_the_best(p: Any, x: Any) -> Any:
    bx, bv = (p[0] * 1.0, p[1] * 10.0)
    for i in range(N):
        v = (x[i] - p[0]) ** 2
        if v < bv:
            bx, bv = (x[i], v)
    return bx * p[1] + bv


def of_other_lengths(p: Any, x: Any) -> Any:
    s = p[0] * 1.0
    for i in range(20):
        for j in range(i % 4):
            s = s * 0.9 + x[i] if x[i + j] > 0 else s * 0.8
    return s


def from_one_array(p: Any, x: Any) -> Any:
    v = p * 1.0
    w = v
    for i in range(N):
        if x[i] > 0:
            v = v + x[i]
        else:
            w = w * 0.9
    return v @ w


FORS: list[Callable[..., Any]] = [
    local_constants,
    tuple_state,
    remembering_in_a_dict,
    accumulating_in_a_default,
    using_its_variable,
    with_else,
    returning,
    counting_with_arrays,
    deciding_by_what_was,
    rotating,
    shifting,
    of_the_best,
    of_other_lengths,
    from_one_array,
]


def continued(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + t * p[1]
            continue
        s = s * 0.8
    return s


def broken_off(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + t * p[1]
        else:
            s = s * 0.8
        if s > 5:
            break
    return s + t


def returned_from(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + t * p[1]
        else:
            s = s * 0.8
        if s > 5:
            return t * 9
    return s + t


def with_an_else(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + t * p[1]
        else:
            s = s * 0.8
        if s > 5:
            break
    else:
        s = s * 50
    return s + t


def endless(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while True:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + t * p[1]
        else:
            s = s * 0.8
        if t < 0.1:
            return s


def until_both(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.5 or s > 1.0:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s * 0.95 + t * 0.01 * p[1]
        else:
            s = s * 0.8
    return s + t


def within_another(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.3:
        u = t * 1.0
        while u > 0.2:
            u = u * 0.7
            if np.sin(5 * u) * p[0] > 0:
                s = s * 0.9 + u
            else:
                s = s * 0.8
        if s > 1:
            t = t * 0.8
        else:
            t = t * 0.7
    return s + t


def in_a_function(p: Any) -> Any:

    def run(s: Any, stop: float, k: float) -> Any:
        t = s * 0 + 3.0
        while t > stop:
            t = t * 0.9
            if np.sin(9 * t) * p[0] > 0:
                s = s + t * p[1] * k
            else:
                s = s * 0.8
        return s

    return run(run(run(p[0] * 1.0, 0.5, 1.0), 0.3, 2.0), 0.2, 1.0)


def read_by_a_function(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)

    def g() -> Any:
        return s * 0.5 + t

    while t > 0.1:
        t = t * 0.93
        if g() * p[0] > 0.5:
            s = s * 0.9 + g() * 0.1
        else:
            s = s * 0.8 + 0.2
    return s


def assigned_by_a_function(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)

    def g() -> None:
        nonlocal s
        s = s * 0.9 + 0.1

    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            g()
        else:
            s = s * 0.8
    return s


def keeping(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    first = p[0] * 2
    other = p[1] * 3
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            s = s + first
            last = t * 2
        else:
            s = s * 0.8
            last = other
    return s + last * first


def two_names(p: Any) -> Any:
    v = p * 1.0
    w = v
    t = p[1] * 0 + 3.0
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            v = v + t
        elif np.cos(9 * t) > 0.9:
            w = v
        else:
            v = v * 0.9
    return v @ w


def adaptive(p: Any) -> Any:
    y = p * 1.0
    t = p[1] * 0 + 0.1
    h = p[0] * 0 + 0.05
    n = p[0] * 0
    while t < 2.0:
        k = np.array([y[1], -y[0] * p[1]])
        e = np.max(np.abs(k)) * h
        if e > 0.08:
            h = h * 0.5
        else:
            y = y + h * k
            t = t + h
            n = n + 1
            if e < 0.02:
                h = h * 1.7
    return y @ y + n


def newton(p: Any) -> Any:
    x = p[0] * 1.0
    n = 0
    while n < 30:
        n += 1
        f = x * x - abs(p[1])
        if abs(f) < 1e-08:
            break
        x = x - f / (2 * x) if abs(x) > 0.3 else x + 0.5
    return x


def assigned_in_the_condition(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while (t := (t * 0.93)) > 0.1:
        if (z := (np.sin(9 * t) * p[0])) > 0:
            s = s * 0.9 + z
        else:
            s = s * 0.8 - z * p[1]
    return s


def its_own_argument(p: Any) -> Any:
    t = p[1] * 0 + 3.0
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0:
            p = p * 0.9 + 0.1
        else:
            p = p[::-1] * 1.0
    return p[0] + 2 * p[1]


def exchanging(p: Any) -> Any:
    a, b, c = (p[0] * 1.0, p[1] * 1.0, p[0] * p[1])
    t = p[1] * 0 + 3.0
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0.2:
            a, b = (b, a)
        elif np.sin(5 * t) > 0:
            b, c = (c, b)
    return a + 2 * b + 3 * c


def two_of_them(p: Any) -> Any:
    s, t = (p[0] * 1.0, p[1] * 0 + 3.0)
    while t > 0.1:
        t = t * 0.93
        s = s * 0.9 + t if np.sin(9 * t) * p[0] > 0 else s * 0.8
    while t < 2:
        t = t * 1.1
        s = s * 0.9 - t if np.sin(9 * t) * p[1] > 0 else s * 0.8
    return s


def none_before(p: Any) -> Any:
    s, t, last = (p[0] * 1.0, p[1] * 0 + 3.0, None)
    while t > 0.1:
        t = t * 0.93
        if np.sin(9 * t) * p[0] > 0.5:
            last = t
        elif last is not None:
            s = s + last
        else:
            s = s * 0.8
    return s if last is None else s * last


def a_pair(p: Any) -> Any:
    st = (p[0] * 1.0, p[1] * 0 + 3.0)
    while st[1] > 0.1:
        s, t = st
        if np.sin(9 * t) * p[0] > 0:
            st = (s + t, t * 0.93)
        else:
            st = (s * 0.8, t * 0.9)
    return st[0] * p[1]


WHILES: list[Callable[..., Any]] = [
    continued,
    broken_off,
    returned_from,
    with_an_else,
    endless,
    until_both,
    within_another,
    in_a_function,
    read_by_a_function,
    assigned_by_a_function,
    keeping,
    two_names,
    adaptive,
    newton,
    assigned_in_the_condition,
    its_own_argument,
    exchanging,
    two_of_them,
    none_before,
    a_pair,
]


@pytest.mark.parametrize("f", FORS)
def test_loops_over_ranges(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    calls = [(P * rng.uniform(0.5, 1.5, 2), rng.normal(size=N)) for _ in range(examples(3, share=100))]
    for sign in (I % 2 > 0, I % 3 > 0, I < 0, I >= 0, I < 20, I >= 20, I == N - 1, I == 0):
        calls.append((P, np.where(sign, 1.0, -1.0)))
    compare(f, calls)


@pytest.mark.parametrize("f", WHILES)
def test_loops_with_ends_of_their_own(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    compare(f, [(rng.uniform(0.3, 1.8, 2) * rng.choice([-1, 1], 2),) for _ in range(examples(5, share=100))])


def counting_in_a_default(p: Any, x: Any) -> Any:
    s, t = p[0] * 1.0, x * 0 + 3.0

    def step(s: Any, t: Any, seen: list[Any] = []) -> Any:  # noqa: B006
        if np.sin(17 * t * p[0] + x) > 0:
            seen += [1]
            return s * 0.9 + t
        return s * 0.9 - t * (p[1] if seen else 10.0)

    while t > 0.1:
        t = t * 0.93
        s = step(s, t)
    return s


def marking_in_a_closure(p: Any, x: Any) -> Any:
    s, t = p[0] * 1.0, x * 0 + 3.0
    seen: set[int] = set()

    def step(s: Any, t: Any) -> Any:
        marks = seen
        if np.sin(17 * t * p[0] + x) > 0:
            marks |= {1}
            return s * 0.9 + t
        return s * 0.9 - t * (p[1] if marks else 10.0)

    while t > 0.1:
        t = t * 0.93
        s = step(s, t)
    return s


@pytest.mark.parametrize("f", [counting_in_a_default, marking_in_a_closure])
def test_functions_that_change_what_they_hold(f: Callable[..., Any]) -> None:
    compare(f, [(P, x) for x in np.linspace(0, 6, 13)])


def test_branches_of_hundreds_of_operations_stay_decisions() -> None:
    long = "\n".join(["            s = np.sin(s) + 0.1"] * 110)
    space: dict[str, Any] = {"np": np}
    exec(f"def f(p, x):\n    s = p[0] * 1.0\n    for i in range(len(x)):\n        if x[i] > 0:\n{long}\n"
         "        else:\n            s = s * p[1]\n    return s", space)  # fmt: skip
    signs = [np.where(I[:12] % n > 0, 1.0, -1.0) for n in (2, 3)]
    assert len(compare(space["f"], [(P, sign) for sign in signs])) == 2
