"""Where Python raises, compiled code raises the same; what Python computes, it computes, also from NaN and infinity."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import yota_py.rules.scipy.special  # noqa: F401 - registers the derivatives of math.gamma and math.lgamma
from caching import entries, function, is_compiled
from numpy.testing import assert_allclose

from yota_py import grad, gradient, jit
from yota_py.registry.patches import patched

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 710.0, -1e3, 1e308, INF, -INF, NAN, 5e-324, -2.5, 1e-310]
FEW = [0.0, -0.0, 1.0, -2.5, 2.0, 1e308, INF, -INF, NAN, 5e-324]
INTEGERS = [0, 1, -1, 2, 7, -3]

OF_LISTS = {"fsum", "prod"}
OF_TWO = {"copysign", "fmod", "hypot", "atan2", "pow", "ldexp", "dist", "isclose", "nextafter", "remainder"}
IN_MATH = sorted(name for module, name in patched if module is math)
OPERATORS = {
    "/": operator.truediv, "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "divmod": divmod,
    "*": operator.mul, "+": operator.add,
}  # fmt: skip


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or the exception that it raises."""
    try:
        return f(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error), str(error)


def assert_same(have: Any, want: Any, what: str) -> None:
    if isinstance(want, int) or (isinstance(want, tuple) and isinstance(want[0], type)):
        assert have == want, what
        return
    assert type(have) is type(want), f"{what}: {have!r}, not {want!r}"
    assert_allclose(have, want, rtol=1e-13, err_msg=what)


def check(f: Callable[..., Any], calls: Sequence[tuple[Any, ...]], ways: str = "grad jit") -> None:
    """Calls in random order, each of them several times, through one cached gradient and one compiled function."""
    order = list(calls) * 2
    random.Random(0).shuffle(order)
    for way in ways.split():
        run = jit(f) if way == "jit" else lambda *args: grad(f, *args)[0]
        for args in order:
            assert_same(outcome(run, *args), outcome(f, *args), f"{way}({f})(*{args})")


@pytest.mark.parametrize("name", [name for name in IN_MATH if name not in OF_LISTS | OF_TWO])
@pytest.mark.parametrize("spelling", ["the function itself", "called"])
def test_functions_of_a_number(name: str, spelling: str) -> None:
    f = getattr(math, name)
    if spelling == "called":
        f = function(f"def f(x): return math.{name}(x)")
    check(f, [(x,) for x in SPECIAL], "jit" if name.startswith("is") or name in ("frexp", "modf") else "grad jit")


@pytest.mark.parametrize("name", ["fmod", "pow", "atan2", "copysign", "hypot"])
def test_functions_of_two_numbers(name: str) -> None:
    check(getattr(math, name), [*itertools.product(FEW, FEW)])


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    f = OPERATORS[name]
    check(lambda x, y: f(x, y), [*itertools.product(FEW, FEW)], "jit")


@pytest.mark.parametrize("name", ["/", "//", "%", "**", "divmod"])
@pytest.mark.parametrize("pair", ["integers", "integer first", "integer second"])
def test_operators_on_integers(name: str, pair: str) -> None:
    f = OPERATORS[name]
    first, second = {
        "integers": (INTEGERS, INTEGERS), "integer first": (INTEGERS, FEW), "integer second": (FEW, INTEGERS)
    }[pair]  # fmt: skip
    check(lambda x, y: f(x, y), [*itertools.product(first, second)], "jit")


@pytest.mark.parametrize("body", [
    "x / 3", "3 / x", "3. // x", "x % 3.", "3. % x", "x ** 2", "x ** -1", "x ** 0.5", "x ** 3", "2. ** x", "2 ** x",
    "(-2.) ** x", "1.0 / (x - x)", "x / (x - 1)", "math.log(x, 10)", "math.log(2., x)", "math.log(x, 1.)",
    "math.exp(x) / math.exp(x)", "math.sqrt(x) * 1e308 / x", "math.fsum([x, 1e308, 1e308])", "math.prod([x, 1e308])",
    "math.dist([x, 1.], [1e308, x])", "math.ldexp(x, 3)", "math.exp(math.sin(x))", "x * math.inf / x",
    "abs(x) ** 0.5", "1 / (1 + math.exp(-x))", "round(x, 2)", "round(x, -308)", "round(x)", "math.floor(x)",
])  # fmt: skip
def test_expressions(body: str) -> None:
    check(function(f"def f(x): return {body}"), [(x,) for x in SPECIAL], "jit")


def test_iterables() -> None:
    check(lambda x, y: math.fsum([x, y, 1.0]), [*itertools.product(FEW, FEW)], "jit")
    check(math.fsum, [([x, y],) for x, y in itertools.product(FEW, FEW)], "jit")
    check(math.prod, [([x, y],) for x, y in itertools.product(FEW, FEW)], "jit")


def test_a_program_serves_nan_and_infinity_and_does_not_raise_for_them() -> None:
    f = function("def f(x): return math.sqrt(x) + math.exp(x) + math.sin(x) / x")
    grad(f, 1.0)
    assert is_compiled(f)
    compiled = jit(f)
    for x in (1.0, NAN, 2.0, NAN):
        assert_same(compiled(x), f(x), f"f({x})")
    assert gradient(math.sqrt)(INF) == 0.0
    calls = [gradient(math.exp)(x) for x in (1.0, INF, NAN, -INF)]
    assert_allclose(calls, [math.e, INF, NAN, 0.0])


def test_captured_numbers() -> None:
    f = function("def f(x): return x / SCALE + math.log(SCALE)", SCALE=1.0)
    for scale in (1.0, 2.0, 4.0, 0.0, 3.0, -1.0, INF, 0.0, NAN, 1.0):
        f.__globals__["SCALE"] = scale
        for x in (1.0, 2.0):
            assert_same(outcome(lambda: grad(f, x)[0]), outcome(f, x), f"f({x}) with {scale}")  # noqa: B023


def test_numbers_computed_from_arrays() -> None:
    f = function("def f(a): return 1.0 / a.sum().item() + math.log(a[0].item())")
    for a in ([1.0, 2.0], [3.0, 2.0], [1.0, -1.0], [0.0, 1.0], [2.0, 1.0], [-1.0, 1.0], [INF, 1.0], [NAN, 0.0]):
        given = np.array(a)
        assert_same(outcome(lambda: grad(f, given)[0]), outcome(f, given), str(a))  # noqa: B023


def test_nested() -> None:
    slope = function("def f(x): return gradient(g)(x) + math.sqrt(x)", gradient=gradient, g=lambda x: math.log(x) / x)
    plain = function("def f(x): return (1 - math.log(x)) / (x * x) + math.sqrt(x)")
    for x in (1.0, 2.0, 0.0, 3.0, -1.0, 2.5, 0.0):
        have = outcome(lambda: grad(slope, x)[0])  # noqa: B023
        want = outcome(plain, x)
        if isinstance(want, tuple):
            assert have == want
        else:
            assert_allclose(have, want, rtol=1e-13)


def test_exceptions_that_the_function_catches() -> None:
    def f(x: float) -> float:
        try:
            return math.log(x)
        except ValueError:
            return 10.0 * x

    for x in (1.0, 2.0, -1.0, -2.0, 3.0, -0.5, INF, 4.0):
        assert_allclose(grad(f, x)[0], f(x), rtol=1e-13)


def test_paths_beside_an_exception_are_compiled() -> None:
    f = function("def f(x, y): return abs(x ** y) / (x - 1)")
    calls = [(2.0, 0.5), (-8.0, 0.5), (3.0, 1.5), (-2.0, 1.5), (-2.0, 3.0)]
    for args in calls * 2:
        grad(f, *args)
    assert sum(entry.program.calls for entry in entries(f)) >= len(calls)


def test_a_power_may_turn_complex() -> None:
    def f(x: float, y: float) -> float:
        return abs(x**y)

    for x, y in [(2.0, 0.5), (-8.0, 0.5), (4.0, 0.5), (-8.0, 2.0), (-8.0, 1.5), (8.0, 0.5), (-INF, 0.5), (-8.0, NAN)]:
        assert_same(grad(f, x, y)[0], f(x, y), f"abs({x} ** {y})")
    check(lambda x, y: x**y, [(-8.0, 0.5), (8.0, 0.5), (-8.0, 3.0), (2, -1), (2, 3), (0, -1), (3, -2)], "jit")


@pytest.mark.parametrize("f", [
    lambda x: x << 1, lambda x: 1 >> x, lambda x: x & x, lambda x: ~x, lambda x: np.left_shift(x, 1),
    lambda x: np.bitwise_or.reduce(x * np.ones(2)),
])  # fmt: skip
@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.ones(2)], ids=["float", "float64", "array"])
def test_operators_that_floats_do_not_have(f: Any, x: Any, every_policy: None) -> None:
    with pytest.raises(TypeError) as plain:
        f(x)
    for transform in (grad, lambda f, x: jit(f)(x), lambda f, x: grad(lambda x: grad(f, x)[1][0], x)):
        with pytest.raises(TypeError) as traced:
            transform(f, x)  # type: ignore[no-untyped-call]
        assert type(traced.value) is type(plain.value) and str(traced.value) == str(plain.value)

    def without(x: Any) -> Any:
        try:
            return np.sum(f(x))
        except TypeError:
            return np.sum(x * x)

    for k in range(5):
        assert_allclose(grad(without, x * k)[1][0], 2 * x * k)
