"""Loops of Python that end when a traced condition says so: one operation where nobody can tell the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import config, explain, grad, gradient, jit, trace, vmap
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads

LIMIT = 1e-3
COUNT = [0]
NOTES: list[Any] = []


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def breaking(a: Any) -> Any:
    x = a
    while True:
        y = 0.5 * (x + a / x)
        if abs(x - y) < 1e-10:
            break
        x = y
    return y * x


def flagged(a: Any) -> Any:
    x, done = a, False
    while not done:
        before, x = x, np.cos(x) * 0.9
        done = np.abs(before - x) < LIMIT
    return x * before


def helped(x: Any) -> Any:
    def step(x: Any) -> Any:
        return 0.7 * np.tanh(x) + 0.01 * np.sum(x)

    state = (x, np.sum(x))
    while state[1] > LIMIT:
        new = step(state[0])
        state = new, np.sum(new**2)
    return np.sum(state[0]) + state[1]


def integrated(p: Any) -> Any:
    """Adaptive steps, accepted or not."""
    t, y, h = 0.0, np.array([2.0, 0.0]) * p[0], 0.1 * np.ones(())
    while t < 3.0 - 1e-9:
        h = np.minimum(h, 3.0 - t)
        first = np.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - y[0]])
        z = y + h * first
        second = np.stack([z[1], p[0] * (1 - z[0] ** 2) * z[1] - z[0]])
        error = np.sqrt(np.sum((0.5 * h * (second - first)) ** 2)) + 1e-14
        good = error < p[1]
        y = np.where(good, y + 0.5 * h * (first + second), y)
        t = np.where(good, t + h, t)
        h = h * np.clip(0.9 * np.sqrt(p[1] / error), 0.3, 2.0)
    return np.sum(y**2) + h


def nested(a: Any) -> Any:
    total = a
    while total < 20.0:
        x = a
        while x < 3.0:
            x = x * 1.3 + 0.1
        total = total + x
    return total * a


def written_inside(x: Any) -> Any:
    y = np.sum(x) * np.ones(3)
    while np.sum(y) > LIMIT:
        z = np.zeros(3)
        z[0] = y[1] * 0.5
        z[1:] = y[:2] * x[0]
        y = z
    return np.sum(y * x)


def seen_by_lambdas(a: Any) -> Any:
    """A variable in a cell, which functions from before and behind the loop see."""
    x = a
    before = lambda: x * 2.0  # noqa: E731
    while x > 0.1:
        y = x
        x = x * 0.7
    after = lambda: x + y  # noqa: E731
    return before() + after() * a


def unpacking(a: Any) -> Any:
    (x, (y, n)), z = (a, (a * 2.0, 0.0 * a)), a
    while (z := x * y) > 0.1:
        (x, (y, n)) = (y * 0.5, (x * 0.9, n + 1.0))
    return x + y * n + z


NUMBERS = [(a,) for a in (2.0, 7.0, 1e6, 3.0, 1e-3, 40.0, 1.0, 2.0)]
ARRAYS = [(s * np.array([0.4, -0.2, 0.9]),) for s in (1.0, 3.0, 0.1, 0.7, 1.0)]
ONE = {
    "newton": (newton, NUMBERS), "breaking": (breaking, NUMBERS), "flagged": (flagged, NUMBERS),
    "helped": (helped, ARRAYS), "nested": (nested, [(a,) for a in (0.5, 0.01, 1.5, 0.5)]),
    "integrated": (integrated, [(np.array([m, tol]),) for m in (1.0, 1.5, 0.6) for tol in (1e-3, 1e-4)]),
    "written_inside": (written_inside, ARRAYS),
    "seen_by_lambdas": (seen_by_lambdas, [(a,) for a in (3.0, 7.0, 40.0, 0.5, 1e6)]),
    "unpacking": (unpacking, [(a,) for a in (3.0, 7.0, 40.0, 1e6)]),
}  # fmt: skip


# ------------------------------------------------------------------- of these, each turn is another one


def limited(a: Any) -> Any:
    """Behind so many turns something else happens."""
    x, k = a, 0
    while abs(x - 1.0) > 1e-6:
        x = np.sqrt(x) if k < 7 else x * 0.5 + 0.5
        k += 1
    return x * k


def most(a: Any) -> Any:
    """At most so many turns, by an iterator on the interpreter's stack."""
    x = a
    for _ in [None] * 9:
        if abs(x - 1.0) < 1e-6:
            break
        x = np.sqrt(x)
    return x


def noting(a: Any) -> Any:
    x, path = a, []
    while abs(x - 1.0) > 1e-3:
        x = np.sqrt(x)
        path.append(x)
    return sum(path, 0.0 * a) * len(path)


def counting_in_array(a: Any) -> Any:
    x, n = a, np.zeros(1)
    while abs(x - 1.0) > 1e-6:
        n[0] += 1
        x = np.sqrt(x) if n[0] < 8 else x * 0.5 + 0.5
    return x * n[0]


def counting_outside(a: Any) -> Any:
    COUNT[0] = 0
    x = a

    def step(x: Any) -> Any:
        COUNT[0] += 1
        return np.sqrt(x) if COUNT[0] < 8 else x * 0.5 + 0.5

    while abs(x - 1.0) > 1e-6:
        x = step(x)
    return x


def counting_in_cell(a: Any) -> Any:
    x, n = a, 0

    def step(x: Any) -> Any:
        nonlocal n
        n += 1
        return np.sqrt(x) if n < 8 else x * 0.5 + 0.5

    while abs(x - 1.0) > 1e-6:
        x = step(x)
    return x * n


class Model:
    def __init__(self) -> None:
        self.calls = 0

    def step(self, x: Any) -> Any:
        self.calls += 1
        return np.sqrt(x) if self.calls < 8 else x * 0.5 + 0.5


def counting_in_object(a: Any) -> Any:
    x, model = a, Model()
    while abs(x - 1.0) > 1e-6:
        x = model.step(x)
    return x * model.calls


def taking_the_next(a: Any) -> Any:
    x, factors = a, iter([0.9, 0.8] * 4 + [0.5] * 200)
    while x > 0.1:
        x = x * next(factors)
    return x * x


def generated(a: Any) -> Any:
    def values(x: Any) -> Iterator[Any]:
        while x > 0.1:
            x = x * 0.7
            yield x

    total = 0.0
    for k, x in enumerate(values(a)):
        total = total + x * (1 if k < 6 else 2)
    return total


def in_expression(a: Any) -> Any:
    """What stands on the stack is of the turn before."""
    x, y, i = a, a, 0.0 * a
    while x > 0.1:
        y = x * (2.0 if i > 1e9 else 1.0) + y
        x = x * 0.7
    return y


def seeing_through_views(x: Any) -> Any:
    y = x * 1.0
    head = y[:1]
    while np.sum(y) > 0.3:
        y = y * 0.7
        head = y[:1]
    y[0] = 5.0
    return np.sum(y * x) + np.sum(head)


def in_place(x: Any) -> Any:
    y = x * 1.0
    other = y
    while np.sum(y) > 0.3:
        y *= 0.7
    return np.sum(y * x) + np.sum(other)


def two_of_one(a: Any) -> Any:
    x = y = a
    n = 0.0 * a
    while x + y > 0.3:
        x, y = (x * 0.7, x * 0.7) if x is y else (x * 0.7, y * 0.8)
        n = n + 1.0
    return x * 2.0 + y + n


def rotating(a: Any) -> Any:
    x, y, z = a, 2.0 * a, 3.0 * a
    while x > 0.1:
        x, y, z = y, z, x * 0.2
    return x + 2.0 * y + 3.0 * z


def first_and_last(a: Any) -> Any:
    x, kept = a, None
    while x > 0.1:
        if kept is None:
            kept = x * 2.0
        x = x * 0.7
    return x * kept if kept is not None else x


def deleting(a: Any) -> Any:
    x = a
    while x > 0.1:
        y = x * 0.7
        x = y
        del y
    return x


def excepting(a: Any) -> Any:
    x = a
    while x > 0.1:
        try:
            x = x * 0.7
        except ValueError:
            x = x * 0.1
    return x


def deciding(a: Any) -> Any:
    x = a
    while x > 0.1:
        x = x * 0.7 if x > 1.0 else x * 0.9 - 0.001
    return x


def printing(a: Any) -> Any:
    x = a
    while x > 0.1:
        x = x * 0.7
        NOTES.append(1)
    return x


def two_conditions(a: Any) -> Any:
    x, y = a, a * 2.0
    while x > 0.1 and y > 0.3:
        x, y = x * 0.7, y * 0.8
    return x * y


def helper_in_a_loop(a: Any) -> Any:
    def once(x: Any) -> Any:
        if x > 0.5:
            return x * 0.7
        return x * 0.95

    for _ in [None] * 12:
        a = once(a)
    return a


def restarting(a: Any) -> Any:
    total = 0.0
    for k in range(3):
        x = a * (k + 1)
        while x > 0.1:
            x = x * 0.7
        total = total + x * (k + 1)
    return total


def over_the_edge(a: Any) -> Any:
    """The number divided by becomes zero in a later turn."""
    x, n = a, a * 0.0
    while n < 5.5:
        x = x + 1.0 / (n - 100.0)
        n = n + 1.0
    return x


OTHER = {
    f.__name__: (f, ARRAYS if f in (seeing_through_views, in_place) else NUMBERS)
    for f in (
        limited, most, noting, counting_in_array, counting_outside, counting_in_cell, counting_in_object,
        taking_the_next, generated, in_expression, seeing_through_views, in_place, two_of_one, rotating, first_and_last,
        deleting, excepting, deciding, printing, two_conditions, helper_in_a_loop, restarting, over_the_edge,
    )
}  # fmt: skip


@pytest.mark.parametrize("mode", ["never", "always", "auto"])
@pytest.mark.parametrize("name", [*ONE, *OTHER])
def test_values_and_gradients(name: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, arguments = (ONE | OTHER)[name]
    for args in arguments:
        monkeypatch.setattr(config, "compile", "never")
        monkeypatch.setattr(config, "roll", False)
        want, wanted = grad(lambda *args: f(*args), *args)
        np.testing.assert_allclose(want, f(*args), rtol=1e-12)
        monkeypatch.setattr(config, "compile", mode)
        monkeypatch.setattr(config, "roll", True)
        have, found = grad(f, *args)
        assert type(have) is type(want)
        np.testing.assert_allclose(have, want, rtol=1e-12)
        for dx, dy in zip(found, wanted, strict=True):
            assert type(dx) is type(dy)
            np.testing.assert_allclose(dx, dy, rtol=1e-8, atol=1e-12)


def with_end(f: Any, *args: Any) -> int:
    """How many loops of a traced function have an end of their own."""
    return sum((loop := as_loop(op)) is not None and loop.until for op in trace(f, *args).ops)


@pytest.mark.parametrize("name", ONE)
def test_one_operation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, arguments = ONE[name]
    assert with_end(f, *arguments[0]) >= 1
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "audit", "off")

    def g(*args: Any) -> Any:
        return f(*args)

    for args in arguments:
        grad(g, *args)
    (explanation,) = explain(g)
    assert explanation.misses <= 3  # few turns are paths of their own


@pytest.mark.parametrize(
    "name", ["limited", "most", "noting", "counting_in_array", "counting_outside", "counting_in_cell",
             "counting_in_object", "taking_the_next", "generated", "seeing_through_views", "in_place"],
)  # fmt: skip
def test_not_one_operation(name: str) -> None:
    f, arguments = OTHER[name]
    assert not any(with_end(f, *args) for args in arguments)


@pytest.mark.parametrize("name", ["newton", "helped", "integrated"])
def test_second_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, arguments = ONE[name]
    for args in [(np.array([1.0, 1e-2]),)] if f is integrated else arguments[:3]:  # some twenty steps
        monkeypatch.setattr(config, "compile", "never")
        monkeypatch.setattr(config, "roll", False)
        want = gradient(lambda x: np.sum(gradient(lambda x: f(x))(x) ** 2))(*args)
        monkeypatch.setattr(config, "roll", True)
        for mode in ("never", "always"):
            monkeypatch.setattr(config, "compile", mode)
            have = gradient(lambda x: np.sum(gradient(f)(x) ** 2))(*args)
            np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-9)
    if name == "newton":
        check_grads(f, 7.0)


def test_in_other_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([2.0, 50.0, 1e-2])
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        for a in values:
            assert jit(newton)(float(a)) == pytest.approx(np.sqrt(a))
        np.testing.assert_allclose(vmap(newton)(values), np.sqrt(values))
        np.testing.assert_allclose(gradient(lambda a: np.sum(vmap(newton)(a)))(values), 0.5 / np.sqrt(values))


def test_what_it_reads_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    held = np.array([0.7, 0.9])

    def f(x: Any) -> Any:
        while np.sum(x) > LIMIT:
            x = x * held
        return np.sum(x)

    for limit in (1e-3, 1.0, 1e-2):
        for factor in (0.7, 0.5, 0.8):
            monkeypatch.setitem(globals(), "LIMIT", limit)
            held[0] = factor
            for x in (np.array([3.0, 5.0]), np.array([30.0, 0.1])):
                n = 0
                while np.sum(x * held**n) > limit:
                    n += 1
                np.testing.assert_allclose(gradient(f)(x), held**n)


def test_local_variables_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function has made goes with it."""
    import gc
    import weakref

    class Big(np.ndarray):
        pass

    seen: list[Any] = []

    def f(x: Any) -> Any:
        large = np.zeros(3).view(Big)
        seen.append(weakref.ref(large))
        while x > 0.1:
            x = x * 0.7
        return x

    grad(f, 3.0)
    gc.collect()
    assert seen
    assert all(ref() is None for ref in seen)


@given(
    a=st.floats(0.1, 0.95), b=st.floats(-1.0, 1.0), least=st.floats(1e-3, 3.0),
    start=st.lists(st.floats(0.1, 5.0), min_size=1, max_size=5), order=st.permutations(range(3)),
)  # fmt: skip
@settings(max_examples=examples(8, share=4), deadline=None)
def test_random_loops(a: float, b: float, least: float, start: list[float], order: list[int]) -> None:
    def f(p: Any, x: Any) -> Any:
        parts = (x, np.sum(x) * p[1], 0.5 * x)
        total = 0.0 * p[0]
        while np.max(parts[0]) > least:
            old = parts[order[0]] if order[0] != 1 else x
            new = p[0] * np.abs(np.cos(p[1] + parts[0])) * parts[0]
            total = total + np.sum(np.tanh(old) * p[1])
            parts = (new, parts[1] + np.sum(new), parts[order[2]] * 0.9 if order[2] != 1 else parts[2])
        return total * np.sum(parts[0]) + parts[1] + np.sum(parts[2])

    args = np.array([a, b]), np.array(start)
    have = grad(lambda *args: f(*args), *args)
    before, config.roll = config.roll, False
    try:
        want = grad(lambda *args: f(*args), *args)
    finally:
        config.roll = before
    np.testing.assert_allclose(have[0], want[0], rtol=1e-10)
    for dx, dy in zip(have[1], want[1], strict=True):
        np.testing.assert_allclose(dx, dy, rtol=1e-7, atol=1e-9)


def callables() -> list[Callable[..., Any]]:
    return [f for f, _ in (ONE | OTHER).values()]


def test_names_are_those_of_the_functions() -> None:
    assert {f.__name__ for f in callables()} == {*ONE, *OTHER}
