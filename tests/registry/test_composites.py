"""Functions that are their bodies, and cotangents that are computed only where they are wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from registered import own_rules

from yota_py import case, check_rrule, explain, grad, gradient, gradtape, jit, nondiff, primitive, rrule, value_and_grad
from yota_py.errors import MissingRuleError
from yota_py.registry.composites import composite, rule_of_body
from yota_py.registry.registry import vjps
from yota_py.registry.tangents import MISSING
from yota_py.testing import check_cases

A, X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]), np.array([0.3, 0.4, 0.5])


@primitive
def spread(xs: Any, weights: Any, scale: float = 1.0) -> Any:
    return _spread(xs, weights, scale)


@composite(spread, cases=lambda s: [
    case([s(3), s(3)], s(2)), case([s(2, 3), s(3)], s(2), 2.0), case([s(3), s.integers(3, high=4)], s(2), scale=3.0),
])  # fmt: skip
def _spread(xs: Any, weights: Any, scale: float = 1.0) -> Any:
    first, second = (np.multiply(w, x) for w, x in zip(weights, xs, strict=True))
    joined = np.concatenate((np.ravel(first), np.ravel(second)))
    return (joined[::2] * scale, np.sum(joined[1:] ** 2))


def test_a_body_is_the_rule() -> None:
    assert check_cases(spread) == 3


def test_a_composite_is_one_operation() -> None:
    tape = str(gradtape(lambda x: np.trace(np.outer(x, x)), X))
    assert tape.count("= rrule(") == 2 and "diagonal" not in tape


def unwanted(f: Callable[..., Any], *args: Any) -> list[str]:
    """The types of what pullbacks give, where that is nothing for some arguments."""
    return [str(op.type) for _, op in gradtape(f, *args) if "NoneType" in str(op.type)]


@pytest.mark.parametrize("f", [
    lambda x: A @ x, lambda x: np.dot(A, x), lambda x: np.matmul(A, x), lambda x: np.multiply(A, x),
    lambda x: np.inner(A, x), lambda x: np.maximum(A, x), lambda x: np.power(A**2, x), lambda x: np.divide(A, x),
])  # fmt: skip
def test_what_is_not_wanted_is_not_computed(f: Callable[[Any], Any]) -> None:
    assert unwanted(lambda x: np.sum(f(x)), X) == ["(NoneType, float64[3])"]


def test_einsum_computes_what_is_wanted() -> None:
    assert unwanted(lambda x: np.sum(np.einsum("ij,j->i", A, x)), X) == ["(NoneType, NoneType, float64[3])"]


def test_a_derivative_without_formula_is_missing_in_a_composite_too() -> None:
    @primitive
    def bessel(v: Any, x: Any) -> Any:
        return v + 2 * x

    vjps(bessel, MISSING, lambda dy, y, v, x: 2 * dy)

    y, back = rule_of_body(lambda v, x: np.multiply(2, bessel(v, x)), (1.0, 2.0))
    assert (y, *back(1.0)) == (10.0, MISSING, 4.0)

    @primitive
    def twice(v: Any, x: Any) -> Any:
        return 2 * bessel(v, x)

    composite(twice)(lambda v, x: np.multiply(2, bessel(v, x)))
    assert_allclose(grad(lambda x: twice(1.0, x), 2.0)[1], (4.0,))
    with pytest.raises(MissingRuleError, match="the rule of bessel has no derivative in its argument 0"):
        grad(lambda v: twice(v, 2.0), 1.0)


FACTORS = {"array": np.array([1.0, 2.0, 3.0]), "number": 2.0}


def methods(x: Any) -> Any:
    return x.sum() * len(x) + x.T[0] + np.add.reduce(x) + math.sin(x[0]) + max([x[0], x[1]]) + x.mean()


def other_branch(x: Any) -> Any:
    return np.sum(x) * (2.0 if isinstance(x, np.ndarray) and type(x) is np.ndarray else 3.0)


def with_buffers(x: Any) -> Any:
    y = np.array(x)
    y[0] *= 3.0
    return np.sum(np.exp(y, out=np.empty(3)) * np.array([x[0], 1.0, x[1]]))


def nested(x: Any) -> Any:
    return np.sum(gradient(lambda x: np.sum(x**3))(x) * x)


def reading(x: Any) -> Any:
    return np.sum(x * FACTORS["array"]) * FACTORS["number"]


@pytest.mark.parametrize("body", [methods, other_branch, with_buffers, nested, reading])
def test_a_users_body_is_as_any_function(body: Callable[[Any], Any], every_policy: None) -> None:
    @primitive
    def whole(x: Any) -> Any:
        return body(x)

    composite(whole)(partial(body))
    step = jit(lambda x: gradient(lambda x: whole(x) * x[0])(x))
    for x in (X, X + 1.0, X):
        value, (dx,) = grad(whole, x)
        assert_allclose(value, body(x))
        assert_allclose(dx, gradient(body)(x))
        assert_allclose(step(x), gradient(lambda x: body(x) * x[0])(x))
        assert_allclose(gradient(lambda x: np.sum(gradient(whole)(x) ** 2))(x),
                        gradient(lambda x: np.sum(gradient(body)(x) ** 2))(x))  # fmt: skip
    check_rrule(whole, X)


def test_what_a_users_body_reads_may_change(every_policy: None) -> None:
    @primitive
    def whole(x: Any) -> Any:
        return reading(x)

    composite(whole)(reading)
    f = value_and_grad(whole)
    try:
        for number in (2.0, 5.0, 7.0):
            FACTORS["number"] = number
            FACTORS["array"][0] = number
            for _ in range(2):
                assert_allclose(f(X)[1], FACTORS["array"] * number)
    finally:
        FACTORS.update(array=np.array([1.0, 2.0, 3.0]), number=2.0)


def test_numbers_keywords_and_containers_in_a_users_body(every_policy: None) -> None:
    @primitive
    def whole(p: Any, *, wanted: Any = 1.0) -> Any:
        return {"y": p["x"] * wanted, "z": p["x"] ** 2 if type(p["x"]) is float else 0.0}

    composite(whole)(lambda p, *, wanted=1.0: {
        "y": p["x"] * wanted, "z": p["x"] ** 2 if type(p["x"]) is float else 0.0,
    })  # fmt: skip
    for _ in range(3):
        assert grad(lambda x, y: whole({"x": x}, wanted=y)["y"], 2.0, 3.0) == (6.0, (3.0, 2.0))
        assert grad(lambda x: whole({"x": x})["z"], 2.0) == (4.0, (4.0,))
    check_rrule(whole, {"x": 2.0}, wanted=3.0)


def test_another_body_or_rule_is_given() -> None:
    @primitive
    def whole(x: Any) -> Any:
        return x * 1.0

    f = value_and_grad(lambda x: whole(x))
    for slope in (2.0, 3.0, 1.0):
        composite(whole)(lambda x, slope=slope: slope * x)
        for _ in range(2):
            assert f(2.0)[1] == slope
    rrule(whole)(lambda x: (x * 1.0, lambda dy: (5.0 * dy,)))
    assert f(2.0)[1] == 5.0
    composite(whole)(lambda x: x * 1.0)
    assert f(2.0)[1] == 1.0
    nondiff(whole)
    assert gradient(lambda x: whole(x) * x)(2.0) == 2.0
    with pytest.raises(TypeError, match="the body of whole is an int, no function"):
        composite(whole)(3)  # type: ignore[type-var]


class Slope:
    shared = 1.0

    def __init__(self) -> None:
        self.k = 1.0

    def __call__(self, x: Any) -> Any:
        return np.sum(x * self.k)

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return np.sum(x * cls.shared)


BODIES: dict[str, Callable[[Slope], Callable[..., Any]]] = {
    "object": lambda slope: slope, "method": lambda slope: slope.__call__, "partial": lambda slope: partial(slope),
    "partial of a function": lambda slope: partial(Slope.__call__, slope), "class method": lambda slope: slope.of_class,
    "partial of NumPy's": lambda slope: partial(np.inner, ARRAY),
    "closure": lambda slope: lambda x: slope(x) * ARRAY[0],
}  # fmt: skip
ARRAY = np.ones(3)


@pytest.mark.parametrize("made", BODIES)
@pytest.mark.parametrize("of_numpy", [False, True])
def test_what_holds_state_as_a_body(made: str, of_numpy: bool, every_policy: None) -> None:
    @primitive
    def own(x: Any) -> Any:
        return np.sum(x)  # which knows nothing of the body

    slope, whole = Slope(), np.i0 if of_numpy else own
    with own_rules():
        composite(whole)(body := BODIES[made](slope))
        f = value_and_grad(lambda x: whole(x) * 2.0)
        try:
            for k in (1.0, 3.0, 4.0):
                slope.k = Slope.shared = k
                ARRAY[:] = k
                for x in (X, X + 1.0, X + 2.0):
                    value, dx = f(x)
                    assert_allclose(value, body(x) * 2.0)
                    assert_allclose(dx, gradient(body)(x) * 2.0)
        finally:
            Slope.shared, ARRAY[:] = 1.0, 1.0


def test_a_body_that_has_gone_is_not_compiled() -> None:
    @primitive
    def whole(x: Any) -> Any:
        return x * 1.0

    def rule(x: Any) -> Any:
        return x * 1.0, lambda dy: (2.0 * dy,)

    for register in (nondiff, lambda fn: rrule(fn)(rule)):
        composite(whole)(lambda x: 6.0 * x)
        register(whole)
        step = jit(lambda x: whole(x) * 1.0)
        assert [step(x) for x in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


def test_a_body_with_a_closure_is_compiled() -> None:
    k = 3.0

    @primitive
    def power(x: Any, n: int) -> Any:
        return x**n

    @composite(power)
    def _body(x: Any, n: int) -> Any:
        return k * x * power(x, n - 1) if n > 1 else x

    f = lambda x: np.sum(power(x, 3))  # noqa: E731
    grad.compile(f, X)
    for i in range(3):
        assert_allclose(grad(f, X + i)[1][0], 27.0 * (X + i) ** 2)
    assert explain(f)[0].calls == 3


def test_a_function_of_numpys_gets_a_body_of_a_user() -> None:
    with own_rules():
        composite(np.i0)(lambda x: 1.0 + x * x / 4.0 + x**4 / 64.0)
        assert_allclose(gradient(lambda x: np.sum(np.i0(x)))(X), X / 2 + X**3 / 16)


def test_second_derivatives_of_composites() -> None:
    second = gradient(lambda x: np.sum(gradient(lambda x: np.sum(np.kron(x, x) ** 2))(x)))
    for _ in range(3):
        assert_allclose(second(X), [_hessian_row(X, i) for i in range(3)], rtol=1e-12)


def _hessian_row(x: np.ndarray, i: int) -> float:
    """The sums of the rows of the Hessian of ``sum(x**2)**2``."""
    return float(4 * np.sum(x * x) + 8 * x[i] * np.sum(x))
