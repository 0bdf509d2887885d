"""A primal tape wants no derivatives: functions that have no rule are calls on it like any others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from numpy.testing import assert_allclose

from yota_py import MissingRuleError, MutationError, YotaError, grad, gradient, gradtape, jit, primitive, trace
from yota_py.tape.tape import Call

X = np.array([0.5, 1.5, 2.5])
A = np.array([[2.0, 0.3, 0.1], [0.2, 3.0, 0.4], [0.1, 0.5, 4.0]])


@primitive
def halved(x: Any, *, by: Any = 2.0) -> Any:
    return x / by


@primitive
def parts(x: Any) -> dict[str, Any]:
    return {"first": x[0], "rest": [x[1:], x.size]}


@primitive
def overwrite(x: Any) -> Any:
    x[:] = 0.0
    return x


WITHOUT: list[Callable[..., Any]] = [
    lambda x: halved(x) + 1,
    lambda x: halved(x, by=np.sum(x)) * x,
    lambda x: np.sin(parts(x)["rest"][0]) * parts(x)["first"],
    lambda x: scipy.special.hyp2f1(x, 1.0, 2.0, 0.1) * 2.0,
]


@pytest.mark.parametrize("k", range(len(WITHOUT)))
def test_they_are_recorded_and_played(k: int) -> None:
    f = WITHOUT[k]
    tape = trace(f, X)
    assert any(isinstance(op, Call) for _, op in tape) and str(tape)
    assert_allclose(tape.play(X), f(X), rtol=1e-13)
    for x in (X + 0.25, X[::-1].copy()):
        assert_allclose(tape.play(x), f(x), rtol=1e-13)


def test_derivatives_of_a_library_s_are_still_refused() -> None:
    f = WITHOUT[3]
    for derive in (lambda: grad(lambda x: np.sum(f(x)), X), lambda: gradtape(f, X, seed=np.ones(3))):
        with pytest.raises(YotaError):
            derive()
    with pytest.raises(YotaError):
        trace(gradient(lambda x: np.sum(f(x))), X)
    with pytest.raises(YotaError):
        trace(lambda y: gradient(lambda x: np.sum(f(x)) * y)(X), 2.0)


@pytest.mark.parametrize(("k", "plain"), [
    (0, lambda x: x / 2.0 + 1),
    (1, lambda x: x / np.sum(x) * x),
    (2, lambda x: np.sin(x[1:]) * x[0]),
])  # fmt: skip
def test_derivatives_of_the_user_s_are_those_of_bodies(k: int, plain: Callable[..., Any]) -> None:
    f = WITHOUT[k]
    for x in (X, X + 0.25, X[::-1].copy()):
        want = gradient(lambda x: np.sum(plain(x) ** 2))(x)
        assert_allclose(gradient(lambda x: np.sum(f(x) ** 2))(x), want, rtol=1e-12)
        assert_allclose(gradtape(f, X, seed=f(X)).play(x, seed=2 * f(x))[1][0], want, rtol=1e-12)
        assert_allclose(gradient(lambda x: np.sum(trace(f, X).play(x) ** 2))(x), want, rtol=1e-12)
        second = gradient(lambda x: np.sum(gradient(lambda x: np.sum(f(x) ** 2))(x)))(x)
        assert_allclose(second, gradient(lambda x: np.sum(gradient(lambda x: np.sum(plain(x) ** 2))(x)))(x), rtol=1e-11)


@pytest.mark.parametrize("k", range(len(WITHOUT)))
def test_jit_computes_them(k: int) -> None:
    fast = jit(WITHOUT[k])
    for i in range(4):
        assert_allclose(fast(X + 0.1 * i), WITHOUT[k](X + 0.1 * i), rtol=1e-13)


def test_a_gradient_inside_of_what_has_rules() -> None:
    def f(x: Any) -> Any:
        return gradient(lambda y: np.sum(np.sin(y)))(halved(x))

    for x in (X, X * 2.0):
        assert_allclose(trace(f, X).play(x), np.cos(x / 2.0), rtol=1e-13)


def test_what_an_outer_gradient_wants_inside() -> None:
    def f(x: Any) -> Any:
        return np.sum(trace(lambda y: halved(y * x), X).play(X))

    for x in (2.0, 3.0, 4.0):
        assert grad(f, x) == (pytest.approx(x * 2.25), (pytest.approx(2.25),))


def test_who_plays_it_with_traced_values_needs_the_rules() -> None:
    tape = trace(halved, 2.0)
    assert tape.play(3.0) == 1.5
    assert grad(tape.play, 2.0) == (1.0, (0.5,))  # that of its body
    with pytest.raises(MissingRuleError, match=r"the rule of hyp2f1 has no derivative|no rule for .*hyp2f1"):
        grad(trace(lambda x: scipy.special.hyp2f1(x, 1.0, 2.0, 0.1), 2.0).play, 2.0)
    fast = jit(tape.play)
    assert [fast(float(x)) for x in range(4)] == [0.0, 0.5, 1.0, 1.5]


def test_one_that_writes_into_its_argument_is_refused() -> None:
    with pytest.raises(MutationError, match="overwrite"):
        trace(lambda x: overwrite(x * 1.0), X)


def test_an_exception_is_the_function_s_own() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        trace(lambda x: np.linalg.lstsq(x * np.nan, np.ones(3), rcond=None), A)


def test_what_reads_plain_values_is_named() -> None:
    with pytest.raises(YotaError, match=r"scipy\.linalg\.hessenberg computes"):
        trace(scipy.linalg.hessenberg, A)
