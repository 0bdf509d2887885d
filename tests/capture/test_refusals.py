"""Exceptions of C code that gets traced values, and of traced values themselves: classes are those of plain code."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pytest

from yota_py import config, grad, gradient, jit, stop_gradient, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError, YotaError

X = np.array([1.0, 2.0])
DATABASE = sqlite3.connect(":memory:")


@pytest.mark.parametrize(("f", "name"), [
    (lambda x: np.frombuffer(x)[0], "np.frombuffer"), (lambda x: np.from_dlpack(x)[0], "np.from_dlpack"),
    (lambda x: memoryview(x)[0], "memoryview"), (lambda x: float(Decimal(x[0].item()) * 2), "Decimal"),
    (lambda x: float(Decimal.from_float(x[0].item())), "Decimal.from_float"), (lambda x: bytes(x)[0] * x[0], "bytes"),
    (lambda x: float.__mul__(x[0].item(), 2.0), "float.__mul__"), (lambda x: np.ndarray.sum(x), "np.ndarray.sum"),
    (lambda x: np.float64.__mul__(x[0], 2.0), "np.float64.__mul__"),
])  # fmt: skip
def test_c_code_that_knows_no_traced_values(f: Callable[..., Any], name: str) -> None:
    for call in (grad, lambda f, x: value_and_grad(f)(x), lambda f, x: grad(lambda x: grad(f, x)[1][0][0], x)):
        for _ in range(2):
            with pytest.raises(LostDerivativeError) as caught:
                call(f, X)
            assert str(caught.value).startswith("test_refusals.py:")
            assert f" {name}(...) gets a traced value, whose derivative would be lost there (" in str(caught.value)
            assert "Instead: " in str(caught.value)
    if name != "bytes":
        assert jit(f)(X) == pytest.approx(f(X))


@pytest.mark.parametrize("of", [Decimal, lambda s: timedelta(seconds=s)])
def test_what_is_said_of_python_own_numbers_works(of: Callable[[Any], Any]) -> None:
    with pytest.raises(LostDerivativeError, match=re.escape("stop_gradient(x).__float__()")):
        grad(lambda x: (of(float(stop_gradient(x))), x * x)[1], 2.0)
    made: list[Any] = []
    for x in (2.0, 3.0, 4.0):
        assert grad(lambda x: (made.append(of(stop_gradient(x).__float__())), x * x)[1], x) == (x * x, (2 * x,))
    assert made == [of(2.0), of(3.0), of(4.0)]


CONVERTED: dict[str, Callable[[Any], Any]] = {
    "timedelta *": lambda x: (timedelta(seconds=1) * x).total_seconds(),
    "* timedelta": lambda x: (x * timedelta(seconds=1)).total_seconds(),
    "timedelta /": lambda x: (timedelta(seconds=1) / x).total_seconds(),
    "SQLite": lambda x: DATABASE.execute("select ?", (x,)).fetchone()[0],
    "SQLite by name": lambda x: DATABASE.execute("select :x", {"x": x}).fetchone()[0],
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("when", ["auto", "always"])
def test_plain_numbers_are_made_of_values_without_derivative(
    name: str, when: Literal["auto", "always"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "compile", when)
    f = CONVERTED[name]
    step, differentiate = jit(f), value_and_grad(lambda x: f(float(stop_gradient(x))) * x * x)
    for x in (0.5, 2.0, -4.0, 0.25):
        assert differentiate(x) == pytest.approx((f(x) * x * x, 2 * f(x) * x))
        assert gradient(gradient(lambda x: f(float(stop_gradient(x))) * x * x))(x) == pytest.approx(2 * f(x))
        assert step(x) == f(x)
        with pytest.raises(LostDerivativeError, match=r"^test_refusals.py:\d+: .*float\(stop_gradient"):
            grad(f, x)


def test_errors_of_durations_are_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")

    def f(x: Any) -> Any:
        try:
            return (timedelta(seconds=1) * float(stop_gradient(x))).total_seconds() * x
        except OverflowError:
            return -x

    for x in (2.0, 1e300, 3.0, 1e299):
        assert grad(f, x) == (f(x), (x if x < 1e9 else -1.0,))


@pytest.mark.parametrize("f", [
    lambda x: np.finfo(x).eps + x * x, lambda x: np.finfo(np.float32(1) * x).bits * x,
    lambda x: np.iinfo(np.argmax([x, 1.0])).bits * x,
])  # fmt: skip
def test_types_of_numbers_are_asked_for(f: Callable[[Any], Any]) -> None:
    for x in (0.5, 2.0, -4.0, 0.25):
        value, (g,) = grad(f, x)
        assert value == f(x)
        assert g == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6)
        assert jit(f)(x) == f(x)


def test_a_function_of_texts_is_named_that_is_differentiated_itself() -> None:
    for call in (grad, lambda f, x: value_and_grad(f)(x)):
        for x in (2.0, [1.0, 2.0], {"a": 3.0}):
            with pytest.raises(LostDerivativeError, match=r"^test_refusals.py:\d+: json.dumps\(.* gets .*float\(stop"):
                call(json.dumps, x)
    with pytest.raises(TypeError, match="required positional argument"):
        grad(json.dump, 2.0)


def test_methods_of_arrays_are_differentiated_themselves() -> None:
    for x in (X, X + 1.0, X * 2.0, X):
        value, (g,) = grad(np.ndarray.prod, x)
        assert value == np.prod(x)
        np.testing.assert_allclose(g, x[::-1])
        np.testing.assert_allclose(gradient(np.ndarray.sum)(x), 1.0)


def test_exceptions_of_the_function_itself_stay() -> None:
    class Model:
        pass

    def wanted(x: Any, y: Any) -> Any:
        return x

    calls: list[tuple[type[Exception], Callable[[Any], Any]]] = [
        (TypeError, lambda x: Model(x)), (TypeError, lambda x: wanted(x)), (TypeError, lambda x: len(x[0])),  # type: ignore[call-arg]
        (TypeError, lambda x: "a" + x), (ValueError, lambda x: x.reshape(7)), (AttributeError, lambda x: x.foo),
        (KeyError, lambda x: {"a": x}["b"]), (TypeError, lambda x: np.zeros(x)), (TypeError, lambda x: x(1.0)),
    ]  # fmt: skip
    for cls, f in calls:
        with pytest.raises(cls) as caught:
            grad(f, X)
        assert not isinstance(caught.value, YotaError)


def test_exceptions_that_are_caught_inside_are_as_they_are() -> None:
    """The function sees what it would see without yota_py; if plain arrays do not raise it, the refusal comes out."""
    seen = []

    def f(x: Any, what: Any) -> Any:
        try:
            return what(x)
        except TypeError as error:
            seen.append(type(error))
            return np.sum(x * x)

    assert grad(f, X, lambda x: x + "a")[1][0].tolist() == [2.0, 4.0]
    with pytest.raises(LostDerivativeError, match="memoryview"):
        grad(f, X, lambda x: memoryview(x)[0])
    assert not any(issubclass(cls, YotaError) for cls in seen)


# Expressions that plain code refuses, or of which it refuses some.
EXPRESSIONS = """x[0]; x[-1]; x[7]; x["a"]; x[0.5]; x[0:1]; x[0, 0]; x[True]; x[...]; x[None]; x[()]; len(x); list(x)
tuple(x); [*x]; sum(x); max(x); sorted(x); set(x); dict(x); x(); x @ 2.0; 2.0 @ x; x @ x; x @ np.ones(3); x @ [1.0, 2.0]
[1.0, 2.0] @ x; 2.0 in x; x.foo; x.sum(axis=3); x.shape; x.T; x.append(1); x.hex(); x.is_integer(); x.item(5); x.real
x + None; x + {}; x - [1.0]; x / (); x % "a"; x // None; x < None; x < [1.0]; x < 1j; x & 1; ~x; round(x); pow(x, "a")
range(x); [1, 2][x]; hex(x); np.reshape(x, (5, 5)); np.concatenate(x); np.take(x, 9); np.split(x, 5); np.sin(x, foo=1)
np.sum(x, foo=1); np.dot(x, np.ones(7)); x.squeeze(1); x.transpose(1, 0); x.clip("a"); x.__len__(); x.__iter__()
x.__foo__; hasattr(x, "__len__"); hasattr(x, "__iter__"); hasattr(x, "__getitem__"); hasattr(x, "shape"); callable(x)
f"{x:d}"; np.iterable(x); first(x); a_part(x); without_first(x); (lambda a, b: a)(*x)""".replace("\n", "; ").split("; ")


def first(x: Any) -> Any:
    for item in x:
        return item
    return None


def a_part(x: Any) -> Any:
    a, *_ = x
    return a


def without_first(x: Any) -> Any:
    del x[0]


def outcome(expression: str, x: Any) -> Any:
    try:
        result = eval(expression, {**globals(), "x": x})
    except YotaError:
        return YotaError
    except Exception as error:  # any
        return next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
    return result if isinstance(result, bool) else "a result"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_exceptions_are_those_of_plain_code(expression: str) -> None:
    config.compile = "never"
    values = [2.5, np.float64(2.5), np.float32(2.5), 1 + 2j, np.complex128(1 + 2j), np.array(2.5), X, np.ones((2, 2))]
    for x in values:
        met = []

        def f(x: Any, met: list[Any] = met) -> Any:
            met.append(outcome(expression, x))
            return np.sum(np.abs(x) ** 2)

        with suppress(MissingRuleError):  # which the function has caught, and which comes out nevertheless
            grad(f, x)
        plain = outcome(expression, x.copy() if isinstance(x, np.ndarray) else x)
        assert met[0] in (plain, YotaError), f"{expression} of {x!r}"


def test_a_function_catches_what_plain_code_raises() -> None:
    def f(x: Any) -> Any:
        try:
            return x[0]
        except IndexError:
            return x * 2.0
        except TypeError:
            return x * 3.0

    assert grad(f, np.float64(3.0)) == (6.0, (2.0,))
    assert grad(f, 3.0) == (9.0, (3.0,))
    assert grad(f, X[:1]) == (1.0, (np.ones(1),))


