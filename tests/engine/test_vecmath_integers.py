"""Emitted operations on integers and booleans, and casts, against NumPy: as vectors and as scalars."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emitted import ELEMENTS, Case, Loops, assert_same, method

from yota_py.engine.maths.builder import VecMath
from yota_py.engine.maths.llvm import I1

FLOATS = [np.float64, np.float32]
WIDTHS = ["vector", "scalar"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
INTEGER_2 = ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]
WHOLE = [dtype for dtype in ELEMENTS if dtype is not np.float16]  # of halves all are cast in test_float16
NUMPY_NAMES = {
    "abs": np.abs, "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def numpy_function(name: str) -> Callable[..., np.ndarray]:
    return NUMPY_NAMES[name] if name in NUMPY_NAMES else getattr(np, name)


@functools.cache
def integer_loops(width: str) -> Loops:
    cases: list[Case] = []
    for dtype in (np.int64, np.int32):
        kind = np.dtype(dtype).name
        cases += [(f"{name}_{kind}", method(name), [dtype] * 2, dtype) for name in INTEGER_2]
        cases += [(f"{name}_{kind}", method(name), [dtype] * 2, np.bool_) for name in COMPARISONS]
        unary = ("neg", "abs", "sign", "square", "bitwise_not")
        cases += [(f"{name}_{kind}", method(name), [dtype], dtype) for name in unary]
    for name in ("logical_and", "logical_or", "logical_xor", "add", "mul", "maximum", "minimum"):
        cases.append((f"{name}_bool", on_bools(method(name)), [np.float64] * 2, np.bool_))
    cases.append(("logical_not_bool", on_bools(method("logical_not")), [np.float64], np.bool_))
    for source, target in itertools.product(WHOLE, WHOLE):
        cases.append((cast_name(source, target), functools.partial(cast_to, target), [source], target))
    return Loops(cases, width)


def cast_name(source: type, target: type) -> str:
    return f"{np.dtype(source)}_to_{np.dtype(target)}"


def cast_to(target: type, math: VecMath, x: Any) -> Any:
    return math.cast(x, ELEMENTS[target])


def on_bools(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Booleans made on the way from numbers."""
    return lambda math, *args: emit(math, *(math.cast(a, I1) for a in args))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integers(dtype: type, width: str) -> None:
    run, kind = integer_loops(width), np.dtype(dtype).name
    info = np.iinfo(dtype)
    values = np.array([0, 1, -1, 2, 7, -13, 1000, info.max, info.min, info.max - 1], dtype)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    with np.errstate(all="ignore"):
        for name in (*INTEGER_2, *COMPARISONS):
            assert np.array_equal(run(f"{name}_{kind}", a, b), numpy_function(name)(a, b)), name
        for name in ("neg", "abs", "sign", "square", "bitwise_not"):
            assert np.array_equal(run(f"{name}_{kind}", a), numpy_function(name)(a)), name


@pytest.mark.parametrize("width", WIDTHS)
def test_booleans(width: str) -> None:
    run = integer_loops(width)
    a, b = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 0, 1])
    for name in ("logical_and", "logical_or", "logical_xor", "add", "mul", "maximum", "minimum"):
        assert np.array_equal(run(f"{name}_bool", a, b), numpy_function(name)(a != 0, b != 0)), name
    assert np.array_equal(run("logical_not_bool", a), np.logical_not(a))


@pytest.mark.parametrize("width", WIDTHS)
def test_casts(width: str) -> None:
    run = integer_loops(width)
    for source, target in itertools.product(WHOLE, WHOLE):
        values = np.array([0, 1, -1, 3, 100, -7, 1 << 20], np.int64).astype(source)
        if source in FLOATS:
            values = np.concatenate([values, np.array([0.5, -2.75, 1e-40], source)])
        computed = run(cast_name(source, target), values)
        assert np.array_equal(computed, values.astype(target)), (source, target)
    special = np.array([np.nan, np.inf, -np.inf, 1e300, -0.0])
    with np.errstate(over="ignore"):
        assert_same(run("float64_to_float32", special), special.astype(np.float32))
    assert np.array_equal(run("float64_to_bool", special), special != 0)
