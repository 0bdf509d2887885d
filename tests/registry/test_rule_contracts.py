"""What a user's rule must give, and what it must leave alone: whatever breaks the contract is an error, no number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import check_rrule, config, grad, gradient, jit, nondiff, primitive, pullback, rrule, scalar_rule
from yota_py.errors import MutationError, RuleError
from yota_py.registry.composites import composite

X = np.array([1.0, 2.0])


def product_with(back: Callable[[Any, Any, Any], Any]) -> Any:
    """A product of two whose pullback gives ``back(dy, x, y)``."""

    @primitive
    def product(x: Any, y: Any) -> Any:
        return x * y

    rrule(product)(lambda x, y: (x * y, lambda dy: back(dy, x, y)))
    return product


@pytest.mark.parametrize("wrong", ["a", b"a", object(), [1.0, 2.0], (1.0, 2.0), {"x": 1.0}, np.array("a"), 1.0, 1j,
                                   np.array([None, None]), lambda: 0.0])  # fmt: skip
def test_cotangents_that_are_none(wrong: Any) -> None:
    product = product_with(lambda dy, x, y: (wrong, dy * x))
    for _ in range(3):
        with pytest.raises(RuleError, match=r"test_rule_contracts.py:\d+: the pullback of product gave a cotangent "):
            grad(lambda x, y: np.sum(product(x, y)), X, X)
    with pytest.raises(RuleError, match="the pullback of product"):
        pullback(product, X, X)[1](X)
    if not isinstance(wrong, float):
        with pytest.raises(RuleError, match="the pullback of product"):
            grad(product, 2.0, 3.0)


def test_cotangents_in_containers_that_are_none() -> None:
    @primitive
    def total(xs: Any) -> Any:
        return xs[0] + xs[1]

    for wrong in ("ab", {"x": 1.0}, ("a", 1.0), (None, [1.0])):
        rrule(total)(lambda xs, wrong=wrong: (xs[0] + xs[1], lambda dy: (wrong,)))
        with pytest.raises(RuleError, match="the pullback of total"):
            grad(lambda x: total([x, x * x]), 2.0)


def test_none_is_zero() -> None:
    assert grad(product_with(lambda dy, x, y: (None, dy * x)), 2.0, 3.0) == (6.0, (0.0, 2.0))


@pytest.mark.parametrize(("value", "said"), [
    (np.float32(6), "float32"), (6, "int64"), (6 + 0j, "complex128"), (np.array(6.0), r"float64\[\]"),
    (True, "bool"), ("6", "str"), (None, "NoneType"), ([6.0], r"\(float64\)"),
])  # fmt: skip
def test_another_value_than_the_primitives(value: Any, said: str) -> None:
    @primitive
    def product(x: Any, y: Any) -> Any:
        return x * y

    rrule(product)(lambda x, y: (value, lambda dy: (dy * y, dy * x)))
    for _ in range(3):
        with pytest.raises(RuleError, match=f"the rule of product returned .*{said}.*; both must return the same"):
            grad(product, 2.0, 3.0)


def test_a_scalar_of_numpys_may_stand_for_a_number_of_pythons() -> None:
    @primitive
    def product(x: Any, y: Any) -> Any:
        return x * y

    rrule(product)(lambda x, y: (np.multiply(x, y), lambda dy: (dy * y, dy * x)))
    for _ in range(3):
        assert grad(product, 2.0, 3.0) == (6.0, (3.0, 2.0))
    composite(product)(lambda x, y: np.multiply(x, y))
    check_rrule(product, 2.0, 3.0)
    composite(product)(lambda x, y: np.asarray(x * y))
    with pytest.raises(AssertionError, match="the traced value is of another type"):
        check_rrule(product, 2.0, 3.0)


def test_another_dtype_in_a_container() -> None:
    @primitive
    def both(x: Any) -> Any:
        return x, x * x

    rrule(both)(lambda x: ((x, (x * x).astype(np.float32)), lambda dy: (dy[0] + dy[1] * 2 * x,)))
    with pytest.raises(RuleError, match=r"returned \(float64\[2\], float32\[2\]\), the function itself"):
        grad(lambda x: np.sum(both(x)[0]), X)


@pytest.mark.parametrize("wrong", [3, None, "sin", X, [np.sin]])
def test_what_is_no_function_gets_no_rule(wrong: Any) -> None:
    for register in (
        lambda: rrule(wrong), lambda: rrule(wrong)(lambda x: (x, lambda dy: (dy,))), lambda: scalar_rule(wrong, 1),
        lambda: nondiff(wrong), lambda: primitive(wrong), lambda: rrule(np.tan)(wrong),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"is (a|an) \w+, no function"):
            register()
    assert_allclose(gradient(np.tan)(0.0), 1.0)  # a refused rule has left the old one alone


def test_partial_derivatives_that_take_other_arguments() -> None:
    @primitive
    def ratio(a: Any, b: Any) -> Any:
        return a / b

    for wrong in (lambda a, b: 1 / b, lambda y: y, lambda: 1.0, lambda y, a, b, c: 1.0, np.cos, np.arctan2):
        with pytest.raises(RuleError, match=r"derivative of ratio in argument 1 takes .*, and is called with 3: \(y, "):
            scalar_rule(ratio, lambda y, a, b: 1 / b, wrong)
    scalar_rule(ratio, lambda y, *args: 1 / args[1], lambda y, a, b, more=0: -y / b)
    assert grad(ratio, 1.0, 2.0) == (0.5, (0.5, -0.25))


def test_partial_derivatives_that_do_not_tell_what_they_take() -> None:
    class Slope:
        __signature__ = "none"

        def __call__(self, y: Any, x: Any, more: Any) -> Any:
            return x + more

    @primitive
    def same(x: Any) -> Any:
        return x * 1.0

    scalar_rule(same, Slope())
    with pytest.raises(RuleError, match=r"partial derivative of same in argument 0 .*positional argument"):
        grad(same, 2.0)
    scalar_rule(same, dict)
    with pytest.raises(RuleError, match="partial derivative of same in argument 0"):
        grad(same, 2.0)

    def fails(y: Any, x: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    scalar_rule(same, fails)
    with pytest.raises(TypeError, match=r"has no len") as caught:
        grad(same, 2.0)
    assert not isinstance(caught.value, RuleError)  # its own fault, at its own line


def writing(write: Callable[[Any], Any]) -> Any:
    """A primitive that writes into its argument."""

    @primitive
    def overwritten(x: Any) -> Any:
        write(x)
        return np.sum(x)

    rrule(overwritten)(lambda x: (np.sum(x), lambda dy: (np.full(np.shape(x), dy),)))
    return overwritten


def fill(x: Any) -> None:
    x[...] = 3.0


def add_to(x: Any) -> None:
    x += 1.0


@pytest.mark.parametrize("write", [
    fill, add_to, lambda x: np.exp(x, out=x), lambda x: x.sort(), lambda x: np.copyto(x, 0.0),
    lambda x: fill(x[1:]),
])  # fmt: skip
def test_a_primitive_that_writes_into_its_argument(write: Any) -> None:
    overwritten = writing(write)
    x = np.array([2.0, 1.0])
    for f in (overwritten, lambda x: overwritten(x * 1.0), lambda x: overwritten(x) + np.sum(x)):
        for _ in range(2):
            with pytest.raises(MutationError, match=r"overwritten writes into its argument.*Copy it there first"):
                grad(f, x)
    assert x.tolist() == [2.0, 1.0]
    nondiff(overwritten)
    with pytest.raises(MutationError, match="overwritten writes"):
        grad(lambda x: overwritten(x) * np.sum(x), x)


def test_a_primitive_that_writes_into_a_part_of_its_argument() -> None:
    @primitive
    def first(state: Any) -> Any:
        state["x"][0] = 5.0
        return state["x"][0] * 1.0

    rrule(first)(lambda state: (state["x"][0] * 1.0, lambda dy: ({"x": np.array([dy, 0.0])},)))
    with pytest.raises(MutationError, match="first writes into its argument"):
        grad(lambda x: first({"x": x}), X)


def test_a_rule_that_writes_into_its_argument_or_its_cotangent() -> None:
    @primitive
    def twice(x: Any) -> Any:
        return 2 * x

    def doubled(x: Any) -> Any:
        x *= 2.0
        return x, lambda dy: (2 * dy,)

    def doubling(dy: Any) -> Any:
        dy *= 2.0
        return (dy,)

    rrule(twice)(doubled)
    x = X.copy()
    with pytest.raises(MutationError, match="the rule of twice writes into"):
        grad(lambda x: np.sum(twice(x)), x)
    rrule(twice)(lambda x: (2 * x, doubling))
    for f in (lambda x: np.sum(twice(x) * x), lambda x: np.sum(twice(x * x) + x)):
        with pytest.raises(MutationError, match="the pullback of twice writes into"):
            grad(f, x)
    rrule(twice)(partial(doubled))
    with pytest.raises(MutationError, match="the rule of twice writes into"):
        grad(lambda x: np.sum(twice(x)), x)
    assert x.tolist() == X.tolist()


def test_primitives_that_return_their_arguments() -> None:
    @primitive
    def same(x: Any) -> Any:
        return x

    @primitive
    def rest(x: Any) -> Any:
        return x[1:]

    rrule(same)(lambda x: (x, lambda dy: (dy,)))
    rrule(rest)(lambda x: (x[1:], lambda dy: (np.concatenate([[0.0], dy]),)))

    def f(x: Any) -> Any:
        y = same(x * 1.0)
        y[0] = 7.0
        z = rest(x * 2.0)
        z += 1.0
        return np.sum(y * y) + np.sum(z * z)

    value = 49.0 + 4.0 + 25.0
    for mode in ("never", "always"):
        config.compile = mode  # type: ignore[assignment]
        for _ in range(3):
            got, (dx,) = grad(f, X)
            assert got == value
            assert_allclose(dx, [0.0, 24.0])
            dx[0] = 1.0  # is the caller's
            got, (dx,) = grad(lambda x: np.sum(same(x)), X)
            dx += 1.0
            assert dx.tolist() == [2.0, 2.0]


def test_in_steps() -> None:
    overwritten = writing(fill)
    step = jit(lambda x: gradient(overwritten)(x))
    for _ in range(2):
        with pytest.raises(MutationError, match="overwritten writes"):
            step(X.copy())
