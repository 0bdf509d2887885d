"""Gradients of functions of numbers, which are computed on the shortest way, are those of a trace."""

from __future__ import annotations

import copy
import gc
import random
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from test_short import assert_same

from yota_py import config, scalar_rule, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.registry.registry import entries
from yota_py.reverse.eager import eagerly
from yota_py.tracing.stand_ins import Kept

POINTS = np.array([0.0, -0.0, 1.0, -1.0, 0.3, 1.7, -2.5, 1e-320, 1e300, np.inf, -np.inf, np.nan])
PLAIN: list[Any] = [0, 1, -2, 3, 0.0, 0.5, -1.5, 2.0, np.float64(0.7), np.float64(-3.0), np.inf, np.nan]
OPERATORS: list[Callable[..., Any]] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x**y,
    lambda x, y: x % y + x * 0.5 + y * 0.25,
]  # fmt: skip
FUNCTIONS = sorted(
    (fn for fn in entries if isinstance(fn, np.ufunc) and fn.nout == 1 and fn.nin == 1), key=lambda fn: fn.__name__
)


def both(f: Callable[..., Any], *args: Any, argnums: Any = 0) -> bool:
    """Compare value and gradient with those of a trace; whether there were any."""
    with np.errstate(all="ignore"):
        have = Gradient(argnums).at_once(Request(f, args, {}))
        if have is None:
            return False
        want = Gradient(argnums).reference(Request(f, args, {}))[0]
    assert_same(have[0][0], want[0])
    for dx, wanted in zip(have[0][1], want[1], strict=True) if isinstance(argnums, tuple) else [(have[0][1], want[1])]:
        assert type(dx) is type(wanted)
        np.testing.assert_allclose(dx, wanted, rtol=1e-12, atol=0)
    return True


@pytest.mark.parametrize("op", OPERATORS)
def test_operators(op: Callable[..., Any]) -> None:
    drawn = random.Random(op.__code__.co_firstlineno)
    for x in POINTS:
        for other in PLAIN:
            assert both(op, x, other)
            assert both(op, other, x, argnums=1)
        for y in drawn.sample([*POINTS], 5):
            assert both(lambda x, y: op(y, op(x, y)) - op(x, y), x, y, argnums=(0, 1))
        for other in (0, 2, 0.5):  # a slope of zero times infinity is NaN, and what has no slope is zero
            far = drawn.choice(np.array([0.0, 1e300, -np.inf, np.nan]))
            assert both(lambda x, c=other, d=far: np.exp(op(x, c) * d) * d + op(c, x) / d, x)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_functions_of_one_number(fn: np.ufunc) -> None:
    def f(x: Any) -> Any:
        return fn(x) * 1.0 + x

    reached = 0
    with Kept(), np.errstate(all="ignore"):
        for x in POINTS:
            have = eagerly(f, (x,), {}, 0, adds=False, codes=())
            if have is not None:
                reached += 1
                want = Gradient(0).reference(Request(f, (x,), {}))[0]
                assert_same(have[0][0], want[0])
                np.testing.assert_allclose(have[0][1], want[1], rtol=1e-12, atol=0)
    assert (reached > 0) == any(code[0] == "d" and code[-1] in "d?" for code in fn.types), reached


def test_in_place_and_chains() -> None:
    def f(p: Any) -> Any:
        total, last = 0.0, p[0] * 1
        for i in range(3):
            total += p[i] * last
            total -= p[-1] / 3
            last **= 2
            last *= p[i]
            last /= 1 + p[1] ** 2
        return -total + (-last if last > 0 else last) + abs(p[2]) + (p[0] <= p[1])

    for p in (np.array([0.5, -1.0, 2.0]), np.zeros(3), np.ones(3)):
        assert both(f, p)


def test_random_expressions() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        names = ["p[0]", "p[1]", "p[2]", "1.5", "2", "c"]
        lines = []
        for i in range(12):
            text = ["{} + {}", "{} - {}", "{} * {}", "{} / (1 + {} ** 2)", "np.tanh({}) * -{}", "max({}, {})"]
            lines.append(f"x{i} = " + rng.choice(text).format(rng.choice(names), rng.choice(names)))
            names.append(f"x{i}")
        space: dict[str, Any] = {"np": np, "c": np.float64(-0.5)}
        exec("def f(p):\n    " + "\n    ".join(lines) + "\n    return x8 * x9 + (x10 + x11) * p[0]\n", space)
        assert both(space["f"], np.array([0.3, -0.8, 1.2]) * (1 + seed % 3))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.linalg.slogdet(x @ x.T + np.eye(3))[1],
        lambda x: np.linalg.slogdet(x @ x.T + np.eye(3))[0] * x[0, 0],
        lambda x: np.sum(np.linalg.eigh(x @ x.T)[0] ** 2) + np.linalg.eigh(x @ x.T)[1][0, 0] ** 2,
        lambda x: np.sum(np.abs(np.linalg.qr(x)[1]) * x),
        lambda x: np.sum(np.linalg.svd(x, full_matrices=False)[1][:2]) + x[0, 0],
        lambda x: np.sum(np.stack([x[0], x[1] * 2, np.ones(3)]) * x) + np.sum(np.stack([x[0, 0], x[1, 1], 2.0]) ** 2),
        lambda x: np.sum(np.stack([x[0], x[0]]) * np.stack(x)[:2]) + np.sum(np.stack([x, x], axis=-1)),
    ],
)
def test_several_results_and_rows(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert both(f, rng.normal(size=(3, 3)))


def test_warnings_come_from_the_users_line() -> None:
    config.compile = "never"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value, dx = value_and_grad(lambda x: x / 0.0 + x**0.5 + 2 * np.log(x * 0))(np.float64(-1.0))
    assert np.isnan(value)
    assert np.isnan(dx)
    assert {warning.filename for warning in caught} == {__file__}
    assert [str(warning.message)[:6] for warning in caught] == ["divide", "invali", "divide"]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), (1, 1), (2, 1, 3)])
def test_sums(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    for given in [(), *((axis,) for axis in range(-len(shape), len(shape)))]:
        rest = np.ones(np.shape(np.sum(x, *given)))
        f = lambda x, given=given, rest=rest: np.sum(np.sin(np.sum(x, *given)) * rest) + np.sum(x[0:1] * 2)  # noqa: E731
        found = eagerly(f, (x,), {}, 0, adds=False, codes=())
        assert found is not None
        value, dx = found[0]
        assert value == f(x)
        slope = np.cos(np.sum(x, *given))
        want = np.broadcast_to(np.expand_dims(slope, given) if given else slope, shape).copy()
        want[0:1] += 2
        np.testing.assert_allclose(dx, want, rtol=1e-14)


def test_rules_that_are_replaced_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    config.compile = "never"
    monkeypatch.setitem(entries, np.cbrt, copy.copy(entries[np.cbrt]))  # registering changes the entry itself
    f = value_and_grad(lambda x: np.cbrt(x) * x)
    assert f(np.float64(8.0)) == (16.0, pytest.approx(8 / 3))
    scalar_rule(np.cbrt, lambda y, x: 100.0)
    assert f(np.float64(8.0)) == (16.0, 802.0)
    assert Gradient(0).at_once(Request(lambda x: x * 2.0, (np.float64(1.0),), {})) is not None


def shared_before(x: Any) -> Any:
    y = x * 2
    z = [y, y]
    y += 1
    return np.sum(z[0] * y) + np.sum(z[1])


def plain_in_place(x: Any) -> Any:
    y = TABLE * 2
    z = y @ x
    y += 1
    y *= 3
    return np.sum(y @ x) + np.sum(z)


def gets_active(x: Any) -> Any:
    y = TABLE[0] + 1
    z = y
    y += x
    return np.sum(z * y)


def view_in_place(x: Any) -> Any:
    y = x * 1
    z = y[:2]
    z *= 3
    return np.sum(y * x) + np.sum(z)


TABLE = np.arange(9.0).reshape(3, 3) / 7


@pytest.mark.parametrize("f", [shared_before, plain_in_place, gets_active, view_in_place])
def test_what_is_changed_in_place(f: Any) -> None:
    """On the shortest way, or left to a trace: never otherwise than by plain Python."""
    for _ in range(3):
        x, table = np.array([0.3, -1.0, 2.0]), TABLE.copy()
        value, dx = value_and_grad(f)(x)
        assert value == f(x.copy())
        steps = np.eye(3) * 1e-6
        want = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(dx, want, rtol=1e-6)
        np.testing.assert_array_equal(TABLE, table)


def caught_in(f: Callable[..., Any], *args: Any, how: str = "always") -> list[tuple[str, str, int]]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(how)  # type: ignore[arg-type]
        f(*args)
    return [(str(x.message).replace("scalar ", ""), x.filename, x.lineno) for x in caught]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0] / 0.0 + np.prod(x) + np.log(x[1] * 0),
        lambda x: scipy.special.kn(x[0] * 4, x[1]),
        lambda x: np.array([x[0] / 0.0, 1.0])[0] + np.sum(np.log(np.array([x[0], 0.0]))),
        lambda x: np.mean(x[:0]) + np.sum(x),
    ],
)
def test_warnings_are_those_of_a_plain_call(f: Callable[..., Any]) -> None:
    config.compile = "never"
    x = np.array([0.6, 1.3])
    want = caught_in(f, x)
    assert want
    have = caught_in(value_and_grad(f), x)
    assert [*dict.fromkeys(have)] == [*dict.fromkeys(want)]
    assert len(have) == len(want)


def test_warnings_come_once_from_each_line() -> None:
    config.compile = "never"

    def f(x: Any) -> Any:
        return np.array([x[0] / 0.0, 1.0])[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for i in range(4):
            value_and_grad(f)(np.array([2.0, 3.0]) + i)
            f(np.array([2.0, 3.0]))
    assert len(caught) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals")
def test_what_the_handler_of_a_signal_raises_is_raised() -> None:
    def on_time(*given: Any) -> None:
        raise TimeoutError("enough")

    def slow(x: Any) -> Any:
        y, n = x * 1, 0
        while n < 10**8:
            y *= 1.0
            n += 1
        return y

    config.compile = "never"
    before = signal.signal(signal.SIGALRM, on_time)
    gc.disable()  # what is raised in its callbacks (Hypothesis and JAX have some) is only written to stderr
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError, match="enough"):
            value_and_grad(slow)(np.float64(1.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)
