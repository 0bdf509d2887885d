"""Functions that a step makes: closures, methods and partials, as results, in attributes and in one another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from steps import agrees

from yota_py import config, explain, grad, jit

pytestmark = pytest.mark.usefixtures("every_policy")


class Line:
    """An ordinary class."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def at(self, x: Any, shift: Any = 0.0) -> Any:
        """The line at a point."""
        return self.w * x + shift


def numbers(i: int) -> tuple[Any, ...]:
    return (np.array([1.0, 2.0]) + i,)


def stateless(step: Callable[..., Any]) -> Any:
    return lambda: (step, numbers, lambda: None)


def test_cells_and_defaults() -> None:
    def step(x: Any) -> Any:
        y = x * 2

        def inner(z: Any, k: Any = y + 1, *more: Any, m: Any = x[0], **named: Any) -> Any:
            """What it does."""
            return y * z + k + m

        inner.total = y.sum()
        inner.parts = [y]
        return inner

    agrees(stateless(step), compiled=8)
    agrees(lambda: ((lambda x: step(x)(x[1], m=3.0)), numbers, lambda: None), compiled=8)


def test_functions_that_share_cells() -> None:
    def step(x: Any) -> Any:
        total = x.sum()
        if total < 0.0:
            never = total

        def up(by: Any) -> Any:
            nonlocal total
            total += by
            return total

        def late() -> Any:
            return never

        return up, lambda: total, late

    agrees(stateless(step), compiled=8)
    compiled = jit(step)
    for i in range(4):
        up, get, late = compiled(*numbers(i))
        assert up(2.0) == get() == numbers(i)[0].sum() + 2.0
        assert up is not compiled(*numbers(i))[0]
        with pytest.raises(NameError):
            late()


def test_functions_that_call_themselves_and_one_another() -> None:
    def step(x: Any) -> Any:
        def power(n: Any) -> Any:
            return x if n == 0 else power(n - 1) * other(0)

        def other(n: Any) -> Any:
            return power(n) + 1.0

        return [power, {"other": other}]

    agrees(stateless(step), compiled=8)
    agrees(lambda: ((lambda x: step(x)[0](2)), numbers, lambda: None), compiled=8)


def test_cells_that_were_there_before() -> None:
    def make() -> Any:
        scale, count = np.ones(2), 0

        def step(x: Any) -> Any:
            nonlocal scale, count
            count += 1
            scale = scale * x

            def show() -> Any:
                nonlocal count
                count += 10
                return scale, count

            return show

        return step, numbers, lambda: (scale, count, step.__closure__)

    agrees(make, compiled=5)
    step = jit(make()[0])
    shows = [step(np.full(2, 2.0)) for _ in range(4)]
    assert [show()[1] for show in shows] == [14, 24, 34, 44]
    np.testing.assert_array_equal(shows[0]()[0], [16.0, 16.0])


def test_methods_and_partials() -> None:
    shared = Line(np.ones(2))

    def step(x: Any) -> Any:
        line = Line(x * 3)
        return (
            line.at, line, shared.at, functools.partial(np.multiply, x * 2), functools.partial(Line.at, shared, x=x[0]),
            functools.partial(line.at, **{"shift": x[1], "no name": 1}), functools.partial(shared.at, 2.0),
        )  # fmt: skip

    agrees(stateless(step), compiled=8)


def test_kept_in_attributes_and_called_by_the_next_call() -> None:
    def make() -> Any:
        state = SimpleNamespace(predict=None, bound=Line(np.ones(2)).at)

        def step(x: Any) -> Any:
            value = 0.0 if state.predict is None else state.predict(x)
            value = value + state.bound(x[0])
            state.predict = lambda z: (x * z).sum()
            state.bound = Line(x * 0.5).at
            return value

        return step, numbers, lambda: state

    agrees(make, compiled=0)  # what it reads is another function at each call


def test_what_was_there_before_is_handed_out_itself() -> None:
    def scale(x: Any) -> Any:
        return 2.0 * x

    held = SimpleNamespace(callbacks=[lambda x: x, scale], line=Line(1.0))

    def step(x: Any, given: Any) -> Any:
        return scale, held.callbacks[0], held.callbacks, given, np.sin, len, step, Line.at, held.line.at.__func__, x[0]

    compiled = jit(step)
    for i in range(4):
        x, given = numbers(i)[0], scale
        have, want = compiled(x, given), step(x, given)
        assert all(a is b for a, b in zip(have[:-1], want[:-1], strict=True))
        assert have[-1] == want[-1]


def test_wrapped_and_annotated() -> None:
    def step(x: Any) -> Any:
        def plain(z: float) -> Any:
            """It adds."""
            return x + z

        @functools.wraps(plain)
        def wrapped(*args: Any) -> Any:
            return 2.0 * plain(*args)

        wrapped.__annotations__["also"] = int
        return wrapped

    agrees(stateless(step), compiled=8)


def test_gradients_in_what_is_handed_out() -> None:
    """The closure of a step is an ordinary function, to which gradients belong as to any other."""

    def step(x: Any) -> Any:
        y = np.exp(x)
        return lambda z: np.sum(y * z * z)

    compiled = jit(step)
    for i in range(5):
        x = numbers(i)[0]
        for _ in range(3):
            value, (slope,) = grad(compiled(x), x)
            np.testing.assert_allclose(value, np.sum(np.exp(x) * x * x))
            np.testing.assert_allclose(slope, 2 * x * np.exp(x))
    if config.compile == "always":
        assert sum(entry.calls for entry in explain(compiled)) >= 10


def test_methods_of_arrays() -> None:
    agrees(stateless(lambda x: (x * 2).sum), compiled=0)
    agrees(stateless(lambda x: [x.mean, x.tolist, np.sum]), compiled=0)


def test_generators_and_others_are_called_as_they_are() -> None:
    def step(x: Any) -> Any:
        held = [x * 2]
        return held.append, held

    agrees(stateless(step), compiled=0)
    compiled = jit(lambda x: (x * i for i in range(3)))
    for i in range(4):
        np.testing.assert_array_equal(list(compiled(*numbers(i)))[2], numbers(i)[0] * 2)


def test_methods_in_c() -> None:
    def make() -> Any:
        held: list[Any] = []

        def step(x: Any, items: Any) -> Any:
            held.append([x[0] * 2].append)
            return {"a": x[1]}.get, x.__mul__, x[0].__add__, items.append

        return step, lambda i: (*numbers(i), [1.0]), lambda: [method.__self__ for method in held]

    plain, args, state = make()
    f, its_args, its_state = make()
    step = jit(f)
    for i in range(5):
        want, have = plain(*args(i)), step(*its_args(i))
        assert [type(method) for method in have] == [type(method) for method in want]
        assert have[0]("a") == want[0]("a") and type(have[0]("a")) is np.float64
        np.testing.assert_array_equal(have[1](2.0), want[1](2.0))
        assert repr(state()) == repr(its_state())
        have[3](2.0)
