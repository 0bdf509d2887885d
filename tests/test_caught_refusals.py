"""What is refused on a traced value, in functions that catch exceptions: plain NumPy raises none there."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from steps import runs_as_plain

from yota_py import grad, jit
from yota_py.errors import YotaError

READS: dict[str, Callable[[Any], Any]] = {
    "strides": lambda a: a.strides,
    "base": lambda a: a.base is None,
    "flags": lambda a: a.flags.writeable,
    "view": lambda a: a.view(),
    "data": lambda a: len(a.data),
    "ctypes": lambda a: a.ctypes.data != 0,
    "tobytes": lambda a: a.tobytes(),
    "hasattr": lambda a: (hasattr(a, "strides"), hasattr(a, "flat"), getattr(a, "itemsize", 5), hasattr(a, "no")),
    "shape": lambda a: setattr(a, "shape", (2, 1)),
    "a real part": lambda a: np.add.at(a.real, [0, 0], 1.0),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (2,)).sum(),
    "resize": lambda a: a.resize((1,), refcheck=False),
    "a method": lambda a: a.byteswap().sum() != 0,
    "unknown function": lambda a: np.i0(a),
}


def numbers(i: int) -> tuple[Any, ...]:
    return (np.array([0.5, 1.5]) + i,)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("how", ["except", "suppress"])
def test_steps_that_catch(name: str, how: str, every_policy: None) -> None:
    read = READS[name]

    def make() -> Any:
        log: list[str] = []

        def step(a: Any) -> Any:
            log.append("begins")
            answer: Any = "nothing"
            if how == "suppress":
                with contextlib.suppress(Exception):
                    answer = read(a)
            else:
                try:
                    answer = read(a)
                except Exception as error:  # any: it is what these tests are about
                    log.append(type(error).__name__)
            return np.array(answer) if isinstance(answer, np.ndarray) else answer, a * 2.0

        return step, numbers, lambda: log

    runs_as_plain(make, 5)


@pytest.mark.parametrize("name", ["strides", "flags", "hasattr", "shape", "data"])
def test_gradients_of_functions_that_catch(name: str) -> None:
    """The refusal itself comes out, and not the derivative of another branch."""

    def f(a: Any) -> Any:
        b, factor = a * 1.0, 2.0
        try:
            READS[name](b)
        except Exception:  # any: it is what these tests are about
            factor = 3.0
        return np.sum(b * factor)

    for i in range(3):
        try:
            value, (slope,) = grad(f, *numbers(i))
        except YotaError:
            continue
        assert value == f(*numbers(i))
        np.testing.assert_array_equal(slope, [2.0, 2.0])


def test_another_error_after_a_refusal() -> None:
    def f(a: Any) -> Any:
        try:
            return a.strides
        except Exception:  # any: it is what these tests are about
            raise ValueError("no strides") from None

    with pytest.raises(YotaError, match=r"x\.strides"):
        grad(f, np.ones(2))
    compiled = jit(f)
    for _ in range(3):
        assert compiled(np.ones(2)) == (8,)


def test_errors_of_gradients_inside_are_the_functions_own() -> None:
    """Plain calls raise them as well."""

    def f(a: Any) -> Any:
        try:
            return grad(lambda x: x * 2.0, a)  # of an array: not a scalar
        except YotaError as error:
            return type(error).__name__

    def g(a: Any) -> Any:
        try:
            return grad(lambda x: np.sum(np.i0(x)), a)
        except YotaError as error:
            return type(error).__name__

    for step in (f, g):
        compiled = jit(step)
        for i in range(4):
            assert repr(compiled(*numbers(i))) == repr(step(*numbers(i)))


@pytest.mark.parametrize("value", [0.5, np.array([0.5, 0.25]), 1j, np.ones(3)])
def test_casts_in_place_raise_what_numpy_raises(value: Any, every_policy: None) -> None:
    def make() -> Any:
        def step(a: Any, log: Any) -> Any:
            try:
                a += value
            except np._core._exceptions.UFuncTypeError as error:  # type: ignore[attr-defined]
                log.append(("cast", str(error)))
            except ValueError as error:
                log.append(("shape", str(error)))
            return copy.copy(log), a

        return step, lambda i: (np.arange(2) + i, []), lambda: None

    runs_as_plain(make, 4)
