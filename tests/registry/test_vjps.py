"""Formulas of users, one per argument: what they may not do, what they must give, how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import check_rrule, grad, gradient, primitive
from yota_py.errors import MissingRuleError, MutationError, RuleError
from yota_py.registry.registry import vjps
from yota_py.registry.tangents import MISSING

X = np.array([1.0, 2.0])


def product(*formulas: Any) -> Any:
    """A product of two with these formulas."""

    @primitive
    def times(x: Any, y: Any) -> Any:
        return x * y

    vjps(times, *formulas)
    return times


def by_y(dy: Any, z: Any, x: Any, y: Any) -> Any:
    return dy * y


def by_x(dy: Any, z: Any, x: Any, y: Any) -> Any:
    return dy * x


def test_formulas_do_not_write_into_what_they_are_given() -> None:
    def seed(dy: Any, z: Any, x: Any, y: Any) -> Any:
        dy *= 2.0
        return dy * y / 2.0

    def argument(dy: Any, z: Any, x: Any, y: Any) -> Any:
        y *= dy
        return y

    x, y = X.copy(), X + 2.0
    for formula in (seed, argument):
        times = product(formula, by_x)
        for f in (lambda x, y, g=times: np.sum(g(x, y)), lambda x, y, g=times: np.sum(g(x * x, y) * x + x * y)):
            for _ in range(2):
                with pytest.raises(MutationError, match="pullback of times writes into"):
                    grad(f, x, y)
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [3.0, 4.0]


def test_an_argument_beyond_the_formulas_has_none() -> None:
    times = product(by_y)
    for _ in range(2):
        with pytest.raises(MissingRuleError, match="rule of times has no derivative in its argument 1"):
            grad(lambda x, y: np.sum(times(x, y)), X, X)
        assert_allclose(gradient(lambda x: np.sum(times(x, X)))(X), X)
    assert grad(product(by_y, None), 2.0, 3.0) == (6.0, (3.0, 0.0))
    assert gradient(lambda x: product(None)(x, 3.0))(2.0) == 0.0


def test_formulas_that_are_none_or_too_many() -> None:
    for formulas in ((), (by_y, by_x, by_x)):
        with pytest.raises(RuleError, match=r"vjps has \d formulas for times, which takes 2"):
            product(*formulas)
    for wrong in (2.0, "sum", [by_y]):
        with pytest.raises(TypeError, match=r"formula of times for argument 1 is .*give a function"):
            product(by_y, wrong)


@pytest.mark.parametrize("wrong", [
    lambda dy, z, x, y: 1.0, lambda dy, z, x, y: np.ones((3, 2)), lambda dy, z, x, y: np.ones(1),
    lambda dy, z, x, y: [1.0, 2.0], lambda dy, z, x, y: "a", lambda dy, z, x, y: {"x": dy}, lambda dy, z, x, y: (dy,),
    lambda dy, z, x, y: np.array(["1", "2"]), lambda dy, z: dy, lambda dy, z, x, y, more: dy, lambda: 1.0,
])  # fmt: skip
def test_formulas_that_give_something_else(wrong: Any) -> None:
    times = product(by_y, wrong)
    for _ in range(2):
        with pytest.raises(RuleError, match=r"(pullback|formula) of times "):
            grad(lambda x, y: np.sum(times(x, y)), X, X)


def test_formulas_give_another_dtype_or_a_complex_number() -> None:
    times = product(lambda dy, z, x, y: dy * y * (1 + 1j), lambda dy, z, x, y: np.float64(1) * dy * x)
    dx, dy = grad(lambda x, y: np.sum(times(x, y)), X, np.float32([3, 4]))[1]
    assert (dx.dtype, dx.tolist(), dy.dtype, dy.tolist()) == (np.float64, [3, 4], np.float32, [1, 2])


def test_an_array_for_a_list() -> None:
    @primitive
    def total(xs: Any) -> Any:
        return np.sum(np.asarray(xs) * np.arange(len(xs)))

    vjps(total, lambda dy, y, xs: dy * np.arange(len(xs)))
    for _ in range(2):
        assert grad(lambda x, y: total([x, y]), 2.0, np.float32(3.0))[1] == (0.0, 1.0)


def test_parts_of_a_dict_get_their_dtypes() -> None:
    @primitive
    def total(p: Any) -> Any:
        return np.sum(p["b"])

    vjps(total, lambda dy, y, p: {"b": dy * np.ones(3)})
    assert gradient(lambda b: total({"b": b}))(np.ones(3, np.float32)).dtype == np.float32


def test_an_error_of_a_formula_is_its_own() -> None:
    def fails(dy: Any, z: Any, x: Any, y: Any) -> Any:
        return by_y(dy)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="by_y") as caught:
        grad(product(fails, by_x), 2.0, 3.0)
    assert not isinstance(caught.value, RuleError)


def test_formulas_that_take_anything() -> None:
    times = product(lambda *args: args[0] * args[3], lambda dy, *args, **options: dy * args[1])
    assert grad(lambda x, y: times(x, y=y), 2.0, 3.0) == (6.0, (3.0, 2.0))
    times = product(np.multiply, MISSING)
    with pytest.raises(RuleError, match="formula of times for argument 0 is called with 4"):
        gradient(lambda x: times(x, 3.0))(2.0)


def test_an_argument_that_is_called_wanted() -> None:
    @primitive
    def power(x: Any, *, wanted: int = 1) -> Any:
        return x**wanted

    vjps(power, lambda dy, y, x, wanted=1: dy * wanted * x ** (wanted - 1))
    assert grad(lambda x: power(x, wanted=3), 2.0) == (8.0, (12.0,))

    @primitive
    def other(x: Any, **options: Any) -> Any:
        return x

    vjps(other, lambda dy, y, x, wanted=1: dy)
    with pytest.raises(MissingRuleError, match=r"unexpected keyword argument 'more'.* that it takes: x, wanted=1$"):
        grad(lambda x: other(x, more=3), 2.0)


def test_parts_of_results_and_arguments() -> None:
    @primitive
    def both(p: Any) -> Any:
        return {"a": p["x"] * 2.0, "b": np.sum(p["x"]) * p["y"]}

    vjps(both, lambda dy, z, p: {"x": 2.0 * dy["a"] + dy["b"] * p["y"], "y": dy["b"] * np.sum(p["x"])})
    for _ in range(2):
        assert grad(lambda p: both(p)["b"], {"x": X, "y": 2.0})[1][0]["x"].tolist() == [2.0, 2.0]
        assert grad(lambda p: np.sum(both(p)["a"]), {"x": X, "y": 2.0})[1][0]["y"] == 0.0
    check_rrule(both, {"x": X, "y": 2.0})
