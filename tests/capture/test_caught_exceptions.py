"""An exception that the function catches is a decision: a compiled program gives way to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fresh import rounds
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sets import examples

from yota_py import explain, grad, gradient, jit, nondiff, primitive, rrule, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, where it gives inf and NaN
GOOD, FLAT, BAD = np.array([[2.0, 0.5], [0.5, 3.0]]), np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 3], [3, 1]])
LinAlgError = np.linalg.LinAlgError


@primitive
def checked(x: Any) -> Any:
    """A function of the user's that raises."""
    if np.sum(x) < 0:
        raise ValueError("negative")
    return np.sqrt(np.sum(x))


@rrule(checked)
def _checked_rule(x: Any) -> Any:
    y = checked(x)
    return y, lambda dy: (dy / (2 * y) * np.ones_like(x),)


@primitive
def count(x: Any) -> int:
    """Has no derivative, and raises."""
    if np.min(x) < 0.9:
        raise ArithmeticError
    return int(x.size)


nondiff(count)


def likelihood(k: Any) -> Any:
    """A Gaussian's, with a penalty where there is none."""
    try:
        lower = np.linalg.cholesky(k)
    except LinAlgError:
        return 1e3 * np.sum(k * k)
    return np.sum(np.log(np.diag(lower))) + np.sum(lower)


def inverse(k: Any) -> Any:
    """Of a matrix that may have none."""
    try:
        return np.sum(np.linalg.inv(k))
    except LinAlgError:
        return np.sum(k) * 7


def solved(k: Any) -> Any:
    """A system that may have no solution."""
    try:
        x = np.linalg.solve(k, np.ones(2))
    except (LinAlgError, FloatingPointError):
        x = k[0] * 5
    return np.sum(x * x)


def only_asked(k: Any) -> Any:
    """The decomposition itself is not used."""
    try:
        np.linalg.cholesky(k)
    except LinAlgError:
        return 1e3 * np.sum(k)
    return np.sum(k * k)


def own_check(k: Any) -> Any:
    """The user's own statement raises."""
    try:
        if np.min(np.linalg.eigvalsh(k)) <= 0:
            raise ValueError("not positive")
        return np.sum(np.exp(k))
    except ValueError:
        return np.sum(k) ** 2


def own_primitive(k: Any) -> Any:
    """The user's own primitive raises."""
    try:
        return checked(k - 1.5)
    except ValueError:
        return np.sum(k * k * k)


def asked_primitive(k: Any) -> Any:
    """It raises, and its result is not used."""
    try:
        count(k)
    except ArithmeticError:
        return np.sum(k)
    return np.sum(k * k)


def position(k: Any) -> Any:
    """An index that may be out of bounds; the element is not used."""
    at = (np.floor(k[0] * 1.0)).astype(int)
    try:
        k[at]
    except IndexError:
        return np.sum(k) * 3
    return np.sum(k * k)


def at_last(k: Any) -> Any:
    """Raised in a function that is called, with ``finally`` and ``else``."""
    total = np.sum(k)
    try:
        y = inverse_or_raise(k)
    except LinAlgError:
        total = total * 2
    else:
        total = total + y
    finally:
        total = total + 1
    return total


def inverse_or_raise(k: Any) -> Any:
    """Does not catch."""
    return np.sum(np.linalg.inv(k))


def overflow(k: Any) -> Any:
    """NumPy is asked to raise."""
    with np.errstate(over="raise"):
        try:
            return np.sum(np.exp(k * 300))
        except FloatingPointError:
            return np.sum(k) * 2


def division(k: Any) -> Any:
    """So it is in a function that is called."""
    with np.errstate(divide="raise", invalid="raise"):
        return quotient(k)


def quotient(k: Any) -> Any:
    """Catches what NumPy raises."""
    try:
        return np.sum(1 / (k - 1))
    except ArithmeticError:
        return np.sum(k) * 3


def of_a_number(k: Any) -> Any:
    """Python's own functions raise."""
    t = k.sum().item() - 4.0
    try:
        return math.sqrt(t) * np.sum(k)
    except ValueError:
        return t * np.sum(k)



def whole(k: Any) -> Any:
    """A conversion raises."""
    t = np.log(k[0, 1] - 0.5).item()
    try:
        return int(t * 10) * np.sum(k)
    except (ValueError, OverflowError):
        return np.sum(k * k)


def rounded(k: Any) -> Any:
    """So do others."""
    t = (1 / (k[0, 0] - 1.0)).item()
    try:
        return round(t) * np.sum(k) + math.floor(t) + len(range(int(t)))
    except (ValueError, OverflowError):
        return np.sum(k * k)


def of_items(k: Any) -> Any:
    """And an index."""
    try:
        return [2.0, 3.0, 5.0][int(k[0, 0])] * np.sum(k)
    except IndexError:
        return np.sum(k * k)

FUNCTIONS: list[Callable[[Any], Any]] = [
    likelihood, inverse, solved, only_asked, own_check, own_primitive, asked_primitive, position, at_last, of_a_number,
    overflow, division, whole, rounded, of_items,
]  # fmt: skip
MATRICES = [GOOD, FLAT, BAD, GOOD + 1.0, -GOOD, FLAT * 2.0, np.eye(2)]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("first", [0, 1])
def test_functions_that_catch(f: Callable[[Any], Any], first: int) -> None:
    rounds(f, *MATRICES[first:], *MATRICES[:first], smooth=False)


@settings(max_examples=examples(3, share=10), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(FUNCTIONS) - 1), st.integers(0, len(MATRICES) - 1)), max_size=12))
def test_functions_that_catch_in_any_order(calls: list[tuple[int, int]]) -> None:
    for i, j in calls:
        rounds(FUNCTIONS[i], MATRICES[j], smooth=False)
        assert_allclose(jit(FUNCTIONS[i])(MATRICES[j]), FUNCTIONS[i](MATRICES[j]))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_steps_that_catch(f: Callable[[Any], Any]) -> None:
    def step(k: Any, state: dict[str, Any]) -> Any:
        y = f(k)
        state["total"] = state["total"] + y
        k += 0.25
        return y

    state, plain = {"total": 0.0}, {"total": 0.0}
    compiled = jit(step)
    for k in (*MATRICES, *MATRICES[::-1]):
        have, want = k.copy(), k.copy()
        assert_allclose(compiled(have, state), step(want, plain))
        assert_allclose(have, want)
        assert_allclose(state["total"], plain["total"])


def test_an_inner_gradient_that_raises() -> None:
    def f(k: Any) -> Any:
        try:
            return np.sum(gradient(lambda k: np.sum(np.linalg.inv(k)))(k)) + np.sum(k)
        except LinAlgError:
            return np.sum(k * k)

    for k in (*MATRICES, *MATRICES):
        assert_allclose(jit(f)(k), f(k), rtol=1e-9)
    rounds(f, *MATRICES[:4], smooth=False)


def test_exceptions_that_are_not_caught_are_numpys() -> None:
    f = value_and_grad(lambda k: np.sum(np.linalg.inv(k)))
    for k in (GOOD, FLAT, GOOD, FLAT):
        if k is FLAT:
            with pytest.raises(LinAlgError, match="Singular matrix"):
                f(k)
        else:
            assert_allclose(f(k)[0], np.sum(np.linalg.inv(k)))
    with pytest.raises(ValueError, match="negative"):
        grad(lambda k: checked(k), -GOOD)


def test_numpy_is_asked_to_raise_from_outside() -> None:
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        rounds(quotient, *MATRICES, smooth=False)
        with pytest.raises(FloatingPointError):
            value_and_grad(lambda k: np.sum(np.exp(1e4 * k)))(GOOD)
        f = value_and_grad(lambda k: np.sum(np.exp(1e4 * k)))
        assert f(-GOOD - 1)[0] >= 0
        with pytest.raises(FloatingPointError):
            f(GOOD)


def test_numpy_is_asked_not_to_warn() -> None:
    def f(k: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sum(np.where(k == 1, 0, 1 / (k - 1)))

    rounds(f, *MATRICES, smooth=False)
    assert explain(f)[0].calls > 5


class StoppedError(Exception):
    """Carries what the function had."""

    def __init__(self, w: Any, **more: Any) -> None:
        super().__init__(w, more)
        self.w = w


def test_exceptions_carry_plain_values() -> None:
    class Model:
        w, n = np.ones(2), 0

    model = Model()

    def step(x: Any) -> Any:
        model.n += 1
        model.w = model.w + x
        if model.n % 2:
            raise StoppedError(model.w, n=model.n, loss=np.sum(x)) from ValueError(x)
        return model.w

    f = jit(step)
    for i in range(1, 7):
        x = np.ones(2) * i
        if i % 2 == 0:
            assert f(x) is model.w
            continue
        with pytest.raises(StoppedError) as caught:
            f(x)
        error = caught.value
        assert error.w is error.args[0] is model.w and type(error.w) is np.ndarray
        assert type(error.args[1]["n"]) is int and error.args[1] == {"n": i, "loss": 2.0 * i}
        assert error.__cause__ is not None and error.__cause__.args[0] is x


def test_exceptions_of_gradients_carry_plain_values() -> None:
    def f(x: Any) -> Any:
        raise StoppedError(x * 2.0, parts=[np.sum(x)]) from ValueError(x)

    for _ in range(3):
        with pytest.raises(StoppedError) as caught:
            grad(f, np.ones(2))
        error = caught.value
        assert [type(error.w), type(error.args[0]), type(error.args[1]["parts"][0])] == [np.ndarray] * 2 + [np.float64]
        assert error.__cause__ is not None and type(error.__cause__.args[0]) is np.ndarray
