"""Users' rules that call what does not notice traced values: functions of SciPy and of `math`, under any name."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from math import cos
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from numpy.testing import assert_allclose
from scipy.linalg import solve
from scipy.special import logsumexp

import yota_py
from yota_py import config, explain, gradient, primitive, rrule, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.registry.registry import vjps
from yota_py.tracing.stand_ins import Installed, Kept

A = np.array([[3.0, 1.0], [0.5, 2.0]])


def _helped(a: Any, dy: Any) -> Any:
    return solve(a.T, dy)


def _inside(a: Any, dy: Any) -> Any:
    from scipy.linalg import solve as own

    return own(a.T, dy)


def _in_closure() -> Callable[..., Any]:
    own = solve
    return lambda a, dy: own(a.T, dy)


SOLVED: dict[str, Callable[..., Any]] = {
    "of a module": lambda a, dy: scipy.linalg.solve(a.T, dy),
    "by name": lambda a, dy: solve(a.T, dy),
    "of a helper": lambda a, dy: _helped(a, dy),
    "imported when it is called": _inside,
    "in a closure": _in_closure(),
    "in a partial": partial(lambda own, a, dy: own(a.T, dy), lambda a, b: solve(a, b)),
}


def matrix_loss(way: Callable[..., Any]) -> Callable[..., Any]:
    @primitive
    def inverse(a: Any) -> Any:
        return np.linalg.inv(a)

    @rrule(inverse)
    def _(a: Any) -> Any:
        y = inverse(a)
        return y, lambda dy: (-way(a, dy) @ y.T,)

    return lambda a: np.sum(inverse(a) ** 2)


def check(df: Callable[..., Any], want: Callable[..., Any], given: list[Any]) -> None:
    for x in given:
        assert_allclose(df(x), want(x), rtol=1e-9)
    assert explain(df)[0].calls >= len(given) - 1
    assert not Installed._users
    assert (globals()["solve"], globals()["cos"], globals()["logsumexp"]) == KEPT


KEPT = solve, cos, logsumexp


@pytest.mark.parametrize("way", SOLVED)
def test_functions_of_scipy(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", "always")
    df, want = gradient(matrix_loss(SOLVED[way])), gradient(lambda a: np.sum(np.linalg.inv(a) ** 2))
    check(df, want, [A, A + 1.0, 2 * A, A.T])


@pytest.mark.parametrize("sine", [math.sin, np.sin])
@pytest.mark.parametrize("derivative", [lambda x: math.cos(x), lambda x: cos(x)])
def test_functions_of_math(sine: Any, derivative: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", "always")

    @primitive
    def wave(x: float) -> Any:
        return sine(x)

    rrule(wave)(lambda x: (wave(x), lambda dy: (dy * derivative(x),)))
    check(gradient(lambda x: wave(x) * x), lambda x: math.cos(x) * x + math.sin(x), [0.5, 1.0, 2.0, -1.0])
    assert gradient(gradient(wave))(0.5) == pytest.approx(-math.sin(0.5))


def test_one_formula_per_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", "always")

    @primitive
    def smooth(x: Any) -> Any:
        return np.log(np.sum(np.exp(x)))

    vjps(smooth, lambda dy, y, x: dy * np.exp(x - logsumexp(x)))
    given = [np.arange(3.0), np.ones(3), np.array([1.0, -2.0, 0.5])]
    check(gradient(lambda x: smooth(x) ** 2), gradient(lambda x: np.log(np.sum(np.exp(x))) ** 2), given)


def test_names_are_put_back_when_a_rule_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", "always")

    @primitive
    def failing(x: Any) -> Any:
        return np.sin(x)

    @rrule(failing)
    def _(x: Any) -> Any:
        assert solve is globals()["solve"]
        raise ArithmeticError("of its own")

    with pytest.raises(ArithmeticError, match="of its own"):
        gradient(failing)(1.0)
    assert (globals()["solve"], globals()["cos"], globals()["logsumexp"]) == KEPT
    assert not Installed._users


def test_a_name_that_stands_for_another_function_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", "always")
    df = gradient(matrix_loss(SOLVED["by name"]))
    want = df(A)
    assert_allclose(df(A), want)
    monkeypatch.setitem(globals(), "solve", lambda a, b: 2.0 * scipy.linalg.solve(a, b))
    for _ in range(3):
        assert_allclose(df(A), 2 * want)
    monkeypatch.undo()
    assert_allclose(df(A), want)


def test_other_functions_are_traced_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first one after a rule, run without a trace, has traced a function itself: lists are seen."""

    @primitive
    def smooth(x: Any) -> Any:
        return np.sin(x)

    @rrule(smooth)
    def _(x: Any) -> Any:
        return smooth(x), lambda dy: (dy * gradient(np.sin)(x),)

    for mode in ("always", "never", "always"):
        monkeypatch.setattr(yota_py.config, "compile", mode)
        assert_allclose(gradient(lambda x: smooth(x) * x)(1.0), np.cos(1.0) + np.sin(1.0))
        assert_allclose(gradient(lambda x: np.sum(np.array([x, x * x])))(3.0), 7.0)
    assert not Installed._exchanged or Kept.blocks


def calls_what_is_there(x: Any) -> Any:
    return math.sin(x[0]) * x[1] + np.sum(scipy.linalg.solve(3.0 * np.eye(2), x)) + scipy.special.logsumexp(x)


def test_functions_that_somebody_has_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are called as in plain calls, and what stood there before when they have been put back."""
    config.compile = "never"
    x = np.array([0.4, 1.2])
    run = value_and_grad(calls_what_is_there)
    value, dx = run(x)
    assert value == calls_what_is_there(x)
    with monkeypatch.context() as replaced:
        replaced.setattr(math, "sin", lambda y: y * y)
        replaced.setattr(scipy.linalg, "solve", lambda a, b: a @ b)
        replaced.setattr(scipy.special, "logsumexp", lambda x: np.sum(x) * 2)
        other = math.sin
        for _ in range(3):
            for have in (run(x), Gradient(0).reference(Request(calls_what_is_there, (x,), {}))[0]):
                assert have[0] == calls_what_is_there(x)
                assert_allclose(have[1], [2 * x[0] * x[1] + 5.0, x[0] ** 2 + 5.0])
                assert math.sin is other
    for _ in range(2):
        again = run(x)
        assert again[0] == value
        np.testing.assert_array_equal(again[1], dx)


def test_classes_are_what_they_were() -> None:
    """What their objects do, before, in and after a trace, also by operators, of subclasses and what has been cached of
    them; and what somebody has put there between two traces."""
    from scipy import sparse, stats

    class Own(sparse.csr_array):
        def __neg__(self) -> Any:
            return 7.0

    class Counting(sparse.csr_array):
        def dot(self, other: Any) -> Any:
            return super().dot(other) + 1.0

    m = sparse.csr_array(A)
    spaces = {cls: dict(vars(cls)) for cls in (*sparse.csr_array.__mro__, *type(stats.norm).__mro__)[:-1]}

    def sums(x: Any) -> Any:
        return np.sum(m @ x) + np.sum(Own(m) @ x) * -Own(m) + np.sum(Counting(m).dot(x)) + stats.norm.logpdf(x[0])

    config.compile = "never"
    x = np.array([0.5, -1.0])
    plain = sums(x)
    for k in range(40):  # Python caches what it looks up
        value, (slope,) = yota_py.grad(sums, x)
        assert_allclose(value, plain)
        assert_allclose(slope, 9 * A.sum(0) - [x[0], 0.0])
        assert_allclose(sums(x), plain)
        assert_allclose((m + m - m).toarray(), A)
        assert (-Own(m), (m @ x).shape) == (7.0, (2,)), k
    for cls, space in spaces.items():
        assert all(vars(cls)[name] is value for name, value in space.items()), cls


def test_an_operator_that_somebody_has_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import sparse

    m, x = sparse.csr_array(A), np.array([0.5, -1.0])
    base = next(cls for cls in sparse.csr_array.__mro__ if "__matmul__" in vars(cls))
    config.compile = "never"
    for other in (lambda self, other: 10.0 * np.sum(other), None):
        with monkeypatch.context() as patch:
            if other is not None:
                patch.setattr(base, "__matmul__", other)
            for _ in range(3):
                value, (slope,) = yota_py.grad(lambda x: np.sum(m @ x), x)
                assert_allclose(value, np.sum(m @ x))
                assert_allclose(slope, [10.0, 10.0] if other is not None else A.sum(0))
