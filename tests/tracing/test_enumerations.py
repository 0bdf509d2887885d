"""Members of enumerations, which are numbers, beside traced values; and what is asked of traced values themselves."""

from __future__ import annotations

import enum
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from yota_py import explain, grad, jit
from yota_py.errors import YotaError


class Column(enum.IntEnum):
    TEMPERATURE = 0
    RATE = 1


class Mask(enum.IntFlag):
    A = 1
    B = 2


class Level(float, enum.Enum):
    LOW = 0.5
    HIGH = 2.5


BOTH, NONE = Mask.A | Mask.B, Mask(0)
WITH_MEMBERS: dict[str, Callable[[Any], Any]] = {
    "items": lambda x: x[Column.TEMPERATURE] ** 2 + 3 * x[Column.RATE],
    "columns": lambda x: np.sum(np.outer(x, x)[:, Column.RATE] * x),
    "product": lambda x: np.sum(x * Column.RATE) + np.sum(Column.RATE * x),
    "power": lambda x: np.sum(x**BOTH),
    "sum": lambda x: np.sum(x + BOTH) * np.sum(BOTH - x),
    "one bit": lambda x: np.sum(x) * Mask.B,
    "no bit": lambda x: np.sum(x * NONE + x),
    "ufunc": lambda x: np.sum(np.multiply(x, BOTH) + np.maximum(x, Mask.B)),
    "where": lambda x: np.sum(np.where(x > 1.0, x, BOTH) * x),
    "axis": lambda x: np.sum(np.sum(np.outer(x, x), axis=Column.RATE) ** 2),
    "norm": lambda x: np.linalg.norm(x, ord=Column.RATE),
    "concatenate": lambda x: np.sum(np.concatenate([x, x], axis=Column.TEMPERATURE) ** 2),
    "float": lambda x: np.sum(x * Level.HIGH) ** Level.LOW,
    "math": lambda x: math.pow(x[0], Column.RATE) * math.pow(x[1], 2.0),
    "comparison": lambda x: np.sum(x) if x[0] > Level.LOW else np.sum(x) * 2.0,
}


@pytest.mark.parametrize("name", WITH_MEMBERS)
def test_members_are_numbers(name: str, every_policy: None) -> None:
    f = WITH_MEMBERS[name]
    step = jit(f)
    for i in range(4):
        x = np.array([1.5, 2.5]) + i
        expected = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(2)]
        value, (slope,) = grad(f, x)
        assert value == f(x)
        assert repr(step(x)) == repr(f(x))
        assert_allclose(slope, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("power", [2, 2.0, 3, 0.5, 1.7])
def test_powers_of_math_are_pythons_floats(power: float, every_policy: None) -> None:
    for f in (lambda x: math.pow(x[0], power), lambda x: math.pow(x[0], power) * math.pow(x[1] * 1.0, power)):
        step = jit(f)
        for i in range(4):
            x = np.array([0.5, 1.5]) + i
            assert type(f(x)) is type(grad(f, x)[0]) is type(step(x)) is float
            assert_allclose([grad(f, x)[0], step(x)], f(x), rtol=1e-15)


def test_programs_with_members() -> None:
    f = WITH_MEMBERS["items"]
    for i in range(4):
        grad(f, np.array([1.5, 2.5]) + i)
    assert sum(told.calls for told in explain(f)) == 3


def test_members_that_are_stored() -> None:
    def step(y: Any, x: Any) -> Any:
        y[Column.RATE] = x[0] * BOTH
        y[0] = BOTH
        return y * x

    compiled = jit(step)
    for i in range(3):
        x, y, z = np.array([1.5, 2.5]) + i, np.zeros(2), np.zeros(2)
        np.testing.assert_array_equal(compiled(y, x), step(z, x))
        np.testing.assert_array_equal(y, z)


# ------------------------------------------------------------------------------- what a value says of itself


def _as_list(x: Any) -> Any:
    try:
        iter(x)
    except TypeError:
        return [x]
    return x


NAMES = [
    "__array__", "__array_ufunc__", "__array_function__", "__array_interface__", "__array_struct__", "__iter__",
    "__len__", "__getitem__", "__float__", "__index__", "__iadd__", "__matmul__", "__slots__", "__dict__",
    "__array_priority__", "__dlpack__", "__hash__", "__bool__", "__call__", "__contains__", "__setitem__",
    "__round__", "__yota_type__",
]  # fmt: skip
VALUES: dict[str, Callable[[float], Any]] = {
    "float": lambda x: x,
    "float64": np.float64,
    "float32": np.float32,
    "array": lambda x: np.array([x, 2.0]),
    "no dimensions": lambda x: np.array(x),
}


@pytest.mark.parametrize("kind", VALUES)
def test_special_methods(kind: str, every_policy: None) -> None:
    def weights(x: Any) -> Any:
        return sum(3**i * hasattr(x, name) for i, name in enumerate(NAMES))

    def f(x: Any) -> Any:
        return np.sum(x) * float(sum(3**i * hasattr(x * 1.0, name) for i, name in enumerate(NAMES)))

    step = jit(f)
    for i in range(3):
        x = VALUES[kind](1.5 + i)
        value, (slope,) = grad(f, x)
        assert value == f(x) == step(x)
        assert np.all(slope == weights(x * 1.0))


@pytest.mark.parametrize("kind", VALUES)
def test_iter(kind: str, every_policy: None) -> None:
    def scaled(x: Any) -> Any:
        try:
            iter(x)
        except TypeError:
            return np.sum(x) * 2.0
        return np.sum(x)

    def listed(x: Any) -> Any:
        return sum(2.0 * v for v in _as_list(x * 1.0))

    def zipped(x: Any) -> Any:
        return sum(a * b for a, b in zip(iter(np.array([x, x]).ravel()), [1.0, 2.0, 3.0, 4.0], strict=False))

    for f in (scaled, listed, zipped):
        step = jit(f)
        for i in range(3):
            x = VALUES[kind](1.5 + i)
            value, _ = grad(f, x)
            assert value == f(x) == step(x)


READS: dict[str, Callable[[Any], Any]] = {
    "interface": lambda x: x.__array_interface__,
    "struct": lambda x: x.__array_struct__,
    "dlpack": lambda x: x.__dlpack__(),
    "reduce": lambda x: x.__reduce__(),
    "getattr": lambda x: getattr(x, "__array_interface__", None)["data"],
    "weakref": lambda x: weakref.ref(x),
    "a form of a matrix": lambda x: scipy.linalg.hessenberg(np.eye(2) * x),
    "factors of a matrix": lambda x: scipy.linalg.ldl(np.eye(2) * x),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_refused_in_functions_that_catch(name: str, every_policy: None) -> None:
    """Plain arrays have it, so the refusal comes out; a step is called as it is."""

    def f(x: Any) -> Any:
        try:
            READS[name](x)
        except Exception:  # any: it is what this test is about
            return np.sum(x) * 100.0
        return np.sum(x)

    step = jit(f)
    for i in range(3):
        x = np.array([1.5, 2.5]) + i
        assert f(x) == np.sum(x) == step(x)
        with pytest.raises(YotaError):
            grad(f, x)
