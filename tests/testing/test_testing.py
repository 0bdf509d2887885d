"""The checker is itself checked: each deliberately wrong rule must be caught with its own message."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import yota_py.rules  # noqa: F401 - registers the rules

from yota_py.capture.recording import record_call
from yota_py.registry.patches import patch
from yota_py.registry.registry import nondiff, primitive, rrule
from yota_py.registry.tangents import conj, unbroadcast
from yota_py.reverse.verbs import differentiate
from yota_py.testing import evaluators
from yota_py.testing.checks import check_cases, check_grads, check_rrule

X = np.array([0.5, -1.0, 2.0])


def with_rule(rule: Callable[..., Any], value: Callable[..., Any] = np.sin) -> Callable[..., Any]:
    """A fresh primitive that computes ``value`` and has this rule."""

    def function(*args: Any) -> Any:
        return value(*args)

    fn = primitive(function)
    rrule(fn)(rule)
    return fn


def caught(message: str, fn: Callable[..., Any], *args: Any) -> None:
    with pytest.raises(AssertionError, match=message):
        check_rrule(fn, *args)


def test_right_rule_passes() -> None:
    check_rrule(with_rule(lambda x: (np.sin(x), lambda dy: (dy * np.cos(x),))), X)


def test_wrong_value() -> None:
    caught("the rule's value differs", with_rule(lambda x: (1.001 * np.sin(x), lambda dy: (dy * np.cos(x),))), X)


def test_wrong_kind_of_value() -> None:
    caught("of another type than NumPy's", with_rule(lambda x: (np.sin(x)[None], lambda dy: (dy[0] * np.cos(x),))), X)


def test_python_number_becomes_numpy_scalar() -> None:
    fn = with_rule(lambda x: (np.multiply(x, 2.0), lambda dy: (2.0 * dy,)), value=lambda x: 2.0 * x)
    caught("of another type than NumPy's", fn, 1.5)


def test_wrong_factor() -> None:
    fn = with_rule(lambda x: (np.sin(x), lambda dy: (2 * dy * np.cos(x),)))
    caught(r"function\(float64\[3\].*the gradient in argument 0, of shape \(3,\), dtype float64, differs", fn, X)


def test_none_where_the_derivative_is_not_zero() -> None:
    caught("None, which is zero", with_rule(lambda x: (np.sin(x), lambda dy: (None,))), X)


def test_none_for_an_exact_zero_passes() -> None:
    check_rrule(with_rule(lambda x: (np.sign(x), lambda dy: (None,)), value=np.sign), X)


def test_wrong_shape() -> None:
    fn = with_rule(lambda a, b: (a + b, lambda dy: (dy, dy)), value=np.add)
    caught(r"argument 1 has the wrong shape\n +expected +\(\)\n +got +\(3,\)", fn, X, np.array(2.0))


def test_wrong_dtype() -> None:
    fn = with_rule(lambda x: (np.sin(x), lambda dy: (np.float64(1) * dy * np.cos(x),)))
    caught("wrong dtype\n +expected +float32\n +got +float64", fn, X.astype(np.float32))


def test_inaccurate_in_float32() -> None:
    fn = with_rule(lambda x: (np.sin(x), lambda dy: (dy * np.cos(_coarse(x)),)))
    caught("far from that in float64", fn, X.astype(np.float32))


def _coarse(x: Any) -> Any:
    return x + np.float32(0.001) if x.dtype == np.float32 else x


def test_wrong_count() -> None:
    fn = with_rule(lambda a, b: (a * b, lambda dy: (dy * b,)), value=np.multiply)
    caught("returned 1 cotangents for 2 positional arguments", fn, X, X)


def test_not_a_tuple() -> None:
    caught("must return a tuple, not a ndarray", with_rule(lambda x: (np.sin(x), lambda dy: dy * np.cos(x))), X)


def test_cotangent_of_an_integer() -> None:
    fn = with_rule(lambda x, n: (x * n, lambda dy: (dy * n, np.sum(dy * x))), value=np.multiply)
    caught("argument 1 is not differentiable", fn, X, 3)


def test_list_argument_without_tuple() -> None:
    fn = with_rule(lambda xs: (xs[0] + xs[1], lambda dy: (dy,)), value=lambda xs: xs[0] + xs[1])
    caught("must be a tuple of as many", fn, [X, X])


def test_list_argument() -> None:
    fn = with_rule(lambda xs: (xs[0] * xs[1], lambda dy: ((dy * xs[1], dy * xs[0]),)), value=lambda xs: xs[0] * xs[1])
    check_rrule(fn, [X, X + 1])
    swapped = with_rule(lambda xs: (xs[0] * xs[1], lambda dy: ((dy * xs[0], dy * xs[1]),)), lambda xs: xs[0] * xs[1])
    caught(r"argument 0\[0\]", swapped, [X, X + 1])


def test_mutated_by_the_rule() -> None:
    def rule(x: Any) -> Any:
        y = np.sin(x)
        x += 1
        return y, lambda dy: (dy * np.cos(x - 1),)

    caught("the rule has written into argument 0", with_rule(rule), X.copy())


def test_mutated_by_the_pullback() -> None:
    def rule(x: Any) -> Any:
        def pullback(dy: Any) -> Any:
            x[0] = 7
            return (dy * np.cos(x),)

        return np.sin(x), pullback

    caught("the pullback has written into argument 0", with_rule(rule), X.copy())


def test_mutated_cotangent() -> None:
    def rule(x: Any) -> Any:
        def pullback(dy: Any) -> Any:
            dy *= np.cos(x)
            return (dy,)

        return np.sin(x), pullback

    caught("the pullback has written into its cotangent", with_rule(rule), X)


def test_pullback_with_memory() -> None:
    def rule(x: Any) -> Any:
        total = np.zeros(x.shape)

        def pullback(dy: Any) -> Any:
            nonlocal total
            total = total + dy * np.cos(x)
            return (total,)

        return np.sin(x), pullback

    caught("something else when called again", with_rule(rule), X)


def test_wrong_second_order() -> None:
    frozen_cos = nondiff(primitive(lambda x: np.cos(x)))
    fn = with_rule(lambda x: (np.sin(x), lambda dy: (dy * frozen_cos(x),)))
    caught("the second derivative in argument 0", fn, X)
    check_rrule(fn, X, second_order=False)


def test_sign_error_in_the_imaginary_part() -> None:
    z = np.array([0.5 + 1j, -0.3 + 0.2j])
    fn = with_rule(lambda x: (np.sin(x), lambda dy: (dy * np.cos(x),)))
    caught(r"the gradient in argument 0.*complex: the convention is dL/dRe \+ i dL/dIm", fn, z)
    check_rrule(with_rule(lambda x: (np.sin(x), lambda dy: (dy * conj(np.cos(x)),))), z)


def test_real_argument_with_complex_result() -> None:
    fn = with_rule(lambda x, z: (x * z, lambda dy: (unbroadcast(dy * conj(z), x), unbroadcast(dy * x, z))), np.multiply)
    check_rrule(fn, X, np.array([1 + 1j, 2j, 3.0]))


def test_registered_cases() -> None:
    assert check_cases(np.sin) > 5
    with pytest.raises(AssertionError, match="not a primitive"):
        check_cases(len)


def test_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(gradient: Any, low: Any) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda inputs: [1.001 * result for result in gradient.tape.play_flat(inputs)]

    def writing(gradient: Any, low: Any) -> Callable[[Sequence[Any]], list[Any]]:
        def run(inputs: Sequence[Any]) -> list[Any]:
            results = gradient.tape.play_flat(inputs)
            inputs[0][...] += 1
            return results

        return run

    monkeypatch.setitem(evaluators.EVALUATORS, "other", off)
    caught(r"result 0 .values, then gradients. of the other tape differs", np.sin, X)
    monkeypatch.setitem(evaluators.EVALUATORS, "other", writing)
    caught("the other tape", np.sin, X)


def test_check_grads() -> None:
    check_grads(lambda p, x: {"a": np.sin(p["w"] * x), "b": [p["b"] * 2, 3]}, {"w": X, "b": 0.5}, 2.0)
    wrong = with_rule(lambda x: (np.sin(x), lambda dy: (-dy * np.cos(x),)))
    with pytest.raises(AssertionError, match="the gradient in argument 0"):
        check_grads(lambda x: np.sum(wrong(2 * x)), X)


def test_programs_of_functions_that_read_arrays_from_elsewhere() -> None:
    weights, unused = np.array([1.0, 2.0, 3.0]), np.ones(2)

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * weights) if unused.size else x

    gradient = differentiate(record_call(f, (np.ones(3),), {}))
    run = evaluators.compiled(gradient, evaluators.optimised(gradient))
    for i in range(3):
        value, dx = run([np.arange(3.0) + i])
        np.testing.assert_allclose(value, f(np.arange(3.0) + i), rtol=1e-12)
        np.testing.assert_allclose(dx, np.cos(np.arange(3.0) + i) * weights, rtol=1e-12)


def test_stand_ins_of_a_check_are_put_back() -> None:
    """While it lasts they stay, and what is patched meanwhile has one; after one that fails, too, all is as before."""
    module = types.ModuleType("module_of_this_test")
    module.twice = twice = lambda x: 2 * x  # type: ignore[attr-defined]
    places = [(np, "zeros"), (math, "sin"), (module, "twice")]
    before = [vars(owner)[name] for owner, name in places]
    exchanged: list[list[bool]] = []

    def f(x: Any) -> Any:
        exchanged.append([vars(owner)[name] is not fn for (owner, name), fn in zip(places, before, strict=True)])
        if len(exchanged) == 3:  # traced
            patch(module, "twice", twice)
        return x * (1 if len(exchanged) < 9 else 2)

    with pytest.raises(AssertionError, match="differs"):
        check_grads(f, 2.0)
    assert exchanged[1:4:2] == [[False] * 3, [True] * 3] and exchanged[2] == [True, True, False], exchanged
    assert all(vars(owner)[name] is fn for (owner, name), fn in zip(places, before, strict=True))
