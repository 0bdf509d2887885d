"""Where the compiler fails, calls are interpreted, and the user is told once."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import explain, grad, jit, nondiff, primitive, rrule, scalar_rule, value_and_grad
from yota_py.errors import CompileError, CompilerWarning, UncachedWarning
from yota_py.registry.registry import describe

_numbers = itertools.count()


def faulty(stage: str) -> Callable[..., Any]:
    """A function like ``np.exp`` on which the compiler fails."""

    @primitive
    def odd(x: Any) -> Any:
        return np.exp(x)

    def refuses(*args: Any) -> Any:
        raise ZeroDivisionError(f"no {stage} number {next(_numbers)}")

    def not_traceable(x: Any) -> Any:
        y = odd(x)
        if hasattr(x, "__yota_record__"):
            refuses()
        return y, lambda dy: (dy * y,)

    scalar_rule(odd, lambda y, x: y)
    if stage == "rule":
        rrule(odd)(not_traceable)
    elif stage == "lowering":
        describe(odd, lowering=refuses)
    elif stage == "code":
        describe(odd, kernel=refuses)
    else:  # LLVM finds a mistake in it
        describe(odd, kernel=lambda k, x: k.builder.add(x, x))
    return odd


@pytest.fixture(params=["rule", "lowering", "code", "LLVM"])
def odd(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    return faulty(request.param)


def test_calls_are_interpreted(odd: Callable[..., Any]) -> None:
    f = value_and_grad(lambda x: np.sum(odd(x) * 2))
    with pytest.warns(CompilerWarning, match=r"(?s)<lambda> is traced afresh.*compilation has failed.*odd") as said:
        results = [f(np.arange(3.0) + i) for i in range(4)]
    assert len(said) == 1 and said[0].filename == __file__
    for i, (value, dx) in enumerate(results):
        assert_allclose(value, np.sum(2 * np.exp(np.arange(3.0) + i)))
        assert_allclose(dx, 2 * np.exp(np.arange(3.0) + i))
    assert "compilation has failed" in repr(explain(f))


@pytest.mark.parametrize("stage", ["lowering", "code", "LLVM"])
def test_steps_are_called_as_they_are(stage: str) -> None:
    odd = faulty(stage)

    @jit
    def step(w: Any) -> Any:
        value = np.sum(odd(w))
        w -= 0.1 * odd(w)
        return value

    w, plain = np.arange(3.0), np.arange(3.0)
    with pytest.warns(CompilerWarning, match="step is called as it is") as said:
        for _ in range(4):
            assert_allclose(step(w), np.sum(np.exp(plain)))
            plain -= 0.1 * np.exp(plain)
            assert_allclose(w, plain)
    assert len(said) == 1


def test_compile_raises(odd: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        return np.sum(odd(x))

    with pytest.warns(CompilerWarning), pytest.raises(CompileError, match="compilation has failed"):
        grad.compile(f, np.ones(3))
    assert_allclose(grad(f, np.ones(3))[1][0], np.exp(np.ones(3)))


def test_other_functions_are_compiled(odd: Callable[..., Any]) -> None:
    with pytest.warns(CompilerWarning):
        value_and_grad(lambda x: np.sum(odd(x)))(np.ones(2))
    f = value_and_grad(lambda x: np.sum(np.sin(x)))
    for i in range(3):
        assert_allclose(f(np.ones(2) * i)[1], np.cos(np.ones(2) * i))
    assert explain(f)[0].calls == 2


def test_a_warning_that_is_an_error_breaks_nothing(odd: Callable[..., Any]) -> None:
    f = value_and_grad(lambda x: np.sum(odd(x)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CompilerWarning):
            f(np.ones(2))
        assert_allclose(f(np.ones(2))[1], np.exp(np.ones(2)))


def test_what_cannot_be_returned_is_no_failure() -> None:
    @primitive
    def text(x: Any) -> str:
        return str(np.shape(x))

    nondiff(text)
    f = value_and_grad(lambda x: (np.sum(x), text(x)), has_aux=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UncachedWarning)
        for _ in range(3):
            assert f(np.ones(2))[0] == (2.0, "(2,)")
