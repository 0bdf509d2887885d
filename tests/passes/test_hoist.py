"""What is the same in all turns of a loop is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from agreement import agree
from numpy.testing import assert_allclose

from yota_py import explain, grad, gradient
from yota_py.capture.recording import record_call
from yota_py.passes.hoist import hoisted
from yota_py.passes.roll import roll
from yota_py.tape.loop import Loop, as_loop
from yota_py.tape.operations import Call
from yota_py.tape.show import name_of

TURNS = 40


def inverse(x: Any, a: Any, data: Any) -> Any:
    for row in data:
        x = np.tanh(np.linalg.inv(a + 3 * np.eye(3)) @ x + row)
    return np.sum(x)


def factors(x: Any, a: Any, data: Any) -> Any:
    total = 0.0
    for row in data:
        w, v = np.linalg.eigh(a + a.T)
        total = total + np.sum((v.T @ (x - row)) ** 2 / (9 + w))
    return total


def outputs(x: Any, a: Any, data: Any) -> Any:
    rows = []
    for row in data:
        rows.append(np.exp(a[0]))
        x = np.sin(x + row)
    return np.sum(np.array(rows) * data) + np.sum(x)


def exponential(x: Any, a: Any, data: Any) -> Any:
    for row in data:
        x = scipy.linalg.expm(a * 0.1) @ x * 0.7 + row
    return np.sum(x**2)


def numbers(x: Any, a: Any, data: Any) -> Any:
    c = float(3) * 0.1
    for row in data:
        x = np.tanh(x * np.sqrt(a[0, 0] ** 2 + c) + row * len(row) / 3)
    return np.sum(x)


def nested(x: Any, a: Any, data: Any) -> Any:
    for row in data:
        for _ in range(30):
            x = np.tanh(np.linalg.solve(a + 3 * np.eye(3), x) + np.linalg.inv(a + 3 * np.eye(3)) @ row)
    return np.sum(x)


def decided(x: Any, a: Any, data: Any) -> Any:
    for row in data:
        x = np.tanh(x + row) if np.linalg.det(a + 9 * np.eye(3)) > 1 else x * row
    return np.sum(x)


LOSSES = [inverse, factors, outputs, exponential, numbers, nested, decided]


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) / 2 for shape in [(3,), (3, 3), (TURNS, 3)]]


def loops_of(loss: Callable[..., Any]) -> list[Loop]:
    rolled = hoisted(roll(record_call(loss, arguments(0), {})))
    return [loop for op in rolled.tape.ops if (loop := as_loop(op)) is not None]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_values_and_slopes(loss: Callable[..., Any]) -> None:
    for seed in range(3):
        agree(loss, *arguments(seed), against=("plain", "fresh", "differences"))
    assert explain(loss)[0].calls == 2


@pytest.mark.parametrize("loss", [inverse, factors, exponential], ids=lambda f: f.__name__)
def test_second_derivatives(loss: Callable[..., Any]) -> None:
    x, a, data = arguments(0)

    def length(a: Any) -> Any:
        return np.sum(gradient(loss, 1)(x, a, data) ** 2)

    for k in range(3):
        agree(length, a + k / 9, against=("plain", "fresh", "differences"))


@pytest.mark.parametrize(("loss", "left"), [
    (inverse, "matmul add tanh"), (exponential, "matmul multiply add"), (numbers, "multiply add tanh"),
    (factors, "matmul power divide sum add"),
])  # fmt: skip
def test_what_is_left_in_a_turn(loss: Callable[..., Any], left: str) -> None:
    (loop,) = loops_of(loss)
    names = [name_of(op.fn) for op in loop.body.ops if isinstance(op, Call)]
    assert sorted({*names} - {"getfield", "getitem"}) == sorted(left.split()), names


def test_errors_are_those_of_the_first_turn() -> None:
    args = arguments(0)
    for _ in range(3):
        grad(inverse, *args)
    with pytest.raises(np.linalg.LinAlgError) as error:
        grad(inverse, args[0], -3 * np.eye(3), args[2])
    assert "np.linalg.inv" in str(error.traceback[1].statement) + str(error.traceback[-1].statement) + "".join(
        str(entry.statement) for entry in error.traceback)  # fmt: skip
    assert_allclose(grad(inverse, *args)[0], inverse(*args))


def test_large_arrays() -> None:
    def f(x: Any, a: Any, data: Any) -> Any:
        for row in data:
            x = np.tanh(np.sin(a) @ x + row[0])
        return np.sum(x)

    rng = np.random.default_rng(0)
    a = rng.normal(size=(500, 500)) / 500
    for seed in range(3):
        agree(f, rng.normal(size=500), a + seed, arguments(seed)[2])
