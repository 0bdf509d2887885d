"""Operators of traced arrays and of what is no number: what NumPy raises comes out, of its class and with its text."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import gradient, jit, value_and_grad

X = np.array([1.0, -2.0, 3.0])
OPERATORS = ["add", "sub", "mul", "truediv", "mod", "pow", "matmul", "and_", "lshift", "lt", "ge"]
IN_PLACE = ["iadd", "imul", "itruediv", "imod", "ipow", "imatmul", "iand"]
OTHERS = [None, "a", {}, {1}, {"a": 2}, b"a", object, len, frozenset([1]), ...]
VALUES: dict[str, Callable[[Any], Any]] = {
    "an array": lambda x: x,
    "a selection": lambda x: x[x > 0],
    "an empty selection": lambda x: x[x > 9],
    "a selection of a selection": lambda x: x[x > 0][1:],
    "an empty array": lambda x: x[:0],
    "a matrix": lambda x: np.outer(x, x),
    "an element": lambda x: x[0],
    "whole numbers": lambda x: (x > 0).astype(int),
    "truths": lambda x: x > 0,
    "a count": lambda x: (x > 0).sum(),
    "complex numbers": lambda x: x + 1j,
}
NUMBERS = {"an element", "a count"}


def outcome(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What comes of a call, or what it raises."""
    try:
        result = f(*args)
    except Exception as error:
        return type(error), str(error)
    return "gives", result


def seen(f: Callable[[Any], Any], *, often: bool = True) -> list[tuple[Any, ...]]:
    """What a function raises: by itself, and in transforms."""
    of = [outcome(f, X.copy()), outcome(value_and_grad(f), X)]
    return [*of, outcome(jit(f), X), outcome(gradient(lambda x: np.sum(gradient(f)(x))), X)] if often else of


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("turned", [False, True])
def test_operators(name: str, value: str, turned: bool) -> None:
    operate, of = getattr(operator, name), VALUES[value]
    for other in OTHERS:
        if type(other) is bytes and value in NUMBERS:  # which it would take in
            continue

        def f(x: Any, other: Any = other) -> Any:
            y = of(x)
            return np.sum(x) + len(operate(other, y) if turned else operate(y, other))

        plain, *traced = seen(f, often=other is None)
        if plain[0] == "gives":
            assert traced[0][0] == "gives" and traced[0][1][0] == plain[1], (other, plain, traced)
        else:
            assert all(each == plain for each in traced), (other, plain, traced)


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize(
    ("value", "by_method"), [(value, by) for value in VALUES for by in (False, True) if not (by and value in NUMBERS)]
)  # numbers have no such methods
def test_operators_in_place(name: str, value: str, by_method: bool) -> None:
    of, method = VALUES[value], f"__{name.rstrip('_')}__"
    for other in OTHERS:
        def f(x: Any, other: Any = other) -> Any:
            y = of(x).copy()
            return len(getattr(y, method)(other) if by_method else getattr(operator, name)(y, other))

        plain, *traced = seen(f, often=other is None)
        assert plain[0] == "gives" or all(each == plain for each in traced), (other, plain, traced)


@pytest.mark.parametrize("compile", [value_and_grad, jit])
def test_what_is_caught(compile: Any) -> None:
    def f(x: Any) -> Any:
        total = np.sum(x)
        for other in (None, "a", {}):
            y = x.copy()
            try:
                y *= other
            except TypeError:
                total = total + 1.0
            try:
                total = total + len(x[x > 9] * other)
            except np._core._exceptions._UFuncNoLoopError:  # type: ignore[attr-defined]
                total = total * 2.0
            try:
                total = total * y + other
            except TypeError as error:
                total = total + len(str(error))
        return np.sum(total)

    g = compile(f)
    for shift in (0.0, 1.0, 2.0, 0.0):
        result = g(X + shift)
        assert (result if compile is jit else result[0]) == f(X + shift)


def test_an_empty_selection_is_a_decision() -> None:
    def f(x: Any) -> Any:
        try:
            return np.sum(x) + len(x[x > 9] * None)
        except TypeError:
            return np.sum(x * x)

    for g in (value_and_grad(f), jit(f)):
        for x in (X, X, X + 9, X, X + 9):
            result = g(x)
            assert (result if isinstance(result, float) else result[0]) == f(x)


class Dict(dict):  # type: ignore[type-arg]
    """Answers itself."""

    def __rmul__(self, other: Any) -> Any:
        return other * 2.0


def test_the_users_own_classes_answer_themselves() -> None:
    assert value_and_grad(lambda x: x[0] * Dict())(X)[0] == 2.0


@pytest.mark.parametrize("f", [
    lambda x: x.foo, lambda x: x[x > 0].foo, lambda x: x[0].foo, lambda x: list(x[0]), lambda x: tuple(x[0]),
    lambda x: sum(x[0]), lambda x: x[x > 0](1), lambda x: x(1), lambda x: "a" + x[x > 0],
    lambda x: operator.mod("%d", x[x > 0]), lambda x: range(x[x > 0]), lambda x: (x > 0).foo, lambda x: sum(x, "a"),
    lambda x: x.astype(np.float32).foo, lambda x: x.astype(np.float32)[0].foo, lambda x: len(x[0]),
])  # fmt: skip
def test_names_of_classes(f: Callable[[Any], Any]) -> None:
    plain, *traced = seen(f)
    assert plain[0] != "gives" and all(each == plain for each in traced), (plain, traced)
